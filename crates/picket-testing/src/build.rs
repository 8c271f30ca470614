//! Objects in one line each.
//!
//! Every builder panics on a literal it cannot read.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use picket_cluster::{NamedPort, Namespace, Network, Node, Owner, Pod};
use picket_net::{Prefix, Protocol};
use picket_policy::{
    Action, Block, Direction, Labels, List, Mode, NamespaceScope, NetworkName, Networks, ObjectRef, Peer,
    PodSelector, Policy, PortMatch, Position, Requirement, Rule, Selector, Side, Tier,
};
use smol_str::SmolStr;

/// A snapshot of the objects listed: anything that converts into [`Object`].
///
/// ```
/// use picket_testing::{build::{namespace, pod}, snapshot};
/// let cluster = snapshot![namespace("x").label("team", "red"), pod("x/web").ip("10.0.0.5")];
/// assert_eq!(cluster.pods.len(), 1);
/// ```
#[macro_export]
macro_rules! snapshot {
    ($($object:expr),* $(,)?) => {
        <$crate::build::Snapshot as ::std::iter::FromIterator<$crate::build::Object>>::from_iter([
            $(<$crate::build::Object as ::std::convert::From<_>>::from($object)),*
        ])
    };
}
#[doc(hidden)]
pub use picket_cluster::{Object, Snapshot};

/// An address. Panics when `text` is none.
pub fn ip(text: &str) -> IpAddr {
    picket_net::parse_address(text).unwrap_or_else(|| panic!("`{text}` is no address"))
}

/// A prefix. Panics when `text` is none.
pub fn prefix(text: &str) -> Prefix {
    text.parse().unwrap_or_else(|_| panic!("`{text}` is no prefix"))
}

/// A selector as kubectl writes it: `app=web,tier in (a,b),env notin (prod),track,!old`; empty for everything.
pub fn selector(text: &str) -> Selector {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0, 0);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            ',' if depth == 0 => {
                parts.extend(text.get(start..at));
                start = at + 1;
            }
            _ => {}
        }
    }
    parts.extend(text.get(start..));
    let parts = parts.into_iter().map(str::trim).filter(|part| !part.is_empty());
    parts.map(requirement).collect()
}

fn requirement(text: &str) -> Requirement {
    let values = |list: &str| -> Vec<SmolStr> {
        let list = list.trim().trim_start_matches('(').trim_end_matches(')');
        list.split(',').map(|value| value.trim().into()).collect()
    };
    if let Some(key) = text.strip_prefix('!') {
        Requirement::DoesNotExist(key.trim().into())
    } else if let Some((key, value)) = text.split_once("!=") {
        Requirement::NotIn(key.trim().into(), values(value))
    } else if let Some((key, value)) = text.split_once('=') {
        Requirement::In(key.trim().into(), values(value))
    } else if let Some((key, list)) = text.split_once(" notin ") {
        Requirement::NotIn(key.trim().into(), values(list))
    } else if let Some((key, list)) = text.split_once(" in ") {
        Requirement::In(key.trim().into(), values(list))
    } else {
        Requirement::Exists(text.into())
    }
}

/// A namespace called `name`.
pub fn namespace(name: &str) -> NamespaceBuilder {
    NamespaceBuilder(Namespace::implied(name))
}

/// Builds a [`Namespace`].
#[derive(Clone, Debug)]
pub struct NamespaceBuilder(Namespace);

impl NamespaceBuilder {
    /// Adds a label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.0.labels = self.0.labels.with(key, value);
        self
    }

    /// The namespace.
    pub fn build(self) -> Namespace {
        self.0
    }
}

impl From<NamespaceBuilder> for Object {
    fn from(builder: NamespaceBuilder) -> Self {
        Self::Namespace(builder.0)
    }
}

/// The definition of the secondary network `namespace/name`, on a wire such as `macvlan/eth1`.
pub fn network(name: &str, wire: &str) -> Object {
    Object::Network(Network {
        name: NetworkName::parse(name, "").unwrap_or_else(|| panic!("`{name}` is no network")),
        wire: Some(wire.parse().unwrap_or_else(|_| panic!("`{wire}` is no wire"))),
    })
}

/// A node called `name`.
pub fn node(name: &str) -> NodeBuilder {
    NodeBuilder(Node {
        name: name.into(),
        labels: Labels::default(),
        addresses: BTreeSet::new(),
        pod_cidrs: Vec::new(),
    })
}

/// Builds a [`Node`].
#[derive(Clone, Debug)]
pub struct NodeBuilder(Node);

impl NodeBuilder {
    /// Adds a label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.0.labels = self.0.labels.with(key, value);
        self
    }

    /// Adds an address of its own.
    #[must_use]
    pub fn ip(mut self, address: &str) -> Self {
        self.0.addresses.insert(ip(address));
        self
    }

    /// The node.
    pub fn build(self) -> Node {
        self.0
    }
}

impl From<NodeBuilder> for Object {
    fn from(builder: NodeBuilder) -> Self {
        Self::Node(builder.0)
    }
}

/// A running pod `namespace/name`, or the workload `namespace/Kind/name`, without labels, addresses, ports or node.
pub fn pod(id: &str) -> PodBuilder {
    let parts: Vec<_> = id.split('/').collect();
    let object = match parts[..] {
        [namespace, name] => ObjectRef::new("Pod", namespace, name),
        [namespace, kind, name] => ObjectRef::new(kind, namespace, name),
        _ => panic!("`{id}` is neither namespace/name nor namespace/Kind/name"),
    };
    PodBuilder(Pod {
        object,
        labels: Labels::default(),
        node: None,
        addresses: [].into_iter().collect(),
        synthetic: false,
        ports: Arc::default(),
        host_network: false,
        finished: false,
        owner: None,
        attachments: Vec::new(),
        interface: None,
        extra: None,
    })
}

/// Builds a [`Pod`].
#[derive(Clone, Debug)]
pub struct PodBuilder(Pod);

impl PodBuilder {
    /// Adds a label.
    #[must_use]
    pub fn label(mut self, key: &str, value: &str) -> Self {
        self.0.labels = self.0.labels.with(key, value);
        self
    }

    /// Sets the address of one family.
    #[must_use]
    pub fn ip(mut self, address: &str) -> Self {
        match ip(address) {
            IpAddr::V4(address) => self.0.addresses.v4 = Some(address),
            IpAddr::V6(address) => self.0.addresses.v6 = Some(address),
        }
        self
    }

    /// Marks the addresses as made up.
    #[must_use]
    pub fn synthetic(mut self) -> Self {
        self.0.synthetic = true;
        self
    }

    /// Adds a named container port.
    #[must_use]
    pub fn port(mut self, name: &str, protocol: Protocol, port: u16) -> Self {
        let name = name.into();
        let new = NamedPort { name, protocol, port };
        let ports: BTreeSet<_> = self.0.ports.iter().cloned().chain([new]).collect();
        self.0.ports = ports.into_iter().collect();
        self.declares(protocol, port)
    }

    /// Adds a container port without a name.
    #[must_use]
    pub fn declares(mut self, protocol: Protocol, port: u16) -> Self {
        let declared = &mut self.0.extra.get_or_insert_default().declared_ports;
        declared.push((protocol, port));
        declared.sort();
        declared.dedup();
        self
    }

    /// Annotates it with the interface of VPP that it has.
    #[must_use]
    pub fn at_vpp(mut self, interface: &str) -> Self {
        self.0.extra.get_or_insert_default().vpp_interface = Some(interface.into());
        self
    }

    /// Annotates it with the ids of ports of Neutron.
    #[must_use]
    pub fn at_neutron(mut self, ports: &[&str]) -> Self {
        let ports = ports.iter().map(|id| SmolStr::from(*id));
        self.0.extra.get_or_insert_default().neutron_ports = ports.collect();
        self
    }

    /// Puts it on a node.
    #[must_use]
    pub fn on(mut self, node: &str) -> Self {
        self.0.node = Some(node.into());
        self
    }

    /// Lets it share its node's network. Give it the node's addresses.
    #[must_use]
    pub fn host_network(mut self) -> Self {
        self.0.host_network = true;
        self
    }

    /// Lets it have run to its end.
    #[must_use]
    pub fn finished(mut self) -> Self {
        self.0.finished = true;
        self
    }

    /// Sets the top owner.
    #[must_use]
    pub fn owned_by(mut self, kind: &str, name: &str) -> Self {
        let (kind, name) = (kind.into(), name.into());
        self.0.owner = Some(Arc::new(Owner { kind, name }));
        self
    }

    /// The pod.
    pub fn build(self) -> Pod {
        self.0
    }
}

impl From<PodBuilder> for Object {
    fn from(builder: PodBuilder) -> Self {
        Self::from(builder.0)
    }
}

/// The NetworkPolicy `namespace/name`: selects every pod of its namespace and isolates nothing yet.
pub fn policy(id: &str) -> PolicyBuilder {
    let Some((namespace, name)) = id.split_once('/') else {
        panic!("`{id}` is not namespace/name");
    };
    PolicyBuilder(Policy {
        object: ObjectRef::new("NetworkPolicy", namespace, name),
        position: Position::unknown(),
        mode: Mode::Enforce,
        tier: Tier::NetworkPolicy,
        priority: 0,
        networks: Networks::Cluster,
        subject: PodSelector {
            namespaces: NamespaceScope::Named(namespace.into()),
            pods: Selector::everything(),
        },
        ingress: Side::default(),
        egress: Side::default(),
    })
}

/// The ClusterNetworkPolicy `name` of tier Admin: selects every pod of every namespace, and has no rules yet.
pub fn admin_policy(name: &str, priority: u16) -> PolicyBuilder {
    cluster_policy(name, Tier::Admin, priority)
}

/// The ClusterNetworkPolicy `name` of tier Baseline: selects every pod of every namespace, and has no rules yet.
pub fn baseline_policy(name: &str, priority: u16) -> PolicyBuilder {
    cluster_policy(name, Tier::Baseline, priority)
}

/// Custom rules, which are judged before every other tier, for every pod of every namespace; there are none yet.
pub fn custom_rules(name: &str, priority: u16) -> PolicyBuilder {
    cluster_policy(name, Tier::Custom, priority)
}

fn cluster_policy(name: &str, tier: Tier, priority: u16) -> PolicyBuilder {
    PolicyBuilder(Policy {
        object: ObjectRef::new("ClusterNetworkPolicy", "", name),
        position: Position::unknown(),
        mode: Mode::Enforce,
        tier,
        priority,
        networks: Networks::Cluster,
        subject: PodSelector {
            namespaces: NamespaceScope::Matching(Selector::everything()),
            pods: Selector::everything(),
        },
        ingress: Side::default(),
        egress: Side::default(),
    })
}

/// Builds a [`Policy`].
#[derive(Clone, Debug)]
pub struct PolicyBuilder(Policy);

impl PolicyBuilder {
    /// Selects only pods with these labels; the text is read by [`selector`].
    #[must_use]
    pub fn selects(mut self, pods: &str) -> Self {
        self.0.subject.pods = selector(pods);
        self
    }

    /// Selects pods of the namespaces with these labels, for cluster-wide policies; the text is read by [`selector`].
    #[must_use]
    pub fn selects_in(mut self, namespaces: &str) -> Self {
        self.0.subject.namespaces = NamespaceScope::Matching(selector(namespaces));
        self
    }

    /// Isolates the subject in one direction.
    #[must_use]
    pub fn isolates(mut self, direction: Direction) -> Self {
        self.side(direction).isolates = true;
        self
    }

    /// Adds an ingress rule; in tier NetworkPolicy this also isolates.
    #[must_use]
    pub fn ingress(self, rule: RuleBuilder) -> Self {
        self.rule(Direction::Ingress, rule)
    }

    /// Adds an egress rule; in tier NetworkPolicy this also isolates.
    #[must_use]
    pub fn egress(self, rule: RuleBuilder) -> Self {
        self.rule(Direction::Egress, rule)
    }

    /// Adds a rule; in tier NetworkPolicy this also isolates.
    #[must_use]
    pub fn rule(mut self, direction: Direction, rule: RuleBuilder) -> Self {
        let isolates = self.0.tier == Tier::NetworkPolicy;
        let side = self.side(direction);
        let index = u32::try_from(side.rules.len()).unwrap();
        side.rules.push(Rule { index, ..rule.0 });
        side.isolates |= isolates;
        self
    }

    /// What it denies passes, and is logged and counted.
    #[must_use]
    pub fn audited(mut self) -> Self {
        self.0.mode = Mode::Audit;
        self
    }

    /// The policy.
    pub fn build(self) -> Policy {
        self.0
    }

    fn side(&mut self, direction: Direction) -> &mut Side {
        match direction {
            Direction::Ingress => &mut self.0.ingress,
            Direction::Egress => &mut self.0.egress,
        }
    }
}

impl From<PolicyBuilder> for Object {
    fn from(builder: PolicyBuilder) -> Self {
        Self::Policy(builder.0)
    }
}

/// A rule that accepts; any peer and any port until some are added.
pub fn accept() -> RuleBuilder {
    rule(Action::Accept)
}

/// A rule that denies; any peer and any port until some are added.
pub fn deny() -> RuleBuilder {
    rule(Action::Deny)
}

/// A rule that leaves the tier; any peer and any port until some are added.
pub fn pass() -> RuleBuilder {
    rule(Action::Pass)
}

fn rule(action: Action) -> RuleBuilder {
    RuleBuilder(Rule {
        index: 0,
        position: Position::unknown(),
        action,
        peers: List::Absent,
        ports: List::Absent,
    })
}

/// Builds a [`Rule`].
#[derive(Clone, Debug)]
pub struct RuleBuilder(Rule);

impl RuleBuilder {
    /// Adds a peer.
    #[must_use]
    pub fn peer(mut self, peer: Peer) -> Self {
        push(&mut self.0.peers, peer);
        self
    }

    /// Makes the list of peers present and empty: nobody.
    #[must_use]
    pub fn no_peer(mut self) -> Self {
        self.0.peers = List::Items(Vec::new());
        self
    }

    /// Adds one port.
    #[must_use]
    pub fn port(self, protocol: Protocol, port: u16) -> Self {
        self.ports(protocol, port, port)
    }

    /// Adds a range of ports, both ends included.
    #[must_use]
    pub fn ports(self, protocol: Protocol, first: u16, last: u16) -> Self {
        let range = picket_net::PortRange::new(first, last);
        let range = range.unwrap_or_else(|| panic!("{first}-{last} is no port range"));
        self.port_match(PortMatch::Range(protocol, range))
    }

    /// Adds all of one protocol.
    #[must_use]
    pub fn protocol(self, protocol: Protocol) -> Self {
        self.port_match(PortMatch::Protocol(protocol))
    }

    /// Adds a named port of one protocol.
    #[must_use]
    pub fn named(self, name: &str, protocol: Protocol) -> Self {
        self.port_match(PortMatch::Named {
            protocol: Some(protocol),
            name: name.into(),
        })
    }

    /// Adds a port.
    #[must_use]
    pub fn port_match(mut self, port: PortMatch) -> Self {
        push(&mut self.0.ports, port);
        self
    }

    /// Makes the list of ports present and empty: no port.
    #[must_use]
    pub fn no_port(mut self) -> Self {
        self.0.ports = List::Items(Vec::new());
        self
    }
}

fn push<T>(list: &mut List<T>, item: T) {
    match list {
        List::Absent => *list = List::Items(vec![item]),
        List::Items(items) => items.push(item),
    }
}

/// Pods of one namespace; `pods` is read by [`selector`].
pub fn pods_in(namespace: &str, pods: &str) -> Peer {
    Peer::Pods(PodSelector {
        namespaces: NamespaceScope::Named(namespace.into()),
        pods: selector(pods),
    })
}

/// Pods of the namespaces that match; both texts are read by [`selector`].
pub fn pods_where(namespaces: &str, pods: &str) -> Peer {
    Peer::Pods(PodSelector {
        namespaces: NamespaceScope::Matching(selector(namespaces)),
        pods: selector(pods),
    })
}

/// Addresses of a prefix, without those of the exceptions.
pub fn block(cidr: &str, except: &[&str]) -> Peer {
    let except: BTreeSet<_> = except.iter().map(|text| prefix(text)).collect();
    Peer::Block(Block {
        prefix: prefix(cidr),
        except: except.into_iter().collect(),
    })
}

/// Nodes with these labels; the text is read by [`selector`].
pub fn nodes_where(labels: &str) -> Peer {
    Peer::Nodes(selector(labels))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_read_as_kubectl_writes_them() {
        for text in ["app=web", "app in (a,b),tier notin (x),!old,track", "app="] {
            let parsed = selector(text);
            let again = selector(&parsed.to_string());
            assert_eq!(parsed, again, "{text}");
        }
        assert!(selector("").is_everything());
        assert_eq!(selector("a!=b").to_string(), "a notin (b)");
    }

    #[test]
    fn a_rule_isolates_in_the_network_policy_tier_only() {
        assert!(policy("x/a").ingress(accept()).build().ingress.isolates);
        assert!(!admin_policy("a", 1).ingress(deny()).build().ingress.isolates);
    }

    #[test]
    fn every_kind_of_object_goes_into_a_snapshot() {
        let all = crate::snapshot![
            namespace("x").label("team", "red"),
            node("node-1").ip("10.9.0.1"),
            pod("x/web")
                .ip("10.0.0.5")
                .ip("fd00::5")
                .on("node-1")
                .port("http", Protocol::TCP, 80),
            pod("x/Deployment/api"),
            policy("x/deny").isolates(Direction::Ingress),
        ];
        let counts = (
            all.namespaces.len(),
            all.nodes.len(),
            all.pods.len(),
            all.policies.len(),
        );
        assert_eq!(counts, (1, 1, 2, 1));
        assert_eq!(
            all.pod("Deployment", "x", "api").unwrap().id(),
            "x/Deployment/api"
        );
    }
}
