//! For random clusters, policies, events, and damage that somebody has done.

use std::collections::BTreeSet;
use std::net::IpAddr;

use picket_cluster::{Event, Object, Semantics, Snapshot, Store};
use picket_engine::Engine;
use picket_net::{Family, PortRange, Protocol};
use picket_neutron::plan::{ForeignGroups, Held, Id, InstalledRule, Plan, Step, text};
use picket_neutron::{Name, Objects, Options, Remote, SecurityGroupRule, render};
use picket_policy::Direction;
use picket_testing::flows::external_addresses;
use picket_testing::generate::{Shape, cluster, events, policies, together};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestCaseError;

use super::fake::{Fake, port_of};
use super::watch::{watch, watch_to};

fn rendered(snapshot: &Snapshot, address_groups: bool) -> Objects {
    let options = Options {
        address_groups,
        ..Options::default()
    };
    let engine = Engine::compile(snapshot, Semantics::default());
    render(engine.program(), &options).objects
}

/// What somebody else does to groups and ports, or what a crash leaves.
#[derive(Clone, Debug)]
struct Damage {
    kind: u8,
    group: Index,
    other: Index,
    port: Index,
    rule: SecurityGroupRule,
}

fn rule() -> impl Strategy<Value = SecurityGroupRule> {
    let traffic = prop_oneof![
        Just((None, None)),
        Just((Some(Protocol::UDP), None)),
        (1..100u16).prop_map(|port| (Some(Protocol::TCP), PortRange::new(port, port + 30))),
    ];
    (any::<bool>(), any::<bool>(), traffic).prop_map(|(ingress, v4, (protocol, ports))| SecurityGroupRule {
        direction: if ingress {
            Direction::Ingress
        } else {
            Direction::Egress
        },
        ethertype: if v4 { Family::Ipv4 } else { Family::Ipv6 },
        protocol,
        ports,
        remote: Remote::Anyone,
    })
}

fn damage() -> impl Strategy<Value = Damage> {
    let indices = (any::<Index>(), any::<Index>(), any::<Index>());
    (0..14u8, indices, rule()).prop_map(|(kind, (group, other, port), rule)| Damage {
        kind,
        group,
        other,
        port,
        rule,
    })
}

impl Damage {
    fn is_done_to(&self, fake: &mut Fake) {
        let groups: Vec<Id> = fake.installed.security_groups.keys().cloned().collect();
        let ports: Vec<Id> = fake.installed.ports.keys().cloned().collect();
        if groups.is_empty() || ports.is_empty() {
            return;
        }
        let (group, other) = (self.group.get(&groups).clone(), self.other.get(&groups).clone());
        let port = self.port.get(&ports);
        let about = |remote| SecurityGroupRule {
            remote,
            ..self.rule.clone()
        };
        let is_there = |fake: &mut Fake, rule: &SecurityGroupRule| {
            let known = InstalledRule::Known(rule.clone());
            fake.group(&group).rules.values().any(|rule| *rule == known)
        };
        let give = |fake: &mut Fake, id: &Id| {
            let port = fake.installed.ports.get_mut(port).expect("a port");
            port.security_groups.insert(id.clone());
        };
        match self.kind {
            0 => fake.lose_group(&group),
            1 if !is_there(fake, &self.rule) => {
                fake.add_rule(&group, self.rule.clone());
            }
            2 | 3 => {
                let rule = about(Remote::Group(other));
                if !is_there(fake, &rule) {
                    fake.add_rule(&group, rule);
                }
            }
            4 => fake.add_strange(&group, about(Remote::Group(other))),
            5 => {
                let rules: Vec<_> = fake.group(&group).rules.keys().cloned().collect();
                if !rules.is_empty() {
                    let rule = self.other.get(&rules);
                    fake.group(&group).rules.remove(rule);
                }
            }
            6 | 7 => {
                let foreign = fake.add_group("somebody's", &[]);
                fake.add_rule(&foreign, self.rule.clone());
                let lent = fake.add_rule(&foreign, about(Remote::Group(foreign.clone())));
                if self.kind == 7 {
                    fake.group(&foreign).rules.remove(&lent);
                    fake.add_rule(&group, about(Remote::Group(foreign.clone())));
                }
                give(fake, &foreign);
            }
            8 => {
                let port = fake.installed.ports.get_mut(port).expect("a port");
                port.security_groups.remove(&group);
            }
            9 => give(fake, &group),
            10 => {
                let mut groups = fake.installed.address_groups.values_mut();
                if let Some(group) = groups.next() {
                    group.addresses.pop_first();
                    group
                        .addresses
                        .insert(picket_testing::build::prefix("10.9.0.0/16"));
                }
            }
            11 => {
                let name = fake.group(&group).name.clone();
                let twin = fake.add_group(&name, &["picket"]);
                fake.add_rule(&twin, self.rule.clone());
                give(fake, &twin);
            }
            12 => fake.group(&group).stateful = false,
            _ => {
                let group = fake.group(&group);
                group.tags.clear();
                group.description.clear();
            }
        }
    }
}

/// Gives ports to the pods of some groups that have none; some of these have the group that clouds give.
fn give_ports(fake: &mut Fake, objects: &Objects, default: &Id) {
    for (number, (pod, port)) in objects.ports.iter().enumerate() {
        let id = port_of(pod);
        if let Some(known) = fake.installed.ports.get_mut(&id) {
            known.fixed_ips.clone_from(&port.fixed_ips);
            continue;
        }
        let is_there = fake.installed.security_groups.contains_key(default);
        let groups = if is_there && number % 2 == 0 {
            std::slice::from_ref(default)
        } else {
            &[]
        };
        fake.add_port(&id, port.fixed_ips.clone(), groups);
    }
}

/// A Neutron with the group of a project that lets its ports reach each other, and everything.
fn cloud() -> (Fake, Id) {
    let mut fake = Fake::default();
    let default = fake.add_group("default", &[]);
    for ethertype in Family::BOTH {
        let rule = |direction, remote| SecurityGroupRule {
            direction,
            ethertype,
            protocol: None,
            ports: None,
            remote,
        };
        fake.add_rule(&default, rule(Direction::Egress, Remote::Anyone));
        fake.add_rule(&default, rule(Direction::Ingress, Remote::Group(default.clone())));
    }
    (fake, default)
}

/// Carries out what leads to some groups, and looks. How many packets were cut.
fn go(fake: &mut Fake, objects: &Objects, outside: &[IpAddr], seed: u64) -> Result<usize, TestCaseError> {
    let plan = fake.plan(objects, ForeignGroups::Remove);
    let seen = watch(fake, &plan, outside, seed);
    prop_assert!(
        seen.opened.is_empty(),
        "{:#?}\n{}",
        &seen.opened[..1],
        text(&plan)
    );
    let kept = fake.kept(objects.ports.keys().cloned());
    prop_assert_eq!(&kept.security_groups, &objects.security_groups);
    prop_assert_eq!(&kept.address_groups, &objects.address_groups);
    for (pod, port) in &objects.ports {
        prop_assert_eq!(&kept.ports[pod].security_groups, &port.security_groups, "{}", pod);
    }
    let ours: BTreeSet<_> = fake
        .installed
        .security_groups
        .iter()
        .filter(|(_, group)| group.tags.contains("picket"))
        .map(|(id, _)| id.clone())
        .collect();
    for (id, port) in &fake.installed.ports {
        let is_known = objects.ports.keys().any(|pod| port_of(pod) == *id);
        prop_assert!(is_known || port.security_groups.is_disjoint(&ours), "{}", id);
    }
    let again = fake.plan(objects, ForeignGroups::Remove);
    prop_assert!(again.is_empty(), "{}", text(&again));
    Ok(seen.cut)
}

/// Does what can be done where some ports and groups cannot be changed, and looks: what the policies say counts, not where this leads.
fn go_without(
    fake: &mut Fake,
    objects: &Objects,
    stuck: &Stuck,
    outside: &[IpAddr],
    seed: u64,
) -> Result<(), TestCaseError> {
    let mut held = stuck.held(fake, objects);
    let mut end = fake.clone();
    let whole = end.plan(objects, ForeignGroups::Remove);
    end.carry_out_all(&whole);
    let (mut plan, is_cut_short) = doable(
        fake.plan_without(objects, ForeignGroups::Remove, &held),
        &held.removals,
    );
    let ports: Vec<_> = held
        .ports
        .iter()
        .map(|id| (id, fake.installed.ports[id].clone()))
        .collect();
    let installed = format!("{:#?}", fake.installed);
    let seen = watch_to(fake, &plan, &end.objects(), &held.ports, outside, seed);
    prop_assert!(
        seen.opened.is_empty(),
        "{:#?}\n{}\n{:#?}\nwhole:\n{}\n{}",
        &seen.opened[..1],
        text(&plan),
        held,
        text(&whole),
        installed
    );
    for (id, port) in ports {
        prop_assert_eq!(&fake.installed.ports[id], &port);
    }
    // Of two groups with one name that counts which most ports have, and that may be the other one then.
    let mut names = BTreeSet::new();
    let mut ours = fake.installed.security_groups.values();
    let has_twins = ours.any(|group| group.name.starts_with("picket/") && !names.insert(&group.name));
    let may_go_on = is_cut_short || has_twins;
    for round in 0..5 {
        held.emptied.extend(plan.emptied.iter().cloned());
        plan = doable(
            fake.plan_without(objects, ForeignGroups::Remove, &held),
            &held.removals,
        )
        .0;
        if plan.is_empty() {
            return Ok(());
        }
        prop_assert!(
            may_go_on && round < 4,
            "round {round}:\n{}\n{:#?}\n{}",
            text(&plan),
            held,
            installed
        );
        let seen = watch_to(fake, &plan, &end.objects(), &held.ports, outside, seed);
        prop_assert!(
            seen.opened.is_empty(),
            "{:#?}\n{}",
            &seen.opened[..1],
            text(&plan)
        );
    }
    Ok(())
}

/// What the controller does of a plan while something cannot be taken away from some groups, and whether that is not all of it.
fn doable(mut plan: Plan, removals: &BTreeSet<Name>) -> (Plan, bool) {
    let ids = plan.groups.iter().chain(&plan.address_groups);
    let held: BTreeSet<Id> = ids
        .filter(|(name, _)| removals.contains(*name))
        .map(|(_, id)| id.clone())
        .collect();
    let is_held = |step: &Step| match step {
        Step::DeleteRules { group, .. } | Step::RemoveAddresses { group, .. } => held.contains(group),
        _ => false,
    };
    let first = plan.stages.iter().position(|stage| stage.iter().any(is_held));
    if let Some(at) = first {
        plan.stages.truncate(at + 1);
        plan.stages[at].retain(|step| !is_held(step));
        plan.stages.retain(|stage| !stage.is_empty());
    }
    (plan, first.is_some())
}

/// Which ports and groups cannot be changed for a while.
#[derive(Clone, Debug, Default)]
struct Stuck {
    ports: Vec<Index>,
    groups: Vec<Index>,
    removals: Vec<Index>,
}

impl Stuck {
    fn held(&self, fake: &Fake, objects: &Objects) -> Held {
        let ports: Vec<Id> = fake.installed.ports.keys().cloned().collect();
        let groups = objects
            .security_groups
            .keys()
            .chain(objects.address_groups.keys());
        let groups: Vec<_> = groups.cloned().collect();
        let some = |indices: &[Index], of: &[Id]| {
            let some = indices.iter().filter(|_| !of.is_empty());
            some.map(|index| index.get(of).clone()).collect()
        };
        Held {
            ports: some(&self.ports, &ports),
            groups: some(&self.groups, &groups),
            removals: some(&self.removals, &groups),
            ..Held::default()
        }
    }
}

fn stuck() -> impl Strategy<Value = Stuck> {
    let some = |most| vec(any::<Index>(), 0..most);
    (some(3), some(2), some(2)).prop_map(|(ports, groups, removals)| Stuck {
        ports,
        groups,
        removals,
    })
}

fn check(
    before: &Snapshot,
    after: &Snapshot,
    damage: &[Damage],
    stuck: &Stuck,
    seed: u64,
) -> Result<(), TestCaseError> {
    let outside = external_addresses(after);
    let outside: Vec<_> = outside
        .iter()
        .step_by(outside.len().div_ceil(6).max(1))
        .copied()
        .collect();
    let (mut fake, default) = cloud();
    let address_groups = !seed.is_multiple_of(4);
    let objects = rendered(before, address_groups);
    give_ports(&mut fake, &objects, &default);
    go(&mut fake, &objects, &outside, seed)?;
    for one in damage {
        one.is_done_to(&mut fake);
    }
    let objects = rendered(after, address_groups);
    give_ports(&mut fake, &objects, &default);
    go_without(&mut fake, &objects, stuck, &outside, seed)?;
    go(&mut fake, &objects, &outside, seed)?;
    Ok(())
}

fn shape() -> impl Strategy<Value = Shape> {
    prop_oneof![3 => Just(Shape::V1), 1 => Just(Shape::Dialects)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn other_policies_never_open(
        (cluster, before, after) in shape().prop_flat_map(|shape| (cluster(), policies(shape, 4), policies(shape, 4))),
        stuck in stuck(),
        seed: u64,
    ) {
        check(&together(&cluster, before), &together(&cluster, after), &[], &stuck, seed)?;
    }

    #[test]
    fn other_pods_and_policies_never_open(
        (before, after) in shape().prop_flat_map(|shape| (
            (cluster(), policies(shape, 4)),
            (cluster(), policies(shape, 4)),
        )),
        damage in vec(damage(), 0..3),
        stuck in stuck(),
        seed: u64,
    ) {
        check(&together(&before.0, before.1), &together(&after.0, after.1), &damage, &stuck, seed)?;
    }

    #[test]
    fn events_and_damage_never_open(
        (cluster, before, events) in shape().prop_flat_map(|shape| (cluster(), policies(shape, 4), events(shape, 4))),
        damage in vec(damage(), 0..6),
        stuck in stuck(),
        seed: u64,
    ) {
        let mut store = Store::new();
        for object in cluster.into_iter().chain(before.into_iter().map(Object::Policy)) {
            store.apply(Event::Apply(object));
        }
        let before = store.snapshot();
        for event in events {
            store.apply(event);
        }
        let after = store.snapshot();
        check(&before, &after, &damage, &stuck, seed)?;
    }
}
