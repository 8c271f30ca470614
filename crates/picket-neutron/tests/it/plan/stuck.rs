//! What is done while some ports cannot be changed.

use picket_cluster::{Object, Snapshot};
use picket_net::Protocol;
use picket_neutron::Remote;
use picket_neutron::plan::{ForeignGroups, Held, Plan, Step, text};
use picket_policy::Direction;
use picket_testing::build::{accept, block, ip, pods_in, policy, prefix};

use super::fake::Fake;
use super::watch::watch_to;
use super::world::{and, everything, groups_of, only, port, role, wanted, with};

/// Does what can be done for a cluster while a port cannot be changed. Nothing passes that passes neither before nor by the
/// policies.
#[track_caller]
fn to_without(fake: &mut Fake, after: &Snapshot, stuck: &str) {
    let objects = wanted(after);
    let mut end = fake.clone();
    let whole = end.plan(&objects, ForeignGroups::Remove);
    end.carry_out_all(&whole);
    let held = Held {
        ports: [port(stuck)].into(),
        ..Held::default()
    };
    let plan = fake.plan_without(&objects, ForeignGroups::Remove, &held);
    let outside = [ip("192.0.2.1")];
    let seen = watch_to(fake, &plan, &end.objects(), &held.ports, &outside, 1);
    assert_eq!(seen.opened, Vec::<String>::new(), "{}", text(&plan));
}

/// The same from one cluster to another, and then to what the policies say.
#[track_caller]
fn goes_without(before: &Snapshot, after: &Snapshot, stuck: &str) -> Fake {
    let mut fake = with(before);
    to_without(&mut fake, after, stuck);
    let left = fake.clone();
    super::world::to(&mut fake, after);
    left
}

fn closed(name: &str, role: &str, direction: Direction) -> Object {
    let policy = policy(&format!("x/{name}")).selects(&format!("role={role}"));
    policy.isolates(direction).into()
}

#[test]
fn no_new_rule_means_a_port_that_keeps_what_it_should_lose() {
    let closed = || closed("closed", "db", Direction::Ingress);
    // Something else means `web`, so that there is a group of it.
    let known = || only("known", "other", "web", 80).into();
    let none = only("p", "none", "none", 80);
    let before = and([none.clone().into(), closed(), known()]);
    let web = role("web", "none", 2).into();
    let lets_in = only("q", "db", "web", 81);
    let lets_in = lets_in.ingress(accept().peer(pods_in("x", "role=other")).port(Protocol::TCP, 82));
    let after = and([none.into(), closed(), known(), web, lets_in.into()]);
    let fake = goes_without(&before, &after, "web");
    // What the same policy says of others is in force; of IPv6 the port has no address.
    let id = super::world::id_of(&fake, "picket/policy/x/q/ingress");
    let rules = &fake.installed.security_groups[&id].rules;
    assert_eq!(rules.len(), 3, "{rules:?}");
}

#[test]
fn no_port_gets_a_group_with_rules_about_one_that_keeps_what_it_should_lose() {
    let closed = || closed("closed", "other", Direction::Ingress);
    let before = and([closed()]);
    let web = role("web", "none", 2).into();
    let after = and([closed(), web, role("other", "db", 3).into()]);
    let fake = goes_without(&before, &after, "web");
    let groups = groups_of(&fake, "other");
    assert!(
        !groups.iter().any(|name| name == "picket/open/ingress"),
        "{groups:?}"
    );
}

#[test]
fn a_group_that_a_port_should_lose_gets_no_new_rule() {
    let before = and([
        closed("q", "web", Direction::Ingress),
        closed("r", "none", Direction::Ingress),
    ]);
    let lets_in = policy("x/q")
        .selects("role=web")
        .ingress(accept().peer(block("0.0.0.0/0", &[])));
    let after = and([
        role("web", "none", 2).into(),
        lets_in.into(),
        closed("r", "none", Direction::Ingress),
    ]);
    goes_without(&before, &after, "web");
}

/// What one end keeps, the other would meet.
#[test]
fn who_may_send_more_waits_where_a_port_should_receive_less() {
    let before = and([closed("silent", "other", Direction::Egress)]);
    let after = and([
        closed("silent", "gone", Direction::Egress),
        closed("deaf", "web", Direction::Ingress),
    ]);
    goes_without(&before, &after, "web");
}

/// Otherwise one port that cannot be changed would keep every new pod from sending.
#[test]
fn a_new_pod_may_send_though_a_port_should_receive_less() {
    let mut fake = with(&and([]));
    fake.add_port(&port("new"), [ip("10.0.0.9")].into(), &[]);
    let after = and([
        role("new", "new", 9).into(),
        closed("deaf", "web", Direction::Ingress),
    ]);
    to_without(&mut fake, &after, "web");
    assert_eq!(groups_of(&fake, "new").len(), 2);
}

#[test]
fn what_a_port_loses_stays_as_far_as_it_is_allowed_where_what_it_gets_must_wait() {
    let sends = |name: &str| policy("x/some").selects(&format!("role={name}"));
    let some = |name: &str| sends(name).egress(accept().peer(block("192.0.2.0/24", &[])));
    let before = and([some("other").into()]);
    let after = and([some("gone").into(), closed("deaf", "web", Direction::Ingress)]);
    let fake = goes_without(&before, &after, "web");
    let groups = groups_of(&fake, "other");
    assert!(
        groups.iter().any(|name| name == "picket/policy/x/some/egress"),
        "{groups:?}"
    );
}

#[test]
fn what_concerns_no_port_that_cannot_be_changed_is_done() {
    let mut fake = with(&and([]));
    let foreign = fake.add_group("somebody's", &[]);
    fake.add_rule(&foreign, everything(Direction::Ingress, Remote::Anyone));
    let of = fake.installed.ports.get_mut(&port("web")).expect("a port");
    of.security_groups.insert(foreign);
    let after = and([only("q", "other", "web", 81).into(), role("db", "none", 1).into()]);
    to_without(&mut fake, &after, "web");
    assert!(
        groups_of(&fake, "other")
            .iter()
            .any(|name| name == "picket/policy/x/q/ingress")
    );
    assert_eq!(groups_of(&fake, "db"), groups_of(&with(&after), "db"));
}

#[test]
fn a_group_that_no_port_has_and_that_keeps_too_much_is_left_alone() {
    let mut fake = with(&and([]));
    let name = "picket/policy/x/q/ingress";
    let id = fake.add_group(name, &["picket"]);
    fake.add_rule(&id, everything(Direction::Ingress, Remote::Anyone));
    let used = "picket/policy/x/p/ingress";
    let of_used = super::world::id_of(&fake, used);
    fake.add_rule(&of_used, everything(Direction::Ingress, Remote::Anyone));
    let objects = wanted(&and([only("q", "other", "web", 81).into()]));
    let held = Held {
        removals: [name.into(), used.into()].into(),
        ..Held::default()
    };
    let plan = fake.plan_without(&objects, ForeignGroups::Remove, &held);
    fake.carry_out_all(&plan);
    assert_eq!(fake.group(&id).rules.len(), 1);
    let groups = groups_of(&fake, "other");
    assert_eq!(groups, ["picket/open/egress"], "{groups:?}");
    // From what ports have it is taken: what comes later waits for that.
    let takes = |step: &Step| matches!(step, Step::DeleteRules { group, .. } if *group == of_used);
    assert!(plan.steps().any(takes));
}

/// Somebody added to a group that no port has, and a policy about no pod means it.
#[test]
fn a_retry_of_what_cannot_be_taken_away_changes_nothing_else() {
    let none = policy("x/q").selects("role=none");
    let blocks = accept().peer(block("192.0.2.0/24", &["192.0.2.7/32"]));
    let all = and([none.ingress(blocks).into()]);
    let mut fake = with(&all);
    let (id, name) = {
        let mut groups = fake.installed.address_groups.iter_mut();
        let (id, group) = groups.next().expect("an address group");
        group.addresses.insert(prefix("10.9.0.0/16"));
        (id.clone(), group.name.clone())
    };
    let objects = wanted(&all);
    let held = Held {
        removals: [name].into(),
        ..Held::default()
    };
    let without = fake.plan_without(&objects, ForeignGroups::Remove, &held);
    fake.carry_out_all(&without);
    let retry = fake.plan(&objects, ForeignGroups::Remove);
    let removed = Step::RemoveAddresses {
        group: id,
        addresses: [prefix("10.9.0.0/16")].into(),
    };
    assert_eq!(retry.stages.first(), Some(&vec![removed]), "{}", text(&retry));
    let again = fake.plan_without(&objects, ForeignGroups::Remove, &held);
    assert!(again.is_empty(), "{}", text(&again));
}

#[test]
fn groups_of_a_pod_without_a_port_wait_that_let_it_meet_what_a_port_keeps() {
    // `db` lets in whoever is `web`, and may not be told otherwise; `late` is to let in `web` alone, and to be nobody's peer.
    let lets_in = || only("q", "late", "web", 81).into();
    let mut fake = with(&and([lets_in()]));
    let late = role("late", "late", 9).into();
    let after = and([lets_in(), role("web", "none", 2).into(), late]);
    let held = Held {
        ports: [port("web")].into(),
        ..Held::default()
    };
    let plan = fake.plan_without(&wanted(&after), ForeignGroups::Remove, &held);
    let waits = |plan: &Plan, name: &str| plan.waiting.iter().any(|group| group.starts_with(name));
    assert!(waits(&plan, "picket/policy/x/q/ingress"), "{:?}", plan.waiting);
    // Nobody asks for that of a policy about other pods.
    assert!(!waits(&plan, "picket/open/"), "{:?}", plan.waiting);
    let free = fake.plan(&wanted(&after), ForeignGroups::Remove);
    assert_eq!(free.waiting, [].into());

    // What a port keeps lets in others: a new one is none of them.
    let mut fake = with(&and([]));
    let late = role("late", "web", 9).into();
    let after = and([role("db", "none", 1).into(), late]);
    let held = Held {
        ports: [port("db")].into(),
        ..Held::default()
    };
    let plan = fake.plan_without(&wanted(&after), ForeignGroups::Remove, &held);
    assert!(waits(&plan, "picket/peers/"), "{:?}", plan.waiting);
}

/// It has none because of what another keeps: what is to wait for that would not.
#[test]
fn a_port_that_lost_all_groups_is_not_that_of_a_new_pod() {
    let still = |role: &str| {
        let policy = policy("x/still").selects(&format!("role={role}"));
        policy.isolates(Direction::Ingress).isolates(Direction::Egress)
    };
    let mut fake = with(&and([still("other").into()]));
    let objects = wanted(&and([still("web").into()]));
    let mut held = Held {
        ports: [port("web")].into(),
        ..Held::default()
    };
    let first = fake.plan_without(&objects, ForeignGroups::Remove, &held);
    fake.carry_out_all(&first);
    assert!(groups_of(&fake, "other").is_empty());
    assert_eq!(first.emptied, [port("other")].into());
    held.emptied.clone_from(&first.emptied);
    let second = fake.plan_without(&objects, ForeignGroups::Remove, &held);
    assert!(second.is_empty(), "{}", text(&second));
    assert_eq!(second.emptied, first.emptied);
    let whole = fake.plan(&objects, ForeignGroups::Remove);
    fake.carry_out_all(&whole);
    assert_eq!(groups_of(&fake, "other").len(), 2);
}
