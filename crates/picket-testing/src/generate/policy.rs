//! Random policies in the lowered form.

use std::collections::BTreeSet;

use picket_net::{PortRange, Prefix, Protocol};
use picket_policy::{
    Action, Block, ClusterDefault, List, Mode, NamespaceScope, Networks, ObjectRef, Peer, PodSelector,
    Policy, PortMatch, Position, Requirement, Rule, Selector, Side, Tier,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use smol_str::SmolStr;

use super::cluster::{KEYS, NAMESPACES, PORT_NAMES, PORTS, VALUES};

/// How much of the lowered form is used. Each but the last holds what those before it hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Shape {
    /// What networking.k8s.io/v1 lowers to.
    V1,
    /// Also rules that do not isolate, and lists that are present and empty, as older dialects have.
    ThreeValued,
    /// Also the tiers Admin and Baseline with Accept, Deny and Pass, node peers, port names of any protocol, and the
    /// cluster default of the v1beta1 proposal.
    Tiered,
    /// Also custom rules of the documented nftables layout.
    Custom,
    /// What manifests of every dialect lower to, and nothing else; see [`crate::manifest`].
    Dialects,
}

/// Blocks and exceptions: both families, /0, pods, nodes, synthetic addresses, addresses outside, nested and adjacent.
const PREFIXES: [&str; 33] = [
    "0.0.0.0/0",
    "0.0.0.0/1",
    "10.0.0.0/8",
    "10.0.0.0/16",
    "10.0.0.0/24",
    "10.0.0.0/28",
    "10.0.0.16/30",
    "10.0.0.10/32",
    "10.0.0.11/32",
    "10.0.0.14/32",
    "10.0.1.0/24",
    "10.9.0.0/16",
    "10.9.0.0/30",
    "10.9.2.0/24",
    "10.9.2.1/32",
    "192.0.2.0/24",
    "192.0.2.0/25",
    "192.0.2.128/25",
    "192.0.2.7/32",
    "198.18.0.0/15",
    "198.18.0.10/32",
    "255.255.255.255/32",
    "::/0",
    "::/1",
    "fd00::/8",
    "fd00::/64",
    "fd00::a/128",
    "fd00::10/124",
    "fd00:9::/32",
    "2001:2::/48",
    "2001:db8::/32",
    "2001:db8::/33",
    "2001:db8:8000::/33",
];

/// 0 to `max` policies with names of their own.
pub fn policies(shape: Shape, max: usize) -> impl Strategy<Value = Vec<Policy>> {
    vec(any::<u8>(), 0..=max).prop_flat_map(move |names| {
        let distinct: BTreeSet<_> = names.into_iter().collect();
        distinct
            .into_iter()
            .map(|name| policy(shape, name))
            .collect::<Vec<_>>()
    })
}

/// The policy of one name, with everything but its object and tier random. The same `shape` and `name` always give
/// the same object.
pub fn policy(shape: Shape, name: u8) -> BoxedStrategy<Policy> {
    let mode = prop_oneof![4 => Just(Mode::Enforce), 1 => Just(Mode::Audit)];
    (enforced(shape, name), mode)
        .prop_map(|(policy, mode)| {
            let mode = if can_be_audited(&policy) {
                mode
            } else {
                policy.mode
            };
            Policy { mode, ..policy }
        })
        .boxed()
}

/// Whether there is a way to write that it is audited.
fn can_be_audited(policy: &Policy) -> bool {
    let isolates = policy.ingress.isolates || policy.egress.isolates;
    match policy.tier {
        Tier::Custom | Tier::ClusterDefault => false,
        Tier::NetworkPolicy => isolates && policy.object.kind != "Namespace",
        Tier::Admin | Tier::Baseline => true,
    }
}

fn enforced(shape: Shape, name: u8) -> BoxedStrategy<Policy> {
    if shape == Shape::Dialects {
        return super::dialect::policy(name);
    }
    if shape >= Shape::Tiered && name % 10 == 7 {
        return Just(ClusterDefault::Deny.policy().unwrap()).boxed();
    }
    let namespace = NAMESPACES[usize::from(name) % NAMESPACES.len()];
    let tier = match name % 5 {
        0 if shape >= Shape::Custom && name % 2 == 1 => Tier::Custom,
        0 if shape >= Shape::Tiered => Tier::Admin,
        1 if shape >= Shape::Tiered => Tier::Baseline,
        _ => Tier::NetworkPolicy,
    };
    let object = match tier {
        Tier::NetworkPolicy => ObjectRef::new("NetworkPolicy", namespace, &format!("policy-{name}")),
        Tier::Custom => ObjectRef::new("CustomRules", "", &format!("policy-{name}")),
        Tier::Admin | Tier::ClusterDefault | Tier::Baseline => {
            ObjectRef::new("ClusterNetworkPolicy", "", &format!("policy-{name}"))
        }
    };
    let scope = match tier {
        Tier::NetworkPolicy => Just(NamespaceScope::Named(namespace.into())).boxed(),
        Tier::Custom | Tier::Admin | Tier::ClusterDefault | Tier::Baseline => {
            selector(true).prop_map(NamespaceScope::Matching).boxed()
        }
    };
    let chosen = (scope, selector(false)).prop_map(|(namespaces, pods)| PodSelector { namespaces, pods });
    let everybody = Just(PodSelector {
        namespaces: NamespaceScope::Matching(Selector::everything()),
        pods: Selector::everything(),
    });
    let subject = match tier {
        Tier::NetworkPolicy => chosen.boxed(),
        Tier::Custom => everybody.boxed(),
        Tier::Admin | Tier::ClusterDefault | Tier::Baseline => {
            prop_oneof![2 => chosen, 1 => everybody].boxed()
        }
    };
    let (ingress, egress) = (side(shape, tier, namespace), side(shape, tier, namespace));
    (subject, 0..3u16, ingress, egress)
        .prop_map(move |(subject, priority, ingress, egress)| Policy {
            object: object.clone(),
            position: Position::unknown(),
            mode: Mode::Enforce,
            tier,
            priority: if tier == Tier::NetworkPolicy { 0 } else { priority },
            networks: Networks::Cluster,
            subject,
            ingress,
            egress,
        })
        .boxed()
}

fn side(shape: Shape, tier: Tier, namespace: &'static str) -> impl Strategy<Value = Side> {
    (0..10u8, vec(rule(shape, tier, namespace), 0..=3)).prop_map(move |(draw, rules)| {
        let rules = rules
            .into_iter()
            .zip(0..)
            .map(|(rule, index)| Rule { index, ..rule });
        match tier {
            Tier::NetworkPolicy if draw < 6 => Side {
                isolates: true,
                rules: rules.collect(),
            },
            Tier::NetworkPolicy if draw < 9 || shape == Shape::V1 => Side::default(),
            _ => Side {
                isolates: false,
                rules: rules.collect(),
            },
        }
    })
}

fn rule(shape: Shape, tier: Tier, namespace: &'static str) -> impl Strategy<Value = Rule> {
    let action = match tier {
        Tier::NetworkPolicy => Just(Action::Accept).boxed(),
        Tier::Custom => select(vec![Action::Accept, Action::Deny]).boxed(),
        Tier::Admin | Tier::ClusterDefault | Tier::Baseline => {
            select(vec![Action::Accept, Action::Deny, Action::Pass]).boxed()
        }
    };
    let peers = list(shape, peer(tier, namespace));
    let ports = list(shape, port(tier));
    (action, peers, ports).prop_map(|(action, peers, ports)| Rule {
        index: 0,
        position: Position::unknown(),
        action,
        peers,
        ports,
    })
}

fn list<T: Clone + std::fmt::Debug + 'static>(
    shape: Shape,
    item: impl Strategy<Value = T> + 'static,
) -> impl Strategy<Value = List<T>> {
    let empty = u32::from(shape >= Shape::ThreeValued);
    prop_oneof![
        2 => Just(List::Absent),
        6 => vec(item, 1..=3).prop_map(List::Items),
        empty => Just(List::Items(Vec::new())),
    ]
}

fn peer(tier: Tier, namespace: &'static str) -> impl Strategy<Value = Peer> {
    let own = selector(false).prop_map(move |pods| {
        Peer::Pods(PodSelector {
            namespaces: NamespaceScope::Named(namespace.into()),
            pods,
        })
    });
    let matching = (selector(true), selector(false)).prop_map(|(namespaces, pods)| {
        Peer::Pods(PodSelector {
            namespaces: NamespaceScope::Matching(namespaces),
            pods,
        })
    });
    let nodes = u32::from(tier != Tier::NetworkPolicy);
    prop_oneof![
        2 => own,
        3 => matching,
        4 => block().prop_map(Peer::Block),
        nodes => selector(false).prop_map(Peer::Nodes),
    ]
}

pub(super) fn block() -> impl Strategy<Value = Block> {
    let pool: Vec<Prefix> = PREFIXES.iter().map(|text| text.parse().unwrap()).collect();
    select(pool.clone()).prop_flat_map(move |prefix| {
        let within = |inner: &&Prefix| prefix.contains_prefix(inner) && **inner != prefix;
        let inside: Vec<_> = pool.iter().filter(within).copied().collect();
        let except = if inside.is_empty() {
            Just(BTreeSet::new()).boxed()
        } else {
            proptest::collection::btree_set(select(inside), 0..=3).boxed()
        };
        except.prop_map(move |except| Block {
            prefix,
            except: except.into_iter().collect(),
        })
    })
}

pub(super) fn port(tier: Tier) -> impl Strategy<Value = PortMatch> {
    let protocol = || select(vec![Protocol::TCP, Protocol::TCP, Protocol::UDP, Protocol::SCTP]);
    let number = select(PORTS.to_vec());
    let single = (protocol(), number.clone())
        .prop_map(|(protocol, port)| PortMatch::Range(protocol, PortRange::single(port).unwrap()));
    let range = (
        protocol(),
        number,
        prop_oneof![Just(0u16), Just(1), Just(30), Just(u16::MAX)],
    )
        .prop_map(|(protocol, first, width)| {
            PortMatch::Range(
                protocol,
                PortRange::new(first, first.saturating_add(width)).unwrap(),
            )
        });
    let protocols = match tier {
        Tier::NetworkPolicy => protocol().prop_map(Some).boxed(),
        Tier::Custom | Tier::Admin | Tier::ClusterDefault | Tier::Baseline => option::of(protocol()).boxed(),
    };
    let named = (protocols, select(PORT_NAMES.to_vec())).prop_map(|(protocol, name)| PortMatch::Named {
        protocol,
        name: name.into(),
    });
    prop_oneof![
        1 => protocol().prop_map(PortMatch::Protocol),
        3 => single,
        2 => range,
        3 => named,
    ]
}

/// All four operators, also over keys that objects lack; `namespaces` adds the key that every namespace has.
pub(super) fn selector(namespaces: bool) -> impl Strategy<Value = Selector> {
    let key = || select(KEYS.to_vec()).prop_map(SmolStr::new);
    let values = || vec(select(VALUES.to_vec()).prop_map(SmolStr::new), 1..=2);
    let names = || vec(select(NAMESPACES.to_vec()).prop_map(SmolStr::new), 1..=2);
    let by_name = u32::from(namespaces);
    let name_key = || SmolStr::new(picket_cluster::NAMESPACE_NAME_LABEL);
    let requirement = prop_oneof![
        4 => (key(), values()).prop_map(|(key, values)| Requirement::In(key, values)),
        2 => (key(), values()).prop_map(|(key, values)| Requirement::NotIn(key, values)),
        1 => key().prop_map(Requirement::Exists),
        1 => key().prop_map(Requirement::DoesNotExist),
        2 * by_name => names().prop_map(move |names| Requirement::In(name_key(), names)),
        by_name => names().prop_map(move |names| Requirement::NotIn(name_key(), names)),
    ];
    let few = prop_oneof![2 => Just(0usize), 4 => Just(1), 1 => Just(2)];
    few.prop_flat_map(move |count| vec(requirement.clone(), count))
        .prop_map(Selector::from_iter)
}
