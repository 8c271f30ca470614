//! The few different sets of traffic of a cluster, by number.

use picket_net::{Protocol, ProtocolSet, TrafficSet};
use rustc_hash::FxHashMap;

/// The number of a set of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct TrafficId(pub(crate) u32);

impl TrafficId {
    pub(crate) const NONE: Self = Self(0);
    pub(crate) const ALL: Self = Self(1);
}

/// All sets of traffic that occurred, each once.
#[derive(Clone, Debug)]
pub(crate) struct Traffics {
    sets: Vec<TrafficSet>,
    ids: FxHashMap<TrafficSet, TrafficId>,
    meets: FxHashMap<(TrafficId, TrafficId), TrafficId>,
    differences: FxHashMap<(TrafficId, TrafficId), TrafficId>,
    nothing: TrafficSet,
}

impl Traffics {
    pub(crate) fn new() -> Self {
        let mut traffics = Self {
            sets: Vec::new(),
            ids: FxHashMap::default(),
            meets: FxHashMap::default(),
            differences: FxHashMap::default(),
            nothing: TrafficSet::empty(),
        };
        // INVARIANT: in the order of the constants above.
        traffics.intern(&TrafficSet::empty());
        traffics.intern(&TrafficSet::all());
        traffics
    }

    pub(crate) fn intern(&mut self, set: &TrafficSet) -> TrafficId {
        if let Some(&id) = self.ids.get(set) {
            return id;
        }
        let id = TrafficId(u32::try_from(self.sets.len()).unwrap_or(u32::MAX));
        self.sets.push(set.clone());
        self.ids.insert(set.clone(), id);
        id
    }

    pub(crate) fn get(&self, id: TrafficId) -> &TrafficSet {
        self.sets.get(id.0 as usize).unwrap_or(&self.nothing)
    }

    /// What both allow.
    pub(crate) fn meet(&mut self, one: TrafficId, other: TrafficId) -> TrafficId {
        let (one, other) = (one.min(other), one.max(other));
        match (one, other) {
            (TrafficId::NONE, _) => TrafficId::NONE,
            (TrafficId::ALL, _) => other,
            _ if one == other => one,
            key => {
                if let Some(&known) = self.meets.get(&key) {
                    return known;
                }
                let both = self.get(one).intersection(self.get(other));
                let id = self.intern(&both);
                self.meets.insert(key, id);
                id
            }
        }
    }

    /// What `one` allows and `other` does not.
    pub(crate) fn difference(&mut self, one: TrafficId, other: TrafficId) -> TrafficId {
        match (one, other) {
            (TrafficId::NONE, _) | (_, TrafficId::ALL) => TrafficId::NONE,
            (_, TrafficId::NONE) => one,
            _ if one == other => TrafficId::NONE,
            key => {
                if let Some(&known) = self.differences.get(&key) {
                    return known;
                }
                let rest = self.get(one).difference(self.get(other));
                let id = self.intern(&rest);
                self.differences.insert(key, id);
                id
            }
        }
    }
}

/// The JSON of what is allowed: `"all"`, or an object with the keys that have something. Of protocols without ports
/// other than ICMP and ICMPv6 only all together count: no policy can name one of them.
pub(crate) fn json(traffic: &TrafficSet) -> String {
    if traffic.is_all() {
        return "\"all\"".to_owned();
    }
    let mut keys = Vec::new();
    for protocol in Protocol::WITH_PORTS {
        let ports = traffic.ports(protocol).into_iter();
        let ranges: Vec<_> = ports
            .flat_map(|ports| ports.ranges())
            .map(|range| format!("[{},{}]", range.first(), range.last()))
            .collect();
        if !ranges.is_empty() {
            keys.push(format!("\"{protocol}\":[{}]", ranges.join(",")));
        }
    }
    let named = [Protocol::ICMP, Protocol::ICMPV6];
    for protocol in named {
        if traffic.portless.contains(protocol) {
            keys.push(format!("\"{protocol}\":true"));
        }
    }
    let without_named = |set: ProtocolSet| {
        named
            .iter()
            .fold(set, |rest, &protocol| rest.difference(protocol.into()))
    };
    if without_named(traffic.portless) == without_named(ProtocolSet::all()) {
        keys.push("\"other\":true".to_owned());
    }
    format!("{{{}}}", keys.join(","))
}
