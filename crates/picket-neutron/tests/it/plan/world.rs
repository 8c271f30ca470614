//! Small clusters, and what leads from one to another.

use std::collections::BTreeMap;

use picket_cluster::{Object, Semantics, Snapshot};
use picket_engine::Engine;
use picket_net::{Family, Protocol};
use picket_neutron::plan::{ForeignGroups, Id, Plan, text};
use picket_neutron::{Name, Objects, Options, Remote, SecurityGroupRule, render};
use picket_policy::{Direction, ObjectRef};
use picket_testing::build::{PodBuilder, PolicyBuilder, accept, ip, namespace, pod, pods_in, policy};

use super::fake::{Fake, port_of};
use super::watch::{Seen, watch};

pub(crate) fn wanted(snapshot: &Snapshot) -> Objects {
    let engine = Engine::compile(snapshot, Semantics::default());
    render(engine.program(), &Options::default()).objects
}

/// Gives ports without groups to pods that have none.
pub(crate) fn give_ports(fake: &mut Fake, objects: &Objects) {
    for (pod, port) in &objects.ports {
        let id = port_of(pod);
        if !fake.installed.ports.contains_key(&id) {
            fake.add_port(&id, port.fixed_ips.clone(), &[]);
        }
    }
}

/// A Neutron that has what a cluster wants.
pub(crate) fn with(snapshot: &Snapshot) -> Fake {
    let mut fake = Fake::default();
    to(&mut fake, snapshot);
    fake
}

/// Carries out what leads to a cluster, without opening anything.
pub(crate) fn to(fake: &mut Fake, snapshot: &Snapshot) -> (Plan, Seen) {
    let objects = wanted(snapshot);
    give_ports(fake, &objects);
    let plan = fake.plan(&objects, ForeignGroups::Remove);
    let seen = watch(fake, &plan, &[ip("192.0.2.1")], 1);
    assert_eq!(seen.opened, Vec::<String>::new(), "{}", text(&plan));
    let again = fake.plan(&objects, ForeignGroups::Remove);
    assert!(again.is_empty(), "{}", text(&again));
    (plan, seen)
}

/// The calls that lead from one cluster to another, none of which cuts what both allow.
pub(crate) fn calls(before: &Snapshot, after: &Snapshot) -> BTreeMap<&'static str, usize> {
    let (plan, seen) = to(&mut with(before), after);
    assert_eq!(seen.cut, 0, "{}", text(&plan));
    plan.calls()
}

pub(crate) fn role(name: &str, role: &str, last: u8) -> PodBuilder {
    pod(&format!("x/{name}"))
        .label("role", role)
        .ip(&format!("10.0.0.{last}"))
}

/// Lets `peer` reach `role`, and nobody else.
pub(crate) fn only(name: &str, role: &str, peer: &str, port: u16) -> PolicyBuilder {
    let rule = accept()
        .peer(pods_in("x", &format!("role={peer}")))
        .port(Protocol::TCP, port);
    policy(&format!("x/{name}"))
        .selects(&format!("role={role}"))
        .ingress(rule)
}

pub(crate) fn some() -> Vec<Object> {
    vec![
        namespace("x").into(),
        role("db", "db", 1).into(),
        role("web", "web", 2).into(),
        role("other", "other", 3).into(),
        only("p", "db", "web", 80).into(),
    ]
}

/// Those, with others instead of those of the same name, and besides.
pub(crate) fn and(objects: impl IntoIterator<Item = Object>) -> Snapshot {
    some().into_iter().chain(objects).collect()
}

pub(crate) fn id_of(fake: &Fake, name: &str) -> Id {
    let mut groups = fake.installed.security_groups.iter();
    let found = groups.find(|(_, group)| group.name == name);
    found.unwrap_or_else(|| panic!("no group {name}")).0.clone()
}

pub(crate) fn port(name: &str) -> Id {
    port_of(&ObjectRef::new("Pod", "x", name))
}

pub(crate) fn groups_of(fake: &Fake, name: &str) -> Vec<Name> {
    let groups = fake.installed.ports[&port(name)].security_groups.iter();
    let name = |id: &Id| fake.installed.security_groups[id].name.clone();
    groups.map(name).collect()
}

pub(crate) fn everything(direction: Direction, remote: Remote) -> SecurityGroupRule {
    SecurityGroupRule {
        direction,
        ethertype: Family::Ipv4,
        protocol: None,
        ports: None,
        remote,
    }
}
