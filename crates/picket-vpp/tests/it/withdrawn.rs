//! What a change takes away beside lists of others, and where VPP refuses what is to remember it.

use std::time::Duration;

use picket_cluster::Snapshot;
use picket_net::{Family, Prefix, Protocol};
use picket_policy::Direction;
use picket_testing::build::{accept, block, policy};
use picket_vpp::acl::plan::{Installed, Operation, Plan};
use picket_vpp::acl::verify::Fault;
use picket_vpp::acl::{ACK, Acl, AclAction, AclRule, Role, SYN};
use picket_vpp::fake;

use crate::cut::{
    CLIENT, End, FRIEND, REMOTE, SERVER, Scene, UPLINK, at, connected, open, server_receives, with,
};

/// The server may send to these blocks only, each at its ports.
fn server_sends(to: &[(&str, &[u16])]) -> Snapshot {
    let mut policy = policy("x/server")
        .selects("name=server")
        .isolates(Direction::Egress);
    for (peer, ports) in to {
        let mut rule = accept().peer(block(peer, &[]));
        for &port in *ports {
            rule = rule.port(Protocol::TCP, port);
        }
        policy = policy.egress(rule);
    }
    with(policy.build())
}

/// What others deny behind picket's lists is not let pass so that an answer may be.
#[test]
fn what_lists_of_others_deny_is_denied_after_something_was_cut() {
    let mut scene = Scene::start(&server_sends(&[("0.0.0.0/0", &[80, 443])]));
    let all = |action| fake::AclRule::all(action, Family::Ipv4);
    let denied = fake::AclRule {
        source: "203.0.113.0/24".parse::<Prefix>().expect("a prefix"),
        ..all(fake::AclAction::Deny)
    };
    scene.put_behind(SERVER.0, vec![denied, all(fake::AclAction::Reflect)]);
    let stranger: End = (UPLINK, "203.0.113.7", 9999);
    let own = at(SERVER, 5000);
    scene.change(&server_sends(&[("0.0.0.0/0", &[443]), ("203.0.113.0/24", &[80])]));
    assert!(scene.cuts() > 0);
    for flags in [ACK, SYN] {
        assert!(!scene.sends(stranger, own, flags), "{flags}");
    }
    assert!(!scene.is_taken_up((UPLINK, "192.0.2.1", 80), own));
    assert!(scene.opens((UPLINK, "192.0.2.1", 9999), own));
}

/// What each pod may receive from elsewhere, at these ports: the server, and the others.
fn pods_receive(server: &[u16], others: &[u16]) -> Snapshot {
    let receives = |name: &str, selected: &str, ports: &[u16]| {
        let mut rule = accept().peer(block("10.9.0.0/24", &[]));
        for &port in ports {
            rule = rule.port(Protocol::TCP, port);
        }
        policy(name).selects(selected).ingress(rule).build()
    };
    let mut snapshot = with(receives("x/server", "name=server", server));
    let others = with(receives("x/others", "name!=server", others));
    snapshot.policies.extend(others.policies);
    snapshot
}

#[test]
fn an_interface_gets_its_stricter_lists_though_vpp_refuses_what_remembers_the_cut() {
    let mut scene = Scene::start(&pods_receive(&[80, 443], &[80, 443]));
    let peer: End = (UPLINK, "10.9.0.1", 40_000);
    for pod in [SERVER, CLIENT, FRIEND] {
        assert!(scene.opens(peer, at(pod, 80)), "{pod:?}");
    }
    let after = pods_receive(&[443], &[80, 443, 8080]);
    for _ in 0..2 {
        assert_eq!(scene.change_refused(&after, 1).len(), 1);
        assert_eq!(scene.fake.faults(), 0);
        assert!(!scene.sends(at(peer, 41_000), at(SERVER, 80), SYN));
        assert!(scene.sends(at(peer, 41_000), at(SERVER, 443), SYN));
        for pod in [CLIENT, FRIEND] {
            assert!(scene.opens(at(peer, 41_001), at(pod, 8080)), "{pod:?}");
        }
        assert_eq!(scene.cuts(), 0);
    }
    scene.change(&after);
    assert!(scene.cuts() > 0);
}

/// The lists of a server that is open, where all that it sends is let pass one by one; with another list before these.
fn beside_all_that_it_sends(scene: &Scene, first: Vec<AclRule>) -> Installed {
    let everything = AclRule::everything(AclAction::Permit, Family::Ipv4);
    let own = AclRule {
        source: "10.0.0.1/32".parse().expect("a prefix"),
        ..everything
    };
    let closed = Family::BOTH.map(|family| AclRule::everything(AclAction::Deny, family));
    let sends = [vec![own], closed.to_vec()].concat();
    let mut installed = scene.held.installed().clone();
    installed.acls.insert(98, Acl::new(Role::Cut, first));
    installed.acls.insert(99, Acl::new(Role::FromPod, sends));
    let lists = installed.interfaces.get_mut(SERVER.0).expect("an interface");
    lists.input = vec![98, 99];
    installed
}

#[test]
fn lists_that_drop_what_answers_the_allowed_are_no_proof() {
    let scene = Scene::start(&open());
    let dropped = AclRule {
        protocol: Protocol::TCP.number(),
        tcp_flags: (ACK, ACK),
        ..AclRule::everything(AclAction::Deny, Family::Ipv4)
    };
    assert!(
        scene
            .report(&beside_all_that_it_sends(&scene, Vec::new()))
            .is_proof()
    );
    for rule in [
        dropped,
        AclRule {
            first: (80, 80),
            ..dropped
        },
        AclRule {
            destination: "10.0.0.2/32".parse().expect("a prefix"),
            ..dropped
        },
    ] {
        let found = scene
            .report(&beside_all_that_it_sends(&scene, vec![rule]))
            .counterexamples;
        assert!(
            found.iter().any(|found| found.fault == Fault::NoAnswer),
            "{rule}: {found:?}"
        );
    }
}

/// What was closed for a moment knows of no more that was cut than before.
#[test]
fn a_pod_whose_interface_was_closed_goes_on_with_what_it_opened() {
    let mut scene = connected();
    let own = at(SERVER, 20_000);
    assert!(scene.opens(own, at(CLIENT, 5432)));
    scene.close(SERVER.0);
    assert!(!scene.sends(CLIENT, SERVER, ACK));
    scene.sync();
    assert!(scene.goes_on(own, at(CLIENT, 5432)));
    assert!(scene.goes_on(CLIENT, SERVER));
}

/// Systems open connections from high ports, and whoever opens one to the pod may do so from any.
#[test]
fn connections_to_a_pod_go_on_from_low_ports_when_it_may_not_send_any_more() {
    let mut scene = Scene::start(&open());
    let (low, own) = (at(REMOTE, 2000), at(SERVER, 50_000));
    assert!(scene.opens(low, at(SERVER, 8080)) && scene.opens(own, at(CLIENT, 5432)));
    scene.change(&server_sends(&[("192.0.2.0/24", &[443])]));
    scene.change(&server_sends(&[("192.0.2.0/24", &[80])]));
    assert!(scene.cuts() > 0);
    assert!(scene.goes_on(low, at(SERVER, 8080)));
    assert!(!scene.is_taken_up(at(CLIENT, 5432), own));
}

fn sets(plan: &Plan) -> usize {
    let operations = plan.operations().iter();
    let sets = operations.filter(|operation| matches!(operation, Operation::Set { .. }));
    sets.count()
}

/// An interface that gets other lists has no sessions any more; a list that becomes another leaves them.
#[test]
fn what_is_allowed_again_makes_no_interface_forget_its_sessions() {
    let all = server_receives(&["client", "friend"], &[80, 443]);
    let less = server_receives(&["client", "friend"], &[443]);
    for (again, is_all) in [(&less, false), (&all, true)] {
        let mut scene = connected();
        assert!(sets(&scene.change_by(&server_receives(&["friend"], &[443]))) > 0);
        let before = scene.cuts();
        assert_eq!(sets(&scene.change_by(again)), 0);
        assert!(scene.cuts() < before, "{before}");
        assert!(scene.goes_on(at(SERVER, 443), CLIENT));
        assert_eq!(scene.is_taken_up(SERVER, CLIENT), is_all);
        // What drops nothing any more goes with the next lists that an interface gets.
        scene.change(&server_receives(&[], &[]));
        scene.restart();
        scene.change(&open());
        assert_eq!(scene.cuts(), 0);
    }
}

/// What the server may receive from and send to one outside, and beside that at port 80 of everybody in one of the directions.
fn server_exchanges(from: Option<&str>, to: Option<&str>, [in_beside, out_beside]: [bool; 2]) -> Snapshot {
    let mut policy = policy("x/server").selects("name=server");
    policy = policy.isolates(Direction::Ingress).isolates(Direction::Egress);
    let beside = || accept().peer(block("0.0.0.0/0", &[])).port(Protocol::TCP, 80);
    for rule in from
        .map(|peer| accept().peer(block(peer, &[])))
        .into_iter()
        .chain(in_beside.then(beside))
    {
        policy = policy.ingress(rule);
    }
    for rule in to
        .map(|peer| accept().peer(block(peer, &[])))
        .into_iter()
        .chain(out_beside.then(beside))
    {
        policy = policy.egress(rule);
    }
    with(policy.build())
}

/// Who was left out when something was cut from everybody else is not left out when he is denied too.
#[test]
fn whom_a_list_left_out_it_cuts_once_he_is_denied() {
    let one = Some("192.0.2.9/32");
    let peer: End = (UPLINK, "192.0.2.9", 40_000);
    for is_ingress in [true, false] {
        let ends = match is_ingress {
            true => [peer, at(SERVER, 22)],
            false => [at(SERVER, 50_000), at(peer, 5432)],
        };
        let mut scene = Scene::start(&server_exchanges(one, one, [!is_ingress, is_ingress]));
        assert!(scene.opens(ends[0], ends[1]));
        scene.change(&server_exchanges(one, one, [false, false]));
        assert!(scene.cuts() > 0);
        assert!(scene.goes_on(ends[1], ends[0]));
        let (from, to) = if is_ingress { (None, one) } else { (one, None) };
        scene.change(&server_exchanges(from, to, [false, false]));
        assert!(!scene.is_taken_up(ends[0], ends[1]), "{is_ingress}");
    }
}

#[test]
fn lists_of_both_ways_become_less_where_they_are() {
    let one = Some("192.0.2.9/32");
    let all = server_exchanges(one, one, [true, true]);
    let mut scene = Scene::start(&all);
    scene.change(&server_exchanges(one, one, [false, false]));
    assert!(scene.cuts() > 0);
    let other: End = (UPLINK, "192.0.2.10", 40_000);
    assert!(!scene.opens(other, SERVER));
    assert_eq!(sets(&scene.change_by(&all)), 0);
    assert!(scene.opens(other, SERVER) && scene.opens(at(SERVER, 50_000), at(other, 80)));
}

/// Whatever VPP refuses of what is allowed again, or of what is cut.
#[test]
fn what_vpp_refuses_neither_keeps_out_the_allowed_nor_lets_in_the_cut() {
    let [all, friend] =
        [&["client", "friend"][..], &["friend"]].map(|from| server_receives(from, &[80, 443]));
    for refused in 1..3 {
        let mut scene = connected();
        scene.change(&friend);
        assert!(!scene.change_refused(&all, refused).is_empty());
        scene.fake.forget_faults();
        scene.change(&friend);
        assert!(!scene.is_taken_up(SERVER, CLIENT), "{refused}");

        let mut scene = connected();
        scene.change(&friend);
        assert!(!scene.change_refused(&all, refused).is_empty());
        scene.fake.forget_faults();
        scene.sync();
        assert!(scene.opens(at(CLIENT, 41_000), SERVER), "{refused}");

        let mut scene = connected();
        assert!(!scene.change_refused(&friend, refused).is_empty());
        scene.fake.forget_faults();
        scene.change(&all);
        assert!(scene.opens(at(CLIENT, 41_000), SERVER), "{refused}");
        assert!(scene.goes_on(CLIENT, SERVER), "{refused}");
    }
}

/// Of interfaces that share a list of what was cut, one is let in again while more is cut from others.
#[test]
fn a_shared_list_becomes_less_for_one_and_more_for_others() {
    let mut scene = Scene::start(&pods_receive(&[80, 443], &[80, 443]));
    let peer: End = (UPLINK, "10.9.0.1", 40_000);
    for pod in [SERVER, CLIENT, FRIEND] {
        assert!(scene.opens(peer, at(pod, 80)) && scene.opens(peer, at(pod, 443)));
    }
    scene.change(&pods_receive(&[443], &[443]));
    scene.change(&pods_receive(&[80, 443], &[8080]));
    scene.sync();
    for pod in [CLIENT, FRIEND] {
        for port in [80, 443] {
            assert!(!scene.is_taken_up(at(pod, port), peer), "{pod:?} {port}");
        }
    }
    assert!(scene.opens(at(peer, 41_000), SERVER));
}

#[test]
fn the_day_begins_anew_when_what_was_allowed_again_is_cut() {
    const HALF: Duration = Duration::from_secs(12 * 60 * 60);
    let friend = server_receives(&["friend"], &[80, 443]);
    let mut scene = connected();
    scene.change(&friend);
    assert!(scene.held.age(HALF).is_empty());
    scene.change(&server_receives(&["client", "friend"], &[80, 443]));
    assert!(scene.opens(CLIENT, SERVER));
    scene.change(&friend);
    assert!(scene.held.age(HALF).is_empty());
    scene.sync();
    assert!(!scene.is_taken_up(SERVER, CLIENT));
    assert_eq!(scene.held.age(HALF).len(), 1);
}

#[test]
fn the_day_begins_anew_only_when_more_is_cut() {
    const HALF: Duration = Duration::from_secs(12 * 60 * 60);
    for (then, is_over) in [
        (server_receives(&["friend"], &[443]), true),
        (server_receives(&["friend"], &[80, 443]), true),
        (server_receives(&[], &[]), false),
    ] {
        let mut scene = connected();
        scene.change(&server_receives(&["friend"], &[443]));
        assert!(scene.held.age(HALF).is_empty());
        scene.change(&then);
        assert_eq!(!scene.held.age(HALF).is_empty(), is_over);
        // Nobody was told yet, and what is read now says nothing of the time.
        let reading = scene.vpp.read().expect("what there is");
        scene.held.read_again(reading.installed);
        assert_eq!(!scene.held.age(Duration::ZERO).is_empty(), is_over);
        scene.sync();
        assert_eq!(scene.cuts() == 0, is_over);
    }
}
