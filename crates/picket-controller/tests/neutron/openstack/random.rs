//! Random events.

use std::cell::Cell;

use picket_cluster::{Event, Object, Snapshot, Store};
use picket_testing::generate::{Shape, cluster, events, policies};
use proptest::prelude::{Just, Strategy, prop_oneof};
use proptest::test_runner::{Config, TestRunner};

use super::scene::Scene;

/// How many sequences there are unless `PICKET_NEUTRON_SEQUENCES` says otherwise.
const SEQUENCES: u32 = 20;

/// How many events there are between two looks.
const BETWEEN: usize = 3;

#[test]
fn after_any_events_neutron_means_what_the_specification_says() {
    let count = std::env::var("PICKET_NEUTRON_SEQUENCES").ok();
    let cases = count.map_or(SEQUENCES, |count| count.parse().unwrap());
    let scene = Scene::new();
    let looks = Cell::new(0);
    let config = Config {
        cases,
        // Another try would begin where the failure has left Neutron.
        max_shrink_iters: 0,
        failure_persistence: None,
        ..Config::default()
    };
    let shape = prop_oneof![3 => Just(Shape::V1), 1 => Just(Shape::Dialects)];
    let sequences = shape.prop_flat_map(|shape| (cluster(), policies(shape, 3), events(shape, 6)));
    TestRunner::new(config)
        .run(&sequences, |(cluster, policies, events)| {
            let mut store = Store::new();
            let policies = policies.into_iter().map(Object::Policy);
            for object in cluster.into_iter().chain(policies) {
                store.apply(Event::Apply(object));
            }
            look(&scene, &store.snapshot());
            for some in events.chunks(BETWEEN) {
                for event in some {
                    store.apply(event.clone());
                }
                look(&scene, &store.snapshot());
                looks.set(looks.get() + 1);
            }
            Ok(())
        })
        .unwrap();
    assert!(looks.get() >= cases, "{}", looks.get());
}

fn look(scene: &Scene, snapshot: &Snapshot) {
    let snapshot = scene.written(snapshot);
    scene.give_ports(&snapshot);
    scene.sync().unwrap();
    scene.expect(&snapshot);
    assert_eq!(scene.sync().unwrap().steps, Vec::<String>::new());
    // Nobody reads what was asked.
    let _ = scene.writes();
}
