//! What others did to groups and ports, and what is reported.

use std::collections::{BTreeMap, BTreeSet};

use picket_neutron::Remote;
use picket_neutron::plan::{Finding, ForeignGroups, Handle, Held, Plan, Step, Wanted, plan, text};
use picket_policy::{Direction, ObjectRef};
use picket_testing::build::{ip, policy};

use super::fake::{Fake, port_of};
use super::world::{and, everything, groups_of, id_of, port, role, to, wanted, with};

#[test]
fn groups_of_others_are_taken_away_or_kept_and_reported() {
    let mut fake = with(&and([]));
    let foreign = fake.add_group("somebody's", &[]);
    fake.add_rule(&foreign, everything(Direction::Ingress, Remote::Anyone));
    let of = fake.installed.ports.get_mut(&port("db")).expect("a port");
    of.security_groups.insert(foreign.clone());
    let objects = wanted(&and([]));
    let refused = fake.plan(&objects, ForeignGroups::Refuse);
    assert!(refused.is_empty());
    let reported = Finding::ForeignGroups {
        pod: ObjectRef::new("Pod", "x", "db"),
        port: port("db"),
        groups: [foreign.clone()].into(),
    };
    assert_eq!(refused.findings, [reported]);
    let (plan, _) = to(&mut fake, &and([]));
    assert_eq!(plan.calls(), [("update_port", 1)].into());
    assert_eq!(plan.findings, []);
    assert!(fake.installed.security_groups.contains_key(&foreign));
}

#[test]
fn a_port_of_no_pod_keeps_no_group_of_ours() {
    let mut fake = with(&and([role("web-2", "web", 4).into()]));
    let (plan, _) = to(&mut fake, &and([]));
    assert_eq!(plan.calls(), [("update_port", 1)].into());
    assert!(groups_of(&fake, "web-2").is_empty());
}

#[test]
fn a_group_that_nobody_wants_goes_when_no_port_has_it() {
    let mut fake = with(&and([]));
    let orphan = fake.add_group("picket/old", &["picket"]);
    let of = fake.installed.ports.get_mut(&port("web")).expect("a port");
    of.security_groups.insert(orphan.clone());
    let (plan, _) = to(&mut fake, &and([]));
    assert_eq!(plan.calls(), [("delete_group", 1), ("update_port", 1)].into());
    assert_eq!(plan.stages.last(), Some(&vec![Step::DeleteGroup(orphan)]));
}

#[test]
fn of_two_groups_with_one_name_that_stays_which_ports_have() {
    let mut fake = with(&and([]));
    let name = "picket/policy/x/p/ingress";
    let known = id_of(&fake, name);
    let twin = fake.add_group(name, &["picket"]);
    let (plan, _) = to(&mut fake, &and([]));
    assert_eq!(plan.stages, [vec![Step::DeleteGroup(twin)]]);
    assert_eq!(plan.groups[name], known);
}

#[test]
fn a_group_that_was_not_tagged_yet_is_taken_up() {
    let mut fake = with(&and([]));
    let id = id_of(&fake, "picket/policy/x/p/ingress");
    fake.group(&id).tags.clear();
    fake.add_group("picket/left", &[]);
    let (plan, _) = to(&mut fake, &and([]));
    assert_eq!(plan.calls(), [("delete_group", 1), ("set_tags", 1)].into());
}

#[test]
fn a_description_is_mended() {
    let mut fake = with(&and([]));
    let id = id_of(&fake, "picket/policy/x/p/ingress");
    fake.group(&id).description = "mine".to_owned();
    let (plan, _) = to(&mut fake, &and([]));
    assert_eq!(plan.calls(), [("set_description", 1)].into());
}

#[test]
fn a_group_that_somebody_deleted_is_made_again() {
    let mut fake = with(&and([]));
    let id = id_of(&fake, "picket/policy/x/p/ingress");
    fake.lose_group(&id);
    let (plan, _) = to(&mut fake, &and([]));
    let expected = [("create_group", 4), ("create_rules", 1), ("update_port", 1)];
    assert_eq!(plan.calls(), expected.into());
}

#[test]
fn a_group_that_lets_no_answers_pass_is_made_again() {
    let mut fake = with(&and([]));
    let id = id_of(&fake, "picket/policy/x/p/ingress");
    fake.group(&id).stateful = false;
    let (plan, _) = to(&mut fake, &and([]));
    assert_eq!(plan.calls()["delete_group"], 1);
    assert_ne!(id_of(&fake, "picket/policy/x/p/ingress"), id);
}

#[test]
fn rules_that_somebody_added_go_in_whatever_form() {
    let mut fake = with(&and([]));
    let id = id_of(&fake, "picket/policy/x/p/ingress");
    let other = id_of(&fake, "picket/open/egress");
    fake.add_rule(&id, everything(Direction::Ingress, Remote::Anyone));
    fake.add_strange(&id, everything(Direction::Egress, Remote::Anyone));
    fake.add_rule(&id, everything(Direction::Ingress, Remote::Group(other)));
    let (plan, _) = to(&mut fake, &and([]));
    assert_eq!(plan.calls(), [("delete_rules", 3)].into());
}

#[test]
fn a_rule_that_is_there_twice_stays_once() {
    let mut fake = with(&and([]));
    let id = id_of(&fake, "picket/policy/x/p/ingress");
    let rule = fake.group(&id).rules.values().next().expect("a rule").clone();
    fake.group(&id).rules.insert("twin".into(), rule);
    let (plan, _) = to(&mut fake, &and([]));
    assert_eq!(plan.calls(), [("delete_rules", 1)].into());
}

/// What somebody added to the group, and whom a pod may send to from now on, would meet.
#[test]
fn a_group_with_a_strange_rule_gets_no_pod_before_the_rule_is_gone() {
    let silent = policy("x/silent")
        .selects("role=other")
        .isolates(Direction::Egress);
    let deaf = policy("x/deaf").selects("role=web").isolates(Direction::Ingress);
    let mut fake = with(&and([silent.clone().into(), deaf.into()]));
    let id = id_of(&fake, "picket/policy/x/p/ingress");
    fake.add_strange(&id, everything(Direction::Ingress, Remote::Anyone));
    let moved = role("web", "db", 2);
    let (plan, _) = to(
        &mut fake,
        &and([moved.into(), silent.selects("role=none").into()]),
    );
    let stage = |is: &dyn Fn(&Step) -> bool| plan.stages.iter().position(|steps| steps.iter().any(is));
    let deleted = stage(&|step| matches!(step, Step::DeleteRules { .. }));
    let given = stage(&|step| match step {
        Step::UpdatePort { port: of, groups, .. } => {
            *of == port("web") && groups.contains(&Handle::Installed(id.clone()))
        }
        _ => false,
    });
    assert!(deleted.is_some() && deleted < given, "{}", text(&plan));
}

#[test]
fn a_pod_without_a_port_is_pending() {
    let fake = with(&and([]));
    let objects = wanted(&and([role("late", "web", 9).into()]));
    let wanted = Wanted {
        objects: &objects,
        ports: &BTreeMap::new(),
        cluster: "picket",
        foreign_groups: ForeignGroups::Remove,
        enforced_vnic_types: &["normal".into()].into(),
        nodes: &BTreeSet::new(),
        held: &Held::default(),
    };
    let pending = plan(&fake.installed, &wanted).findings;
    assert_eq!(pending.len(), 4);
    let late = ObjectRef::new("Pod", "x", "late");
    assert!(pending.contains(&Finding::Pending { pod: late }));
}

/// The plan where a pod has a second port.
fn plan_with_second(fake: &Fake, pod: &str) -> Plan {
    let objects = wanted(&and([]));
    let ports = objects.ports.keys().map(|known| {
        let second = (known.name == pod).then(|| "second".into());
        (
            known.clone(),
            [port_of(known)].into_iter().chain(second).collect(),
        )
    });
    let wanted = Wanted {
        objects: &objects,
        ports: &ports.collect(),
        cluster: "picket",
        foreign_groups: ForeignGroups::Remove,
        enforced_vnic_types: &["normal".into()].into(),
        nodes: &fake.nodes,
        held: &Held::default(),
    };
    plan(&fake.installed, &wanted)
}

#[test]
fn all_ports_of_a_pod_get_its_groups() {
    let mut fake = with(&and([]));
    fake.add_port(&"second".into(), [ip("10.1.0.1")].into(), &[]);
    let plan = plan_with_second(&fake, "db");
    assert_eq!(plan.calls(), [("update_port", 1)].into());
    for step in plan.steps() {
        fake.carry_out(&plan, step);
    }
    let [one, other] = [&port("db"), "second"].map(|id| &fake.installed.ports[id].security_groups);
    assert_eq!(one, other);
}

/// Whom rules mean they mean by address: it would be whoever it wants to be.
#[test]
fn a_port_that_may_send_from_other_addresses_is_nobodys_peer() {
    let mut fake = with(&and([]));
    let all = groups_of(&fake, "web");
    let pairs = ["10.0.0.2/32", "10.0.0.9/32"].map(|text| text.parse().expect("a prefix"));
    let of = fake.installed.ports.get_mut(&port("web")).expect("a port");
    of.allowed_address_pairs = pairs.into();
    let (plan, _) = to(&mut fake, &and([]));
    assert_eq!(plan.calls(), [("update_port", 1)].into());
    let left = groups_of(&fake, "web");
    let gone: Vec<_> = all.iter().filter(|group| !left.contains(group)).collect();
    assert!(
        gone.len() == 1 && gone[0].starts_with("picket/peers/"),
        "{gone:?}"
    );
    let reported = Finding::AddressPairs {
        pod: ObjectRef::new("Pod", "x", "web"),
        port: port("web"),
        pairs: [pairs[1]].into(),
    };
    assert_eq!(plan.findings, [reported]);
    // Its own address it has anyway.
    let of = fake.installed.ports.get_mut(&port("web")).expect("a port");
    of.allowed_address_pairs = [pairs[0]].into();
    let (plan, _) = to(&mut fake, &and([]));
    assert_eq!(plan.findings, []);
    assert_eq!(groups_of(&fake, "web"), all);
}

/// In another network, whose addresses are the same.
#[test]
fn a_port_with_an_address_of_another_pod_or_of_a_node_is_nobodys_peer() {
    for (address, is_shared) in [
        ("10.0.0.3", true),
        ("10.0.0.100", true),
        ("10.0.0.2", false),
        ("10.7.0.1", false),
    ] {
        let mut fake = with(&and([]));
        fake.nodes = [ip("10.0.0.100")].into();
        fake.add_port(&"second".into(), [ip(address)].into(), &[]);
        let plan = plan_with_second(&fake, "web");
        fake.carry_out_all(&plan);
        let is_peer = |id: &str| {
            let groups = fake.installed.ports[id].security_groups.iter();
            let mut names = groups.map(|id| fake.installed.security_groups[id].name.as_str());
            names.any(|name| name.starts_with("picket/peers/"))
        };
        assert_eq!(is_peer("second"), !is_shared, "{address}");
        assert!(is_peer(&port("web")), "{address}");
        let reported = Finding::SharedAddresses {
            pod: ObjectRef::new("Pod", "x", "web"),
            port: "second".into(),
            addresses: [ip(address)].into(),
        };
        assert_eq!(plan.findings.contains(&reported), is_shared, "{address}");
    }
}

/// Otherwise the other would be let in as the first.
#[test]
fn a_pod_whose_address_a_port_of_another_has_too_is_nobodys_peer() {
    let mut fake = with(&and([]));
    let of = fake.installed.ports.get_mut(&port("other")).expect("a port");
    of.fixed_ips.insert(ip("10.0.0.2"));
    let plan = fake.plan(&wanted(&and([])), ForeignGroups::Remove);
    fake.carry_out_all(&plan);
    let groups = groups_of(&fake, "web");
    assert!(
        !groups.iter().any(|name| name.starts_with("picket/peers/")),
        "{groups:?}"
    );
}

/// It would be let in as the pod whose address that is.
#[test]
fn a_pod_from_whose_address_another_may_send_is_nobodys_peer() {
    for (pair, is_shared) in [
        ("10.0.0.2/32", true),
        ("10.0.0.0/24", false),
        ("0.0.0.0/0", false),
        ("10.0.0.9/32", false),
        ("10.0.0.3/32", false),
        ("10.0.1.0/24", false),
        ("::/0", false),
    ] {
        let mut fake = with(&and([]));
        let of = fake.installed.ports.get_mut(&port("other")).expect("a port");
        of.allowed_address_pairs = [pair.parse().expect("a prefix")].into();
        let plan = fake.plan(&wanted(&and([])), ForeignGroups::Remove);
        fake.carry_out_all(&plan);
        let groups = groups_of(&fake, "web");
        let is_peer = groups.iter().any(|name| name.starts_with("picket/peers/"));
        assert_eq!(is_peer, !is_shared, "{pair}");
        let reported = Finding::SharedAddresses {
            pod: ObjectRef::new("Pod", "x", "web"),
            port: port("web"),
            addresses: [ip("10.0.0.2")].into(),
        };
        assert_eq!(plan.findings.contains(&reported), is_shared, "{pair}");
    }
}

/// Rules mean it as a peer all the same.
#[test]
fn who_may_send_from_an_address_of_the_same_peer_takes_nothing_from_it() {
    let twin = || role("twin", "web", 4).into();
    let mut fake = with(&and([twin()]));
    let of = fake.installed.ports.get_mut(&port("twin")).expect("a port");
    of.allowed_address_pairs = ["10.0.0.2/32".parse().expect("a prefix")].into();
    let plan = fake.plan(&wanted(&and([twin()])), ForeignGroups::Remove);
    fake.carry_out_all(&plan);
    let is_peer = |name: &str| {
        let groups = groups_of(&fake, name);
        groups.iter().any(|name| name.starts_with("picket/peers/"))
    };
    assert!(is_peer("web") && !is_peer("twin"));
}

#[test]
fn a_port_may_send_from_all_addresses_of_its_pod() {
    let both = || role("web", "web", 2).ip("fd00::2").into();
    let mut fake = with(&and([both()]));
    let all = groups_of(&fake, "web");
    let of = fake.installed.ports.get_mut(&port("web")).expect("a port");
    of.fixed_ips = [ip("10.0.0.2")].into();
    of.allowed_address_pairs = ["fd00::2/128".parse().expect("a prefix")].into();
    let (plan, _) = to(&mut fake, &and([both()]));
    assert!(plan.is_empty() && plan.findings.is_empty(), "{}", text(&plan));
    assert_eq!(groups_of(&fake, "web"), all);
    // But not where another has one of them too.
    fake.nodes = [ip("fd00::2")].into();
    let (plan, _) = to(&mut fake, &and([both()]));
    assert_eq!(plan.findings.len(), 1, "{}", text(&plan));
    assert!(groups_of(&fake, "web").len() < all.len());
}

#[test]
fn a_port_where_nothing_is_enforced_is_reported() {
    let mut fake = with(&and([]));
    let of = fake.installed.ports.get_mut(&port("db")).expect("a port");
    (of.port_security_enabled, of.security_groups) = (false, [].into());
    let of = fake.installed.ports.get_mut(&port("web")).expect("a port");
    of.vnic_type = "direct".into();
    let plan = fake.plan(&wanted(&and([])), ForeignGroups::Remove);
    assert!(plan.is_empty());
    let [db, web] = ["db", "web"].map(|name| ObjectRef::new("Pod", "x", name));
    let vnic_type = "direct".into();
    let mut expected = [
        Finding::VnicType {
            pod: web,
            port: port("web"),
            vnic_type,
        },
        Finding::PortSecurityOff {
            pod: db,
            port: port("db"),
        },
    ];
    expected.sort();
    assert_eq!(plan.findings, expected);
}
