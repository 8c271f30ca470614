//! Whatever happens to an agent and around it, no packet passes that is denied before and after, and none is lost that is
//! allowed before and after.

use std::sync::Arc;

use picket_linux::NetworkNamespace;
use picket_net::Family;
use picket_nftables::client::{Client, Observed};
use picket_nftables::model::Name;
use picket_nftables::render::indexed;
use serde_json::json;

use crate::agents::Agent;
use crate::apiserver::agent::Live;
use crate::objects::network_policy;
use crate::prober::Prober;
use crate::random::Random;

pub(crate) const POLICIES: &str = "/apis/networking.k8s.io/v1/namespaces/x/networkpolicies";

const PODS: &str = "/api/v1/namespaces/y/pods";

/// Happenings that look random and are the same each time.
struct Happenings<'a> {
    live: &'a Live,
    agent: Option<Agent>,
    random: Random,
    pods: Vec<String>,
    policies: Vec<String>,
    count: usize,
    /// How often each kind of thing has happened.
    kinds: [usize; 8],
}

impl Happenings<'_> {
    /// Some changes of the cluster, one after the other, and now and then somebody who disturbs while they are taken in.
    fn sequence(&mut self) {
        for _ in 0..=self.random.below(6) {
            self.change();
        }
        let kind = match self.random.below(20) {
            0 | 1 => self.kill(),
            2 => self.flush(),
            3 => self.stop_server(),
            _ => return,
        };
        self.kinds[kind] += 1;
    }

    fn change(&mut self) {
        self.count += 1;
        let kind = match self.random.below(16) {
            0..6 => self.add_policy(),
            6..10 => self.remove_policy(),
            10..13 => self.add_pod(),
            13..15 => self.remove_pod(),
            _ => self.label_namespace(),
        };
        self.kinds[kind] += 1;
    }

    /// Allows pods of namespace z something. Those of y never are.
    fn add_policy(&mut self) -> usize {
        let name = format!("random-{}", self.count);
        let pods = ["a", "b", "c"];
        let (subject, peer) = (pods[self.random.below(3)], pods[self.random.below(3)]);
        let port = 1000 + self.random.below(200);
        let from = json!([{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "z"}}, "podSelector": {"matchLabels": {"pod": peer}}}]);
        let spec = json!({
            "podSelector": {"matchLabels": {"pod": subject}},
            "ingress": [{"from": from, "ports": [{"port": port, "protocol": "UDP", "endPort": port + self.random.below(50)}]}],
        });
        self.live.api.create(POLICIES, &network_policy("x", &name, &spec));
        self.policies.push(name);
        0
    }

    fn remove_policy(&mut self) -> usize {
        if !self.policies.is_empty() {
            let at = self.random.below(self.policies.len());
            self.live.api.delete(POLICIES, &self.policies.swap_remove(at));
        }
        1
    }

    /// A pod on the node that is watched, or on another.
    fn add_pod(&mut self) -> usize {
        let name = format!("random-{}", self.count);
        let node = ["lab-1", "lab-2"][self.random.below(2)];
        let label = ["a", "b", "c"][self.random.below(3)];
        let pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"pod": label}},
            "spec": {"nodeName": node, "containers": [{"name": "main", "image": "main"}]},
        });
        self.live.api.create(PODS, &pod);
        let v4 = format!("10.77.{}.{}", self.count / 200, self.count % 200 + 1);
        let v6 = format!("fd77::{:x}", self.count);
        let status = json!({"phase": "Running", "podIP": v4, "podIPs": [{"ip": v4}, {"ip": v6}]});
        self.live.api.set_status(PODS, &name, &status);
        self.pods.push(name);
        2
    }

    fn remove_pod(&mut self) -> usize {
        if !self.pods.is_empty() {
            let at = self.random.below(self.pods.len());
            self.live.api.delete(PODS, &self.pods.swap_remove(at));
        }
        3
    }

    fn label_namespace(&mut self) -> usize {
        let labels = json!({"metadata": {"labels": {"count": self.count.to_string()}}});
        self.live.api.patch("/api/v1/namespaces", "y", &labels);
        4
    }

    fn kill(&mut self) -> usize {
        if let Some(mut agent) = self.agent.take() {
            agent.kill();
        }
        self.agent = Some(self.live.agent(&[]));
        5
    }

    /// While an agent holds the table.
    fn flush(&mut self) -> usize {
        if let Some(agent) = &self.agent {
            agent.until("the first sync", |status| status.ready);
            self.live.nft(&["flush", "ruleset"]);
        }
        6
    }

    fn stop_server(&mut self) -> usize {
        let server = self.live.server.id().to_string();
        let signal = |name: &str| {
            let kill = std::process::Command::new("kill").args([name, &server]).status();
            assert!(kill.unwrap().success());
        };
        signal("-STOP");
        self.kill();
        signal("-CONT");
        7
    }
}

/// Lets pods of namespace z send to pod a of namespace x, and nobody else anybody there.
pub(crate) fn allow(live: &Live, protocol: &str) {
    let from = json!([{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "z"}}}]);
    let spec = json!({
        "podSelector": {"matchLabels": {"pod": "a"}},
        "ingress": [{"from": from, "ports": [{"port": 9000, "protocol": protocol}]}],
    });
    live.api.create(POLICIES, &network_policy("x", "allow", &spec));
}

#[test]
fn nothing_denied_passes_and_nothing_allowed_is_lost_whatever_happens() {
    let live = Live::new(None);
    allow(&live, "UDP");
    let agent = live.agent(&[]);
    agent.until("the policy that allows", |status| {
        status.host.policies.contains(&"NetworkPolicy x/allow".to_owned())
    });
    // Pods a and c of namespace x are on the node.
    let denied = [("y/a", "x/a", 9001), ("y/b", "x/c", 9001), ("z/a", "x/a", 9002)];
    let of_both = |(from, to, port)| {
        Family::BOTH.map(|family| (from, to, Prober::start(&live.lab, family, from, to, port)))
    };
    let denied: Vec<_> = denied.into_iter().flat_map(of_both).collect();
    let allowed = Family::BOTH.map(|family| Prober::start(&live.lab, family, "z/b", "x/a", 9000));
    let mut happenings = Happenings {
        live: &live,
        agent: Some(agent),
        random: Random(5),
        pods: Vec::new(),
        policies: Vec::new(),
        count: 0,
        kinds: [0; 8],
    };
    for _ in 0..300 {
        happenings.sequence();
    }
    assert!(
        happenings.kinds.iter().all(|times| *times > 5),
        "{:?}",
        happenings.kinds
    );
    for prober in allowed {
        let (sent, received) = prober.end_after(1000);
        assert!(received == sent, "{received} of {sent}");
    }
    for (from, to, prober) in denied {
        let (sent, received) = prober.end_after(1000);
        assert!(received == 0, "{from} -> {to}: {received} of {sent}");
    }
    // In the end everything is in force, and that is what the kernel has.
    let others = std::mem::take(&mut happenings.policies);
    drop(happenings);
    let agent = live.agent(&["--verify-interval", "1"]);
    let labels = json!({"metadata": {"labels": {"count": "last"}}});
    let namespace = live.api.patch("/api/v1/namespaces", "y", &labels);
    let version = namespace["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap();
    let status = agent.until_enforced(&[("namespaces".to_owned(), version)].into());
    let enforced = status.host.current.unwrap();
    agent.until("a proof of the end", |status| {
        let proof = status.host.proof.as_ref();
        proof.is_some_and(|proof| proof.proved && proof.when > enforced)
    });
    // And the probers see what passes.
    for policy in others.iter().map(String::as_str).chain(["allow", "deny-ingress"]) {
        live.api.delete(POLICIES, policy);
    }
    for family in Family::BOTH {
        let open = Prober::start(&live.lab, family, "y/b", "x/c", 9001);
        agent.until("a packet that passes", |_| open.has_received());
        open.end_after(0);
    }
}

/// Takes a table as it is, so that the kernel takes no change of it from others until this is dropped.
pub(crate) fn steal(namespace: &NetworkNamespace, name: &Name) -> Client {
    let mut thief = Client::open(namespace).unwrap().holding();
    let (_, Observed::Table(table)) = thief.read(name).unwrap() else {
        panic!("no table");
    };
    thief.sync(&Arc::new(table)).unwrap();
    thief
}

#[test]
fn what_the_kernel_refuses_waits_and_is_named() {
    let live = Live::new(None);
    let agent = live.agent(&["--table-owner", "everybody"]);
    agent.until_enforced(&live.versions);
    let denied = Prober::start(&live.lab, Family::Ipv6, "y/a", "x/a", 9001);
    let thief = steal(live.node(), &indexed::table_name());
    allow(&live, "UDP");
    let status = agent.until("a refusal", |status| status.host.trouble.is_some());
    let trouble = status.host.trouble.unwrap();
    assert!(trouble.why.contains("Operation not permitted"), "{trouble:?}");
    assert_eq!(trouble.waiting, ["NetworkPolicy x/allow"]);
    let (_, metrics) = agent.get("/metrics");
    assert!(metrics.contains("\npicket_policies_waiting 1\n"), "{metrics}");
    assert!(
        metrics.contains("\npicket_failures_total{reason=\"refused\"}"),
        "{metrics}"
    );
    drop(thief);
    let status = agent.until("another attempt", |status| status.host.trouble.is_none());
    assert!(status.host.policies.contains(&"NetworkPolicy x/allow".to_owned()));
    let (sent, received) = denied.end_after(100);
    assert!(received == 0, "{received} of {sent}");
}
