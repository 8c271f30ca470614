//! What an assertion wants of which pairs.

use std::rc::Rc;

use picket_net::{Family, PortRange, PortSet, Protocol, ProtocolSet, TrafficSet};
use picket_policy::{Diagnostic, Severity};

use super::choose::{Chosen, choose, families_of};
use super::world::{Member, World};
use super::{Assertion, Claim, End, Ends, PortSpec, codes};
use crate::directory::Directory;
use crate::map::traffic::TrafficId;

/// What an assertion wants of some pairs.
#[derive(Clone, Debug)]
pub(super) struct Wish {
    /// Whether all of the packets are to be allowed, or none.
    pub(super) allowed: bool,
    pub(super) from: Rc<Chosen>,
    pub(super) to: Rc<Chosen>,
    pub(super) packets: Packets,
    /// The families that it is about, as bits.
    pub(super) families: u8,
    /// Whether pairs are left out that no policy can keep apart.
    pub(super) is_lenient: bool,
}

/// The packets that an assertion speaks of, or all others.
#[derive(Clone, Debug)]
pub(super) struct Packets {
    pub(super) specs: Rc<[PortSpec]>,
    pub(super) inverted: bool,
}

/// An assertion, ready to be judged.
#[derive(Clone, Debug)]
pub(super) struct Plan<'a> {
    pub(super) assertion: &'a Assertion,
    pub(super) from: Rc<Chosen>,
    pub(super) to: Rc<Chosen>,
    pub(super) wishes: Vec<Wish>,
    /// For [`Claim::Unreachable`] what steps may lead through; `None` for pods and workloads.
    pub(super) through: Option<Rc<Chosen>>,
}

/// What an assertion wants, or what is wrong with an end of it that names nothing.
pub(super) fn plan<'a>(
    world: &World<'_>,
    directory: &Directory<'_>,
    assertion: &'a Assertion,
) -> Result<Plan<'a>, Vec<Diagnostic>> {
    let from = choose(world, directory, &assertion.from);
    let to = choose(world, directory, &assertion.to);
    let through = match &assertion.claim {
        Claim::Unreachable(Some(through)) => choose(world, directory, through).map(Some),
        _ => Ok(None),
    };
    let (Ok(from), Ok(to), Ok(through)) = (&from, &to, &through) else {
        let problems = [from.err(), to.err(), through.err()]
            .into_iter()
            .flatten()
            .flatten();
        return Err(problems.collect());
    };
    let (from, to) = (Rc::new(from.clone()), Rc::new(to.clone()));
    let packets = Packets {
        specs: assertion.ports.clone().into(),
        inverted: false,
    };
    let has_any = to
        .list()
        .iter()
        .filter_map(|&at| world.members.get(at))
        .any(|to| {
            Family::BOTH
                .into_iter()
                .any(|family| !packets.towards(to, family).is_empty())
        });
    if !has_any {
        let message = format!("`{}` speaks of ports that no destination has", assertion.name);
        let problem =
            Diagnostic::new(codes::NOTHING, Severity::Error, message).mark(assertion.span.clone(), "");
        return Err(vec![problem.note(
            "no destination declares a container port of that name and protocol, or has the family",
        )]);
    }
    let first = Wish {
        allowed: matches!(assertion.claim, Claim::Allowed | Claim::Exactly(_)),
        from: Rc::clone(&from),
        to: Rc::clone(&to),
        packets,
        families: families_of(assertion.family),
        // `any` is everybody whom policies can keep away.
        is_lenient: [&assertion.from, &assertion.to].into_iter().any(names_any),
    };
    Ok(Plan {
        assertion,
        from,
        to,
        wishes: wishes(world, &assertion.claim, first),
        through: through.clone().map(Rc::new),
    })
}

fn names_any(ends: &Ends) -> bool {
    ends.items.iter().any(|(end, _)| *end == End::Any)
}

fn wishes(world: &World<'_>, claim: &Claim, first: Wish) -> Vec<Wish> {
    let (Claim::Exactly(sides) | Claim::Only(sides)) = claim else {
        return vec![first];
    };
    let nothing_else = Wish {
        allowed: false,
        is_lenient: true,
        ..first.clone()
    };
    let mut wishes = Vec::new();
    if sides.from {
        wishes.push(Wish {
            from: Rc::new(first.from.others(world)),
            ..nothing_else.clone()
        });
    }
    if sides.to {
        wishes.push(Wish {
            to: Rc::new(first.to.others(world)),
            ..nothing_else.clone()
        });
    }
    if sides.ports {
        let packets = Packets {
            inverted: true,
            ..first.packets.clone()
        };
        wishes.push(Wish {
            packets,
            ..nothing_else
        });
    }
    if first.allowed {
        wishes.insert(0, first);
    }
    wishes
}

impl Packets {
    /// Those that can be sent to a destination in a family.
    pub(super) fn towards(&self, to: &Member, family: Family) -> TrafficSet {
        let named = if self.specs.is_empty() {
            TrafficSet::all()
        } else {
            self.specs
                .iter()
                .fold(TrafficSet::empty(), |all, spec| all.union(&of_spec(spec, to)))
        };
        let meant = if self.inverted {
            TrafficSet::all().difference(&named)
        } else {
            named
        };
        meant.difference(&foreign(family).into())
    }

    /// The number of what can be sent to a destination, per family.
    pub(super) fn ids(&self, world: &World<'_>, to: &Member) -> [TrafficId; 2] {
        Family::BOTH.map(|family| world.traffics.borrow_mut().intern(&self.towards(to, family)))
    }

    /// A name of a port that the destination does not have.
    pub(super) fn unresolved(&self, to: &Member) -> Option<&PortSpec> {
        let missing = |spec: &&PortSpec| matches!(spec, PortSpec::Named(..)) && of_spec(spec, to).is_empty();
        self.specs.iter().find(missing)
    }

    /// Whether what is meant depends on the destination.
    pub(super) fn has_names(&self) -> bool {
        self.specs.iter().any(|spec| matches!(spec, PortSpec::Named(..)))
    }
}

/// The ICMP of the other family, of which no packet can be.
pub(super) fn foreign(family: Family) -> Protocol {
    match family {
        Family::Ipv4 => Protocol::ICMPV6,
        Family::Ipv6 => Protocol::ICMP,
    }
}

/// The protocols without ports, but for those of ICMP.
pub(super) fn other_protocols() -> ProtocolSet {
    let icmp = ProtocolSet::from(Protocol::ICMP).union(Protocol::ICMPV6.into());
    ProtocolSet::all().difference(icmp)
}

fn of_spec(spec: &PortSpec, to: &Member) -> TrafficSet {
    match spec {
        PortSpec::Protocol(protocol) => (*protocol).into(),
        PortSpec::Other => TrafficSet {
            portless: other_protocols(),
            ..TrafficSet::empty()
        },
        PortSpec::Range(protocol, range) => TrafficSet::of(*protocol, PortSet::from(*range)),
        PortSpec::Named(protocol, name) => {
            let declared = to.pod().into_iter().flat_map(|pod| &*pod.ports);
            let own = declared.filter(|port| port.name == *name && port.protocol == *protocol);
            let ports: PortSet = own.filter_map(|port| PortRange::single(port.port)).collect();
            TrafficSet::of(*protocol, ports)
        }
    }
}
