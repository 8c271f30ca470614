//! From one table to the next: what is changed leads to what would be rendered from nothing.

use std::net::{IpAddr, Ipv4Addr};

use picket_cluster::{Event, Object, Pod, Semantics, Snapshot};
use picket_dataplane::{Objects, Plan};
use picket_engine::Engine;
use picket_nftables::diff::Operation;
use picket_nftables::model::{Key, Table, Value};
use picket_nftables::render::indexed::{self, Guard, Options, Renderer, Step};
use picket_policy::Policy;
use picket_testing::generate::{self, Shape, semantics};
use picket_testing::synthetic::{self, Size};
use proptest::prelude::*;

use crate::difference::stages_lead_to;

/// Carries a step out, refusing what the kernel would refuse.
fn carried(table: Option<&Table>, step: Step) -> Result<Table, TestCaseError> {
    match step {
        Step::Whole(table) => Ok(table),
        Step::Next(plan) => Table::applied(table, &plan)
            .map_err(|refusal| TestCaseError::fail(format!("{refusal} in {:#?}", plan.operations()))),
    }
}

/// The table in which sources are judged once more, where that can be.
fn changing(table: &Table) -> Option<Table> {
    let mut sets = table.sets().iter();
    let set = sets.find(|set| set.name().as_str() == "changing")?;
    let element = Key::from(Value::priority(0));
    let begin = Operation::AddElements(set.name().clone(), vec![element]);
    Table::applied(Some(table), &Plan::from_iter([begin])).ok()
}

/// Several events in one step, or each in its own; on one node, or on one that runs every pod. How many of the steps were
/// only what changed.
fn steps(
    engine: &mut Engine,
    events: Vec<Event>,
    at_once: usize,
    node: Option<&str>,
    options: &Options,
) -> Result<usize, TestCaseError> {
    let mut renderer = Renderer::new(node, options.clone());
    let (mut table, mut followed) = (None, 0);
    for events in events.chunks(at_once) {
        for event in events {
            renderer.note(&engine.apply(event.clone()));
        }
        let step = renderer.step(engine.program()).expect("a step");
        followed += usize::from(matches!(step, Step::Next(_)));
        let now = carried(table.as_ref(), step)?;
        let scratch = indexed::render_with(engine.program(), node, options).expect("a table");
        let missing = Table::difference(Some(&now), &scratch);
        prop_assert!(
            missing.is_empty(),
            "after {:?} there is to do {:#?}",
            events,
            missing
        );
        prop_assert_eq!(&now, &scratch);
        if let Some(before) = &table {
            stages_lead_to(before, &now)?;
            if let Some([before, after]) = changing(before).zip(changing(&now)).map(<[_; 2]>::from) {
                stages_lead_to(&before, &now)?;
                stages_lead_to(&before, &after)?;
            }
        }
        table = Some(now);
        let again = renderer.step(engine.program()).expect("a step");
        prop_assert!(
            matches!(&again, Step::Next(plan) if plan.is_empty()),
            "{:?}",
            again
        );
    }
    Ok(followed)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn step_by_step_is_from_nothing(
        events in prop_oneof![generate::events(Shape::Custom, 24), generate::events(Shape::Dialects, 24)],
        semantics in semantics(),
        at_once in 1..4_usize,
        log in any::<bool>(),
        guarded in any::<bool>(),
        node in prop_oneof![Just(None), Just(Some("node-0")), Just(Some("node-1"))],
    ) {
        let options = Options {
            log_denied: log.then_some(7),
            guard: guarded.then(|| Guard { anti_spoof: log, ..Guard::default() }),
        };
        steps(&mut Engine::new(semantics), events, at_once, node, &options)?;
    }
}

/// A pod on another node with the labels of one that is there, next to it.
fn twin(snapshot: &Snapshot) -> Pod {
    let taken: Vec<_> = snapshot
        .pods
        .values()
        .filter_map(|pod| pod.addresses.v4)
        .collect();
    let pods = snapshot.pods.values();
    let mut twin = Pod::clone(pods.last().expect("a pod"));
    let address = twin.addresses.v4.expect("an address").to_bits();
    let mut above = (address + 1..).map(Ipv4Addr::from_bits);
    let free = above
        .find(|address| !taken.contains(address))
        .expect("an address");
    twin.object.name = "twin".into();
    twin.node = Some("elsewhere".into());
    twin.addresses = [IpAddr::from(free)].into_iter().collect();
    twin
}

#[test]
fn a_pod_elsewhere_is_one_element_and_no_policy_touches_everything() {
    let mut snapshot = synthetic::cluster(Size::of(110, 12, 250));
    synthetic::crowd(&mut snapshot, "node-0");
    let mut engine = Engine::compile(&snapshot, Semantics::default());
    let node = Some("node-0");
    let mut renderer = Renderer::new(node, Options::default());
    let mut table = renderer.whole(engine.program()).expect("a table");
    let mut step = |event| {
        renderer.note(&engine.apply(event));
        let Step::Next(plan) = renderer.step(engine.program()).expect("a step") else {
            panic!("all of the table for one event");
        };
        table = Table::applied(Some(&table), &plan).expect("a plan that the kernel takes");
        let scratch = indexed::render(engine.program(), node).expect("a table");
        assert_eq!(table, scratch);
        plan
    };
    let twin = twin(&snapshot);
    let gone = twin.object.clone();
    for event in [Event::Apply(Object::from(twin)), Event::Delete(gone)] {
        let plan = step(event);
        let elements = |operation: &Operation| match operation {
            Operation::DeleteElements(_, keys) => keys.len(),
            Operation::AddMapElements(_, elements) => elements.len(),
            other => panic!("{other:?}"),
        };
        assert_eq!(
            plan.operations().iter().map(elements).sum::<usize>(),
            1,
            "{plan:?}"
        );
    }
    let policies: Vec<_> = snapshot.policies.values().step_by(10).cloned().collect();
    for policy in policies {
        step(Event::Delete(policy.object.clone()));
        step(Event::Apply(Object::Policy(Policy::clone(&policy))));
    }
}
