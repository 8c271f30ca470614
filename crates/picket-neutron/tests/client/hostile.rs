//! Servers that talk nonsense, repeat secrets, or never come to an end.

use std::sync::Arc;
use std::time::Duration;

use picket_neutron::client::{
    Auth, Cloud, Domain, Error, Filter, Neutron, Observer, Options, Person, Project, Secret, User,
};
use picket_testing::faults::{Fault, Proxy};

use crate::support::{client, client_of, options, wait};

/// Whoever asks is to end.
struct Ending;

impl Observer for Ending {
    fn is_patient(&self) -> bool {
        false
    }
}

#[test]
fn no_call_is_made_again_for_who_is_to_end() {
    let proxy = server();
    let busy = Fault::Answer(503, "Retry-After: 60\r\n", String::new());
    proxy.plan_always("GET", "ports", busy);
    let neutron = Neutron::new(Cloud::open(&proxy.endpoint()), options(), Arc::new(Ending)).unwrap();
    let error = wait(neutron.ports(&Filter::default())).unwrap_err();
    assert_eq!(error.refusal().unwrap().status, 503);
    assert_eq!(proxy.asked().len(), 1);
}

/// A server that nothing is behind.
fn server() -> Proxy {
    Proxy::to(1)
}

fn answers(proxy: &Proxy, path: &str, status: u16, body: &str) {
    proxy.plan("GET", path, Fault::Answer(status, "", body.to_owned()));
}

#[test]
fn answers_that_are_none_are_errors_of_one_line() {
    let deep = "[".repeat(100_000);
    for (body, expected) in [
        (
            "",
            "cannot list ports (GET): the answer cannot be read: EOF while parsing a value at line 1 column 0",
        ),
        (
            "{}",
            "cannot list ports (GET): the answer cannot be read: `ports` is missing",
        ),
        (r#"{"ports": {}}"#, "expected a sequence"),
        (r#"{"ports": [{"name": "x"}]}"#, "missing field `id`"),
        (r#"{"ports": [{"id": "../x"}]}"#, "`../x` is no id"),
        (
            r#"{"ports": [{"id": "x", "fixed_ips": [{"ip_address": "a\nb"}]}]}"#,
            r"`a\nb` is no address",
        ),
        (
            r#"{"ports": [{"id": "b"}, {"id": "a"}]}"#,
            "the list is in no order, or has no end",
        ),
        (&deep, "the answer cannot be read"),
        ("\u{1b}[2J", "the answer cannot be read"),
    ] {
        let proxy = server();
        answers(&proxy, "ports", 200, body);
        let (neutron, _) = client(&proxy.endpoint(), options());
        let error = wait(neutron.ports(&Filter::default())).unwrap_err();
        let said = error.to_string();
        assert!(said.contains(expected), "{said}");
        assert!(said.len() < 1000 && !said.contains(char::is_control), "{said}");
        assert!(!error.may_be_done());
    }
}

#[test]
fn the_words_of_a_refusal_are_cut_and_in_one_line() {
    let long = format!("a\nb\u{1b}[31m{}", "x".repeat(100_000));
    let body = serde_json::json!({"NeutronError": {"type": "Some\tThing", "message": long, "detail": ""}});
    for (body, kind, message) in [
        (body.to_string(), r"Some\tThing", r"a\nb\u{1b}[31mx"),
        (
            r#"{"error": {"code": 400, "title": "Bad Request", "message": "no"}}"#.to_owned(),
            "Bad Request",
            "no",
        ),
        (
            "<html><h1>Bad gateway</h1>\n</html>".to_owned(),
            "",
            "Bad gateway",
        ),
        (r#"{"message": "plain"}"#.to_owned(), "", "plain"),
        (
            r#"{"NeutronError": [1]}"#.to_owned(),
            "",
            r#"{"NeutronError": [1]}"#,
        ),
    ] {
        let proxy = server();
        answers(&proxy, "extensions", 400, &body);
        let (neutron, _) = client(&proxy.endpoint(), options());
        let error = wait(neutron.extensions()).unwrap_err();
        let refusal = error.refusal().unwrap();
        assert_eq!(refusal.kind, kind);
        assert!(refusal.message.starts_with(message), "{}", refusal.message);
        let said = error.to_string();
        assert!(said.starts_with("cannot list extensions (GET): 400"), "{said}");
        assert!(said.len() < 1000 && !said.contains(char::is_control), "{said}");
    }
}

#[test]
fn lists_without_end_come_to_one() {
    let proxy = server();
    let page = r#"{"ports": [{"id": "a"}], "ports_links": [{"rel": "next", "href": "x"}]}"#;
    for _ in 0..2 {
        answers(&proxy, "ports", 200, page);
    }
    let (neutron, _) = client(&proxy.endpoint(), options());
    let error = wait(neutron.ports(&Filter::default())).unwrap_err();
    assert!(matches!(error, Error::Garbage { .. }), "{error}");
}

#[test]
fn answers_without_end_are_cut_and_lists_asked_for_in_smaller_parts() {
    let proxy = server();
    let long = format!(r#"{{"ports": [{{"id": "a", "name": "{}"}}]}}"#, "x".repeat(3000));
    for body in [&long, &long, r#"{"ports": []}"#] {
        answers(&proxy, "ports", 200, body);
    }
    let options = Options {
        longest_answer: 2000,
        page: 8,
        ..options()
    };
    let (neutron, _) = client(&proxy.endpoint(), options);
    assert_eq!(wait(neutron.ports(&Filter::default())).unwrap(), []);
    let limits: Vec<_> = proxy
        .asked()
        .iter()
        .map(|asked| {
            asked
                .path
                .split('&')
                .find_map(|part| part.strip_prefix("limit="))
                .unwrap()
                .to_owned()
        })
        .collect();
    assert_eq!(limits, ["8", "4", "2"]);
    answers(&proxy, "extensions", 200, &long);
    let error = wait(neutron.extensions()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot list extensions (GET): the answer is longer than 2000 bytes"
    );
}

#[test]
fn nobody_is_followed_elsewhere() {
    let proxy = server();
    let elsewhere = Fault::Answer(302, "location: http://127.0.0.1:1/\r\n", String::new());
    proxy.plan("GET", "extensions", elsewhere);
    let (neutron, _) = client(&proxy.endpoint(), options());
    let error = wait(neutron.extensions()).unwrap_err();
    assert_eq!(error.refusal().unwrap().status, 302);
    assert_eq!(proxy.words(), ["GET extensions 302"]);
}

#[test]
fn who_answers_nobody_is_asked_as_often_as_it_may_be() {
    let options = Options {
        attempts: 3,
        timeout: Duration::from_millis(200),
        ..options()
    };
    let proxy = server();
    for _ in 0..3 {
        proxy.plan("GET", "extensions", Fault::Silence);
    }
    let (neutron, calls) = client(&proxy.endpoint(), options);
    let error = wait(neutron.extensions()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cannot list extensions (GET): no answer within 200ms"
    );
    assert_eq!(calls.words(), vec!["list_extensions timed_out"; 3]);
    // Nobody listens at port 1.
    let (neutron, calls) = client("http://127.0.0.1:1", options);
    let error = wait(neutron.create_security_group("a", "b")).unwrap_err();
    assert!(!error.may_be_done() && error.is_temporary(), "{error}");
    assert_eq!(calls.words(), vec!["create_security_group unreachable"; 3]);
}

#[test]
fn who_wants_to_be_left_alone_is() {
    let proxy = server();
    for lines in [
        "retry-after: 0\r\n",
        "retry-after: 99999999\r\n",
        "retry-after: soon\r\n",
    ] {
        proxy.plan("GET", "extensions", Fault::Answer(429, lines, String::new()));
    }
    answers(&proxy, "extensions", 200, r#"{"extensions": [{"alias": "a"}]}"#);
    let options = Options {
        longest_wait: Duration::from_millis(20),
        ..options()
    };
    let (neutron, calls) = client(&proxy.endpoint(), options);
    assert_eq!(wait(neutron.extensions()).unwrap().len(), 1);
    let throttled = "list_extensions throttled";
    assert_eq!(
        calls.words(),
        [throttled, throttled, throttled, "list_extensions done"]
    );
}

fn with_password(url: &str) -> Cloud {
    let domain = Domain::Id("default".to_owned());
    Cloud {
        auth: Auth::Keystone {
            url: url.to_owned(),
            user: User::Password {
                user: Person::Name {
                    name: "admin".to_owned(),
                    domain: domain.clone(),
                },
                password: Secret::new("s3cret-password"),
            },
            project: Some(Project::Name {
                name: "admin".to_owned(),
                domain,
            }),
        },
        ..Cloud::open("")
    }
}

#[test]
fn secrets_are_seen_nowhere() {
    let proxy = server();
    let (cloud, endpoint) = (with_password(&proxy.endpoint()), proxy.endpoint());
    assert!(!format!("{cloud:?}").contains("s3cret"));
    let (neutron, _) = client_of(cloud, options());
    let mut seen = format!("{neutron:?}");
    let mut see = |error: Error| seen += &format!("{error} {error:?}\n");
    // Keystone repeats the password, first in a refusal, then in what should be a token.
    let repeats = r#"{"error": {"title": "s3cret-password", "message": "not s3cret-password"}}"#;
    proxy.plan("POST", "tokens", Fault::Answer(401, "", repeats.to_owned()));
    see(wait(neutron.extensions()).unwrap_err());
    let token = "x-subject-token: s3cret-token\r\n";
    let garbage = r#"{"token": "s3cret-password"}"#;
    proxy.plan("POST", "tokens", Fault::Answer(201, token, garbage.to_owned()));
    see(wait(neutron.extensions()).unwrap_err());
    // Neutron repeats the token.
    let catalogue = format!(
        r#"{{"token": {{"catalog": [{{"type": "network", "endpoints": [{{"interface": "public", "url": "{endpoint}"}}]}}]}}}}"#
    );
    proxy.plan("POST", "tokens", Fault::Answer(201, token, catalogue));
    answers(&proxy, "extensions", 403, r#"{"message": "not s3cret-token"}"#);
    see(wait(neutron.extensions()).unwrap_err());
    answers(&proxy, "extensions", 200, r#"{"extensions": "s3cret-token"}"#);
    see(wait(neutron.extensions()).unwrap_err());
    assert_eq!(proxy.planned(), 0);
    assert!(seen.contains("…") && !seen.contains("s3cret"), "{seen}");
}

#[test]
fn a_catalogue_without_neutron_is_said() {
    let proxy = server();
    let (neutron, _) = client_of(
        Cloud {
            region: Some("Here".to_owned()),
            ..with_password(&proxy.endpoint())
        },
        options(),
    );
    let catalogue = r#"{"token": {"catalog": [{"type": "network", "endpoints": [
        {"interface": "public", "url": "http://127.0.0.1:1", "region": "There"},
        {"interface": "internal", "url": "http://127.0.0.1:1", "region": "Here"}]}]}}"#;
    let answer = Fault::Answer(201, "x-subject-token: t\r\n", catalogue.to_owned());
    proxy.plan("POST", "tokens", answer);
    let error = wait(neutron.extensions()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the catalogue of Keystone has no `network` service with interface `public` in region `Here`"
    );
}
