//! Policies because of which a table cannot be made: they are named, and all others are in force.

use serde_json::json;

use crate::apiserver::agent::{Live, metric};
use crate::objects::{namespace, policy};

/// What tells two policies of one namespace apart, and has the same hash in the table. Who may write policies can find such
/// names in less than an hour.
const TWINS: [&str; 2] = ["6cf2989cfd1b54fb", "ae095fe7bb6bcc45"];

const PODS: &str = "/api/v1/namespaces/collide/pods";
const POLICIES: &str = "/apis/networking.k8s.io/v1/namespaces/collide/networkpolicies";

/// Has a pod on the node, of which the twins decide.
fn publish(live: &Live) {
    namespace(&live.api, "collide");
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a"},
        "spec": {"nodeName": "lab-1", "containers": [{"name": "main", "image": "main"}]},
    });
    live.api.create(PODS, &pod);
    let status = json!({"phase": "Running", "podIP": "10.99.0.1", "podIPs": [{"ip": "10.99.0.1"}]});
    live.api.set_status(PODS, "a", &status);
}

fn isolate(live: &Live, name: &str) {
    policy(&live.api, "collide", name, &json!({"podSelector": {}}));
}

fn twin(at: usize) -> String {
    format!("NetworkPolicy collide/{}", TWINS[at])
}

#[test]
fn policies_that_cannot_be_in_one_table_keep_no_other_out_of_it() {
    let live = Live::new(None);
    publish(&live);
    for name in TWINS {
        isolate(&live, name);
    }
    let agent = live.agent(&["--verify-interval", "1"]);
    let status = agent.until("one twin", |status| status.host.trouble.is_some() && status.ready);
    let trouble = status.host.trouble.unwrap();
    assert_eq!(trouble.waiting.len(), 1, "{trouble:?}");
    assert!(trouble.why.contains("have the same hash"), "{trouble:?}");
    let [held, other] = match trouble.waiting == [twin(0)] {
        true => [0, 1],
        false => [1, 0],
    };
    assert_eq!(trouble.waiting, [twin(held)]);
    for policy in ["NetworkPolicy x/deny-ingress", &twin(other)] {
        assert!(
            status.host.policies.contains(&policy.to_owned()),
            "{:?}",
            status.host.policies
        );
    }
    let ran = agent.asked_by(&["status"]);
    assert_eq!(ran.status, 1);
    assert!(ran.stdout.contains(&twin(held)), "{}", ran.stdout);
    for (at, is_current) in [(held, false), (other, true)] {
        let mut versions = status.host.policy_versions.iter();
        let versions = versions.find(|versions| versions.policy == twin(at)).unwrap();
        assert!(
            versions.read.is_some() && versions.is_current() == is_current,
            "{versions:?}"
        );
        let why = versions.why.as_deref().unwrap_or_default();
        assert_eq!(why.contains("have the same hash"), !is_current, "{versions:?}");
    }

    // What changes elsewhere meanwhile is in force as ever, and is what the policies say.
    isolate(&live, "third");
    let third = "NetworkPolicy collide/third".to_owned();
    let status = agent.until("the third", |status| status.host.policies.contains(&third));
    let changed = status.host.changed.unwrap();
    let status = agent.until("a proof of it", |status| {
        let proof = status.host.proof.as_ref();
        proof.is_some_and(|proof| proof.proved && proof.when > changed)
    });
    assert_eq!(status.host.current, None);
    assert_eq!(metric(&agent, "picket_current_timestamp_seconds"), 0);
    assert_eq!(status.host.trouble.unwrap().waiting, [twin(held)]);

    // The one comes when the other goes.
    live.api.delete(POLICIES, TWINS[other]);
    let status = agent.until("no trouble", |status| status.host.trouble.is_none());
    assert!(status.host.current.is_some());
    assert!(status.host.policies.contains(&twin(held)));
    assert!(!status.host.policies.contains(&twin(other)));

    // Of one that changes what was in force stays.
    isolate(&live, TWINS[other]);
    let status = agent.until("trouble again", |status| status.host.trouble.is_some());
    assert_eq!(status.host.trouble.unwrap().waiting, [twin(other)]);
    assert!(status.host.policies.contains(&twin(held)));
    live.api.delete(POLICIES, TWINS[other]);
    agent.until("no trouble", |status| status.host.trouble.is_none());
}

#[test]
fn an_agent_that_does_one_thing_puts_what_it_can_into_force_and_says_what_it_cannot() {
    let live = Live::new(None);
    publish(&live);
    for name in TWINS {
        isolate(&live, name);
    }
    let ran = live.agent_to_its_end(&["--once"]);
    assert_eq!(ran.status, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("have the same hash"), "{}", ran.stderr);
    let listed = live.nft(&["list", "counters", "table", "inet", "picket"]);
    assert!(listed.contains("x/deny-ingress"), "{listed}");
    assert_eq!(
        TWINS.iter().filter(|name| listed.contains(**name)).count(),
        1,
        "{listed}"
    );
}
