//! Policies because of which a table cannot be made: they are named, and all others are in force.

use picket_testing::confined::{many_blocks, where_sockets_are_small};
use serde_json::{Value, json};

use crate::apiserver::agent::{Live, metric};
use crate::objects::{namespace, policy};

const PODS: &str = "/api/v1/namespaces/refused/pods";
const POLICIES: &str = "/apis/networking.k8s.io/v1/namespaces/refused/networkpolicies";

/// Has a pod on the node, which the policies are about.
fn publish(live: &Live) {
    namespace(&live.api, "refused");
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

/// A cluster with such a pod and two policies about it, one of which the kernel refuses.
fn with_policies() -> Live {
    let live = Live::new(None);
    publish(&live);
    policy(&live.api, "refused", "small", &isolating());
    policy(&live.api, "refused", "large", &large());
    live
}

fn isolating() -> Value {
    json!({"podSelector": {}})
}

/// What the kernel refuses.
fn large() -> Value {
    let (all, except) = many_blocks();
    json!({
        "podSelector": {},
        "ingress": [{"from": [{"ipBlock": {"cidr": all, "except": except}}]}],
    })
}

fn title(name: &str) -> String {
    format!("NetworkPolicy refused/{name}")
}

#[test]
fn a_policy_that_the_kernel_refuses_keeps_no_other_out() {
    let test = concat!(
        module_path!(),
        "::a_policy_that_the_kernel_refuses_keeps_no_other_out"
    );
    where_sockets_are_small(test, || {
        let live = with_policies();
        let agent = live.agent(&["--verify-interval", "1"]);
        let status = agent.until("one in force", |status| {
            let trouble = status.host.trouble.as_ref();
            status.ready && trouble.is_some_and(|trouble| trouble.waiting == [title("large")])
        });
        let trouble = status.host.trouble.unwrap();
        assert!(trouble.why.contains("could not be sent"), "{trouble:?}");
        for policy in ["NetworkPolicy x/deny-ingress", &title("small")] {
            assert!(
                status.host.policies.contains(&policy.to_owned()),
                "{:?}",
                status.host.policies
            );
        }
        let ran = agent.asked_by(&["status"]);
        assert!(
            ran.status != 0 && ran.stdout.contains(&title("large")),
            "{}",
            ran.stdout
        );
        for (name, is_current) in [("large", false), ("small", true)] {
            let mut versions = status.host.policy_versions.iter();
            let versions = versions.find(|versions| versions.policy == title(name)).unwrap();
            assert!(
                versions.read.is_some() && versions.is_current() == is_current,
                "{versions:?}"
            );
            let why = versions.why.as_deref().unwrap_or_default();
            assert_eq!(why.contains("could not be sent"), !is_current, "{versions:?}");
        }

        // What changes elsewhere meanwhile is in force as ever, and is what the policies say.
        policy(&live.api, "refused", "third", &isolating());
        let status = agent.until("the third", |status| {
            status.host.policies.contains(&title("third"))
        });
        let changed = status.host.changed.unwrap();
        let status = agent.until("a proof of it", |status| {
            let proof = status.host.proof.as_ref();
            proof.is_some_and(|proof| proof.proved && proof.when > changed)
        });
        assert_eq!(status.host.current, None);
        assert_eq!(metric(&agent, "picket_current_timestamp_seconds"), 0);
        assert_eq!(status.host.trouble.unwrap().waiting, [title("large")]);

        // It comes when it says what the kernel takes.
        live.api
            .patch(POLICIES, "large", &json!({"spec": {"ingress": null}}));
        let status = agent.until("no trouble", |status| status.host.trouble.is_none());
        assert!(status.host.current.is_some());
        assert!(status.host.policies.contains(&title("large")));

        // Of one that changes what was in force stays.
        live.api.patch(POLICIES, "small", &json!({ "spec": large() }));
        let status = agent.until("trouble again", |status| status.host.trouble.is_some());
        assert_eq!(status.host.trouble.unwrap().waiting, [title("small")]);
        assert!(status.host.policies.contains(&title("small")));
        live.api.delete(POLICIES, "small");
        agent.until("no trouble", |status| status.host.trouble.is_none());
    });
}

#[test]
fn an_agent_that_does_one_thing_puts_what_it_can_into_force_and_says_what_it_cannot() {
    let test = concat!(
        module_path!(),
        "::an_agent_that_does_one_thing_puts_what_it_can_into_force_and_says_what_it_cannot"
    );
    where_sockets_are_small(test, || {
        let live = with_policies();
        let ran = live.agent_to_its_end(&["--once"]);
        assert_eq!(ran.status, 2, "{}", ran.stderr);
        assert!(ran.stderr.contains("could not be sent"), "{}", ran.stderr);
        let listed = live.nft(&["list", "counters", "table", "inet", "picket"]);
        // The large one isolates.
        for policy in ["x/deny-ingress", "refused/small", "refused/large"] {
            assert!(listed.contains(policy), "{listed}");
        }
    });
}
