//! Everything that assertions can be about on one network, cut where they tell it apart.

mod blocks;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use picket_cluster::{Pod, Snapshot};
use picket_engine::Program;
use picket_net::{AddressSet, Family};
use picket_policy::Tier;
use rustc_hash::FxHashMap;
use smol_str::SmolStr;

use super::Assertion;
use crate::directory::Party;
use crate::map::EndpointKind;
use crate::map::class::{Class, Classes, Pair, Rows};
use crate::map::endpoint::{self, Found};
use crate::map::traffic::{TrafficId, Traffics};
use blocks::Blocks;

/// A cluster as assertions see it.
#[derive(Debug)]
pub(super) struct World<'a> {
    pub(super) snapshot: &'a Snapshot,
    classes: Classes<'a>,
    pub(super) traffics: RefCell<Traffics>,
    /// Pods and workloads first, then nodes, then what is outside; each sorted by name.
    pub(super) members: Vec<Member>,
    /// The members of each class.
    pub(super) of_class: BTreeMap<usize, Vec<usize>>,
    /// The members of each name: of pods, workloads, nodes, and of namespaces as `namespace/*`.
    named: FxHashMap<String, Vec<usize>>,
    /// What pods may send to their own nodes, by class, as far as it was asked.
    to_own_node: RefCell<FxHashMap<(usize, usize), Pair>>,
}

/// What a member is.
#[derive(Clone, Debug)]
pub(super) enum Is {
    /// A pod, or a workload that stands for its pods.
    Pod(Arc<Pod>),
    /// One address of a node: policies can tell the addresses of one node apart.
    Node(SmolStr, IpAddr),
    /// External addresses of one family that neither policies nor assertions tell apart.
    External(AddressSet),
}

/// An endpoint.
#[derive(Clone, Debug)]
pub(super) struct Member {
    /// What people call it: of external ones the first address.
    pub(super) id: String,
    pub(super) is: Is,
    /// The top owner of a pod, as `namespace/Kind/name`.
    pub(super) owner: Option<String>,
    pub(super) class: usize,
    /// The number of the node of a managed pod.
    pub(super) on: Option<usize>,
    /// The node whose network it is on, for nodes and hostNetwork pods.
    pub(super) node: Option<usize>,
    /// Whether nothing keeps its own node away. A default of the cluster does (`--v1beta1-default`).
    pub(super) is_open_to_own_node: bool,
    /// The families that it has, as the bits of [`bit`].
    pub(super) families: u8,
}

/// A family as a bit of a set of families.
pub(super) fn bit(family: Family) -> u8 {
    match family {
        Family::Ipv4 => 1,
        Family::Ipv6 => 2,
    }
}

impl Member {
    pub(super) fn pod(&self) -> Option<&Arc<Pod>> {
        match &self.is {
            Is::Pod(pod) => Some(pod),
            Is::Node(..) | Is::External(_) => None,
        }
    }

    /// Whether policies can be about it.
    pub(super) fn is_managed(&self) -> bool {
        self.pod().is_some_and(|pod| pod.is_managed())
    }

    /// It as an end of a question.
    pub(super) fn party(&self) -> Option<Party> {
        Some(match &self.is {
            Is::Pod(pod) => Party::Pod(Arc::clone(pod)),
            Is::Node(name, address) => Party::Node {
                name: name.clone(),
                addresses: vec![*address],
            },
            Is::External(addresses) => Party::External(addresses.ranges().next()?.first()),
        })
    }

    /// Everything that it can be called, alone or with others.
    fn names(&self) -> Vec<String> {
        match &self.is {
            Is::Pod(pod) => {
                let namespace = format!("{}/*", pod.object.namespace);
                let interface = pod
                    .interface
                    .as_deref()
                    .filter(|interface| interface.is_one_of_several());
                let of_pod = interface.and_then(|interface| {
                    let id = self.id.strip_suffix(interface.name.as_str())?;
                    id.strip_suffix('@').map(str::to_owned)
                });
                let owner = self.owner.clone();
                [Some(self.id.clone()), owner, of_pod, Some(namespace)]
                    .into_iter()
                    .flatten()
                    .collect()
            }
            Is::Node(name, address) => vec![
                name.to_string(),
                format!("node/{name}"),
                format!("{name}@{address}"),
                format!("node/{name}@{address}"),
            ],
            Is::External(_) => Vec::new(),
        }
    }

    /// One of its addresses of a family. Of external ones it stands for all: no assertion tells them apart.
    pub(super) fn address(&self, family: Family) -> Option<IpAddr> {
        match &self.is {
            Is::Pod(pod) => pod.addresses.of(family),
            Is::Node(_, address) => Some(*address).filter(|&own| Family::of(own) == family),
            Is::External(addresses) => {
                let first = addresses.ranges().next().map(|range| range.first());
                first.filter(|&first| Family::of(first) == family)
            }
        }
    }

    fn rank(&self) -> u8 {
        match &self.is {
            Is::Pod(_) => 0,
            Is::Node(..) => 1,
            Is::External(_) => 2,
        }
    }

    /// Whether the two are one pod or one node, which no policy keeps from itself.
    fn is_same(&self, other: &Self) -> bool {
        match (&self.is, &other.is) {
            (Is::Pod(one), Is::Pod(other)) => one.is_same_pod(other),
            (Is::Node(one, _), Is::Node(other, _)) => one == other,
            _ => false,
        }
    }
}

impl<'a> World<'a> {
    /// The world of some assertions. `program` is `snapshot`, compiled.
    pub(super) fn new(snapshot: &'a Snapshot, program: &'a Program, assertions: &[&Assertion]) -> Self {
        let traffics = RefCell::new(Traffics::new());
        let mut classes = Classes::new(program, &traffics);
        let found = endpoint::of_cluster(snapshot, program, &mut classes);
        let pods: BTreeMap<_, _> = snapshot.live_pods().map(|pod| (pod.id(), pod)).collect();
        let mut members = Vec::new();
        for one in found {
            match pods
                .get(&one.endpoint.id)
                .filter(|_| one.endpoint.kind != EndpointKind::Node)
            {
                Some(pod) => members.push(member(&one, Is::Pod(Arc::clone(pod)))),
                None => members.extend(addresses_of_node(snapshot, program, &mut classes, &one)),
            }
        }
        let mut external = Vec::new();
        let taken = endpoint::taken_addresses(snapshot);
        endpoint::add_external(&taken, program, &mut classes, &mut external);
        let blocks = Blocks::of(assertions);
        for one in &external {
            let parts = blocks.cut(&one.addresses).into_iter();
            members.extend(parts.map(|addresses| {
                let first = addresses.ranges().next().map(|range| range.first().to_string());
                let id = first.unwrap_or_default();
                Member {
                    id,
                    ..member(one, Is::External(addresses))
                }
            }));
        }
        let has_default = program
            .policies()
            .any(|policy| policy.tier == Tier::ClusterDefault);
        members
            .iter_mut()
            .for_each(|member| member.is_open_to_own_node = !has_default);
        members.sort_by(|one, other| (one.rank(), &one.id).cmp(&(other.rank(), &other.id)));
        let mut of_class: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        let mut named: FxHashMap<String, Vec<usize>> = FxHashMap::default();
        for (at, member) in members.iter().enumerate() {
            of_class.entry(member.class).or_default().push(at);
            for name in member.names() {
                named.entry(name).or_default().push(at);
            }
        }
        Self {
            snapshot,
            classes,
            traffics,
            members,
            of_class,
            named,
            to_own_node: RefCell::default(),
        }
    }

    /// The members that a name stands for.
    pub(super) fn named(&self, name: &str) -> &[usize] {
        self.named.get(name).map_or(&[], Vec::as_slice)
    }

    /// What a class may send to all others by what policies say, but for own nodes.
    pub(super) fn fill(&self, rows: &mut Rows, class: usize) {
        self.classes.fill(rows, class, &self.traffics);
    }

    /// What may pass from one to the other. For many pairs [`World::fill`] is faster.
    pub(super) fn passes(&self, from: &Member, to: &Member) -> Pair {
        if Self::is_own_node(from, to) {
            return self.to_or_from_own_node(from, to);
        }
        self.by_policies(from, to)
    }

    /// What policies let pass from one to the other, own node or not.
    pub(super) fn by_policies(&self, from: &Member, to: &Member) -> Pair {
        let (sent, received) = self.classes.ends(from.class, to.class, &self.traffics);
        let mut traffics = self.traffics.borrow_mut();
        let mut both = |one: Option<TrafficId>, other: Option<TrafficId>| Some(traffics.meet(one?, other?));
        Pair {
            v4: both(sent.v4, received.v4),
            v6: both(sent.v6, received.v6),
        }
    }

    /// Whether one may open a connection to the other at all: they are two, and not both outside. A workload and itself
    /// are two pods of it.
    pub(super) fn is_pair(from: &Member, to: &Member) -> bool {
        match (&from.is, &to.is) {
            (Is::External(_), Is::External(_)) => false,
            (Is::Pod(one), _) if one.is_workload() => true,
            _ => !from.is_same(to),
        }
    }

    /// Whether a pod and its own node are the two, between which more may pass than policies say.
    pub(super) fn is_own_node(from: &Member, to: &Member) -> bool {
        (from.node.is_some() && from.node == to.on) || (from.on.is_some() && from.on == to.node)
    }

    /// Whether no policy can keep one from the other.
    pub(super) fn is_beyond_policies(from: &Member, to: &Member) -> bool {
        let is_exempt = to.is_open_to_own_node && from.node.is_some() && from.node == to.on;
        is_exempt || (!from.is_managed() && !to.is_managed())
    }

    /// What the engine knows of a class.
    pub(super) fn class(&self, class: usize) -> Option<&Class> {
        self.classes.get(class)
    }

    /// What may pass between a pod and its own node.
    pub(super) fn to_or_from_own_node(&self, from: &Member, to: &Member) -> Pair {
        if from.node.is_some() && from.node == to.on {
            return self
                .classes
                .sent_by_own_node(from.class, to.class, &self.traffics);
        }
        let key = (from.class, to.class);
        if let Some(&known) = self.to_own_node.borrow().get(&key) {
            return known;
        }
        let pair = self.classes.to_own_node(from.class, to.class, &self.traffics);
        self.to_own_node.borrow_mut().insert(key, pair);
        pair
    }
}

/// One of the two families of a pair.
pub(super) fn of_family(pair: Pair, family: Family) -> Option<TrafficId> {
    match family {
        Family::Ipv4 => pair.v4,
        Family::Ipv6 => pair.v6,
    }
}

fn member(found: &Found, is: Is) -> Member {
    let families = match &is {
        Is::Pod(pod) => pod.addresses.iter().map(|address| bit(Family::of(address))).sum(),
        Is::Node(_, address) => bit(Family::of(*address)),
        Is::External(addresses) => addresses.ranges().next().map_or(0, |range| bit(range.family())),
    };
    Member {
        id: found.endpoint.id.clone(),
        is,
        owner: found.owner.clone(),
        class: found.place.class,
        on: found.place.on,
        node: found.place.node,
        is_open_to_own_node: true,
        families,
    }
}

fn addresses_of_node(
    snapshot: &Snapshot,
    program: &Program,
    classes: &mut Classes<'_>,
    found: &Found,
) -> Vec<Member> {
    let Some(node) = snapshot.nodes.get(found.endpoint.id.as_str()) else {
        return Vec::new();
    };
    let members = node.addresses.iter().map(|&address| {
        let own = |family| {
            if Family::of(address) == family {
                vec![program.identity_of(address)]
            } else {
                Vec::new()
            }
        };
        let class = classes.intern(Class {
            identities: Family::BOTH.map(own),
            egress: None,
            ingress: None,
            external: false,
        });
        Member {
            class,
            ..member(found, Is::Node(node.name.clone(), address))
        }
    });
    members.collect()
}
