//! Where the interfaces of a machine lead, by its routes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::RecvFlags;

use crate::message::{HEADER, u16_at, u32_at};
use crate::netlink::{
    IFLA_IFNAME, IFLA_INFO_KIND, IFLA_LINKINFO, RTA_DST, RTA_GATEWAY, RTA_OIF, RTN_UNICAST, open,
};
use crate::receive::{Datagram, receive};
use crate::reply::Attributes;
use crate::rule::IpVersion;
use crate::{Error, Netlink, NetworkNamespace, Result};

pub(crate) const RTM_GETLINK: u16 = 18;
const RTM_GETROUTE: u16 = 26;

/// Bytes of the header of link messages, `struct ifinfomsg`, of that of route messages, `struct rtmsg`, and of that of one of
/// several next hops, `struct rtnexthop`.
pub(crate) const LINK_HEADER: usize = 16;
const ROUTE_HEADER: usize = 12;
const NEXT_HOP_HEADER: usize = 8;

const RTA_MULTIPATH: u16 = 9;
/// A next hop of the other family.
const RTA_VIA: u16 = 18;

/// `RTMGRP_LINK`, `RTMGRP_IPV4_IFADDR`, `RTMGRP_IPV4_ROUTE`, `RTMGRP_IPV6_IFADDR` and `RTMGRP_IPV6_ROUTE`: routes that go with
/// an interface or an address go without a word.
const GROUPS: u32 = 0x1 | 0x10 | 0x40 | 0x100 | 0x400;

/// Hears when links, addresses or routes of one network namespace change.
#[derive(Debug)]
pub struct RouteMonitor {
    socket: OwnedFd,
}

impl RouteMonitor {
    /// Listens in `namespace` from now on.
    ///
    /// # Errors
    /// [`Error::Enter`] or [`Error::Socket`].
    pub fn open(namespace: &NetworkNamespace) -> Result<Self> {
        let socket = open(namespace, None, GROUPS)?;
        Ok(Self { socket })
    }

    /// Whether something has changed since the last time. It does not wait; to wait, ask [`crate::Epoll`] about this.
    ///
    /// # Errors
    /// [`Error::Socket`].
    pub fn has_changed(&self) -> Result<bool> {
        let mut has_changed = false;
        loop {
            // What happened is of no account, and what found no room happened as well.
            match receive(&self.socket, &mut [0; 64], RecvFlags::DONTWAIT) {
                Ok(Datagram::Foreign) => {}
                Ok(_) | Err(Errno::NOBUFS) => has_changed = true,
                Err(Errno::AGAIN) => return Ok(has_changed),
                Err(source) => return Err(Error::socket("hear of changes of routes", source)),
            }
        }
    }
}

impl AsFd for RouteMonitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// An interface.
pub(crate) struct Link {
    pub(crate) index: u32,
    pub(crate) name: String,
    is_bridge: bool,
}

/// A bridge of this machine with an address of its own network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bridge {
    /// Its name.
    pub name: String,
    /// Whom the routes reach at it without a gateway: addresses, each with the length of its prefix in bits.
    pub reaches: Vec<(IpAddr, u8)>,
    /// Where other routes lead that are no default: elsewhere, where they are about less.
    pub elsewhere: Vec<(IpAddr, u8)>,
}

/// An interface that a unicast route leads through.
struct Hop {
    interface: u32,
    /// Whether it leads further from there: to a gateway, or everywhere.
    further: bool,
    /// Whom it leads to.
    to: Option<(IpAddr, u8)>,
}

impl Netlink {
    /// The names of the interfaces by which this namespace reaches whom it has no route of their own to: those with a route
    /// through a gateway or with a default route, in any table of either version; and bridges without any route, which pass
    /// on what those at them exchange, but lead to no one.
    ///
    /// # Errors
    /// [`Error::Netlink`].
    pub fn uplinks(&mut self) -> Result<BTreeSet<String>> {
        let action = "list the interfaces of this machine";
        // First, since that waits until a change that has been told is over.
        let links = self.list(RTM_GETLINK, &[0; LINK_HEADER], action, link)?;
        let mut leads_further: BTreeMap<u32, bool> = BTreeMap::new();
        for hop in self.hops()? {
            *leads_further.entry(hop.interface).or_default() |= hop.further;
        }
        let is_uplink = |link: &Link| match leads_further.get(&link.index) {
            Some(further) => *further,
            None => link.is_bridge,
        };
        let uplinks = links.into_iter().filter(is_uplink);
        Ok(uplinks.map(|link| link.name).collect())
    }

    /// The bridges at which this namespace reaches somebody without a gateway, in the order of their numbers. Where there is no
    /// bridge no route is read.
    ///
    /// # Errors
    /// [`Error::Netlink`].
    pub fn bridges(&mut self) -> Result<Vec<Bridge>> {
        let action = "list the interfaces of this machine";
        let links = self.list(RTM_GETLINK, &[0; LINK_HEADER], action, link)?;
        let bridges: BTreeMap<u32, String> = links
            .into_iter()
            .filter(|link| link.is_bridge)
            .map(|link| (link.index, link.name))
            .collect();
        if bridges.is_empty() {
            return Ok(Vec::new());
        }
        let hops = self.hops()?;
        let bridges = bridges.into_iter().map(|(index, name)| {
            let (at, others): (Vec<_>, Vec<_>) = hops
                .iter()
                .partition(|hop| hop.interface == index && !hop.further);
            Bridge {
                name,
                reaches: at.into_iter().filter_map(|hop| hop.to).collect(),
                elsewhere: others.into_iter().filter_map(|hop| hop.to).collect(),
            }
        });
        Ok(bridges.filter(|bridge| !bridge.reaches.is_empty()).collect())
    }

    /// Where the routes of every table lead, of both versions.
    fn hops(&mut self) -> Result<Vec<Hop>> {
        let mut all = Vec::new();
        for version in [IpVersion::V4, IpVersion::V6] {
            let mut header = [0; ROUTE_HEADER];
            if let Some(family) = header.first_mut() {
                *family = version.family();
            }
            let action = "list the routes of this machine";
            all.extend(
                self.list(RTM_GETROUTE, &header, action, hops)?
                    .into_iter()
                    .flatten(),
            );
        }
        Ok(all)
    }
}

pub(crate) fn link(message: &[u8]) -> Option<Link> {
    let attributes = Attributes::of(message.get(HEADER + LINK_HEADER..)?);
    let kind = attributes.clone().find(IFLA_LINKINFO);
    let kind = kind.and_then(|info| Attributes::of(info).find(IFLA_INFO_KIND));
    Some(Link {
        index: u32_at(message, HEADER + 4)?,
        name: text(attributes.find(IFLA_IFNAME)?),
        is_bridge: kind.is_some_and(|kind| text(kind) == "bridge"),
    })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned()
}

/// Where a route leads; nowhere if it is none to others.
fn hops(message: &[u8]) -> Option<Vec<Hop>> {
    let header = message.get(HEADER..HEADER + ROUTE_HEADER)?;
    let (length, kind) = (*header.get(1)?, *header.get(7)?);
    let attributes = Attributes::of(message.get(HEADER + ROUTE_HEADER..)?);
    let destination = attributes.clone().find(RTA_DST).unwrap_or_default();
    // Every interface with IPv6 has a route to the addresses that are its own alone.
    if kind != RTN_UNICAST || destination.starts_with(&[0xfe, 0x80]) {
        return Some(Vec::new());
    }
    let further = |attributes: Attributes<'_>| {
        let mut kinds = attributes.map(|(kind, _)| kind);
        length == 0 || kinds.any(|kind| kind == RTA_GATEWAY || kind == RTA_VIA)
    };
    let interface = attributes
        .clone()
        .find(RTA_OIF)
        .and_then(|bytes| u32_at(bytes, 0));
    let several = attributes.clone().find(RTA_MULTIPATH).unwrap_or_default();
    let one = interface.map(|interface| (interface, further(attributes)));
    let several = NextHops(several).map(|(interface, attributes)| (interface, further(attributes)));
    let to = address(destination).map(|address| (address, length));
    let hops = one.into_iter().chain(several).map(|(interface, further)| Hop {
        interface,
        further,
        to,
    });
    Some(hops.collect())
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let v4 = || <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from);
    v4().or_else(|| <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from))
}

/// The next hops of a route that has several, each as its interface and what else is said of it.
struct NextHops<'a>(&'a [u8]);

impl<'a> Iterator for NextHops<'a> {
    type Item = (u32, Attributes<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        let length = usize::from(u16_at(self.0, 0)?);
        let interface = u32_at(self.0, 4)?;
        let attributes = self.0.get(NEXT_HOP_HEADER..length)?;
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((interface, Attributes::of(attributes)))
    }
}
