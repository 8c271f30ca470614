//! Random namespaces, nodes and pods.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use picket_cluster::{Extra, NamedPort, Namespace, Node, Object, Owner, Pod};
use picket_net::{Prefix, Protocol};
use picket_policy::{Labels, ObjectRef};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select, subsequence};
use smol_str::SmolStr;

use super::attachment;

/// The namespaces.
pub(super) const NAMESPACES: [&str; 4] = ["n0", "n1", "n2", "n3"];
/// The nodes. Their addresses depend on the name alone.
pub(super) const NODES: [&str; 4] = ["node-0", "node-1", "node-2", "node-3"];
/// The label keys of pods, namespaces and nodes.
pub(super) const KEYS: [&str; 3] = ["app", "tier", "env"];
/// The label values, the empty one among them: it is not the same as no label.
pub(super) const VALUES: [&str; 3] = ["a", "b", ""];
/// The names of container ports.
pub(super) const PORT_NAMES: [&str; 3] = ["http", "dns", "alt"];
/// The numbers of container ports; policies use them and their neighbours.
pub(super) const PORTS: [u16; 6] = [53, 80, 81, 443, 8080, 65535];

/// How many different pods there are: see [`pod`].
pub const SLOTS: usize = 12;

/// 1 to 4 namespaces, every node that a pod names, 2 to 8 pods, and the definitions of some secondary networks.
///
/// Boxed, because the trees of values of strategies lie on the stack, where a test's thread has little room.
pub fn cluster() -> BoxedStrategy<Vec<Object>> {
    let namespaces = subsequence(NAMESPACES.to_vec(), 1..=NAMESPACES.len())
        .prop_flat_map(|names| names.into_iter().map(namespace).collect::<Vec<_>>());
    let nodes = [node(0), node(1), node(2), node(3)];
    let pods = subsequence((0..SLOTS).collect::<Vec<_>>(), 2..=8)
        .prop_flat_map(|slots| slots.into_iter().map(pod).collect::<Vec<_>>());
    let networks =
        subsequence((0..attachment::NETWORKS.len()).collect::<Vec<_>>(), 0..=3).prop_flat_map(|defined| {
            defined
                .into_iter()
                .map(attachment::definition)
                .collect::<Vec<_>>()
        });
    let keep_idle = proptest::bool::ANY;
    (namespaces, nodes, pods, networks, keep_idle)
        .prop_map(|(namespaces, nodes, pods, networks, keep_idle)| {
            let used =
                |node: &Node| keep_idle || pods.iter().any(|pod| pod.node.as_ref() == Some(&node.name));
            let nodes: Vec<_> = nodes.into_iter().filter(used).collect();
            let namespaces = namespaces.into_iter().map(Object::Namespace);
            let nodes = nodes.into_iter().map(Object::Node);
            namespaces
                .chain(nodes)
                .chain(pods.into_iter().map(Object::from))
                .chain(networks.into_iter().map(Object::Network))
                .collect()
        })
        .boxed()
}

/// The namespace `name` with random labels.
pub fn namespace(name: &'static str) -> impl Strategy<Value = Namespace> {
    labels().prop_map(move |labels| Namespace::new(name, &labels))
}

/// The node `node-{index}` with random labels and podCIDRs. The first and the fourth are dual stack, the second has IPv4
/// only, the third has two addresses of each family.
pub fn node(index: usize) -> impl Strategy<Value = Node> {
    (labels(), pod_cidrs(index)).prop_map(move |(labels, pod_cidrs)| Node {
        name: SmolStr::new(NODES[index % NODES.len()]),
        labels,
        addresses: node_addresses(index),
        pod_cidrs,
    })
}

/// None, of one family or of both: some from which no pod is, or such that a pod may have their last address for hosts.
fn pod_cidrs(index: usize) -> impl Strategy<Value = Vec<Prefix>> {
    let number = index % NODES.len();
    let aside = [format!("10.20.{number}.0/24"), format!("fd00:20:{number}::/64")];
    let of_pods = [
        format!("10.0.0.{}/30", 12 + 4 * number),
        format!("fd00::{:x}/126", 8 + 4 * number),
    ];
    let pair = select(vec![aside, of_pods]);
    (pair, 0..4u8).prop_map(|(pair, families)| {
        let chosen = pair.iter().zip([1, 2]).filter(|(_, bit)| families & bit != 0);
        chosen.map(|(cidr, _)| cidr.parse().unwrap()).collect()
    })
}

fn node_addresses(index: usize) -> std::collections::BTreeSet<IpAddr> {
    let number = u8::try_from(index % NODES.len()).unwrap();
    let v4 = |last| IpAddr::V4(Ipv4Addr::new(10, 9, number, last));
    let v6 = |last| IpAddr::V6(Ipv6Addr::new(0xfd00, 9, 0, 0, 0, 0, number.into(), last));
    match number {
        0 | 3 => [v4(1), v6(1)].into(),
        1 => [v4(1)].into(),
        // Policies have a prefix that holds only the first IPv4 address.
        _ => [v4(1), v4(2), v6(1), v6(2)].into(),
    }
}

/// The pod of one slot below [`SLOTS`], with random labels, ports, node and phase. Slots of one name in different
/// namespaces exist; the last slots are workloads. The addresses of live pods never clash between slots.
pub fn pod(slot: usize) -> impl Strategy<Value = Pod> {
    let networks = prop_oneof![
        4 => Just(Network::Dual),
        2 => Just(Network::Ipv4),
        1 => Just(Network::Ipv6),
        2 => Just(Network::Synthetic),
        1 => Just(Network::Host),
        1 => Just(Network::Renumbered),
    ];
    let owner = option::weighted(0.3, select(vec!["web", "api"]));
    (
        labels(),
        option::weighted(0.7, any::<Index>()),
        ports(),
        networks,
        0..8u8,
        owner,
        attachment::attachments(slot),
    )
        .prop_map(move |(labels, node, ports, network, phase, owner, attachments)| {
            let node = node.map(|index| index.index(NODES.len()));
            let finished = phase == 0;
            // A finished pod has the addresses that the pod of the next slot may have by now.
            let number = u8::try_from(slot + usize::from(finished)).unwrap();
            let host_network = matches!(network, Network::Host) && node.is_some();
            let addresses = match node.filter(|_| host_network) {
                Some(node) => node_addresses(node).into_iter().collect(),
                None => pod_addresses(number, network).into_iter().collect(),
            };
            let mut declared_ports: Vec<_> = ports.iter().map(|port| (port.protocol, port.port)).collect();
            declared_ports.sort();
            declared_ports.dedup();
            let extra = Extra {
                declared_ports,
                ..Extra::default()
            };
            Pod {
                object: pod_object(slot),
                labels,
                node: node.map(|index| NODES[index].into()),
                addresses,
                synthetic: matches!(network, Network::Synthetic),
                ports: ports.into(),
                host_network,
                finished,
                owner: owner.map(|name| {
                    let (kind, name) = ("Deployment".into(), name.into());
                    Arc::new(Owner { kind, name })
                }),
                attachments,
                interface: None,
                extra: extra.kept(),
            }
        })
}

/// What identifies the pod of one slot.
fn pod_object(slot: usize) -> ObjectRef {
    let namespace = NAMESPACES[slot % NAMESPACES.len()];
    let name = format!("p{}", slot / NAMESPACES.len());
    let kind = if slot + 2 >= SLOTS { "Deployment" } else { "Pod" };
    ObjectRef::new(kind, namespace, &name)
}

#[derive(Clone, Copy, Debug)]
enum Network {
    Dual,
    Ipv4,
    Ipv6,
    Synthetic,
    /// The node's; dual when there is no node.
    Host,
    /// Dual stack, at other addresses than before.
    Renumbered,
}

fn pod_addresses(number: u8, network: Network) -> Vec<IpAddr> {
    let v4 = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 10 + number));
    let v6 = IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 10 + u16::from(number)));
    match network {
        Network::Dual | Network::Host => vec![v4, v6],
        Network::Ipv4 => vec![v4],
        Network::Ipv6 => vec![v6],
        Network::Synthetic => vec![
            IpAddr::V4(Ipv4Addr::new(198, 18, 0, 10 + number)),
            IpAddr::V6(Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 10 + u16::from(number))),
        ],
        Network::Renumbered => vec![
            IpAddr::V4(Ipv4Addr::new(10, 0, 1, 10 + number)),
            IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, 1, 0, 0, 0, 10 + u16::from(number))),
        ],
    }
}

fn labels() -> impl Strategy<Value = Labels> {
    let value = || option::weighted(0.6, select(VALUES.to_vec()));
    [value(), value(), value()].prop_map(|values| {
        let present = KEYS.into_iter().zip(values);
        present.filter_map(|(key, value)| Some((key, value?))).collect()
    })
}

/// Sorted and unique; one name may stand for several numbers and protocols.
fn ports() -> impl Strategy<Value = Vec<NamedPort>> {
    let port = (
        select(PORT_NAMES.to_vec()),
        select(vec![Protocol::TCP, Protocol::TCP, Protocol::UDP, Protocol::SCTP]),
        select(PORTS.to_vec()),
    );
    proptest::collection::btree_set(
        port.prop_map(|(name, protocol, port)| NamedPort {
            name: name.into(),
            protocol,
            port,
        }),
        0..=4,
    )
    .prop_map(|ports| ports.into_iter().collect())
}
