//! Tokens, the catalogue and certificates.

use picket_neutron::client::{Auth, Cloud, Domain, Filter, Interface, Person, Project, Secret, User};
use picket_testing::faults::{Fault, Proxy};
use picket_testing::neutron::Neutron;
use serde_json::json;

use crate::support::{client_of, options, wait};

fn admin() -> Person {
    Person::Name {
        name: "admin".to_owned(),
        domain: Domain::Id("default".to_owned()),
    }
}

fn cloud(url: &str, user: User) -> Cloud {
    let is_password = matches!(user, User::Password { .. });
    let project = Project::Name {
        name: "admin".to_owned(),
        domain: Domain::Name("Default".to_owned()),
    };
    Cloud {
        auth: Auth::Keystone {
            url: url.to_owned(),
            user,
            project: is_password.then_some(project),
        },
        region: Some("RegionOne".to_owned()),
        ..Cloud::open("")
    }
}

fn password(password: &str) -> User {
    User::Password {
        user: admin(),
        password: Secret::new(password),
    }
}

#[test]
fn a_token_is_had_once_and_anew_when_it_counts_no_longer() {
    let server = Neutron::start_with_keystone(3600);
    let proxy = Proxy::to(server.port());
    let mut cloud = cloud(&server.identity(), password("secret"));
    cloud.endpoint = Some(proxy.endpoint());
    let (neutron, calls) = client_of(cloud, options());
    wait(async {
        let group = neutron.create_security_group("a", "").await.unwrap();
        assert_eq!(neutron.project().await.unwrap(), Some(group.project));
        assert!(neutron.extensions().await.is_ok());
        assert_eq!(
            calls.words(),
            [
                "authenticate done",
                "create_security_group done",
                "list_extensions done"
            ]
        );
        // Keystone forgets the token.
        let head = proxy.asked().remove(0).head;
        let token = head
            .lines()
            .find_map(|line| line.strip_prefix("x-auth-token: "))
            .unwrap();
        server.revoke(token);
        neutron.create_security_group("b", "").await.unwrap();
        assert_eq!(
            calls.words(),
            [
                "create_security_group unauthorized",
                "authenticate done",
                "create_security_group done"
            ]
        );
        // Who is never believed is not asked for ever.
        for _ in 0..2 {
            proxy.plan("GET", "extensions", Fault::Answer(401, "", String::new()));
        }
        let error = neutron.extensions().await.unwrap_err();
        assert_eq!(error.refusal().unwrap().status, 401);
        assert_eq!(
            calls.words(),
            [
                "list_extensions unauthorized",
                "authenticate done",
                "list_extensions unauthorized"
            ]
        );
        let names: Vec<_> = neutron.security_groups(&Filter::default()).await.unwrap();
        assert_eq!(names.iter().filter(|group| group.name == "b").count(), 1);
    });
}

#[test]
fn no_call_fails_when_a_token_ends() {
    let server = Neutron::start_with_keystone(20);
    let (neutron, calls) = client_of(cloud(&server.identity(), password("secret")), options());
    wait(async {
        let mut words = Vec::new();
        // Each takes some hundredths of a second, and a token ends after twenty seconds.
        for _ in 0..20_000 {
            neutron.extensions().await.unwrap();
            words.extend(calls.words());
            if words.iter().filter(|word| *word == "authenticate done").count() > 1 {
                break;
            }
        }
        // Where a call takes seconds its token may end on the way.
        words.retain(|word| word != "list_extensions done" && word != "list_extensions unauthorized");
        assert_eq!(words, ["authenticate done"; 2]);
    });
}

#[test]
fn application_credentials_count_too() {
    let server = Neutron::start_with_keystone(3600);
    let user = server.ask_keystone("GET", "users?name=admin", &json!(null))["users"][0]["id"].clone();
    let user = user.as_str().unwrap();
    let path = format!("users/{user}/application_credentials");
    let made = server.ask_keystone(
        "POST",
        &path,
        &json!({"application_credential": {"name": "picket"}}),
    );
    let made = &made["application_credential"];
    let secret = || Secret::new(made["secret"].as_str().unwrap());
    for user in [
        User::ApplicationCredential {
            id: made["id"].as_str().unwrap().to_owned(),
            secret: secret(),
        },
        User::NamedApplicationCredential {
            name: "picket".to_owned(),
            user: Person::Id(user.to_owned()),
            secret: secret(),
        },
    ] {
        let mut cloud = cloud(&server.identity(), user);
        cloud.interface = Interface::Internal;
        let (neutron, _) = client_of(cloud, options());
        wait(neutron.extensions()).unwrap();
        let project = wait(neutron.project()).unwrap();
        assert_eq!(project.as_deref(), made["project_id"].as_str());
    }
}

#[test]
fn who_is_not_known_is_told_so() {
    let server = Neutron::start_with_keystone(3600);
    let (neutron, calls) = client_of(cloud(&server.identity(), password("s3cret")), options());
    let error = wait(neutron.extensions()).unwrap_err();
    assert!(error.is_about_keystone() && !error.is_temporary());
    let said = error.to_string();
    assert!(
        said.starts_with(
            "cannot give a token (POST): 401 (Unauthorized): The request you have made requires"
        ),
        "{said}"
    );
    assert_eq!(calls.words(), ["authenticate unauthorized"]);
    assert!(!server.log().contains("s3cret"));
    // Nobody listens there.
    for (region, interface) in [("Elsewhere", Interface::Public), ("RegionOne", Interface::Admin)] {
        let mut cloud = cloud(&server.identity(), password("secret"));
        (cloud.region, cloud.interface) = (Some(region.to_owned()), interface);
        let (neutron, _) = client_of(cloud, options());
        let said = wait(neutron.extensions()).unwrap_err().to_string();
        assert!(
            said.starts_with("cannot list extensions (GET): no connection: "),
            "{said}"
        );
    }
}

#[test]
fn certificates_are_those_of_the_authority() {
    let server = Neutron::start_with_tls();
    let with = |file: &str| Cloud {
        authorities: Some(server.folder().join(file)),
        ..Cloud::open(&server.endpoint())
    };
    let (neutron, _) = client_of(with("ca.pem"), options());
    assert!(wait(neutron.extensions()).unwrap().contains("security-group"));
    for cloud in [with("other.pem"), Cloud::open(&server.endpoint())] {
        let (neutron, _) = client_of(cloud, options());
        let error = wait(neutron.extensions()).unwrap_err();
        let said = error.to_string();
        assert!(
            said.contains("no connection: invalid peer certificate: UnknownIssuer"),
            "{said}"
        );
        assert!(!error.may_be_done());
    }
    let made = |file| picket_neutron::client::Neutron::new(with(file), options(), std::sync::Arc::new(()));
    let said = made("server.key").unwrap_err().to_string();
    assert!(said.ends_with("server.key` holds no certificate"), "{said}");
    assert!(
        made("absent.pem")
            .unwrap_err()
            .to_string()
            .contains("absent.pem` cannot be read: ")
    );
}
