//! What reflectors keep in etcd is what the API server says, whatever happens to them, to it and to etcd.

mod members;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use picket_node::Source;
use picket_testing::etcd::Etcd;
use serde_json::{Value, json};

use crate::apiserver::agent::expect_schema_of;
use crate::apiserver::changes::Changes;
use crate::apiserver::deploy::{account, apply, audited, expect_rights};
use crate::apiserver::etcd::etcd;
use crate::client::{Api, serve};
use crate::following::{Following, listed, without_places};
use crate::objects::{namespace, pod, policy};
use crate::picket;
use crate::reflectors::Reflector;

const PREFIX: &str = "/picket/v1/";

pub(crate) const REFLECTOR: &str = include_str!("../../../../../deploy/reflector.yaml");

/// Reads what is kept, from now on.
fn reader(server: &Etcd) -> Following {
    Following::of(Source::Etcd(etcd(vec![server.endpoint()])), None)
}

/// A cluster with some objects.
pub(crate) fn fill(api: &Api) {
    namespace(api, "shop");
    pod(api, "shop", "web", "10.0.0.1", &json!({}));
    policy(api, "shop", "web", &json!({"podSelector": {}}));
}

/// Waits until every reader knows what a list gives now.
pub(crate) fn until_equal(readers: &mut [Following], kubeconfig: &Path, what: &str) {
    let expected = without_places(listed(kubeconfig));
    for reader in readers {
        reader.until(what, |reader| without_places(reader.snapshot()) == expected);
    }
}

/// What picket prints where all is well.
fn printed(kubeconfig: &Path, arguments: &[&str], expected: &str) {
    let ran = picket(kubeconfig, arguments);
    assert_eq!((ran.status, ran.stdout.as_str()), (0, expected), "{}", ran.stderr);
}

fn leads(reflector: &Reflector) -> bool {
    reflector.value("leading") == Some(1)
}

#[test]
fn after_each_change_what_is_read_is_what_is_there() {
    let (_server, kubeconfig, api) = serve();
    let server = Etcd::start();
    let mut changes = Changes::new(&api);
    let reflector = Reflector::start(&kubeconfig, &server);
    let mut readers = [reader(&server)];
    readers[0].until_complete();
    for _ in 0..60 {
        let what = changes.next();
        until_equal(&mut readers, &kubeconfig, &what);
    }
    // Somebody who comes later knows the same, and nothing was written twice.
    let mut later = [reader(&server)];
    later[0].until_complete();
    until_equal(&mut later, &kubeconfig, "what is there");
    assert_eq!(
        readers[0].health.kinds()["pods"].lists,
        1,
        "all of it came as events"
    );
    // Where etcd was too slow it was gone over again, which an etcd on a busy machine may be.
    let log = reflector.log();
    let again = log.matches("leads, and keeps etcd as the cluster is").count();
    assert_eq!(
        reflector.value("passes_total").map(usize::try_from),
        Some(Ok(again)),
        "{log}"
    );
    let difference = ["reflect", "--dry-run", "--etcd-endpoints", &server.endpoint()];
    printed(&kubeconfig, &difference, "");
    expect_schemas(&server);
}

/// Holds everything that a reflector wrote against the schemas of `docs/schema`.
fn expect_schemas(server: &Etcd) {
    let all = server.all(PREFIX);
    let parsed = |text: &String| -> Value { serde_json::from_str(text).unwrap() };
    expect_schema_of("etcd-progress", &parsed(&all[&format!("{PREFIX}progress")]));
    let objects = format!("{PREFIX}objects/");
    let mut kinds = BTreeSet::new();
    for (_, record) in all.iter().filter(|(key, _)| key.starts_with(&objects)) {
        let record = parsed(record);
        expect_schema_of("etcd-record", &record);
        kinds.insert(record["object"]["kind"].to_string());
    }
    assert!(kinds.len() > 4, "{kinds:?}");
}

#[test]
fn records_hold_what_policies_see_and_are_written_when_that_changes() {
    let (_server, kubeconfig, api) = serve();
    fill(&api);
    let server = Etcd::start();
    let reflector = Reflector::start(&kubeconfig, &server);
    let mut following = reader(&server);
    following.until_complete();
    let all = server.all(&format!("{PREFIX}objects/"));
    let read =
        |key: &str| -> Value { serde_json::from_str(&all[&format!("{PREFIX}objects/{key}")]).unwrap() };
    let pod = read("pods/shop/web");
    assert_eq!(pod["version"], 1);
    assert_eq!(pod["object"]["metadata"]["labels"], json!({"app": "web"}));
    assert_eq!(pod["object"]["status"]["podIP"], "10.0.0.1");
    assert!(pod["created"].is_string());
    assert_eq!(
        pod["object"]["spec"]["containers"],
        json!([{"ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}]}])
    );
    let policy = read("networkpolicies.networking.k8s.io/shop/web");
    let fields: Vec<_> = policy["object"]["metadata"].as_object().unwrap().keys().collect();
    assert_eq!(fields, ["name", "namespace", "uid"]);
    // What no policy sees changes nothing.
    let puts = reflector.value("puts_total").unwrap();
    api.set_status("/api/v1/namespaces/shop/pods", "web", &json!({"message": "a"}));
    let annotations = json!({"metadata": {"annotations": {"a": "b"}}});
    api.patch("/api/v1/namespaces", "shop", &annotations);
    let version = api.list("/api/v1/namespaces").iter().map(version).max().unwrap();
    following.until("progress", |following| {
        let reached = following.versions.get("namespaces");
        reached.is_some_and(|reached| reached.parse::<u64>().unwrap() >= version)
    });
    assert_eq!(reflector.value("puts_total"), Some(puts));
}

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap()
}

#[test]
fn another_takes_over_from_one_that_ends_or_is_killed_or_stopped() {
    let (_server, kubeconfig, api) = serve();
    fill(&api);
    let server = Etcd::start();
    let mut readers = [reader(&server)];
    let start = || Reflector::start(&kubeconfig, &server);
    let mut leader = start();
    leader.until("the first leads", leads);
    let mut other = start();
    other.until("the second is ready", Reflector::is_ready);
    assert!(!leads(&other));
    for (round, end) in ["kill", "stop", "pause"].into_iter().enumerate() {
        match end {
            "kill" => leader.kill(),
            "stop" => leader.stop(),
            _ => leader.signal("STOP"),
        }
        pod(
            &api,
            "shop",
            &format!("web-{round}"),
            &format!("10.0.1.{}", round + 1),
            &json!({}),
        );
        api.delete("/api/v1/namespaces/shop/pods", "web");
        pod(&api, "shop", "web", &format!("10.0.2.{}", round + 1), &json!({}));
        other.until("the other leads", leads);
        until_equal(&mut readers, &kubeconfig, end);
        if end == "pause" {
            // It comes back, and believes that it leads: what it would write is old.
            pod(&api, "shop", "late", "10.0.3.1", &json!({}));
            until_equal(&mut readers, &kubeconfig, "a late pod");
            leader.signal("CONT");
            leader.until("it does not lead", |reflector| {
                !leads(reflector) && reflector.is_ready()
            });
            assert!(leads(&other));
            api.delete("/api/v1/namespaces/shop/pods", "late");
            until_equal(&mut readers, &kubeconfig, "no late pod");
            break;
        }
        (leader, other) = (other, start());
        other.until("a new one is ready", Reflector::is_ready);
    }
    let epochs = readers[0].health.freshness().unwrap().reflection.unwrap().epoch;
    assert!(epochs > 1);
}

#[test]
fn what_changed_while_nobody_reflected_is_written_and_what_is_nobodys_is_swept() {
    let (_server, kubeconfig, api) = serve();
    fill(&api);
    let server = Etcd::start();
    let mut readers = [reader(&server)];
    let mut reflector = Reflector::start(&kubeconfig, &server);
    readers[0].until_complete();
    until_equal(&mut readers, &kubeconfig, "what is there");
    reflector.stop();
    let before = readers[0].events.len();
    api.delete(
        "/apis/networking.k8s.io/v1/namespaces/shop/networkpolicies",
        "web",
    );
    pod(&api, "shop", "new", "10.0.0.2", &json!({}));
    let objects = format!("{PREFIX}objects/");
    server.put(&format!("{objects}pods/shop/gone"), "{");
    server.put(&format!("{objects}secrets/shop/a"), "{}");
    server.delete(&format!("{objects}namespaces/default"));
    server.put(&format!("{PREFIX}beside"), "stays");
    let endpoint = server.endpoint();
    let with = |extent: &'static str| ["reflect", extent, "--etcd-endpoints", &endpoint];
    let expected = [
        format!("put {objects}namespaces/default\n"),
        format!("put {objects}pods/shop/new\n"),
        format!("delete {objects}secrets/shop/a\n"),
        format!("delete {objects}pods/shop/gone\n"),
        format!("delete {objects}networkpolicies.networking.k8s.io/shop/web\n"),
    ];
    let there = server.all(&objects);
    printed(&kubeconfig, &with("--dry-run"), &expected.concat());
    assert_eq!(server.all(&objects), there);
    printed(&kubeconfig, &with("--once"), &expected.concat());
    until_equal(&mut readers, &kubeconfig, "what changed");
    printed(&kubeconfig, &with("--dry-run"), "");
    assert_eq!(
        server.all(&format!("{PREFIX}beside")).len(),
        1,
        "what is no object's stays"
    );
    let named = |event: &&picket_cluster::Event| format!("{event:?}").contains("default");
    let events = readers[0].events[before..].iter();
    // The namespace went, as somebody had deleted it, and came again.
    assert_eq!(events.filter(named).count(), 2);
}

#[test]
fn only_one_makes_etcd_what_the_cluster_is() {
    let (_server, kubeconfig, api) = serve();
    fill(&api);
    let server = Etcd::start();
    let reflector = Reflector::start_with(&kubeconfig, &server, &["--name", "first"]);
    reflector.until("it leads", leads);
    let refused = picket(
        &kubeconfig,
        &["reflect", "--once", "--etcd-endpoints", &server.endpoint()],
    );
    assert_eq!(refused.status, 2);
    assert!(
        refused.stderr.contains("`first-") && refused.stderr.contains("nothing was written"),
        "{}",
        refused.stderr
    );
}

#[test]
fn an_etcd_that_is_away_forgetful_or_new_is_written_anew() {
    let (_server, kubeconfig, api) = serve();
    fill(&api);
    let mut server = Etcd::start();
    let mut readers = [reader(&server)];
    let reflector = Reflector::start(&kubeconfig, &server);
    readers[0].until_complete();
    let mut number = 1;
    let mut change = || {
        number += 1;
        let name = format!("web-{number}");
        pod(&api, "shop", &name, &format!("10.0.0.{number}"), &json!({}));
        if number > 3 {
            api.delete("/api/v1/namespaces/shop/pods", &format!("web-{}", number - 1));
        }
    };
    let old = server.back_up();
    change();
    until_equal(&mut readers, &kubeconfig, "what changed after a restart");
    server.kill();
    change();
    server.restart();
    until_equal(&mut readers, &kubeconfig, "what changed while etcd was away");
    server.signal("STOP");
    reflector.until("it notices", |reflector| !leads(reflector));
    change();
    server.signal("CONT");
    until_equal(&mut readers, &kubeconfig, "what changed while etcd was silent");
    server.delete_all(PREFIX);
    change();
    until_equal(&mut readers, &kubeconfig, "what changed when etcd was wiped");
    server.set_back(&old);
    change();
    until_equal(&mut readers, &kubeconfig, "what changed when etcd was set back");
    server.replace();
    change();
    until_equal(&mut readers, &kubeconfig, "what changed when etcd was new");
    // Nothing but the pods that were deleted ever went.
    let gone = readers[0]
        .events
        .iter()
        .filter(|event| matches!(event, picket_cluster::Event::Delete(_)));
    assert_eq!(gone.count(), number - 3, "{:#?}", readers[0].events);
    let mut later = [reader(&server)];
    until_equal(&mut later, &kubeconfig, "what is there");
}

#[test]
fn an_api_server_that_is_away_changes_nothing() {
    let (mut server, kubeconfig, api) = serve();
    fill(&api);
    let kept = Etcd::start();
    let mut readers = [reader(&kept)];
    let reflector = Reflector::start(&kubeconfig, &kept);
    readers[0].until_complete();
    until_equal(&mut readers, &kubeconfig, "what is there");
    server.kill();
    reflector.until("it notices", |reflector| {
        reflector
            .log()
            .contains("the API server does not say what it should")
    });
    // One that begins now knows nothing, and deletes nothing.
    let another = Reflector::start(&kubeconfig, &kept);
    another.until("it answers", |reflector| {
        reflector.get("/readyz").is_some_and(|(status, _)| status == 503)
    });
    server.restart();
    let api = Api::new(&kubeconfig);
    pod(&api, "shop", "new", "10.0.0.2", &json!({}));
    until_equal(&mut readers, &kubeconfig, "what was added");
    assert!(!readers[0].has_lost(), "{:#?}", readers[0].events);
}

#[test]
fn a_policy_that_etcd_does_not_take_is_named_and_isolates() {
    let (_server, kubeconfig, api) = serve();
    fill(&api);
    let server = Etcd::start_with(&["--max-request-bytes=20000"]);
    let reflector = Reflector::start(&kubeconfig, &server);
    let mut following = reader(&server);
    following.until_complete();
    let long = json!({"podSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values":
        (0..2000).map(|number| format!("application-{number}")).collect::<Vec<_>>()}]}});
    policy(&api, "shop", "long", &long);
    policy(&api, "shop", "short", &json!({"podSelector": {}}));
    following.until("both", |following| {
        following.snapshot().policies.len() == 3 && following.diagnoses.len() == 1
    });
    let found = following.diagnoses.values().next().unwrap();
    assert!(found[0].message.contains("etcd takes no record of"), "{found:?}");
    // Also who begins now knows everything, and that it isolates.
    let mut new = reader(&server);
    new.until_complete();
    let (known, snapshot) = (following.snapshot(), new.snapshot());
    assert_eq!(known.policies, snapshot.policies);
    let mut policies = snapshot.policies.iter();
    let (_, stands) = policies.find(|(object, _)| object.name == "long").unwrap();
    assert!(
        stands.ingress.isolates && stands.ingress.rules.is_empty(),
        "{stands:?}"
    );
    assert_eq!(reflector.value("too_large_total"), Some(1), "{}", reflector.log());
    api.delete(
        "/apis/networking.k8s.io/v1/namespaces/shop/networkpolicies",
        "long",
    );
    following.until("no diagnosis", |following| following.diagnoses.is_empty());
}

#[test]
fn what_is_shipped_is_enough_and_nothing_of_it_is_too_much() {
    let folder = tempfile::tempdir().unwrap();
    let (server, audit) = audited(folder.path(), &[]);
    let kubeconfig = server.kubeconfig();
    let api = Api::new(&kubeconfig);
    crate::objects::define_all(&api);
    fill(&api);
    let applied = apply(&api, REFLECTOR);
    let container = applied["Deployment"]["spec"]["template"]["spec"]["containers"][0].clone();
    let as_account = account(&server, &api, "picket-reflector");
    let kept = Etcd::start();
    let mut command = Command::new(env!("CARGO_BIN_EXE_picket"));
    for argument in container["args"].as_array().unwrap() {
        let argument = argument.as_str().unwrap();
        let known = ["--listen", "--etcd"]
            .iter()
            .any(|start| argument.starts_with(start));
        if !known {
            command.arg(argument);
        }
    }
    command.args(["--etcd-endpoints", &kept.endpoint()]);
    let reflector = Reflector::run(&as_account, command);
    let mut readers = [reader(&kept)];
    until_equal(&mut readers, &kubeconfig, "what is there");
    expect_rights(&audit, "picket-reflector", &applied["ClusterRole"]);
    for probe in ["livenessProbe", "readinessProbe"] {
        let path = container[probe]["httpGet"]["path"].as_str().unwrap();
        assert_eq!(
            reflector.get(path),
            Some((200, "ok\n".to_owned())),
            "{}",
            reflector.log()
        );
    }
    // In JSON, and nothing in it complains.
    let log = reflector.log();
    let levels = log
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["level"].clone());
    assert!(levels.into_iter().all(|level| level == "INFO"), "{log}");
}
