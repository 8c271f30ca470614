//! Records that are none, whoever wrote them.

use serde_json::json;

use super::{PREFIX, Written, key, pod, policy, record, until_trouble, until_well};

/// What is none of a pod's records.
fn garbage() -> Vec<String> {
    let whole = record(&pod("web-0", "10.0.0.1", "web"));
    vec![
        String::new(),
        "{".to_owned(),
        "\u{0}\u{1b}[2J".to_owned(),
        "null".to_owned(),
        "[]".to_owned(),
        "{}".to_owned(),
        whole[..whole.len() / 2].to_owned(),
        whole.replace(r#""version":1"#, r#""version":2"#),
        json!({"version": 1}).to_string(),
        json!({"version": 1, "object": 7}).to_string(),
        json!({"version": 1, "object": {}}).to_string(),
        record(&pod("web-1", "10.0.0.1", "web")),
        record(&policy("web-0", 80)),
        whole.replace(r#""namespace":"shop""#, r#""namespace":"bank""#),
        whole.replace(r#""kind":"Pod""#, r#""kind":"Node""#),
        whole.replace(r#""name":"web-0""#, r#""name":"web-0","name":"web-1""#),
        format!(
            r#"{{"version":1,"object":{}{}}}"#,
            "[".repeat(100_000),
            "]".repeat(100_000)
        ),
        json!({"version": 1, "problem": "etcd takes no record of 2000000 bytes"}).to_string(),
    ]
}

#[test]
fn a_record_that_cannot_be_read_is_named_and_changes_nothing() {
    let mut written = Written::new();
    let mut following = written.follow();
    following.until_complete();
    let whole = pod("web-0", "10.0.0.1", "web");
    for (number, garbage) in garbage().into_iter().enumerate() {
        written.server.put(&key(&whole), &garbage);
        following.until("a diagnosis", |following| !following.diagnoses.is_empty());
        let diagnoses: Vec<_> = following.diagnoses.iter().collect();
        let [(object, found)] = diagnoses.as_slice() else {
            panic!("{diagnoses:?}");
        };
        assert_eq!(
            (object.to_string().as_str(), found[0].code.0),
            ("Pod shop/web-0", "C018"),
            "{garbage}"
        );
        // What comes after it is heard.
        written.put(&pod("web-2", &format!("10.0.0.{}", number + 10), "web"));
        written.until_equal(&mut following, "what was added");
        written.put(&whole);
        following.until("no diagnosis", |following| following.diagnoses.is_empty());
        assert_eq!(following.snapshot(), written.expected());
    }
    assert!(!following.has_lost(), "{:#?}", following.events);
    // It may go, too.
    written.server.put(&key(&whole), "{");
    following.until("a diagnosis", |following| !following.diagnoses.is_empty());
    written.delete(&whole);
    written.until_equal(&mut following, "what went");
    following.until("no diagnosis", |following| following.diagnoses.is_empty());
}

#[test]
fn who_knows_nothing_else_of_an_object_is_not_complete() {
    let mut written = Written::new();
    let whole = policy("web", 80);
    written.server.put(&key(&whole), "{");
    let mut following = written.follow();
    until_trouble(
        &mut following,
        "the record of NetworkPolicy shop/web cannot be read",
    );
    assert!(!following.is_complete);
    written.put(&whole);
    following.until_complete();
    written.until_equal(&mut following, "what is there");
    assert!(following.diagnoses.is_empty(), "{:?}", following.diagnoses);
}

#[test]
fn an_object_that_is_damaged_in_a_whole_record_is_what_it_is_elsewhere() {
    let mut written = Written::new();
    let mut damaged = policy("web", 80);
    damaged["spec"]["ingress"] = json!(7);
    damaged["spec"]["unheardOf"] = json!(true);
    written.put(&damaged);
    let mut following = written.follow();
    following.until_complete();
    written.until_equal(&mut following, "what is there");
    let found: Vec<_> = following.diagnoses.values().flatten().collect();
    assert!(found.iter().any(|one| one.field == "spec.ingress"), "{found:?}");
    assert!(found.iter().any(|one| one.field == "spec.unheardOf"), "{found:?}");
}

#[test]
fn keys_that_are_nobodys_are_named_and_passed_over() {
    let written = Written::new();
    let mut following = written.follow();
    following.until_complete();
    for key in [
        "objects/pods",
        "objects/secrets/shop/a",
        "objects/pods/web-0",
        "objects/pods/shop/a/b",
        "objects/\u{1b}",
    ] {
        written.server.put(&format!("{PREFIX}{key}"), "{}");
        until_trouble(&mut following, "is no key of an object");
        written.server.delete(&format!("{PREFIX}{key}"));
        until_well(&mut following);
    }
    written.server.put(&format!("{PREFIX}other"), "{}");
    written.server.put("/picket/v10", "{}");
    let mut again = written.follow();
    again.until_complete();
    assert_eq!(again.snapshot(), following.snapshot());
    until_well(&mut again);
}

#[test]
fn progress_that_cannot_be_read_stands_for_nothing() {
    let mut written = Written::without_progress();
    let mut following = written.follow();
    until_trouble(&mut following, "no reflector");
    for garbage in [
        "",
        "{",
        "7",
        "{}",
        &written.progress().replace(r#""version":1"#, r#""version":2"#),
    ] {
        written.server.put(&format!("{PREFIX}progress"), garbage);
        until_trouble(&mut following, "progress` cannot be read");
    }
    assert!(!following.is_complete);
    written.pass();
    following.until_complete();
    written.until_equal(&mut following, "what is there");
}
