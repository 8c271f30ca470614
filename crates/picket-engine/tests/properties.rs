//! Whatever happens to a cluster, the engine says what the reference says, and what it would say had it compiled the
//! cluster from nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use picket_cluster::{Endpoint, Event, Flow, Judgement, Object, Semantics, Snapshot, Store, Verdict};
use picket_engine::{AllowSet, Change, Comings, Delta, Engine, Identity, Program, SubjectId, equivalent};
use picket_net::{Family, Prefix};
use picket_policy::{Direction, NetworkName, Networks};
use picket_testing::flows::representative_flows;
use picket_testing::generate::{self, Shape, semantics};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

/// What the allow sets say of a flow, with the rules beside them, as a dataplane applies them.
fn by_allow_sets(program: &Program, flow: &Flow, if_enforced: bool) -> (Verdict, Verdict) {
    let end = |own: &Endpoint, other: &Endpoint, direction: Direction| {
        let Endpoint::Pod(object) = own else {
            return Verdict::Allow;
        };
        let Some(pod) = program.pod(object).filter(|pod| pod.is_managed()) else {
            return Verdict::Allow;
        };
        if own == other {
            return Verdict::Allow;
        }
        let Some(subject) = pod.subject(direction) else {
            return Verdict::Allow;
        };
        let Some(peer) = identity(program, other, flow.family) else {
            return Verdict::Allow;
        };
        let allowed = match (program.is_own_node(pod.pod(), other), if_enforced) {
            (true, false) => program.own_node_allow_set(subject),
            (false, false) => program.allow_set(subject),
            (true, true) => program.own_node_allow_set_if_enforced(subject),
            (false, true) => program.allow_set_if_enforced(subject),
        };
        let traffic = allowed.traffic(peer);
        Verdict::from_allowed(traffic.is_some_and(|traffic| traffic.contains(flow.protocol, flow.port)))
    };
    (
        end(&flow.source, &flow.destination, Direction::Egress),
        end(&flow.destination, &flow.source, Direction::Ingress),
    )
}

/// `None` for a hostNetwork pod: its address is a node's, and policies may tell the two apart.
fn identity(program: &Program, endpoint: &Endpoint, family: Family) -> Option<Identity> {
    match endpoint {
        Endpoint::Pod(object) => program.pod(object)?.identity(family),
        Endpoint::Node { address, .. } | Endpoint::External(address) => Some(program.identity_of(*address)),
    }
}

/// Gives pods one of three addresses, as if clusters reused them at once.
fn crowd(event: Event) -> Event {
    match event {
        Event::Apply(Object::Pod(mut pod)) if !pod.host_network => {
            if let Some(address) = &mut Arc::make_mut(&mut pod).addresses.v4 {
                let [.., last] = address.octets();
                *address = [10, 0, 0, last % 3].into();
            }
            Event::Apply(Object::Pod(pod))
        }
        other => other,
    }
}

/// Peers of one part get the same verdicts from the same causes.
fn causes_are_alike(snapshot: &Snapshot, program: &Program) -> Result<(), TestCaseError> {
    let mut parts: BTreeMap<SubjectId, Vec<u32>> = BTreeMap::new();
    let mut known = BTreeMap::new();
    for flow in representative_flows(snapshot) {
        let judgement = program.judge(&flow);
        for direction in Direction::BOTH {
            let (own, other, end) = match direction {
                Direction::Egress => (&flow.source, &flow.destination, &judgement.egress),
                Direction::Ingress => (&flow.destination, &flow.source, &judgement.ingress),
            };
            let Endpoint::Pod(object) = own else { continue };
            let Some(pod) = program.pod(object).filter(|_| own != other) else {
                continue;
            };
            let (Some(subject), Some(peer)) = (pod.subject(direction), identity(program, other, flow.family))
            else {
                continue;
            };
            if program.is_own_node(pod.pod(), other) {
                continue;
            }
            let parts = parts.entry(subject).or_insert_with(|| program.alike_for(subject));
            let part = parts.get(peer.number() as usize).copied();
            let key = (subject, part, flow.protocol, flow.port);
            let said = known.entry(key).or_insert_with(|| end.clone());
            prop_assert_eq!(&*said, end, "{:?}", flow);
        }
    }
    Ok(())
}

fn judged_alike(snapshot: &Snapshot, semantics: &Semantics, program: &Program) -> Result<(), TestCaseError> {
    let mut judged: BTreeMap<&Flow, [Judgement; 2]> = BTreeMap::new();
    let flows = representative_flows(snapshot);
    let enforced = snapshot.enforced();
    for flow in &flows {
        let expected = picket_reference::judge(snapshot, semantics, flow);
        prop_assert_eq!(program.judge(flow), expected.clone(), "{:?}", flow);
        let strict = picket_reference::judge(&enforced, semantics, flow);
        for (now, strict) in [
            (&expected.egress, &strict.egress),
            (&expected.ingress, &strict.ingress),
        ] {
            let allowed = (now.verdict.is_allow(), strict.verdict.is_allow());
            prop_assert!(
                allowed != (false, true),
                "denied because a policy is audited: {:?}",
                flow
            );
            let audited = if allowed == (true, false) {
                &strict.causes[..]
            } else {
                &[]
            };
            prop_assert_eq!(&now.audited[..], audited, "{:?}", flow);
        }
        judged.insert(flow, [expected, strict]);
    }
    for (flow, judgements) in judged {
        let host_network = [&flow.source, &flow.destination]
            .into_iter()
            .any(|end| match end {
                Endpoint::Pod(object) => snapshot.pods.get(object).is_some_and(|pod| pod.host_network),
                _ => false,
            });
        if !host_network {
            for (expected, if_enforced) in judgements.into_iter().zip([false, true]) {
                prop_assert_eq!(
                    by_allow_sets(program, flow, if_enforced),
                    (expected.egress.verdict, expected.ingress.verdict),
                    "if enforced {}: {:?}",
                    if_enforced,
                    flow
                );
            }
        }
    }
    Ok(())
}

fn allow_sets(program: &Program, subject: SubjectId) -> [Arc<AllowSet>; 4] {
    [
        program.allow_set(subject),
        program.own_node_allow_set(subject),
        program.allow_set_if_enforced(subject),
        program.own_node_allow_set_if_enforced(subject),
    ]
}

/// What a delta must account for.
struct Accounts {
    addresses: BTreeMap<IpAddr, Identity>,
    identities: BTreeSet<Identity>,
    subjects: BTreeMap<SubjectId, [Arc<AllowSet>; 4]>,
    prefixes: BTreeMap<Prefix, Identity>,
}

impl Accounts {
    fn of(program: &Program) -> Self {
        let pods = program.pods().filter(picket_engine::PodRef::is_managed);
        let pods = pods.flat_map(|pod| pod.pod().addresses.iter().collect::<Vec<_>>());
        let nodes = program.nodes().flat_map(|node| node.addresses.iter().copied());
        let allowed = |subject| allow_sets(program, subject);
        Self {
            addresses: pods
                .chain(nodes)
                .map(|own| (own, program.identity_of(own)))
                .collect(),
            identities: program.identities().collect(),
            subjects: program
                .subjects()
                .map(|(subject, _)| (subject, allowed(subject)))
                .collect(),
            prefixes: program.prefixes().into_iter().collect(),
        }
    }

    /// Whether `delta` says how these became `after`, no more and no less; but a subject that it names may say the same.
    fn become_by(&self, delta: &Delta, after: &Self) -> Result<(), TestCaseError> {
        prop_assert_eq!(
            changes(&self.addresses, &after.addresses),
            delta.addresses.clone()
        );
        prop_assert_eq!(changes(&self.prefixes, &after.prefixes), delta.prefixes.clone());
        let comings = |before: &BTreeSet<_>, after: &BTreeSet<_>| Comings {
            added: after.difference(before).copied().collect(),
            removed: before.difference(after).copied().collect(),
        };
        prop_assert_eq!(
            comings(&self.identities, &after.identities),
            delta.identities.clone()
        );
        let keys = |of: &Self| of.subjects.keys().copied().collect::<BTreeSet<_>>();
        let (ours, theirs) = (keys(self), keys(after));
        prop_assert_eq!(
            theirs.difference(&ours).copied().collect::<Vec<_>>(),
            delta.subjects.added.clone()
        );
        prop_assert_eq!(
            ours.difference(&theirs).copied().collect::<Vec<_>>(),
            delta.subjects.removed.clone()
        );
        for (subject, now) in &after.subjects {
            let Some(before) = self
                .subjects
                .get(subject)
                .filter(|_| !delta.changed_subjects.contains(subject))
            else {
                continue;
            };
            for (before, now) in before.iter().zip(now) {
                for &identity in self.identities.intersection(&after.identities) {
                    prop_assert_eq!(
                        before.traffic(identity),
                        now.traffic(identity),
                        "{} {}",
                        subject,
                        identity
                    );
                }
            }
        }
        Ok(())
    }
}

fn changes<K: Ord + Copy>(
    before: &BTreeMap<K, Identity>,
    after: &BTreeMap<K, Identity>,
) -> Vec<Change<K, Identity>> {
    let keys: BTreeSet<K> = before.keys().chain(after.keys()).copied().collect();
    let changes = keys.into_iter().map(|key| Change {
        key,
        before: before.get(&key).copied(),
        after: after.get(&key).copied(),
    });
    changes.filter(|change| change.before != change.after).collect()
}

/// Everything of a program that a delta reports on, by name.
fn visible(program: &Program) -> BTreeMap<String, String> {
    let mut seen = BTreeMap::new();
    for pod in program.pods().filter(picket_engine::PodRef::is_managed) {
        let state = (
            pod.pod().addresses,
            pod.pod().node.clone(),
            Family::BOTH.map(|family| pod.identity(family)),
            Direction::BOTH.map(|direction| pod.subject(direction)),
        );
        seen.insert(format!("pod {}", pod.pod().object), format!("{state:?}"));
    }
    for node in program.nodes() {
        let identities: Vec<_> = node
            .addresses
            .iter()
            .map(|&own| (own, program.identity_of(own)))
            .collect();
        seen.insert(format!("node {}", node.name), format!("{identities:?}"));
    }
    for (prefix, identity) in program.prefixes() {
        seen.insert(format!("prefix {prefix}"), identity.to_string());
    }
    let identities: Vec<_> = program.identities().collect();
    seen.insert("identities".to_owned(), format!("{identities:?}"));
    for (subject, direction) in program.subjects() {
        let allowed = allow_sets(program, subject);
        seen.insert(format!("subject {subject}"), format!("{direction} {allowed:?}"));
    }
    seen
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 128,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct("tests/properties.proptest-regressions"))),
        ..ProptestConfig::default()
    })]

    #[test]
    fn the_engine_says_what_the_reference_says(
        snapshot in prop_oneof![generate::snapshot(Shape::Custom, 5), generate::snapshot(Shape::Dialects, 5)],
        semantics in semantics(),
    ) {
        let engine = Engine::compile(&snapshot, semantics.clone());
        judged_alike(&snapshot, &semantics, engine.program())?;
        causes_are_alike(&snapshot, engine.program())?;
    }

    #[test]
    fn incremental_is_from_scratch(
        events in prop_oneof![generate::events(Shape::Custom, 16), generate::events(Shape::Dialects, 16)],
        semantics in semantics(),
        crowded in any::<bool>(),
        seldom in 1..8usize,
    ) {
        let (mut store, mut engine) = (Store::new(), Engine::new(semantics.clone()));
        // Of this one nobody asks what it allows but now and then.
        let mut reticent = Engine::new(semantics.clone());
        let mut seen = visible(engine.program());
        let mut accounts = Accounts::of(engine.program());
        for (at, event) in events.into_iter().enumerate() {
            let event = if crowded { crowd(event) } else { event };
            store.apply(event.clone());
            reticent.apply(event.clone());
            if at % seldom == 0 {
                reticent.program().expand();
            }
            let delta = engine.apply(event.clone());
            let now = Accounts::of(engine.program());
            accounts.become_by(&delta, &now)?;
            let endpoints: BTreeMap<_, _> = engine.program().endpoints().collect();
            prop_assert_eq!(&endpoints, &now.addresses);
            accounts = now;
            let scratch = Engine::compile(&store.snapshot(), semantics.clone());
            prop_assert!(equivalent(engine.program(), scratch.program()), "after {:?}", event);
            prop_assert_eq!(
                engine.program().identities().count(),
                scratch.program().identities().count(),
                "after {:?}", event
            );
            prop_assert_eq!(engine.program().subjects().count(), scratch.program().subjects().count());
            let now = visible(engine.program());
            if delta.is_empty() {
                prop_assert_eq!(&seen, &now, "after {:?}", event);
            }
            prop_assert_eq!(engine.apply(event), Delta::default());
            prop_assert_eq!(&now, &visible(engine.program()));
            seen = now;
        }
        prop_assert_eq!(&visible(reticent.program()), &seen);
        judged_alike(&store.snapshot(), &semantics, engine.program())?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 32,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct("tests/properties.proptest-regressions"))),
        ..ProptestConfig::default()
    })]

    /// From one state to any other lead the events that are the difference.
    #[test]
    fn the_difference_leads_from_one_state_to_another(
        before in generate::events(Shape::Dialects, 16),
        after in generate::events(Shape::Dialects, 16),
        semantics in semantics(),
    ) {
        let mut store = Store::new();
        before.into_iter().for_each(|event| store.apply(event));
        let before = store.snapshot();
        after.into_iter().for_each(|event| store.apply(event));
        for (from, to) in [(&before, &store.snapshot()), (&store.snapshot(), &before)] {
            let (mut led, mut engine) = (Store::new(), Engine::new(semantics.clone()));
            let all = Snapshot::default().events_to(from).into_iter().chain(from.events_to(to));
            for event in all {
                led.apply(event.clone());
                engine.apply(event);
            }
            prop_assert_eq!(&led.snapshot(), to);
            prop_assert!(equivalent(engine.program(), Engine::compile(to, semantics.clone()).program()));
        }
    }

    /// Networks come onto a wire and leave it, as their definitions come, change and go.
    #[test]
    fn incremental_is_from_scratch_on_every_wire(
        cluster in generate::cluster(),
        policies in generate::policies(Shape::Dialects, 8),
        events in generate::events(Shape::Dialects, 16),
        semantics in semantics(),
    ) {
        let objects = cluster.into_iter().chain(policies.into_iter().map(Object::Policy));
        let objects = objects.map(Event::Apply);
        let mut store = Store::new();
        let mut known: BTreeMap<NetworkName, (Snapshot, Engine)> = BTreeMap::new();
        for event in objects.chain(events) {
            store.apply(event);
            let snapshot = store.snapshot();
            for network in snapshot.known_networks() {
                let now = snapshot.on(&network);
                let fresh = || (Snapshot::default(), Engine::new(semantics.clone()));
                let (before, engine) = known.entry(network).or_insert_with(fresh);
                for event in before.events_to(&now) {
                    engine.apply(event);
                }
                *before = now;
            }
        }
        for (now, engine) in known.values() {
            let scratch = Engine::compile(now, semantics.clone());
            prop_assert!(equivalent(engine.program(), scratch.program()));
            prop_assert_eq!(engine.program().identities().count(), scratch.program().identities().count());
            prop_assert_eq!(engine.program().subjects().count(), scratch.program().subjects().count());
            prop_assert_eq!(&engine.program().snapshot(), now);
            for pod in now.pods.values() {
                let of_same = now.pods.values().filter(|other| other.is_same_pod(pod));
                let of_same: Vec<_> = of_same.map(|other| &other.object).collect();
                let endpoints = engine.program().endpoints_of(pod.whole());
                prop_assert_eq!(endpoints.map(|own| &own.pod().object).collect::<Vec<_>>(), of_same);
            }
            for flow in representative_flows(now) {
                let expected = picket_reference::judge(now, &semantics, &flow);
                prop_assert_eq!(engine.program().judge(&flow), expected, "{:?}", flow);
            }
        }
    }
}

/// What the property above is about is not rare.
#[test]
fn wires_hold_several_networks() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut shared, mut lent, mut apart) = (0, 0, 0);
    for _ in 0..256 {
        let clusters = generate::snapshot(Shape::Dialects, 8);
        let snapshot = clusters.new_tree(&mut runner).unwrap().current();
        for network in snapshot.known_networks() {
            let seen = snapshot.on(&network);
            let others = seen.pods.values().filter_map(|pod| pod.interface.as_ref());
            shared += others.filter(|own| own.network != network).count();
            for policy in seen.policies.values() {
                if let Networks::Among(named) = &policy.networks {
                    lent += usize::from(named.len() > 1);
                    apart += usize::from(named.len() < snapshot.on_wire_of(&network).len());
                }
            }
        }
    }
    assert!(
        shared > 50 && lent > 20 && apart > 50,
        "{shared} interfaces of other networks, {lent} policies about several of a wire, {apart} not about all"
    );
}

#[test]
fn repeated_compiles_give_the_same_numbers() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    for _ in 0..8 {
        let snapshot = generate::snapshot(Shape::Custom, 5)
            .new_tree(&mut runner)
            .unwrap()
            .current();
        let [one, other] = [0, 1].map(|_| Engine::compile(&snapshot, Semantics::default()));
        assert_eq!(visible(one.program()), visible(other.program()));
    }
}
