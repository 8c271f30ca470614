//! Whatever happens between the client and Neutron, what is asked for is there once.

use std::collections::BTreeSet;
use std::time::Duration;

use picket_net::Prefix;
use picket_neutron::Remote;
use picket_neutron::client::{Error, Observer, Operation, Options, Tagged};
use picket_testing::faults::{Fault, Proxy};
use picket_testing::neutron::Neutron;

use crate::support::{client, options, set, tcp, wait};

/// Everything that ends in the end, whether the server has done what it was asked or not.
fn passing() -> Vec<Fault> {
    let conflict = r#"{"NeutronError": {"type": "RetryRequest", "message": "", "detail": ""}}"#;
    vec![
        Fault::HangUp,
        Fault::CutRequest(20),
        Fault::CutAnswer(0),
        Fault::CutAnswer(150),
        Fault::Answer(409, "", conflict.to_owned()),
        Fault::Answer(429, "retry-after: 0\r\n", String::new()),
        Fault::Answer(503, "", "<html>no</html>".to_owned()),
        Fault::AnswerAfter(504, "", String::new()),
        Fault::AnswerAfter(200, "", "no JSON".to_owned()),
    ]
}

#[test]
fn nothing_is_made_twice() {
    let server = Neutron::start();
    let proxy = Proxy::to(server.port());
    let (neutron, _) = client(&proxy.endpoint(), options());
    let blocks = |text: &str| -> BTreeSet<Prefix> { [text.parse().unwrap()].into() };
    wait(async {
        // Lists are as they are after the first call of a project.
        let peers = neutron.create_empty_security_group("peers", "").await.unwrap();
        let tags = set(["a"]);
        for (number, fault) in passing().into_iter().enumerate() {
            let name = format!("g{number}");
            proxy.plan("POST", "/security-groups", fault.clone());
            proxy.plan("DELETE", "/security-group-rules/", fault.clone());
            let group = neutron.create_empty_security_group(&name, "").await.unwrap();

            proxy.plan("POST", "/security-group-rules", fault.clone());
            let rules = BTreeSet::from([tcp(80, Remote::Group(peers.id.clone())), tcp(81, Remote::Anyone)]);
            let made = neutron.create_rules(&group.id, &rules, "").await.unwrap();
            assert_eq!(made.len(), 2, "{fault:?}");

            // A list has no answer that may be nonsense.
            if !matches!(fault, Fault::AnswerAfter(200, ..)) {
                proxy.plan("PUT", "/tags", fault.clone());
                proxy.plan("GET", "/security-groups/", fault.clone());
            }
            neutron
                .replace_tags(Tagged::SecurityGroup, &group.id, &tags)
                .await
                .unwrap();
            let known = neutron.security_group(&group.id).await.unwrap().unwrap();
            assert_eq!((known.rules.len(), &known.tags), (2, &tags), "{fault:?}");

            proxy.plan("POST", "/address-groups", fault.clone());
            proxy.plan("PUT", "/add_addresses", fault.clone());
            proxy.plan("PUT", "/remove_addresses", fault.clone());
            let first = blocks("10.0.0.0/8");
            let addresses = neutron.create_address_group(&name, "", &first).await.unwrap();
            let now = neutron
                .add_addresses(&addresses.id, &blocks("10.0.0.0/9"))
                .await
                .unwrap();
            assert_eq!(now.addresses.len(), 2, "{fault:?}");
            let now = neutron.remove_addresses(&addresses.id, &first).await.unwrap();
            assert_eq!(now.addresses, blocks("10.0.0.0/9"), "{fault:?}");
            assert_eq!(proxy.planned(), 0, "{fault:?}");
        }
        // The default group, that of peers, and one for each fault.
        assert_eq!(server.list("security-groups").len(), 2 + passing().len());
        assert_eq!(server.list("address-groups").len(), passing().len());

        for (number, fault) in passing().into_iter().enumerate() {
            let name = format!("g{number}");
            let group = server.list(&format!("security-groups?name={name}")).remove(0);
            proxy.plan("DELETE", "/security-groups/", fault);
            neutron
                .delete_security_group(group["id"].as_str().unwrap())
                .await
                .unwrap();
        }
        assert_eq!(server.list("security-groups").len(), 2);
    });
}

#[test]
fn ports_have_the_groups_that_they_were_given_last() {
    let server = Neutron::start();
    let proxy = Proxy::to(server.port());
    let (neutron, _) = client(&proxy.endpoint(), options());
    let network = server.create_network(&["10.0.0.0/24"]);
    let id = server.create_port(&network, "x");
    wait(async {
        let a = neutron.create_security_group("a", "").await.unwrap().id;
        let mut port = neutron.port(&id).await.unwrap().unwrap();
        for fault in passing() {
            for groups in [[a.clone()].into(), BTreeSet::new()] {
                proxy.plan("PUT", "/ports/", fault.clone());
                port = neutron.update_port_groups(&port, &groups).await.unwrap();
                assert_eq!(port.security_groups, groups, "{fault:?}");
                assert_eq!(neutron.port(&id).await.unwrap(), Some(port.clone()), "{fault:?}");
            }
        }
        assert_eq!(proxy.planned(), 0);
    });
}

#[test]
fn what_was_done_without_an_answer_is_found() {
    let server = Neutron::start();
    let proxy = Proxy::to(server.port());
    let options = Options {
        timeout: Duration::from_secs(4),
        ..options()
    };
    let (neutron, calls) = client(&proxy.endpoint(), options);
    wait(async {
        proxy.plan("POST", "/security-groups", Fault::SilenceAfter);
        let group = neutron.create_security_group("a", "").await.unwrap();
        proxy.plan("POST", "/security-group-rules", Fault::SilenceAfter);
        let rules = BTreeSet::from([tcp(80, Remote::Anyone)]);
        neutron.create_rules(&group.id, &rules, "").await.unwrap();
        assert_eq!(
            calls.words(),
            [
                "create_security_group timed_out",
                "list_security_groups done",
                "create_security_group_rules timed_out",
                "show_security_group done",
            ]
        );
        let known = neutron.security_group(&group.id).await.unwrap().unwrap();
        assert_eq!(known.rules.len(), 3);
    });
}

#[test]
fn what_cannot_go_well_is_asked_once() {
    let server = Neutron::start();
    let proxy = Proxy::to(server.port());
    let (neutron, _) = client(&proxy.endpoint(), options());
    let words =
        |kind: &str| format!(r#"{{"NeutronError": {{"type": "{kind}", "message": "m", "detail": ""}}}}"#);
    wait(async {
        for (status, kind) in [
            (400, "HTTPBadRequest"),
            (401, "Unauthorized"),
            (403, "PolicyNotAuthorized"),
            (404, "X"),
            (409, "SecurityGroupInUse"),
            (409, "OverQuota"),
            (413, ""),
            (501, ""),
        ] {
            proxy.plan("POST", "/security-groups", Fault::Answer(status, "", words(kind)));
            let error = neutron.create_security_group("a", "").await.unwrap_err();
            assert!(
                error
                    .to_string()
                    .starts_with("cannot create security group `a` (POST): "),
                "{error}"
            );
            assert_eq!(error.is_over_quota(), kind == "OverQuota" || status == 413);
            assert_eq!(proxy.words(), [format!("POST security-groups {status}")]);
        }
        // An answer of 5xx may be of a call that was done.
        for _ in 0..5 {
            proxy.plan("POST", "/security-groups", Fault::Answer(500, "", String::new()));
        }
        let error = neutron.create_security_group("a", "").await.unwrap_err();
        assert!(error.may_be_done(), "{error}");
        let posts = proxy
            .words()
            .into_iter()
            .filter(|words| words.starts_with("POST"));
        assert_eq!(posts.count(), 5);
    });
}

/// Permits nothing.
struct Forbids;

impl Observer for Forbids {
    fn permits(&self, _: Operation, limit: Duration) -> bool {
        limit < Duration::from_secs(1)
    }
}

#[test]
fn nothing_that_changes_something_begins_when_it_may_not() {
    let server = Neutron::start();
    let proxy = Proxy::to(server.port());
    let cloud = picket_neutron::client::Cloud::open(&proxy.endpoint());
    let observer = std::sync::Arc::new(Forbids);
    let neutron = picket_neutron::client::Neutron::new(cloud, options(), observer).unwrap();
    wait(async {
        let error = neutron.create_security_group("a", "").await.unwrap_err();
        assert!(matches!(error, Error::NotPermitted { .. }) && !error.may_be_done());
        assert_eq!(
            error.to_string(),
            "did not create security group `a` (POST): calls may not begin now"
        );
        assert!(neutron.extensions().await.is_ok());
        assert_eq!(proxy.words(), ["GET extensions 200"]);
    });
}

#[test]
fn a_neutron_that_comes_back_is_asked_again() {
    let mut server = Neutron::start();
    let (neutron, calls) = client(&server.endpoint(), options());
    wait(neutron.create_security_group("a", "")).unwrap();
    server.kill();
    let error = wait(neutron.extensions()).unwrap_err();
    assert!(error.is_temporary(), "{error}");
    server.restart();
    calls.words();
    assert!(wait(neutron.extensions()).is_ok());
    assert_eq!(calls.words(), ["list_extensions done"]);
}
