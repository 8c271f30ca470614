//! Whatever goes wrong at whichever message while lists change: in the end they are as they should be, and nothing has passed
//! meanwhile that passes neither before nor after.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use picket_cluster::{Semantics, Snapshot};

use picket_testing::flows::representative_flows;
use picket_testing::generate::{Shape, cluster, policies, together};
use picket_vpp::acl::Acls;
use picket_vpp::acl::hold::Held;
use picket_vpp::acl::meaning::Way;
use picket_vpp::acl::plan::plan;
use picket_vpp::client::{Connector, Error, Feature};
use picket_vpp::fake::{Fake, Fault, Options, Packet, State, When};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use smol_str::SmolStr;

use crate::installed::lists_beside_cuts;
use crate::journey::{Cluster, Hop};
use crate::replaced::{Restricted, pods};

/// A packet from one interface to another.
pub(crate) type Journey = (SmolStr, SmolStr, Packet);

/// How long a client waits where an answer is held back.
const SHORT: Duration = Duration::from_millis(30);

/// How long it waits otherwise: longer than any machine takes.
const PATIENT: Duration = Duration::from_secs(120);

/// How long to wait for VPP this time while this may go wrong, if it is still to come. Each time it is twice as long: on a busy
/// machine a short time may be too short for all that comes before.
pub(crate) fn patience(fake: &Fake, fault: Option<&Fault>, time: u32) -> Duration {
    match fault {
        Some(Fault::Hold) if fake.faults() > 0 => SHORT.saturating_mul(2_u32.pow(time)).min(PATIENT),
        _ => PATIENT,
    }
}

/// What is known of a VPP between two plans.
#[derive(Clone, Copy, Debug)]
enum Followed {
    /// What was read.
    Read,
    /// What it holds, as the agent keeps it.
    Held,
}

/// What can go wrong with a message.
pub(crate) fn faults() -> [Fault; 8] {
    Fault::each_kind(Duration::from_millis(1))
}

/// At most so many packets are sent after each change of the state.
const MOST: usize = 40;

/// The first port from which who asks does, whoever that is.
pub(crate) const ANY: u16 = 1024;

/// The first that systems give to connections themselves.
pub(crate) const OF_CLIENTS: u16 = 32_768;

/// Packets that pass two interfaces of a node, from ports that begin there.
pub(crate) fn journeys(
    cluster: &Cluster<'_>,
    snapshot: &Snapshot,
    node: Option<&SmolStr>,
    first: u16,
) -> Vec<Journey> {
    let mut found = Vec::new();
    for (number, flow) in (0..).zip(representative_flows(snapshot)) {
        if !flow.protocol.has_ports() || flow.source == flow.destination {
            continue;
        }
        let hops = cluster.hops(&flow).unwrap_or_default();
        let here: Vec<&Hop> = hops.iter().filter(|(at, ..)| at.as_ref() == node).collect();
        let [(_, from, Way::In), (_, to, Way::Out)] = here.as_slice() else {
            continue;
        };
        let ends = [&flow.source, &flow.destination].map(|end| cluster.address(end, &flow));
        let port = first + u16::try_from(number % 28_000).expect("a port");
        let packet = Packet::new(flow.protocol, (ends[0], port), (ends[1], flow.port));
        found.push((from.clone(), to.clone(), packet));
    }
    let step = found.len().div_ceil(MOST).max(1);
    found.into_iter().step_by(step).collect()
}

/// Whether a packet that begins a connection passes now.
pub(crate) fn passes(state: &State, (from, to, packet): &Journey) -> bool {
    let ends = state.interface(from).zip(state.interface(to));
    ends.is_some_and(|(from, to)| state.would_reach(from, to, packet, None))
}

/// Adds the interfaces that are missing; they are down.
fn add_interfaces(fake: &Fake, acls: &Acls) {
    let state = fake.state();
    let known: BTreeSet<_> = state.interfaces().map(|(_, known)| known.name.clone()).collect();
    for name in acls
        .interfaces
        .keys()
        .filter(|name| !known.contains(name.as_str()))
    {
        fake.add_interface(name, "");
    }
}

/// Connects and does what is to be done; whether all of it is. A call that has been given up is over with its connector.
fn attempt(mut connector: Connector, fake: &Fake, acls: &Acls, way: Followed) -> Result<bool, Error> {
    let mut vpp = connector.connect(&[Feature::Acls, Feature::Interfaces])?;
    // A list of VPP's that holds nothing can be one that it did not give: it is asked again.
    let mut is_known = 0;
    while is_known < 2 {
        let mut known = vpp.read()?;
        let (plan, troubles) = match way {
            Followed::Read => {
                let plan = plan(&known.installed, acls);
                let troubles = vpp.carry_out(&plan, &mut known)?;
                (plan, troubles)
            }
            Followed::Held => {
                let mut held = Held::new(known.installed);
                let plan = held.plan(acls, held.installed().interfaces.keys());
                let troubles = vpp.carry_out_held(&plan, &known.interfaces, &BTreeSet::new(), &mut held)?;
                (plan, troubles)
            }
        };
        is_known = if plan.is_empty() { is_known + 1 } else { 0 };
        if !troubles.is_empty() {
            return Ok(false);
        }
    }
    // Interfaces that are new go up when they have their lists.
    let up: Vec<_> = fake.state().interfaces().map(|(index, _)| index).collect();
    let is_whole = acls
        .interfaces
        .keys()
        .all(|name| fake.state().interface(name).is_some());
    if is_whole {
        assert!(up.into_iter().all(|index| fake.set_up(index, true)));
    }
    Ok(is_whole)
}

/// Goes on until everything is as it should be, whatever goes wrong once.
fn drive(fake: &Fake, acls: &Acls, way: Followed, fault: Option<&Fault>) {
    for time in 0..20 {
        let connector = Connector::new(fake.socket()).patient_for(patience(fake, fault, time));
        // An interface is never up before its lists are there: whoever makes one again makes it so.
        add_interfaces(fake, acls);
        if matches!(attempt(connector, fake, acls, way), Ok(true)) {
            return;
        }
        assert!(fake.let_all_end(), "an old connection does not end");
    }
    panic!("it does not come about");
}

/// A VPP that has these lists.
fn installed(acls: &Acls) -> Fake {
    let fake = Fake::start(Options::new(11).reads_sctp()).expect("a VPP");
    drive(&fake, acls, Followed::Read, None);
    fake
}

/// Lets something go wrong with the message at a place on the way from one to the other; whether there was one.
fn check(
    (old, new): (&Acls, &Acls),
    journeys: &BTreeMap<usize, (Journey, bool, bool)>,
    (place, fault): (usize, Fault),
    way: Followed,
) -> Result<bool, TestCaseError> {
    let fake = installed(old);
    let watched = journeys.clone();
    fake.observe(move |state, change| {
        for (journey, before, after) in watched.values() {
            if passes(state, journey) && !before && !after {
                return Err(format!("after {change}: {journey:?}"));
            }
        }
        Ok(())
    });
    fake.fail(When::After(place), fault.clone());
    drive(&fake, new, way, Some(&fault));
    let was_met = fake.faults() == 0;
    prop_assert_eq!(fake.findings(), Vec::<String>::new(), "{} {:?}", place, fault);
    prop_assert_eq!(fake.complaints(), Vec::<String>::new(), "{} {:?}", place, fault);
    let state = fake.state();
    for (journey, _, after) in journeys.values() {
        prop_assert_eq!(
            passes(&state, journey),
            *after,
            "{} {:?}: {:?}",
            place,
            fault,
            journey
        );
    }
    prop_assert_eq!(lists_beside_cuts(&fake), new.acls.len(), "{} {:?}", place, fault);
    Ok(was_met)
}

/// All faults at all places, on the way from the lists of one snapshot to those of the other, on one node.
fn check_all(before: &Snapshot, after: &Snapshot, faults: &[Fault]) -> Result<(), TestCaseError> {
    let semantics = Semantics::default();
    let (old, new) = (Cluster::new(before, &semantics), Cluster::new(after, &semantics));
    let changed = old.acls.iter().find(|(node, acls)| new.acls[*node] != **acls);
    let Some((node, old_acls)) = changed else {
        return Ok(());
    };
    let new_acls = &new.acls[node];
    let [first, last] = [old_acls, new_acls].map(|acls| installed(acls).state());
    let sent = journeys(&new, after, node.as_ref(), ANY)
        .into_iter()
        .chain(journeys(&old, before, node.as_ref(), ANY));
    let judged = sent.map(|journey| {
        let (before, after) = (passes(&first, &journey), passes(&last, &journey));
        (journey, before, after)
    });
    let judged: BTreeMap<_, _> = judged.enumerate().collect();
    for fault in faults {
        for way in [Followed::Read, Followed::Held] {
            let mut place = 0;
            while check((old_acls, new_acls), &judged, (place, fault.clone()), way)? {
                place += 1;
            }
            prop_assert!(place > 4, "{fault:?}: {place} messages");
        }
    }
    Ok(())
}

/// A list becomes another where it is, and others do beside it.
#[test]
fn nothing_opens_whatever_goes_wrong_where_lists_are_replaced() {
    let ways = [Restricted::All, Restricted::AllButLast, Restricted::All];
    for ways in ways.windows(2) {
        let (before, after) = (pods(4, ways[0]), pods(4, ways[1]));
        check_all(&before, &after, &faults()).expect("what each lets pass");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn nothing_opens_whatever_goes_wrong_at_any_message(
        cluster in cluster(),
        before in policies(Shape::V1, 3),
        after in policies(Shape::V1, 3),
    ) {
        check_all(&together(&cluster, before), &together(&cluster, after), &faults())?;
    }
}
