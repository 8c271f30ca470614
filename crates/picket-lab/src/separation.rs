//! Pods on several networks, which may use the same addresses: each interface has routes of its own.
//!
//! A packet takes the routes of the interface that its socket is bound to, or of the one that has its source address.
//! That is asked before the kernel asks whether the destination is one of the pod's own addresses, because it may be
//! its own on one network and another's on the next.

use picket_linux::{IpVersion, Netlink, NetworkNamespace, RouteRule, RouteTable, RuleMatch};

use crate::{Cable, Error};

/// The table of the first interface on a secondary network; those of the others follow.
const FIRST_TABLE: u32 = 1001;

/// When each rule is asked; all before those of the kernel.
const TO_ITSELF: u32 = 100;
const BOUND: u32 = 200;
const FROM: u32 = 300;
const OWN_ADDRESSES: u32 = 400;

/// The table with the routes of the interface at `position` among those of its place.
pub(crate) fn table_of(position: usize) -> RouteTable {
    match u32::try_from(position) {
        Ok(0) | Err(_) => RouteTable::MAIN,
        Ok(position) => RouteTable(FIRST_TABLE + position - 1),
    }
}

/// Makes every interface of `namespace` use its own table.
pub(crate) fn separate(namespace: &NetworkNamespace, cables: &[Cable]) -> Result<(), Error> {
    let mut netlink = Netlink::open(namespace)?;
    for (position, cable) in cables.iter().enumerate() {
        // The address of a peer may be this pod's own on another network.
        let setting = format!("ipv4/conf/{}/accept_local", cable.interface);
        namespace.set(&[(&setting, "1")])?;
        for rule in rules(cable, table_of(position)) {
            netlink.add_rule(&rule)?;
        }
    }
    for version in [IpVersion::V4, IpVersion::V6] {
        let own_addresses = |priority| RouteRule {
            version,
            priority,
            packets: Vec::new(),
            table: RouteTable::LOCAL,
        };
        netlink.add_rule(&own_addresses(OWN_ADDRESSES))?;
        netlink.delete_rule(&own_addresses(0))?;
    }
    Ok(())
}

fn rules(cable: &Cable, table: RouteTable) -> Vec<RouteRule> {
    let bound = [IpVersion::V4, IpVersion::V6].map(|version| RouteRule {
        version,
        priority: BOUND,
        packets: vec![RuleMatch::BoundTo(cable.interface.to_string())],
        table,
    });
    let by_address = cable.addresses.iter().flat_map(|&address| {
        let from_it = [RuleMatch::FromHere, RuleMatch::Source(address)];
        [
            RouteRule {
                version: IpVersion::of(address),
                priority: TO_ITSELF,
                packets: [&from_it[..], &[RuleMatch::Destination(address)]].concat(),
                table: RouteTable::LOCAL,
            },
            RouteRule {
                version: IpVersion::of(address),
                priority: FROM,
                packets: from_it.to_vec(),
                table,
            },
        ]
    });
    bound.into_iter().chain(by_address).collect()
}
