//! Where Contiv's policy plugin was wrong: what is right, one test each. The letters are those of a list of its defects.
//!
//! Each story is told to an engine event by event, as a cluster tells it. After each step the reference, the lists and the
//! session rules rendered of what the engine knows say the same, and both are proved.

use std::collections::BTreeMap;
use std::sync::Arc;

use picket_cluster::{Event, Object, Semantics, Snapshot};
use picket_engine::{Engine, Program};
use picket_policy::ObjectRef;
use picket_testing::cases::{Step, parse};
use picket_vpp::acl::meaning::Packet;
use picket_vpp::{acl, session};

use crate::journey::Cluster;
use crate::sessions::Sessions;

mod changes;
mod peers;
mod ports;
mod tables;

/// Two nodes, of which the first has the address that its pods have when they reach themselves through a service.
const NODES: &str = "\
apiVersion: v1
kind: Node
metadata: {name: n1}
status: {addresses: [{type: InternalIP, address: 192.168.16.1}, {type: ExternalIP, address: 10.1.1.254}]}
---
apiVersion: v1
kind: Node
metadata: {name: n2}
status: {addresses: [{type: InternalIP, address: 192.168.16.2}]}";

/// What exists one after the other, and what must hold then, in the form of the project's cases.
pub(crate) struct Story(String);

/// A story that begins with two nodes.
pub(crate) fn story() -> Story {
    Story("## A story\n".to_owned()).with(&[NODES.to_owned()])
}

/// A pod `namespace/name` on node `n1`, or on `n2` where its address begins with `10.1.2.`; labels and ports in YAML.
pub(crate) fn pod(id: &str, address: &str, labels: &str, ports: &str) -> String {
    let (namespace, name) = id.split_once('/').expect("namespace/name");
    let node = if address.starts_with("10.1.2.") {
        "n2"
    } else {
        "n1"
    };
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: {namespace}, labels: {{{labels}}}}}\n\
         spec: {{nodeName: {node}, containers: [{{name: c, ports: [{ports}]}}]}}\nstatus: {{podIP: {address}}}"
    )
}

/// A namespace with labels in YAML.
pub(crate) fn namespace(name: &str, labels: &str) -> String {
    format!("apiVersion: v1\nkind: Namespace\nmetadata: {{name: {name}, labels: {{{labels}}}}}")
}

/// A NetworkPolicy `default/p` with this specification in YAML.
pub(crate) fn policy(spec: &str) -> String {
    format!(
        "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{name: p, namespace: default}}\nspec: {{{spec}}}"
    )
}

impl Story {
    /// Objects appear, or change.
    pub(crate) fn with(mut self, objects: &[String]) -> Self {
        self.0 += &format!("```yaml\n{}\n```\n", objects.join("\n---\n"));
        self
    }

    /// An object goes: `Kind namespace/name`.
    pub(crate) fn without(mut self, object: &str) -> Self {
        self.0 += &format!("```delete\n{object}\n```\n");
        self
    }

    /// What must hold now.
    pub(crate) fn then(mut self, verdicts: &str) -> Self {
        let lines: Vec<_> = verdicts.lines().map(str::trim).collect();
        self.0 += &format!("```verdicts\n{}\n```\n", lines.join("\n"));
        self
    }

    /// Tells it, and has a look after each step.
    pub(crate) fn each(self, mut look: impl FnMut(&Snapshot, &Program)) {
        let file = parse(&Arc::from("a story"), &self.0, Vec::new()).expect("a story");
        let mut engine = Engine::new(Semantics::default());
        let mut known = BTreeMap::new();
        let steps = &file.cases.first().expect("a case").steps;
        assert!(!steps.is_empty(), "nothing is said to hold");
        for step in steps {
            let snapshot = step.snapshot();
            known = tell(&mut engine, &known, &snapshot);
            hold(step, &snapshot, engine.program());
            look(&snapshot, engine.program());
        }
    }

    /// Tells it: in each step what must hold does.
    pub(crate) fn holds(self) {
        self.each(|_, _| {});
    }
}

/// Tells an engine what is different, event by event.
fn tell(
    engine: &mut Engine,
    known: &BTreeMap<ObjectRef, Object>,
    snapshot: &Snapshot,
) -> BTreeMap<ObjectRef, Object> {
    let namespaces = snapshot.namespaces.values().cloned().map(Object::Namespace);
    let nodes = snapshot.nodes.values().cloned().map(Object::Node);
    let pods = snapshot.pods.values().cloned().map(Object::Pod);
    let policies = snapshot.policies.values();
    let policies = policies.map(|policy| Object::Policy(policy.as_ref().clone()));
    let objects = namespaces.chain(nodes).chain(pods).chain(policies);
    let objects: BTreeMap<_, _> = objects.map(|object| (object.object_ref(), object)).collect();
    for gone in known.keys().filter(|object| !objects.contains_key(object)) {
        engine.apply(Event::Delete(gone.clone()));
    }
    for (name, object) in &objects {
        if known.get(name) != Some(object) {
            engine.apply(Event::Apply(object.clone()));
        }
    }
    objects
}

/// What must hold in a step does: by the reference, by lists and by session rules.
fn hold(step: &Step, snapshot: &Snapshot, program: &Program) {
    let lists = Cluster::of(snapshot, program);
    for (node, acls) in &lists.acls {
        let report = acl::verify::verify(
            acls,
            program,
            node.as_deref(),
            |pod| vec![pod.pod().id().into()],
            3,
        );
        assert!(
            report.is_proof(),
            "{:?}\n{}",
            report.counterexamples,
            acl::text(acls)
        );
    }
    let rules = Sessions::of(snapshot, program, &session::Options::default(), 0);
    for (node, layer) in &rules.layers {
        let report = session::verify::verify(&layer.rules, program, node.as_deref(), &layer.except(), 3);
        assert!(
            report.is_proof(),
            "{:?}\n{}",
            report.counterexamples,
            rules.text()
        );
    }
    for expectation in &step.expectations {
        let flows = expectation.flows(snapshot);
        assert!(!flows.is_empty(), "{expectation:?} is about nothing");
        for flow in flows {
            let expected = expectation.verdict.is_allow();
            let reference = picket_reference::judge(snapshot, &Semantics::default(), &flow);
            assert_eq!(reference.verdict().is_allow(), expected, "reference: {flow:?}");
            let hops = lists.hops(&flow).expect("a way");
            let ends = [&flow.source, &flow.destination].map(|end| lists.address(end, &flow));
            let packet = Packet::opening(ends[0], ends[1], flow.protocol, flow.port);
            let mut running = lists.start();
            assert_eq!(running.passes(&hops, &packet), expected, "lists: {flow:?}");
            let answered = running.answers(&hops, &packet, &packet);
            assert!(answered || !expected, "no answer: {flow:?}");
            if let Some(outcome) = rules.judge(&flow) {
                assert_eq!(outcome.passes, expected, "rules: {flow:?}\n{}", rules.text());
            }
        }
    }
}
