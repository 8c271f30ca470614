//! What each pod of a node may send and receive, by address.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use picket_engine::{AllowSet, Identity, PodRef, Program, SubjectId};
use picket_net::{Family, Prefix};
use picket_policy::{Direction, ObjectRef};
use rustc_hash::FxHashMap;

use crate::layer4::Layer4;
use crate::peers::Peers;
use crate::place::Places;
use crate::value::{Value, Values};

/// What a pod may exchange with whom, of each family that it has an address of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lists {
    /// Its addresses.
    pub addresses: BTreeSet<IpAddr>,
    /// What it may receive, IPv4 and IPv6; `None` where it has no such address.
    pub ingress: [Option<Arc<Peers>>; 2],
    /// What it may send.
    pub egress: [Option<Arc<Peers>>; 2],
    /// Whether something restricts it of which no address is known.
    pub is_unknown: bool,
}

impl Lists {
    /// What it may exchange with whom in one direction.
    pub fn of(&self, direction: Direction) -> &[Option<Arc<Peers>>; 2] {
        match direction {
            Direction::Ingress => &self.ingress,
            Direction::Egress => &self.egress,
        }
    }

    /// Whether it may not exchange something in that direction with somebody.
    pub fn is_restricted(&self, direction: Direction) -> bool {
        self.of(direction)
            .iter()
            .flatten()
            .any(|peers| !peers.is_everything())
    }
}

/// Works out the lists of the pods of one node.
#[derive(Debug)]
pub(crate) struct Compiler<'a> {
    program: &'a Program,
    places: &'a Places,
    /// The addresses of the node.
    own_node: BTreeSet<IpAddr>,
    known: FxHashMap<(Family, Vec<SubjectId>), Arc<Peers>>,
}

impl<'a> Compiler<'a> {
    pub(crate) fn new(program: &'a Program, places: &'a Places, node: Option<&str>) -> Self {
        let own_node = node.and_then(|node| program.node(node));
        Self {
            program,
            places,
            own_node: own_node.map(|node| node.addresses.clone()).unwrap_or_default(),
            known: FxHashMap::default(),
        }
    }

    /// The lists of the managed pods of the node, or with `None` of every managed pod.
    pub(crate) fn pods(&mut self, node: Option<&str>, values: &mut Values) -> BTreeMap<ObjectRef, Lists> {
        let pods: Vec<_> = match node {
            Some(node) => self.program.pods_on(node),
            None => self.program.pods().filter(PodRef::is_managed).collect(),
        };
        // Pods that have one address, as one that ends and the next one do, are both held to what either may do.
        let mut subjects: BTreeMap<(IpAddr, Direction), BTreeSet<SubjectId>> = BTreeMap::new();
        for pod in &pods {
            for address in pod.pod().addresses.iter() {
                for direction in Direction::BOTH {
                    let entry = subjects.entry((address, direction)).or_default();
                    entry.extend(pod.subject(direction));
                }
            }
        }
        let mut found = BTreeMap::new();
        for pod in pods {
            let addresses = pod.pod().addresses;
            let mut list = |family: Family, direction| {
                let address = addresses.of(family)?;
                let subjects = subjects.get(&(address, direction)).into_iter().flatten();
                Some(self.list(family, subjects.copied().collect(), values))
            };
            let mut lists = |direction| Family::BOTH.map(|family| list(family, direction));
            let (ingress, egress) = (lists(Direction::Ingress), lists(Direction::Egress));
            found.insert(
                pod.pod().object.clone(),
                Lists {
                    addresses: addresses.iter().collect(),
                    ingress,
                    egress,
                    is_unknown: addresses.is_empty()
                        && Direction::BOTH
                            .iter()
                            .any(|&direction| pod.subject(direction).is_some()),
                },
            );
        }
        found
    }

    /// What pods to which all of `subjects` apply may exchange, with whom.
    fn list(&mut self, family: Family, subjects: Vec<SubjectId>, values: &mut Values) -> Arc<Peers> {
        let key = (family, subjects);
        if let Some(known) = self.known.get(&key) {
            return Arc::clone(known);
        }
        let each = key
            .1
            .iter()
            .map(|&subject| self.of_subject(family, subject, values));
        let all = each.collect::<Vec<_>>().into_iter();
        let list = all.reduce(|one, other| one.common(&other, values));
        let list = Arc::new(list.unwrap_or_else(|| Peers::everybody(family, Value::EVERYTHING)));
        self.known.insert(key, Arc::clone(&list));
        list
    }

    fn of_subject(&self, family: Family, subject: SubjectId, values: &mut Values) -> Peers {
        let allowed = self.program.allow_set(subject);
        let by_identity = ByIdentity::of(&allowed, family, values);
        let mut entries: Vec<(Prefix, Value)> = Vec::new();
        let regions = self.places.regions(family).iter();
        entries.extend(regions.map(|&(prefix, identity)| (prefix, by_identity.value(identity))));
        for (own, region, addresses) in self.places.held(family) {
            let value = by_identity.value(own);
            if value != by_identity.value(region) {
                entries.extend(addresses.iter().map(|&address| (Prefix::host(address), value)));
            }
        }
        let own_node = self.program.own_node_allow_set(subject);
        let by_identity = ByIdentity::of(&own_node, family, values);
        for &address in self
            .own_node
            .iter()
            .filter(|&&address| Family::of(address) == family)
        {
            let value = by_identity.value(self.program.identity_of(address));
            entries.push((Prefix::host(address), value));
        }
        Peers::new(family, entries)
    }
}

/// What an allow set says about every identity.
#[derive(Debug)]
struct ByIdentity {
    everybody: Value,
    values: Vec<Value>,
}

impl ByIdentity {
    fn of(allowed: &AllowSet, family: Family, values: &mut Values) -> Self {
        let nothing = values.number(Layer4::necessary(family));
        let mut found = Self {
            everybody: nothing,
            values: Vec::new(),
        };
        for (traffic, peers) in allowed.entries() {
            let value = values.number(Layer4::allowed(traffic, family));
            if peers.is_all() {
                found.everybody = value;
                continue;
            }
            for interval in peers.intervals() {
                let (first, last) = (interval.first() as usize, interval.last() as usize);
                if found.values.len() <= last {
                    found.values.resize(last + 1, nothing);
                }
                if let Some(range) = found.values.get_mut(first..=last) {
                    range.fill(value);
                }
            }
        }
        found
    }

    fn value(&self, identity: Identity) -> Value {
        let found = self.values.get(identity.number() as usize);
        found.copied().unwrap_or(self.everybody)
    }
}

/// The lists of a pod for which rules were given: `ingress` what it may receive, `egress` what it may send, each deciding by
/// the first that matches. What no rule matches is allowed.
pub fn of_rules(
    addresses: impl IntoIterator<Item = IpAddr>,
    ingress: &[crate::rule::Rule],
    egress: &[crate::rule::Rule],
    values: &mut Values,
) -> Lists {
    let addresses: BTreeSet<_> = addresses.into_iter().collect();
    let mut lists = |rules: &[crate::rule::Rule], of_source| {
        Family::BOTH.map(|family| {
            let has = addresses.iter().any(|&address| Family::of(address) == family);
            has.then(|| {
                Arc::new(Peers::of_rules(
                    family,
                    rules,
                    of_source,
                    Value::EVERYTHING,
                    values,
                ))
            })
        })
    };
    let (ingress, egress) = (lists(ingress, true), lists(egress, false));
    Lists {
        addresses,
        ingress,
        egress,
        is_unknown: false,
    }
}

impl Lists {
    /// What it may send or receive, where it has an address of the family.
    pub(crate) fn peers(&self, direction: Direction, family: Family) -> Option<&Arc<Peers>> {
        let [v4, v6] = self.of(direction);
        match family {
            Family::Ipv4 => v4.as_ref(),
            Family::Ipv6 => v6.as_ref(),
        }
    }
}
