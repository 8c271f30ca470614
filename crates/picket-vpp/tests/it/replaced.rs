//! Lists that become others where they are: VPP is told once, and no session outlives what let it begin.

use std::collections::BTreeMap;

use picket_cluster::{Object, Semantics, Snapshot};
use picket_net::Protocol;
use picket_policy::Policy;
use picket_testing::build::{self, accept, node, pod, pods_where};
use picket_testing::generate::{Shape, cluster, policies, together};
use picket_vpp::acl::hold::Held;
use picket_vpp::acl::plan::{Installed, InstalledLists, Operation, Plan};
use picket_vpp::acl::{ACK, Acls};
use picket_vpp::client::Connector;
use picket_vpp::fake::{Direction, Fake, Packet, State, Verdict};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::faults::{Journey, OF_CLIENTS, journeys, passes};
use crate::installed::{carry_out, start};
use crate::journey::Cluster;

const NODE: &str = "n1";

/// Which of so many pods a policy is about.
#[derive(Clone, Copy)]
pub(crate) enum Restricted {
    /// All of them.
    All,
    /// All but the last.
    AllButLast,
    /// All but the second.
    AllButSecond,
    /// The last.
    Last,
}

/// A node with so many pods, which may send nothing but questions to the first.
pub(crate) fn pods(count: usize, restricted: Restricted) -> Snapshot {
    let pods = (0..count).map(|number| {
        let place = match number {
            0 => "first",
            1 => "second",
            number if number + 1 == count => "last",
            _ => "between",
        };
        let pod = pod(&format!("x/p{number}")).label("place", place).on(NODE);
        Object::from(pod.ip(&format!("10.0.0.{}", number + 1)).build())
    });
    let selected = match restricted {
        Restricted::All => "",
        Restricted::AllButLast => "place!=last",
        Restricted::AllButSecond => "place!=second",
        Restricted::Last => "place=last",
    };
    let questions = accept()
        .peer(pods_where("", "place=first"))
        .port(Protocol::UDP, 53);
    let policy: Policy = build::policy("x/questions")
        .selects(selected)
        .egress(questions)
        .build();
    let node = Object::Node(node(NODE).ip("192.168.0.1").build());
    pods.chain([node, Object::Policy(policy)]).collect()
}

/// What a VPP with the lists of one snapshot is told to have those of another.
fn told(before: &Snapshot, after: &Snapshot) -> Plan {
    let semantics = Semantics::default();
    let [before, after] = [before, after].map(|snapshot| {
        let lists = Cluster::new(snapshot, &semantics).acls;
        lists[&Some(NODE.into())].clone()
    });
    let interfaces = before.interfaces.keys().chain(after.interfaces.keys());
    let interfaces = interfaces.map(|name| (name.clone(), InstalledLists::default()));
    let mut held = Held::new(Installed {
        interfaces: interfaces.collect(),
        ..Installed::default()
    });
    let [_, plan] = [before, after].map(|acls| {
        let plan = held.plan(&acls, held.installed().interfaces.keys());
        let created = plan.operations().iter().filter_map(|operation| match operation {
            Operation::Create(acl) => Some(acl.tag.clone()),
            _ => None,
        });
        let next = held
            .installed()
            .acls
            .last_key_value()
            .map_or(0, |(index, _)| index + 1);
        let created = created.zip(next..).collect();
        held.advance(&plan, &created);
        plan
    });
    plan
}

pub(crate) fn replaced(plan: &Plan) -> usize {
    let operations = plan.operations().iter();
    operations
        .filter(|operation| matches!(operation, Operation::Replace { .. }))
        .count()
}

/// However many interfaces have a list, it lets more pass by one message; also where one of them is to have something else.
#[test]
fn a_list_that_lets_more_pass_is_replaced_where_it_is() {
    for (before, after) in [
        (pods as fn(_, _) -> _, fewer as fn(usize) -> Snapshot),
        (pods, |count| pods(count, Restricted::AllButLast)),
    ] {
        let counts = [6, 30].map(|count| {
            let plan = told(&before(count, Restricted::All), &after(count));
            assert!(replaced(&plan) > 0, "{plan:?}");
            plan.operations().len()
        });
        assert_eq!(counts[0], counts[1]);
        assert!(counts[0] < 20, "{counts:?}");
    }
}

/// The same pods under a policy about all, but that the last has gone.
fn fewer(count: usize) -> Snapshot {
    let mut snapshot = pods(count, Restricted::All);
    snapshot
        .pods
        .retain(|object, _| object.name != format!("p{}", count - 1));
    snapshot
}

/// VPP forgets sessions where an interface gets another list, and not where a list becomes another.
#[test]
fn a_list_that_lets_less_pass_is_made_anew() {
    let count = 12;
    let plan = told(
        &pods(count, Restricted::AllButLast),
        &pods(count, Restricted::All),
    );
    let operations = plan.operations().iter();
    let sets = operations.filter(|operation| matches!(operation, Operation::Set { .. }));
    assert!(sets.count() >= count - 1, "{plan:?}");
}

/// Makes the lists of a VPP these; what it was told.
fn put(connector: &mut Connector, acls: &Acls) -> Plan {
    let (plan, troubles) = carry_out(connector, acls);
    assert!(troubles.is_empty(), "{troubles:?}");
    plan
}

/// Sends what begins each connection, and what answers it.
fn send(fake: &Fake, sent: &[Journey]) {
    let state = fake.state();
    for (from, to, packet) in sent {
        let ends = state.interface(from).zip(state.interface(to));
        let (from, to) = ends.expect("both interfaces");
        if fake.journey(from, to, packet, None).reaches() {
            fake.journey(to, from, &packet.reply(), None);
        }
    }
}

/// Whether a connection of TCP that was there goes on when who answered it sends first.
fn is_taken_up(state: &State, (from, to, packet): &Journey) -> bool {
    let mut state = state.clone();
    let ends = state.interface(from).zip(state.interface(to));
    let (from, to) = ends.expect("both interfaces");
    let mut goes = |from, to, packet: &Packet| {
        let segment = Packet {
            tcp_flags: ACK,
            ..*packet
        };
        state.packet(from, Direction::In, &segment) == Verdict::Passed
            && state.packet(to, Direction::Out, &segment) == Verdict::Passed
    };
    goes(to, from, &packet.reply());
    packet.protocol == Protocol::TCP && goes(from, to, packet)
}

/// Lets connections begin with each of some lists in turn; those that the next deny pass no more, nor go on when who answered
/// sends first.
fn check(snapshots: &[Snapshot]) -> Result<usize, TestCaseError> {
    let semantics = Semantics::default();
    let clusters: Vec<_> = snapshots
        .iter()
        .map(|snapshot| Cluster::new(snapshot, &semantics))
        .collect();
    let mut count = 0;
    for node in clusters[0].acls.keys() {
        let lists: Vec<_> = clusters.iter().map(|cluster| &cluster.acls[node]).collect();
        let sent: Vec<Journey> = clusters
            .iter()
            .zip(snapshots)
            .flat_map(|(cluster, snapshot)| journeys(cluster, snapshot, node.as_ref(), OF_CLIENTS))
            .collect();
        let afresh: BTreeMap<usize, Vec<bool>> = lists
            .iter()
            .copied()
            .enumerate()
            .map(|(number, acls)| {
                let (fake, mut connector) = start(acls, 19);
                put(&mut connector, acls);
                (
                    number,
                    sent.iter()
                        .map(|journey| passes(&fake.state(), journey))
                        .collect(),
                )
            })
            .collect();
        let bare: Vec<_> = lists.iter().map(|acls| acls.acls.is_empty()).collect();
        let is_bare = |number: usize| bare[number];
        let (fake, mut connector) = start(lists[0], 19);
        for (number, acls) in lists.into_iter().enumerate() {
            count += replaced(&put(&mut connector, acls));
            let state = fake.state();
            let before = number.checked_sub(1).filter(|before| !is_bare(*before));
            for (place, journey) in sent.iter().enumerate() {
                // Where there was no list at all, an agent that comes then cannot know that one was there.
                let was_there = before.is_some_and(|before| afresh[&before][place]);
                let is_cut = was_there && !afresh[&number][place];
                prop_assert!(!is_cut || !is_taken_up(&state, journey), "{number}: {journey:?}");
            }
            for (journey, &passes_afresh) in sent.iter().zip(&afresh[&number]) {
                prop_assert_eq!(
                    passes(&state, journey),
                    passes_afresh,
                    "{}: {:?}",
                    number,
                    journey
                );
            }
            send(&fake, &sent);
        }
    }
    Ok(count)
}

#[test]
fn connections_end_that_lists_deny_which_were_replaced_before() {
    let restricted = [
        Restricted::All,
        Restricted::AllButLast,
        Restricted::All,
        Restricted::Last,
        Restricted::AllButLast,
    ];
    let count = check(&restricted.map(|restricted| pods(6, restricted))).expect("what each lets pass");
    assert!(count > 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn no_connection_outlives_the_lists_that_let_it_begin(
        cluster in cluster(),
        each in prop::collection::vec(policies(Shape::V1, 3), 4),
    ) {
        let snapshots: Vec<_> = each.into_iter().map(|policies| together(&cluster, policies)).collect();
        check(&snapshots)?;
    }
}
