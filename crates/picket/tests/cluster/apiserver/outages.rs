//! A server that is away, silent, forgetful or not itself changes nothing that is known.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use picket_node::{KindStatus, Source, Status};
use picket_source::KindHealth;
use picket_testing::apiserver::Server;
use serde_json::json;

use crate::agents::{Agent, check, port_of};
use crate::apiserver::agent::Live;
use crate::client::{Api, serve};
use crate::following::{Following, kube};
use crate::objects::{define_all, namespace, pod, policy};
use crate::proxy::{Proxy, nonsense};

const PODS: &str = "/api/v1/namespaces/shop/pods";

/// What is followed where there is nothing but what every cluster has.
const FOLLOWED: [&str; 6] = [
    "/apis",
    "namespaces",
    "networkpolicies.networking.k8s.io",
    "nodes",
    "pods",
    "services",
];

/// A cluster with some objects.
fn fill(api: &Api) {
    namespace(api, "shop");
    pod(api, "shop", "web", "10.0.0.1", &json!({}));
    policy(api, "shop", "web", &json!({"podSelector": {}}));
}

/// A copy of a kubeconfig in which one text is another.
pub(super) fn copy(kubeconfig: &Path, name: &str, from: &str, to: &str) -> PathBuf {
    let text = fs::read_to_string(kubeconfig).unwrap();
    assert!(text.contains(from), "{text}");
    let path = kubeconfig.with_file_name(name);
    fs::write(&path, text.replace(from, to)).unwrap();
    path
}

#[test]
fn a_server_that_starts_again_is_followed_on() {
    let (mut server, kubeconfig, api) = serve();
    define_all(&api);
    fill(&api);
    let mut following = Following::complete(&kubeconfig, None);
    let before = following.snapshot();
    server.kill();
    following.until_health(|kinds| kinds.values().all(|kind| kind.trouble.is_some()));
    assert_eq!(following.snapshot(), before);
    server.restart();
    let api = Api::new(&kubeconfig);
    pod(&api, "shop", "new", "10.0.0.2", &json!({}));
    following.until_equal(&kubeconfig, "what was added");
    following.until_health(|kinds| kinds.values().all(|kind| kind.trouble.is_none()));
    assert!(!following.has_lost(), "{:#?}", following.events);
    assert!(following.health.kinds().values().all(|kind| kind.complete));
}

/// How often each kind has failed before the next try is half a minute away, and minutes have passed.
const FAILURES: u64 = 11;

#[test]
fn policies_hold_while_the_server_is_away_for_minutes_and_it_is_soon_followed_on() {
    let mut live = Live::new(None);
    let agent = live.agent(&["--table-owner", "everybody"]);
    let other = Agent::start(&live.lab, "lab-2", &live.server.kubeconfig_of("agent-token"));
    let agents = [agent, other];
    agents
        .iter()
        .for_each(|agent| drop(agent.until_enforced(&live.versions)));
    let agent = &agents[0];
    let failures = |kinds: &BTreeMap<String, KindStatus>| kinds.values().map(|kind| kind.failures).collect();
    let before: Vec<u64> = failures(&agent.status().unwrap().source);
    assert!(before.len() > 5, "{before:?}");
    live.server.kill();
    for times in [3, 7, FAILURES] {
        let have_failed = |status: &Status| {
            let mut failed = failures(&status.source).into_iter().zip(&before);
            failed.all(|(now, before)| now >= before + times)
        };
        agent.until(&format!("{times} failures of each kind"), have_failed);
        check(&mut live.lab, &format!("after {times} failures"), &agents);
    }
    // Nor does it need the server to repair what others do meanwhile.
    live.nft(&["flush", "ruleset"]);
    agent.until("a repair", |status| status.host.repaired == 1);
    check(&mut live.lab, "after a repair", &agents);
    let status = agent.status().unwrap();
    assert!(
        status
            .source
            .values()
            .all(|kind| kind.complete && kind.trouble.is_some()),
        "{status:?}"
    );
    let before: Vec<u64> = failures(&status.source);
    live.server.restart();
    let api = Api::new(&live.server.kubeconfig());
    policy(
        &api,
        "x",
        "new",
        &json!({"podSelector": {}, "policyTypes": ["Egress"]}),
    );
    let status = agent.until("what is new", |status| {
        status.host.policies.contains(&"NetworkPolicy x/new".to_owned())
    });
    // It may have been asked once more before it was there, and once before it knew whom it may answer.
    let of_policies = status
        .source
        .keys()
        .position(|kind| *kind == "networkpolicies.networking.k8s.io");
    let index = of_policies.unwrap();
    let more = failures(&status.source)[index] - before[index];
    assert!(more <= 2, "{more} failures more");
    agent.until("no trouble", |status| {
        status.source.values().all(|kind| kind.trouble.is_none())
    });
}

#[test]
fn a_server_that_is_silent_is_followed_on() {
    let (server, kubeconfig, api) = serve();
    fill(&api);
    let mut following = Following::complete(&kubeconfig, None);
    server.signal("STOP");
    following.until_health(|kinds| kinds["/apis"].trouble.is_some());
    server.signal("CONT");
    pod(&api, "shop", "new", "10.0.0.2", &json!({}));
    following.until_equal(&kubeconfig, "what was added");
    assert!(!following.has_lost(), "{:#?}", following.events);
}

#[test]
fn a_way_on_which_nothing_comes_any_more_is_left() {
    let (_server, kubeconfig, api) = serve();
    fill(&api);
    let direct = port_of(&kubeconfig);
    let proxy = Proxy::to(direct);
    let address = |port: u16| format!("https://127.0.0.1:{port}");
    let behind = copy(&kubeconfig, "behind", &address(direct), &address(proxy.port));
    let mut impatient = kube(&behind);
    impatient.silence = Duration::from_secs(1);
    let mut following = Following::of(Source::Kube(impatient), None);
    following.until_complete();
    proxy.stall();
    api.delete(PODS, "web");
    pod(&api, "shop", "new", "10.0.0.2", &json!({}));
    following.until_equal(&kubeconfig, "what changed meanwhile");
}

#[test]
fn what_changed_while_the_server_forgot_is_known_at_once() {
    let flags = ["--watch-cache=false", "--etcd-compaction-interval=1s"];
    let server = Server::start_with(&[], &flags);
    let kubeconfig = server.kubeconfig();
    let api = Api::new(&kubeconfig);
    fill(&api);
    pod(&api, "shop", "gone", "10.0.0.9", &json!({}));
    let direct = port_of(&kubeconfig);
    let proxy = Proxy::to(direct);
    let address = |port: u16| format!("https://127.0.0.1:{port}");
    let behind = copy(&kubeconfig, "behind", &address(direct), &address(proxy.port));
    let mut following = Following::complete(&behind, None);
    let lists = following.health.kinds()["pods"].lists;
    proxy.close();
    api.delete(PODS, "gone");
    let status = json!({"podIP": "10.0.0.3", "podIPs": [{"ip": "10.0.0.3"}]});
    api.set_status(PODS, "web", &status);
    let newest = api.list(PODS)[0]["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .to_owned();
    pod(&api, "shop", "new", "10.0.0.2", &json!({}));
    api.await_forgotten("/api/v1/pods", &newest);
    let before = following.events.len();
    proxy.open();
    following.until_equal(&kubeconfig, "what changed meanwhile");
    assert!(following.health.kinds()["pods"].lists > lists);
    // What did not change did not move: one pod went, one changed, one came.
    let pods = following.events[before..]
        .iter()
        .filter(|event| format!("{event:?}").contains("\"Pod\""));
    assert_eq!(pods.count(), 3, "{:#?}", &following.events[before..]);
}

#[test]
fn nonsense_changes_nothing() {
    let (_server, kubeconfig, api) = serve();
    fill(&api);
    let direct = port_of(&kubeconfig);
    let proxy = Proxy::to(direct);
    let address = format!("https://127.0.0.1:{direct}");
    let behind = copy(
        &kubeconfig,
        "behind",
        &address,
        &format!("https://127.0.0.1:{}", proxy.port),
    );
    let mut following = Following::complete(&behind, None);
    let before = following.snapshot();
    proxy.close();
    for (status, body) in [
        ("200 OK", "<html>welcome to the network</html>"),
        (
            "200 OK",
            "{\"type\": \"ADDED\", \"object\": {\"metadata\": {}}}\n",
        ),
        ("200 OK", "{\"type\": \"ADDED\", \"object\": {\"meta"),
        ("200 OK", r#"{"items":[]}"#),
        ("404 Not Found", "404 page not found"),
        // From here on lists are asked for, and then in pages.
        ("410 Gone", ""),
        ("200 OK", r#"{"items":[]}"#),
        ("500 Internal Server Error", ""),
        ("200 OK", r#"{"items":[]}"#),
        (
            "200 OK",
            r#"{"apiVersion":"v1","kind":"List","metadata":{"resourceVersion":"1"},"items":[]}"#,
        ),
        ("503 Service Unavailable", "upstream connect error"),
    ] {
        let nonsense = format!("http://127.0.0.1:{}", nonsense(status, body));
        copy(&kubeconfig, "behind", &address, &nonsense);
        let sum =
            |kinds: &BTreeMap<String, KindHealth>| kinds.values().map(|kind| kind.failures).sum::<u64>();
        let failures = sum(&following.health.kinds());
        // Of each one more may be of what was there before.
        following.until_health(|kinds| sum(kinds) > failures + FOLLOWED.len() as u64 + 2);
        assert_eq!(following.snapshot(), before, "{status} {body}");
    }
    let kinds = following.health.kinds();
    assert_eq!(kinds.keys().map(String::as_str).collect::<Vec<_>>(), FOLLOWED);
    assert!(!following.has_lost(), "{:#?}", following.events);
    proxy.open();
    copy(
        &kubeconfig,
        "behind",
        &address,
        &format!("https://127.0.0.1:{}", proxy.port),
    );
    pod(&api, "shop", "new", "10.0.0.2", &json!({}));
    following.until_equal(&kubeconfig, "what was added");
    assert!(!following.has_lost(), "{:#?}", following.events);
}

#[test]
fn a_token_that_is_replaced_is_used() {
    let mut server = Server::start_with(&[("first", "admin-1,system:masters")], &[]);
    let kubeconfig = server.kubeconfig();
    let api = Api::new(&kubeconfig);
    fill(&api);
    let token = kubeconfig.with_file_name("token");
    fs::write(&token, "first").unwrap();
    let text = fs::read_to_string(&kubeconfig).unwrap();
    let (rest, _) = text.split_once("users: ").unwrap();
    let own = kubeconfig.with_file_name("own");
    let file = token.display();
    let users = format!(
        "users: [{{name: admin, user: {{tokenFile: {file}}}}}]\ncontexts: [{{name: test, context: {{cluster: test, user: admin}}}}]\n"
    );
    fs::write(&own, format!("{rest}{users}")).unwrap();
    let mut following = Following::complete(&own, None);
    server.kill();
    server.restart_with(&[("second", "admin-1,system:masters")]);
    following.until_health(|kinds| {
        let trouble = kinds["pods"].trouble.as_deref();
        trouble.is_some_and(|trouble| trouble.contains("401"))
    });
    fs::write(&token, "second").unwrap();
    pod(&Api::new(&kubeconfig), "shop", "new", "10.0.0.2", &json!({}));
    following.until_equal(&kubeconfig, "what was added");
    assert!(!following.has_lost(), "{:#?}", following.events);
}
