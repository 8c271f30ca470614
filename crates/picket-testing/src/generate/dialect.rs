//! Random policies as each dialect lowers them: what a manifest cannot say is not among them.

use picket_net::{PortRange, Protocol};
use picket_policy::{
    Action, Block, ClusterDefault, Direction, DomainName, List, Mode, NamespaceScope, Networks, ObjectRef,
    Peer, PodSelector, Policy, PortMatch, Position, Rule, Selector, Side, Tier,
};
use proptest::collection::{btree_set, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::attachment::{NETWORKS, network};
use super::cluster::{NAMESPACES, PORT_NAMES, PORTS};
use super::policy::{block, port, selector};

/// Addresses of some of the domain names that policies name, in the format of hosts(5): of pods, of a node and of
/// nobody.
pub const HOSTS: &str = "\
10.0.0.10 db.example.org
fd00::a\tdb.example.org
192.0.2.7 example.com # not what *.example.com stands for
2001:db8::7 www.example.com a.b.Example.com.
10.9.0.1 node.example.com
";

const DOMAINS: [&str; 4] = [
    "db.example.org",
    "example.com",
    "*.example.com",
    "nowhere.example.net",
];

/// The policy of one name: its dialect, its namespace and what it is called depend on the name alone.
pub(super) fn policy(name: u8) -> BoxedStrategy<Policy> {
    let namespace = NAMESPACES[usize::from(name) % NAMESPACES.len()];
    match name % 13 {
        0 | 1 => network_policy(ObjectRef::new("NetworkPolicy", namespace, &format!("v1-{name}"))),
        2 | 3 => proposed(ObjectRef::new(
            "NetworkPolicy",
            namespace,
            &format!("proposed-{name}"),
        )),
        4 => isolated_namespace(namespace),
        5..=7 => multi_network_policy(namespace, name),
        8 => tiered("ClusterNetworkPolicy", name, Tier::Admin),
        9 => tiered("ClusterNetworkPolicy", name, Tier::Baseline),
        10 => tiered("AdminNetworkPolicy", name, Tier::Admin),
        11 => Just(ClusterDefault::Deny.policy().unwrap()).boxed(),
        _ => tiered("BaselineAdminNetworkPolicy", name, Tier::Baseline),
    }
}

fn bare(object: ObjectRef, tier: Tier) -> Policy {
    Policy {
        subject: PodSelector {
            namespaces: NamespaceScope::Named(object.namespace.clone()),
            pods: Selector::everything(),
        },
        object,
        position: Position::unknown(),
        mode: Mode::Enforce,
        tier,
        priority: 0,
        networks: Networks::Cluster,
        ingress: Side::default(),
        egress: Side::default(),
    }
}

/// networking.k8s.io/v1: one direction is isolated at least.
fn network_policy(object: ObjectRef) -> BoxedStrategy<Policy> {
    let namespace = object.namespace.clone();
    let side = move || {
        let peers = peers_v1(&namespace);
        let peers = prop_oneof![1 => Just(List::Absent), 4 => vec(peers, 1..=3).prop_map(List::Items)];
        let ports = vec(port(Tier::NetworkPolicy), 1..=3).prop_map(List::Items);
        let ports = prop_oneof![1 => Just(List::Absent), 2 => ports];
        vec((Just(Action::Accept), peers, ports), 0..=3).prop_map(rules)
    };
    let types = select(vec![[true, false], [false, true], [true, true]]);
    (selector(false), types, side(), side())
        .prop_map(move |(pods, types, ingress, egress)| {
            let mut policy = bare(object.clone(), Tier::NetworkPolicy);
            policy.subject.pods = pods;
            let side = |isolates, rules| match isolates {
                true => Side { isolates, rules },
                false => Side::default(),
            };
            (policy.ingress, policy.egress) = (side(types[0], ingress), side(types[1], egress));
            policy
        })
        .boxed()
}

fn peers_v1(namespace: &str) -> BoxedStrategy<Peer> {
    let namespace = NamespaceScope::Named(namespace.into());
    let own = selector(false).prop_map(move |pods| {
        Peer::Pods(PodSelector {
            namespaces: namespace.clone(),
            pods,
        })
    });
    prop_oneof![2 => own, 2 => pods_anywhere(), 3 => block().prop_map(Peer::Block)].boxed()
}

fn pods_anywhere() -> impl Strategy<Value = Peer> {
    (selector(true), selector(false)).prop_map(|(namespaces, pods)| {
        Peer::Pods(PodSelector {
            namespaces: NamespaceScope::Matching(namespaces),
            pods,
        })
    })
}

/// extensions/v1beta1 as proposed: no isolation, lists of three values, one selector in a peer, TCP and UDP.
fn proposed(object: ObjectRef) -> BoxedStrategy<Policy> {
    let namespace = NamespaceScope::Named(object.namespace.clone());
    let own = selector(false).prop_map(move |pods| (namespace.clone(), pods));
    let others = selector(true).prop_map(|found| (NamespaceScope::Matching(found), Selector::everything()));
    let peer =
        prop_oneof![own, others].prop_map(|(namespaces, pods)| Peer::Pods(PodSelector { namespaces, pods }));
    let protocol = select(vec![Protocol::TCP, Protocol::UDP]);
    let one = (
        protocol,
        select(PORTS.to_vec()),
        select(PORT_NAMES.to_vec()),
        0..4u8,
    );
    let port = one.prop_map(|(protocol, port, name, kind)| match kind {
        0 => PortMatch::Protocol(protocol),
        1 => PortMatch::Named {
            protocol: Some(protocol),
            name: name.into(),
        },
        _ => PortMatch::Range(protocol, PortRange::single(port).unwrap()),
    });
    let rule = (
        Just(Action::Accept),
        three_valued(peer.boxed()),
        three_valued(port.boxed()),
    );
    (selector(false), vec(rule, 0..=3))
        .prop_map(move |(pods, rules)| {
            let mut policy = bare(object.clone(), Tier::NetworkPolicy);
            policy.subject.pods = pods;
            policy.ingress.rules = self::rules(rules);
            policy
        })
        .boxed()
}

fn three_valued<T: Clone + std::fmt::Debug + 'static>(
    item: BoxedStrategy<T>,
) -> impl Strategy<Value = List<T>> {
    let items = prop_oneof![1 => Just(0usize), 6 => 1usize..=2];
    let items = items.prop_flat_map(move |count| vec(item.clone(), count));
    prop_oneof![1 => Just(List::Absent), 2 => items.prop_map(List::Items)]
}

/// A namespace that says in the words of the proposal that it is isolated.
fn isolated_namespace(namespace: &str) -> BoxedStrategy<Policy> {
    let mut policy = bare(ObjectRef::new("Namespace", "", namespace), Tier::NetworkPolicy);
    policy.subject.namespaces = NamespaceScope::Named(namespace.into());
    policy.ingress.isolates = true;
    Just(policy).boxed()
}

fn multi_network_policy(namespace: &str, name: u8) -> BoxedStrategy<Policy> {
    let object = ObjectRef::new("MultiNetworkPolicy", namespace, &format!("multi-{name}"));
    let networks = btree_set((0..NETWORKS.len()).prop_map(network), 0..=3);
    (network_policy(object), networks)
        .prop_map(|(policy, networks)| Policy {
            networks: Networks::Attached(networks.into_iter().collect()),
            ..policy
        })
        .boxed()
}

/// policy.networking.k8s.io: v1alpha2, and v1alpha1 before it.
fn tiered(kind: &'static str, name: u8, tier: Tier) -> BoxedStrategy<Policy> {
    let is_baseline = kind == "BaselineAdminNetworkPolicy";
    let own = match is_baseline {
        true => "default".to_owned(),
        false => format!("tiered-{name}"),
    };
    let object = ObjectRef::new(kind, "", &own);
    let pods = prop_oneof![2 => selector(false), 1 => Just(Selector::everything())];
    let priorities = if is_baseline { 0..1u16 } else { 0..3u16 };
    let side = |direction| vec(tiered_rule(direction, is_baseline), 0..=3).prop_map(rules);
    let sides = (side(Direction::Ingress), side(Direction::Egress));
    (selector(true), pods, priorities, sides)
        .prop_map(move |(namespaces, pods, priority, (ingress, egress))| {
            let mut policy = bare(object.clone(), tier);
            policy.subject = PodSelector {
                namespaces: NamespaceScope::Matching(namespaces),
                pods,
            };
            (policy.ingress.rules, policy.egress.rules) = (ingress, egress);
            Policy { priority, ..policy }
        })
        .boxed()
}

type RuleParts = (Action, List<Peer>, List<PortMatch>);

/// Peers there are always, and lists that are there have items. Names of ports stand beside pods only.
fn tiered_rule(direction: Direction, is_baseline: bool) -> BoxedStrategy<RuleParts> {
    let actions = match is_baseline {
        true => vec![Action::Accept, Action::Deny],
        false => vec![Action::Accept, Action::Deny, Action::Pass],
    };
    let number = port(Tier::Admin).prop_map(|port| match port {
        PortMatch::Protocol(protocol) => PortMatch::Range(protocol, PortRange::ALL),
        PortMatch::Named { name, .. } => PortMatch::Named { protocol: None, name },
        range @ PortMatch::Range(..) => range,
    });
    let ports = option::of(vec(number, 1..=3)).boxed();
    let rule = move |action: Action| {
        let domains = action == Action::Accept && !is_baseline;
        let peers = vec(tiered_peer(direction, domains), 1..=3);
        (Just(action), peers, ports.clone())
    };
    select(actions)
        .prop_flat_map(rule)
        .prop_map(|(action, peers, ports)| {
            let are_pods = peers.iter().all(|peer| matches!(peer, Peer::Pods(_)));
            let allowed = |port: &PortMatch| are_pods || !matches!(port, PortMatch::Named { .. });
            let ports: Option<Vec<_>> = ports.map(|ports| ports.into_iter().filter(allowed).collect());
            let ports = ports.filter(|ports| !ports.is_empty());
            (
                action,
                List::Items(peers),
                ports.map_or(List::Absent, List::Items),
            )
        })
        .boxed()
}

fn tiered_peer(direction: Direction, domains: bool) -> BoxedStrategy<Peer> {
    if direction == Direction::Ingress {
        return pods_anywhere().boxed();
    }
    let network = block().prop_map(|block| {
        Peer::Block(Block {
            except: Vec::new(),
            ..block
        })
    });
    let domain = select(DOMAINS.to_vec()).prop_map(|name| Peer::Domain(DomainName::parse(name).unwrap()));
    let domains = u32::from(domains);
    prop_oneof![
        4 => pods_anywhere(),
        2 => network,
        1 => selector(false).prop_map(Peer::Nodes),
        domains => domain,
    ]
    .boxed()
}

fn rules(parts: Vec<RuleParts>) -> Vec<Rule> {
    let rule = |((action, peers, ports), index)| Rule {
        index,
        position: Position::unknown(),
        action,
        peers,
        ports,
    };
    parts.into_iter().zip(0..).map(rule).collect()
}
