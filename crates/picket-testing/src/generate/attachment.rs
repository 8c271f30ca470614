//! Random interfaces on secondary networks.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use picket_cluster::{Attachment, Network};
use picket_policy::NetworkName;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use smol_str::format_smolstr;

/// The secondary networks: two of one namespace, two of one name.
pub(super) const NETWORKS: [(&str, &str); 3] = [("n0", "net-a"), ("n0", "net-b"), ("n1", "net-a")];

/// One of [`NETWORKS`].
pub(super) fn network(index: usize) -> NetworkName {
    let (namespace, name) = NETWORKS[index % NETWORKS.len()];
    NetworkName {
        namespace: namespace.into(),
        name: name.into(),
    }
}

/// The definition of one of [`NETWORKS`], often on a wire that another is on too.
pub(super) fn definition(index: usize) -> impl Strategy<Value = Network> {
    let wire = prop_oneof![
        1 => Just(None),
        3 => Just(Some("macvlan/eth1")),
        1 => Just(Some("bridge/br0/10")),
    ];
    wire.prop_map(move |wire| Network {
        name: network(index),
        wire: wire.map(|wire| wire.parse().unwrap()),
    })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stack {
    Dual,
    Ipv4,
    Ipv6,
    Synthetic,
}

/// 0 to 3 interfaces of the pod of one slot, several of them perhaps on one network. Their addresses depend on the slot
/// and on which interface it is, and may be those that other pods have on the cluster network.
pub(super) fn attachments(slot: usize) -> impl Strategy<Value = Vec<Attachment>> {
    let stack = select(vec![
        Stack::Dual,
        Stack::Dual,
        Stack::Ipv4,
        Stack::Ipv6,
        Stack::Synthetic,
    ]);
    let interface = (0..NETWORKS.len(), stack, prop::bool::weighted(0.3));
    let interfaces = prop_oneof![1 => Just(0usize), 2 => Just(1), 2 => Just(2), 1 => Just(3)];
    interfaces
        .prop_flat_map(move |count| vec(interface.clone(), count))
        .prop_map(move |interfaces| {
            let interfaces = interfaces.into_iter().zip(0u8..);
            let attachment = |((network, stack, named), index)| Attachment {
                network: self::network(network),
                interface: match named {
                    true => format_smolstr!("data{index}"),
                    false => format_smolstr!("net{}", index + 1),
                },
                addresses: addresses(slot, index, stack).into_iter().collect(),
                synthetic: stack == Stack::Synthetic,
            };
            interfaces.map(attachment).collect()
        })
}

fn addresses(slot: usize, index: u8, stack: Stack) -> Vec<IpAddr> {
    let host = 10 + u8::try_from(slot).unwrap();
    let v4 = IpAddr::V4(Ipv4Addr::new(10, 0, index, host));
    let v6 = IpAddr::V6(Ipv6Addr::new(0xfd00, 0, 0, index.into(), 0, 0, 0, host.into()));
    match stack {
        Stack::Dual => vec![v4, v6],
        Stack::Ipv4 => vec![v4],
        Stack::Ipv6 => vec![v6],
        Stack::Synthetic => vec![
            IpAddr::V4(Ipv4Addr::new(198, 18, 1 + index, host)),
            IpAddr::V6(Ipv6Addr::new(
                0x2001,
                2,
                0,
                1 + u16::from(index),
                0,
                0,
                0,
                host.into(),
            )),
        ],
    }
}
