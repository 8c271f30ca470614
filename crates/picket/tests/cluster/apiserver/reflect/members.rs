//! An etcd of three members of which some are killed: whoever writes and whoever reads goes on with the others.

use std::process::Command;

use picket_node::Source;
use picket_testing::etcd::Etcd;
use serde_json::json;

use super::{fill, leads, printed, until_equal};
use crate::apiserver::etcd::etcd;
use crate::client::serve;
use crate::following::Following;
use crate::objects::pod;
use crate::reflectors::Reflector;

#[test]
fn members_that_are_killed_cost_nothing_but_time() {
    let (_server, kubeconfig, api) = serve();
    fill(&api);
    let mut members = Etcd::start_three();
    // Both a reader and the reflector begin with the first that is named.
    members.sort_by_key(|member| !member.leads());
    let named: Vec<_> = members.iter().map(Etcd::endpoint).collect();
    let mut command = Command::new(env!("CARGO_BIN_EXE_picket"));
    command.args(["reflect", "--etcd-endpoints", &named.join(",")]);
    let reflector = Reflector::run(&kubeconfig, command);
    let mut readers = [0, 1, 2].map(|first| {
        let mut endpoints = named.clone();
        endpoints.rotate_left(first);
        Following::of(Source::Etcd(etcd(endpoints)), None)
    });
    readers.iter_mut().for_each(Following::until_complete);
    until_equal(&mut readers, &kubeconfig, "what is there");
    reflector.until("it leads", leads);
    assert!(members[0].leads(), "the first has not lost the others meanwhile");
    let change = |number: usize| {
        pod(
            &api,
            "shop",
            &format!("web-{number}"),
            &format!("10.0.1.{}", number + 1),
            &json!({}),
        );
        if number > 0 {
            api.delete("/api/v1/namespaces/shop/pods", &format!("web-{}", number - 1));
        }
    };
    for round in 0..4 {
        // In turn the one that leads the others, and one that does not.
        let place = members
            .iter()
            .position(|member| member.leads() == (round % 2 == 0));
        let killed = &mut members[place.unwrap()];
        killed.kill();
        change(round);
        until_equal(&mut readers, &kubeconfig, "what changed without one of three");
        killed.restart();
    }
    // One alone may not say anything: what was known holds.
    let before = readers[0].snapshot();
    let [first, second, _] = &mut members;
    first.kill();
    second.kill();
    for reader in &mut readers {
        reader.until_health(|kinds| kinds["etcd"].trouble.is_some());
        assert_eq!(reader.snapshot(), before);
    }
    reflector.until("it notices", |reflector| !leads(reflector));
    change(4);
    first.restart();
    until_equal(&mut readers, &kubeconfig, "what changed without two of three");
    second.restart();
    for reader in &readers {
        assert_eq!(reader.health.kinds()["pods"].lists, 1, "all of it came as events");
        let gone = reader
            .events
            .iter()
            .filter(|event| matches!(event, picket_cluster::Event::Delete(_)));
        assert_eq!(gone.count(), 4, "{:#?}", reader.events);
    }
    printed(
        &kubeconfig,
        &["reflect", "--dry-run", "--etcd-endpoints", &named.join(",")],
        "",
    );
}
