//! `clouds.yaml`, `secure.yaml` and the variables `OS_*`.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use picket_neutron::client::{
    Auth, Cloud, CloudError, Domain, Interface, Person, Project, Secret, Sources, User,
};
use tempfile::TempDir;

const CLOUDS: &str = r#"
clouds:
  prod:
    auth:
      auth_url: https://keystone.example:5000/v3
      username: "picket"
      password: not this
      project_name: pods
      user_domain_name: Default
      project_domain_id: default
    region_name: RegionOne
    interface: internal
    cacert: /etc/ssl/openstack.pem
    volume_api_version: 3
  credential:
    auth_type: v3applicationcredential
    auth:
      auth_url: https://keystone.example/identity
      application_credential_id: "0123"
      application_credential_secret: 0123e4
  named:
    auth:
      auth_url: https://keystone.example/identity
      application_credential_name: picket
      application_credential_secret: s3cret
      user_id: u1
  open:
    auth_type: none
    auth:
      endpoint: http://neutron.example:9696
      project_id: p1
"#;

fn folder(files: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    folder
}

fn sources(variables: &[(&str, &str)], files: &[(&str, &str)]) -> Result<Sources, CloudError> {
    let folder = folder(files);
    let variables = variables
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Sources::new(variables.collect(), &[folder.path().to_owned()])
}

fn error(variables: &[(&str, &str)], files: &[(&str, &str)]) -> String {
    sources(variables, files)
        .and_then(|sources| sources.cloud(None))
        .unwrap_err()
        .to_string()
}

#[test]
fn a_cloud_is_what_its_two_files_say() {
    let secure = "clouds: {prod: {auth: {password: 's3cret: \"x\"'}}}";
    let sources = sources(
        &[("OS_CLOUD", "prod"), ("OS_PASSWORD", "s3cret")],
        &[("clouds.yaml", CLOUDS), ("secure.yaml", secure)],
    )
    .unwrap();
    let expected = Cloud {
        auth: Auth::Keystone {
            url: "https://keystone.example:5000/v3".to_owned(),
            user: User::Password {
                user: Person::Name {
                    name: "picket".to_owned(),
                    domain: Domain::Name("Default".to_owned()),
                },
                password: Secret::new("s3cret: \"x\""),
            },
            project: Some(Project::Name {
                name: "pods".to_owned(),
                domain: Domain::Id("default".to_owned()),
            }),
        },
        region: Some("RegionOne".to_owned()),
        interface: Interface::Internal,
        endpoint: None,
        authorities: Some(PathBuf::from("/etc/ssl/openstack.pem")),
    };
    assert_eq!(sources.cloud(None).unwrap(), expected);
    let shown = format!("{sources:?} {:?}", sources.cloud(None).unwrap());
    assert!(
        !shown.contains("s3cret") && !shown.contains("not this"),
        "{shown}"
    );
}

#[test]
fn application_credentials_and_neutrons_without_keystone_are_clouds_too() {
    let sources = sources(&[], &[("clouds.yml", CLOUDS)]).unwrap();
    let by = |user| Auth::Keystone {
        url: "https://keystone.example/identity".to_owned(),
        user,
        project: None,
    };
    let auth = |name| sources.cloud(Some(name)).unwrap().auth;
    assert_eq!(
        auth("credential"),
        by(User::ApplicationCredential {
            id: "0123".to_owned(),
            // As it stands there, and not as a number.
            secret: Secret::new("0123e4"),
        })
    );
    assert_eq!(
        auth("named"),
        by(User::NamedApplicationCredential {
            name: "picket".to_owned(),
            user: Person::Id("u1".to_owned()),
            secret: Secret::new("s3cret"),
        })
    );
    assert_eq!(
        auth("open"),
        Auth::None {
            endpoint: "http://neutron.example:9696".to_owned(),
            project: Some("p1".into()),
        }
    );
}

#[test]
fn variables_say_a_cloud_where_none_is_named() {
    let variables = [
        ("OS_AUTH_URL", "http://keystone.example:5000"),
        ("OS_USERNAME", "picket"),
        ("OS_PASSWORD", "s3cret"),
        ("OS_TENANT_ID", "p1"),
        ("OS_REGION_NAME", "RegionTwo"),
        ("OS_ENDPOINT_TYPE", "adminURL"),
        ("OS_USER_DOMAIN_NAME", ""),
    ];
    let cloud = sources(&variables, &[("clouds.yaml", CLOUDS)])
        .unwrap()
        .cloud(None)
        .unwrap();
    assert_eq!(cloud.region.as_deref(), Some("RegionTwo"));
    assert_eq!(cloud.interface, Interface::Admin);
    let Auth::Keystone { user, project, .. } = cloud.auth else {
        panic!("it asks Keystone");
    };
    let person = Person::Name {
        name: "picket".to_owned(),
        domain: Domain::Id("default".to_owned()),
    };
    let password = Secret::new("s3cret");
    assert_eq!(
        user,
        User::Password {
            user: person,
            password
        }
    );
    assert_eq!(project, Some(Project::Id("p1".to_owned())));
    let one = "clouds: {only: {auth_type: none, network_endpoint_override: 'http://a', auth: }}";
    assert!(
        sources(&[], &[("clouds.yaml", &one.replace(", auth: ", ""))])
            .unwrap()
            .cloud(None)
            .is_ok()
    );
}

#[test]
fn what_is_wrong_is_said_without_secrets() {
    let cloud = |fields: &str| {
        format!("clouds:\n  a:\n    auth: {{auth_url: 'http://a', password: s3cret, {fields}}}\n")
    };
    let with = |more: &str| cloud("username: u, project_id: p") + more;
    for (variables, text, expected) in [
        (
            vec![],
            String::new(),
            "no cloud is named: set `OS_CLOUD` to one of none, or `OS_AUTH_URL` and what goes with it",
        ),
        (
            vec![("OS_CLOUD", "b")],
            with(""),
            "no cloud is called `b`: there are `a`",
        ),
        (vec![], cloud(""), "cloud `a` has no `username`"),
        (vec![], cloud("username: u"), "cloud `a` has no `project_name`"),
        (
            vec![],
            with("    interface: side\n"),
            "cloud `a`: `interface` cannot be `side`: it is `public`, `internal` or `admin`",
        ),
        (
            vec![],
            with("    verify: false\n"),
            "cloud `a`: `verify` cannot be `false`: certificates are always verified; `cacert` names those of the authority",
        ),
        (
            vec![],
            with("    auth_type: v3kerberos\n"),
            "cloud `a`: `auth_type` cannot be `v3kerberos`: it is `v3password`, `v3applicationcredential` or `none`",
        ),
    ] {
        assert_eq!(error(&variables, &[("clouds.yaml", &text)]), expected);
    }
    for text in [
        "clouds: {a: {auth: s3cret}}",
        "clouds: {a: {auth: {password: [s3cret]}}}",
        "s3cret",
        "clouds: [",
    ] {
        let said = error(&[], &[("clouds.yaml", text)]);
        assert!(
            said.contains("clouds.yaml` is no list of clouds") && !said.contains("s3cret"),
            "{said}"
        );
        let debug = format!("{:?}", sources(&[], &[("clouds.yaml", text)]).map(drop));
        assert!(!debug.contains("s3cret"), "{debug}");
    }
    let missing = BTreeMap::from([("OS_CLIENT_CONFIG_FILE".to_owned(), "absent.yaml".to_owned())]);
    let said = Sources::new(missing, &[]).unwrap_err().to_string();
    assert!(said.starts_with("`absent.yaml` cannot be read: "), "{said}");
}
