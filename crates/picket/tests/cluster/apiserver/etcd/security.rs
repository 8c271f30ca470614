//! Certificates and passwords.

use std::fs;

use picket_node::Source;
use picket_source::{Etcd, Login, Tls};

use super::{Written, etcd, pod, until_trouble, until_well};
use crate::following::Following;

#[test]
fn certificates_are_shown_and_wanted() {
    let mut written = Written::new();
    written.server.secure();
    let folder = written.server.folder();
    let file = |name: &str| folder.join(name);
    let with = |authority: &str, identity: bool| Etcd {
        tls: Tls {
            authority: Some(file(authority)),
            identity: identity.then(|| (file("client.pem"), file("client.key"))),
        },
        ..etcd(vec![written.server.endpoint()])
    };
    let follow = |etcd: Etcd| Following::of(Source::Etcd(etcd), None);
    let mut following = follow(with("ca.pem", true));
    following.until_complete();
    written.until_equal(&mut following, "what is there");
    for (etcd, words) in [
        (with("other.pem", true), "ertificate"),
        (with("ca.pem", false), "ertificate"),
        (etcd(vec![written.server.endpoint()]), "ertificate"),
        (
            etcd(vec![written.server.endpoint().replace("https", "http")]),
            "cannot be reached",
        ),
    ] {
        let mut refused = follow(etcd);
        until_trouble(&mut refused, words);
        assert!(!refused.is_complete);
    }
}

#[test]
fn passwords_are_shown_and_tokens_renewed() {
    let mut written = Written::new();
    let folder = written.server.folder().to_owned();
    let password = folder.join("password");
    fs::write(&password, "secret\n").unwrap();
    let login = |user: &str| {
        let login = Login {
            user: user.to_owned(),
            password: password.clone(),
        };
        Source::Etcd(Etcd {
            login: Some(login),
            ..etcd(vec![written.server.endpoint()])
        })
    };
    let [known, unknown] = [login("picket"), login("nobody")];
    let nobody = Source::Etcd(etcd(vec![written.server.endpoint()]));
    written.put(&pod("web-2", "10.0.0.3", "web"));
    written.pass();
    written
        .server
        .demand_passwords(&[("picket", "READWRITE", "/picket/")]);
    let mut following = Following::of(known.clone(), None);
    following.until_complete();
    written.until_equal(&mut following, "what is there");
    // An etcd that starts again knows none of the tokens that it gave.
    written.server.restart();
    until_trouble(&mut following, "");
    until_well(&mut following);
    let mut refused = Following::of(unknown, None);
    until_trouble(&mut refused, "authenticat");
    let mut refused = Following::of(nobody, None);
    until_trouble(&mut refused, "user name is empty");
    fs::write(&password, "wrong").unwrap();
    let mut refused = Following::of(known, None);
    until_trouble(&mut refused, "authenticat");
    // The password is read again with every attempt.
    fs::write(&password, "secret").unwrap();
    refused.until_complete();
    written.until_equal(&mut refused, "what is there");
}
