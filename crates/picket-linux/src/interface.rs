//! Which interface has which address.

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::message::{HEADER, u32_at};
use crate::netlink::{ADDRESS_HEADER, IFA_ADDRESS, RTM_GETADDR, address, own_address};
use crate::reply::Attributes;
use crate::uplink::{LINK_HEADER, RTM_GETLINK, link};
use crate::{Netlink, Result};

/// An address of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// The name of the interface.
    pub interface: String,
    /// The address.
    pub address: IpAddr,
    /// The addresses that are reached there without a gateway: a base address and a prefix length.
    pub network: (IpAddr, u8),
}

impl Netlink {
    /// Every address of this namespace, with its interface.
    ///
    /// # Errors
    /// [`Error::Netlink`](crate::Error::Netlink).
    pub fn interface_addresses(&mut self) -> Result<Vec<InterfaceAddress>> {
        let action = "list the interfaces of this namespace";
        let links = self.list(RTM_GETLINK, &[0; LINK_HEADER], action, link)?;
        let names: BTreeMap<u32, String> = links.into_iter().map(|link| (link.index, link.name)).collect();
        let action = "list the addresses of this namespace";
        let found = self.list(RTM_GETADDR, &[0; ADDRESS_HEADER], action, numbered)?;
        // An interface that goes meanwhile takes its addresses with it.
        let found = found.into_iter().filter_map(|(index, address, network)| {
            Some(InterfaceAddress {
                interface: names.get(&index)?.clone(),
                address,
                network,
            })
        });
        Ok(found.collect())
    }
}

/// The index of an interface, its address, and what is reached there.
type Numbered = (u32, IpAddr, (IpAddr, u8));

fn numbered(message: &[u8]) -> Option<Numbered> {
    let own = own_address(message)?;
    let attributes = Attributes::of(message.get(HEADER + ADDRESS_HEADER..)?);
    // At a link with two ends the prefix is that of the other end.
    let network = attributes.find(IFA_ADDRESS).and_then(address).unwrap_or(own);
    let length = *message.get(HEADER + 1)?;
    Some((u32_at(message, HEADER + 4)?, own, (network, length)))
}
