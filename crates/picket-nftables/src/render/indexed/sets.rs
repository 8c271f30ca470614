//! The sets and maps.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use picket_net::{AddressRange, Family, PortRange, PortSet, Protocol, TrafficSet};

use super::class::Classes;
use super::name;
use super::view::{LocalSide, NodeView, Role, judge};
use crate::diff::CHANGING;
use crate::model::{Comment, Datatype, Datum, Key, Map, MapType, ModelError, Name, Set, Value, Verdict};

/// ICMPv6 that always passes.
pub(super) const ALWAYS: &str = "icmpv6-always";

/// The priority that a packet came with → the chain that gives it back.
pub(super) const ARRIVAL_PRIORITY: &str = "arrival-priority";

/// Queueing priorities that are given back: those of 802.1p, among them all that Linux derives from an IPv4 TOS.
pub(super) const PRIORITIES: [u32; 8] = [0, 1, 2, 3, 4, 5, 6, 7];

/// Packet too big, and neighbour discovery: solicitations, advertisements and redirects of routers and neighbours.
const ALWAYS_TYPES: [u8; 6] = [2, 133, 134, 135, 136, 137];

/// Ranges up to this length are listed port by port: mostly they are single ports that happen to be neighbours, and
/// an exact lookup is cheaper than one of intervals.
const LISTED_PORTS: u16 = 8;

/// The sets that traffic other than "all" is looked up in, the cheapest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Exact {
    /// Traffic class and protocol.
    Protocols,
    /// Traffic class, protocol and destination port.
    Ports,
    /// Traffic class, protocol and range of destination ports.
    Ranges,
}

impl Exact {
    /// The name of the set.
    pub(super) fn set(self) -> &'static str {
        match self {
            Self::Protocols => "protocols",
            Self::Ports => "ports",
            Self::Ranges => "port-ranges",
        }
    }

    fn comment(self) -> &'static str {
        match self {
            Self::Protocols => "traffic class . protocol",
            Self::Ports | Self::Ranges => "traffic class . protocol . destination port",
        }
    }
}

/// The sets that hold something of this traffic.
pub(super) fn kinds(traffic: &TrafficSet) -> BTreeSet<Exact> {
    let portless = (!traffic.portless.is_empty()).then_some(Exact::Protocols);
    let ports = Protocol::WITH_PORTS
        .into_iter()
        .filter_map(|protocol| traffic.ports(protocol));
    let ports = ports.flat_map(|ports| {
        let is_all = ports.is_all();
        let kind = move |range| if is_all { Exact::Protocols } else { kind_of(range) };
        ports.ranges().map(kind)
    });
    portless.into_iter().chain(ports).collect()
}

/// The set that holds ports other than all.
fn kind_of(range: PortRange) -> Exact {
    match range.last() - range.first() < LISTED_PORTS {
        true => Exact::Ports,
        false => Exact::Ranges,
    }
}

/// The elements that stand for this traffic, without the class.
fn elements(traffic: &TrafficSet) -> Vec<(Exact, Vec<Value>)> {
    let mut found: Vec<_> = traffic
        .portless
        .iter()
        .map(|protocol| (Exact::Protocols, vec![Value::protocol(protocol)]))
        .collect();
    for protocol in Protocol::WITH_PORTS {
        if let Some(ports) = traffic.ports(protocol) {
            found.extend(port_elements(protocol, ports));
        }
    }
    found
}

fn port_elements(protocol: Protocol, ports: &PortSet) -> Vec<(Exact, Vec<Value>)> {
    if ports.is_all() {
        return vec![(Exact::Protocols, vec![Value::protocol(protocol)])];
    }
    let mut found = Vec::new();
    for range in ports.ranges() {
        if kind_of(range) == Exact::Ports {
            found.extend(
                (range.first()..=range.last())
                    .map(|port| (Exact::Ports, vec![Value::protocol(protocol), Value::port(port)])),
            );
        } else {
            found.push((
                Exact::Ranges,
                vec![Value::protocol(protocol), Value::ports(range)],
            ));
        }
    }
    found
}

/// The set of ICMPv6 that always passes.
pub(super) fn always() -> Result<Set, ModelError> {
    let always = ALWAYS_TYPES.map(|kind| Key::from(Value::Icmpv6Type(picket_net::Interval::single(kind))));
    let always = Set::new(name(ALWAYS), vec![Datatype::Icmpv6Type], false, always)?;
    Ok(always.commented(Comment::of("neighbour discovery and packet too big")))
}

/// Every set of the table.
pub(super) fn sets(view: &NodeView, classes: &Classes) -> Result<Vec<Set>, ModelError> {
    let changing = Set::new(name(CHANGING), vec![Datatype::Priority], false, [])?;
    let changing = changing.commented(Comment::of("while rules change, who sends is judged once more"));
    let mut sets = vec![always()?, changing];
    sets.extend(own_pods(&view.sides)?);
    sets.extend(exact(&classes.traffic, &kinds_of(&classes.traffic))?);
    Ok(sets)
}

/// The sets of own pods that something restricts.
pub(super) fn own_pods(sides: &[LocalSide]) -> Result<Vec<Set>, ModelError> {
    let mut sets = Vec::new();
    for family in Family::BOTH {
        let pairs = restricted(sides, family, true)
            .map(|address| Key::of([Value::address(address), Value::address(address)]));
        let set = Set::new(name(own(family)), vec![address_type(family); 2], false, pairs)?;
        sets.push(set.commented(Comment::of("a pod reaches itself")));
    }
    for family in Family::BOTH {
        let own_pods = restricted(sides, family, false).map(|address| Key::from(Value::address(address)));
        let set = Set::new(
            name(restricted_pods(family)),
            vec![address_type(family)],
            false,
            own_pods,
        )?;
        sets.push(set.commented(Comment::of("pods that something restricts")));
    }
    let of_node = [Role::OwnNode, Role::FromOwnNode].into_iter();
    for role in of_node.filter(|role| judge(sides, *role)) {
        let judged = sides.iter().filter(|side| side.role == role);
        for family in Family::BOTH {
            let own_pods = judged.clone().flat_map(|side| addresses(side, family));
            let own_pods = own_pods.map(|address| Key::from(Value::address(address)));
            let of = vec![address_type(family)];
            let set = Set::new(name(&restricted_in(role, family)), of, false, own_pods)?;
            sets.push(set.commented(Comment::of("pods that something restricts with this node")));
        }
    }
    Ok(sets)
}

/// The sets that hold something of any of this traffic.
pub(super) fn kinds_of(traffic: &BTreeMap<TrafficSet, u32>) -> BTreeSet<Exact> {
    traffic.keys().flat_map(kinds).collect()
}

/// The sets of these kinds, with the elements for `traffic`.
pub(super) fn exact(
    traffic: &BTreeMap<TrafficSet, u32>,
    kinds: &BTreeSet<Exact>,
) -> Result<Vec<Set>, ModelError> {
    let mut keys: BTreeMap<Exact, Vec<Key>> = kinds.iter().map(|&kind| (kind, Vec::new())).collect();
    for (traffic, &class) in traffic {
        for (kind, values) in elements(traffic) {
            let key = Key::of(std::iter::once(Value::priority(class)).chain(values));
            keys.entry(kind).or_default().push(key);
        }
    }
    let set = |(kind, keys): (Exact, Vec<Key>)| {
        let mut types = vec![Datatype::Priority, Datatype::Protocol];
        types.extend((kind != Exact::Protocols).then_some(Datatype::Port));
        let set = Set::new(name(kind.set()), types, kind == Exact::Ranges, keys)?;
        Ok(set.commented(Comment::of(kind.comment())))
    };
    keys.into_iter().map(set).collect()
}

/// Every map of the table.
pub(super) fn maps(view: &NodeView, classes: &Classes) -> Result<Vec<Map>, ModelError> {
    let chains = PRIORITIES.map(|priority| {
        let chain = Verdict::Goto(name(&priority_chain(priority)));
        (Key::from(Value::priority(priority)), Datum::Verdict(chain))
    });
    let priority = Map::new(
        name(ARRIVAL_PRIORITY),
        vec![Datatype::Priority],
        MapType::Verdict,
        false,
        chains,
    )?;
    let mut maps = vec![priority.commented(Comment::of("priority that a packet came with, to give back"))];
    for role in Role::ALL.into_iter().filter(|&role| view.judges(role)) {
        for family in Family::BOTH {
            maps.push(subjects_map(&view.sides, role, family)?);
        }
    }
    for family in Family::BOTH {
        maps.push(blocks_map(&classes.blocks, family)?);
        maps.push(peers_map(&classes.peers, family)?);
    }
    for side in &view.sides {
        let elements = classes.of_side(side);
        if !elements.is_empty() {
            maps.push(side_map(&side.name, elements)?);
        }
    }
    Ok(maps)
}

/// What a side allows.
pub(super) fn side_map(side: &Name, elements: &BTreeMap<u32, u32>) -> Result<Map, ModelError> {
    let elements = elements
        .iter()
        .map(|(&peer, &traffic)| (Key::from(Value::priority(peer)), Datum::Priority(traffic)));
    let map = Map::new(
        side.clone(),
        vec![Datatype::Priority],
        MapType::Priority,
        false,
        elements,
    )?;
    Ok(map.commented(Comment::of("peer class to traffic class")))
}

/// The chains of these sides, by the addresses of their pods.
pub(super) fn subjects_map<'s>(
    sides: impl IntoIterator<Item = &'s LocalSide>,
    role: Role,
    family: Family,
) -> Result<Map, ModelError> {
    let sides = sides.into_iter().filter(|side| side.role == role);
    let elements = sides.flat_map(|side| {
        let chain = Datum::Verdict(Verdict::Jump(side.name.clone()));
        addresses(side, family).map(move |address| (Key::from(Value::address(address)), chain.clone()))
    });
    let map = Map::new(
        name(&subjects(role, family)),
        vec![address_type(family)],
        MapType::Verdict,
        false,
        elements,
    )?;
    Ok(map.commented(Comment::of("own pod to the chain of its subject")))
}

/// The peer classes of ranges.
pub(super) fn blocks_map(ranges: &[(AddressRange, u32)], family: Family) -> Result<Map, ModelError> {
    let elements = ranges
        .iter()
        .filter(|(range, _)| range.family() == family)
        .map(|&(range, class)| (Key::from(Value::addresses(range)), Datum::Priority(class)));
    let map = Map::new(
        name(blocks(family)),
        vec![address_type(family)],
        MapType::Priority,
        true,
        elements,
    )?;
    Ok(map.commented(Comment::of("address to peer class")))
}

/// The peer classes of single addresses.
pub(super) fn peers_map(addresses: &BTreeMap<IpAddr, u32>, family: Family) -> Result<Map, ModelError> {
    let elements = addresses
        .iter()
        .filter(|&(&address, _)| Family::of(address) == family)
        .map(|(&address, &class)| (Key::from(Value::address(address)), Datum::Priority(class)));
    let map = Map::new(
        name(peers(family)),
        vec![address_type(family)],
        MapType::Priority,
        false,
        elements,
    )?;
    Ok(map.commented(Comment::of(
        "pod or node to peer class, where blocks say otherwise",
    )))
}

/// The addresses of pods that something restricts; with `audited` also of those that something would.
fn restricted(sides: &[LocalSide], family: Family, audited: bool) -> impl Iterator<Item = IpAddr> + use<> {
    let sides = sides.iter().filter(|side| audited || !side.role.audits());
    let found: BTreeSet<_> = sides.flat_map(|side| addresses(side, family)).collect();
    found.into_iter()
}

fn addresses(side: &LocalSide, family: Family) -> impl Iterator<Item = IpAddr> + '_ {
    side.addresses
        .iter()
        .copied()
        .filter(move |&address| Family::of(address) == family)
}

/// The set of (address, same address) of own pods.
pub(super) fn own(family: Family) -> &'static str {
    match family {
        Family::Ipv4 => "own4",
        Family::Ipv6 => "own6",
    }
}

/// The set of own pods that something restricts.
pub(super) fn restricted_pods(family: Family) -> &'static str {
    match family {
        Family::Ipv4 => "restricted4",
        Family::Ipv6 => "restricted6",
    }
}

/// The set of own pods that something restricts in this role.
pub(super) fn restricted_in(role: Role, family: Family) -> String {
    format!("restricted-{}", subjects(role, family))
}

/// The map from ranges of addresses to peer classes.
pub(super) fn blocks(family: Family) -> &'static str {
    match family {
        Family::Ipv4 => "blocks4",
        Family::Ipv6 => "blocks6",
    }
}

/// The map from single addresses to peer classes.
pub(super) fn peers(family: Family) -> &'static str {
    match family {
        Family::Ipv4 => "peers4",
        Family::Ipv6 => "peers6",
    }
}

/// The verdict map from own pods to chains.
pub(super) fn subjects(role: Role, family: Family) -> String {
    match family {
        Family::Ipv4 => format!("{role}4"),
        Family::Ipv6 => format!("{role}6"),
    }
}

/// The chain that gives a priority back.
pub(super) fn priority_chain(priority: u32) -> String {
    format!("priority-{priority}")
}

pub(super) fn address_type(family: Family) -> Datatype {
    match family {
        Family::Ipv4 => Datatype::Ipv4Address,
        Family::Ipv6 => Datatype::Ipv6Address,
    }
}
