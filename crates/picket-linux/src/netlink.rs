//! Links, addresses and routes of one network namespace.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::netdevice::name_to_index;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, send, socket_with,
};

use crate::message::{HEADER, Message, NLM_F_ACK, NLM_F_REQUEST, acknowledgement};
use crate::nfnetlink::refused;
use crate::receive::{Datagram, listen, receive};
use crate::reply::Attributes;
use crate::request::{Asked, NLM_F_DUMP};
use crate::rule::{IpVersion, RouteTable, host_length};
use crate::{Error, NetworkNamespace, Result};

const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
const RTM_NEWADDR: u16 = 20;
pub(crate) const RTM_GETADDR: u16 = 22;
const RTM_NEWROUTE: u16 = 24;
const RTM_NEWNEIGH: u16 = 28;

pub(crate) const REQUEST_ACK: u16 = NLM_F_REQUEST | NLM_F_ACK;
pub(crate) const CREATE_EXCL: u16 = 0x400 | 0x200;
const CREATE_OR_REPLACE: u16 = 0x400 | 0x100;

const IFLA_ADDRESS: u16 = 1;
pub(crate) const IFLA_IFNAME: u16 = 3;
pub(crate) const IFLA_LINKINFO: u16 = 18;
const IFLA_NET_NS_FD: u16 = 28;
pub(crate) const IFLA_INFO_KIND: u16 = 1;
const IFLA_INFO_DATA: u16 = 2;
const VETH_INFO_PEER: u16 = 1;
const IFF_UP: u32 = 1;

/// Bytes of the header of address messages, `struct ifaddrmsg`.
pub(crate) const ADDRESS_HEADER: usize = 8;
/// How often a list is begun again of which the kernel could not tell everything.
const READINGS: usize = 100;
pub(crate) const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const IFA_FLAGS: u16 = 8;
const IFA_F_NODAD: u8 = 2;
const IFA_F_NOPREFIXROUTE: u32 = 0x200;

const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
const NUD_PERMANENT: u16 = 0x80;

pub(crate) const RTA_DST: u16 = 1;
pub(crate) const RTA_OIF: u16 = 4;
pub(crate) const RTA_GATEWAY: u16 = 5;
const RTA_PREFSRC: u16 = 7;
const RTA_TABLE: u16 = 15;
const RTNH_F_ONLINK: u32 = 4;
const RTPROT_STATIC: u8 = 4;
const RT_SCOPE_UNIVERSE: u8 = 0;
const RT_SCOPE_LINK: u8 = 253;
pub(crate) const RTN_UNICAST: u8 = 1;

/// An end of the cable with an index, as [`Netlink::create_cable`] takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CableEnd {
    /// The end in the namespace that made it.
    Here(u32),
    /// The other.
    There(u32),
}

impl CableEnd {
    /// Its link-layer address, a locally administered one.
    fn address(self) -> [u8; 6] {
        let (first, index) = match self {
            Self::Here(index) => (0x02, index),
            Self::There(index) => (0x06, index),
        };
        let [a, b, c, d] = index.to_be_bytes();
        [first, 0, a, b, c, d]
    }
}

/// A connection to the kernel's network configuration of one namespace.
#[derive(Debug)]
pub struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

/// A unicast route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// The table that it is in.
    pub table: RouteTable,
    /// Where to: a base address and a prefix length.
    pub destination: (IpAddr, u8),
    /// The next hop, taken to be reachable at the interface itself; `None`: the destination is.
    pub gateway: Option<IpAddr>,
    /// The interface.
    pub interface: String,
    /// The source address of what this namespace sends itself; `None`: the kernel chooses.
    pub source: Option<IpAddr>,
}

impl Netlink {
    /// Opens it in `namespace`; it stays there whatever thread uses it.
    ///
    /// # Errors
    /// [`Error::Enter`] or [`Error::Socket`].
    pub fn open(namespace: &NetworkNamespace) -> Result<Self> {
        let socket = open(namespace, None, 0)?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Creates two Ethernet interfaces that are the ends of one cable: `name` here, with this index, and `peer_name` in
    /// `peer`.
    ///
    /// When both ends have the same index, the kernel takes up to a second to notice that they are up
    /// (`linkwatch_urgent_event`).
    ///
    /// # Errors
    /// [`Error::Netlink`], for example when a name is taken.
    pub fn create_cable(
        &mut self,
        name: &str,
        index: u32,
        peer_name: &str,
        peer: &NetworkNamespace,
    ) -> Result<()> {
        let (name, peer_name) = (interface_name(name)?, interface_name(peer_name)?);
        let peer_file = u32::try_from(peer.as_fd().as_raw_fd()).unwrap_or_default();
        let message = Message::new(RTM_NEWLINK, REQUEST_ACK | CREATE_EXCL, &link_header(index, 0))
            .text(IFLA_IFNAME, name)
            .attribute(IFLA_ADDRESS, &CableEnd::Here(index).address());
        let (message, info) = message.open(IFLA_LINKINFO, &[]);
        let (message, settings) = message.text(IFLA_INFO_KIND, "veth").open(IFLA_INFO_DATA, &[]);
        let (message, other_end) = message.open(VETH_INFO_PEER, &link_header(0, 0));
        let message = message
            .text(IFLA_IFNAME, peer_name)
            .attribute(IFLA_ADDRESS, &CableEnd::There(index).address())
            .number(IFLA_NET_NS_FD, peer_file)
            .close(&other_end)
            .close(&settings)
            .close(&info);
        self.request(message, || {
            format!("create the interface pair `{name}` and `{peer_name}`")
        })
    }

    /// Removes an interface, and with it the other end of its cable.
    ///
    /// # Errors
    /// [`Error::Netlink`] when there is none of that name.
    pub fn delete(&mut self, name: &str) -> Result<()> {
        let index = self.index(name)?;
        let message = Message::new(RTM_DELLINK, REQUEST_ACK, &link_header(index, 0));
        self.request(message, || format!("delete the interface `{name}`"))
    }

    /// Switches an interface on.
    ///
    /// # Errors
    /// [`Error::Netlink`] when there is none of that name.
    pub fn set_up(&mut self, name: &str) -> Result<()> {
        let index = self.index(name)?;
        let message = Message::new(RTM_NEWLINK, REQUEST_ACK, &link_header(index, IFF_UP));
        self.request(message, || format!("switch the interface `{name}` on"))
    }

    /// Gives an interface an address, usable at once: IPv6 duplicate address detection is off for it. There is a route to
    /// the other addresses of its prefix; none, when it has no others.
    ///
    /// # Errors
    /// [`Error::Netlink`].
    pub fn add_address(&mut self, name: &str, address: IpAddr, prefix_length: u8) -> Result<()> {
        let index = self.index(name)?;
        let scope = if is_link_local(address) {
            RT_SCOPE_LINK
        } else {
            RT_SCOPE_UNIVERSE
        };
        let mut header = vec![family(address), prefix_length, IFA_F_NODAD, scope];
        header.extend(index.to_ne_bytes());
        let mut message = Message::new(RTM_NEWADDR, REQUEST_ACK | CREATE_EXCL, &header)
            .address(IFA_LOCAL, address)
            .address(IFA_ADDRESS, address);
        if prefix_length == host_length(address) {
            message = message.number(IFA_FLAGS, u32::from(IFA_F_NODAD) | IFA_F_NOPREFIXROUTE);
        }
        self.request(message, || {
            format!("give `{name}` the address {address}/{prefix_length}")
        })
    }

    /// Adds a route, in place of one to the same destination.
    ///
    /// # Errors
    /// [`Error::Netlink`].
    pub fn set_route(&mut self, route: &Route) -> Result<()> {
        let (destination, length) = route.destination;
        let index = self.index(&route.interface)?;
        let (scope, flags) = match route.gateway {
            None => (RT_SCOPE_LINK, 0),
            // IPv6 needs no such flag: the next hops here are link-local addresses.
            Some(IpAddr::V6(_)) => (RT_SCOPE_UNIVERSE, 0),
            Some(IpAddr::V4(_)) => (RT_SCOPE_UNIVERSE, RTNH_F_ONLINK),
        };
        let mut header = vec![
            family(destination),
            length,
            0,
            0,
            // The attribute says it: a table may have a higher number than fits here.
            0,
            RTPROT_STATIC,
            scope,
            RTN_UNICAST,
        ];
        header.extend(flags.to_ne_bytes());
        let mut message = Message::new(RTM_NEWROUTE, REQUEST_ACK | CREATE_OR_REPLACE, &header)
            .number(RTA_TABLE, route.table.0)
            .number(RTA_OIF, index);
        if length > 0 {
            message = message.address(RTA_DST, destination);
        }
        if let Some(gateway) = route.gateway {
            message = message.address(RTA_GATEWAY, gateway);
        }
        if let Some(source) = route.source {
            message = message.address(RTA_PREFSRC, source);
        }
        self.request(message, || {
            format!("set the route to {destination}/{length} by `{}`", route.interface)
        })
    }

    /// Says for good which end of its cable has an address that is reached by an interface. Such a neighbour is never
    /// looked for, and does not count towards the number of neighbours that all namespaces together may have
    /// (`gc_thresh3`).
    ///
    /// # Errors
    /// [`Error::Netlink`].
    pub fn set_neighbour(&mut self, name: &str, address: IpAddr, end: CableEnd) -> Result<()> {
        let index = self.index(name)?;
        let mut header = vec![family(address), 0, 0, 0];
        header.extend(index.to_ne_bytes());
        header.extend(NUD_PERMANENT.to_ne_bytes());
        header.extend([0, 0]);
        let message = Message::new(RTM_NEWNEIGH, REQUEST_ACK | CREATE_OR_REPLACE, &header)
            .address(NDA_DST, address)
            .attribute(NDA_LLADDR, &end.address());
        self.request(message, || format!("make {address} a neighbour by `{name}`"))
    }

    fn index(&self, name: &str) -> Result<u32> {
        let name = interface_name(name)?;
        name_to_index(&self.socket, name).map_err(|source| Error::Netlink {
            action: format!("find the interface `{name}`"),
            detail: String::new(),
            source: source.into(),
        })
    }

    /// Every address of this namespace.
    ///
    /// # Errors
    /// [`Error::Netlink`].
    pub fn addresses(&mut self) -> Result<BTreeSet<IpAddr>> {
        let action = "list the addresses of this machine";
        let listed = self.list(RTM_GETADDR, &[0; ADDRESS_HEADER], action, own_address)?;
        Ok(listed.into_iter().collect())
    }

    /// What `read` makes of each message that the kernel lists for a kind of request with this header; it gives nothing for
    /// one that it cannot read.
    pub(crate) fn list<T>(
        &mut self,
        kind: u16,
        header: &[u8],
        action: &str,
        read: impl Fn(&[u8]) -> Option<T>,
    ) -> Result<Vec<T>> {
        let mut buffer = vec![0; 1 << 16];
        for _ in 0..READINGS {
            self.sequence = self.sequence.wrapping_add(1);
            let message = Message::new(kind, NLM_F_REQUEST | NLM_F_DUMP, header);
            send(&self.socket, &message.finish(self.sequence), SendFlags::empty())
                .map_err(|error| refused(action, error))?;
            let asked = Asked {
                sequence: self.sequence,
                is_list: true,
                action,
            };
            let mut found = Vec::new();
            let came_whole = asked.answers(&self.socket, &mut buffer, |message| {
                found.push(read(message)?);
                Some(())
            })?;
            if came_whole {
                return Ok(found);
            }
        }
        Err(refused(action, Errno::NOBUFS))
    }

    pub(crate) fn request(&mut self, message: Message, action: impl Fn() -> String) -> Result<()> {
        let refused = |detail: String, source: io::Error| Error::Netlink {
            action: action(),
            detail,
            source,
        };
        self.sequence = self.sequence.wrapping_add(1);
        let bytes = message.finish(self.sequence);
        send(&self.socket, &bytes, SendFlags::empty())
            .map_err(|source| refused(String::new(), source.into()))?;
        let mut buffer = [0; 8192];
        loop {
            let length = match receive(&self.socket, &mut buffer, RecvFlags::empty()) {
                Ok(Datagram::Whole(length)) => length,
                Ok(Datagram::Cut) => return Err(refused(String::new(), Errno::MSGSIZE.into())),
                Ok(Datagram::Foreign) => continue,
                Err(source) => return Err(refused(String::new(), source.into())),
            };
            match acknowledgement(buffer.get(..length).unwrap_or_default()) {
                Some(answer) if answer.sequence == self.sequence && answer.error == 0 => return Ok(()),
                Some(answer) if answer.sequence == self.sequence => {
                    let detail = answer
                        .explanation
                        .map_or(String::new(), |text| format!(": {text}"));
                    return Err(refused(detail, io::Error::from_raw_os_error(answer.error)));
                }
                _ => {}
            }
        }
    }
}

/// The header of link messages, `struct ifinfomsg`.
fn link_header(index: u32, up: u32) -> Vec<u8> {
    let mut header = vec![0; 4];
    header.extend(index.to_ne_bytes());
    header.extend(up.to_ne_bytes());
    header.extend(up.to_ne_bytes());
    header
}

/// The address that a message tells of; at a link with two ends, the one of this end.
pub(crate) fn own_address(message: &[u8]) -> Option<IpAddr> {
    let attributes = Attributes::of(message.get(HEADER + ADDRESS_HEADER..)?);
    let bytes = attributes
        .clone()
        .find(IFA_LOCAL)
        .or_else(|| attributes.find(IFA_ADDRESS))?;
    address(bytes)
}

pub(crate) fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => Some(<[u8; 4]>::try_from(bytes).ok()?.into()),
        _ => Some(<[u8; 16]>::try_from(bytes).ok()?.into()),
    }
}

fn family(address: IpAddr) -> u8 {
    IpVersion::of(address).family()
}

fn is_link_local(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    }
}

pub(crate) fn interface_name(name: &str) -> Result<&str> {
    let allowed = |c: char| !c.is_whitespace() && c != '/' && c != ':' && c != '\0';
    if (1..=15).contains(&name.len()) && name.chars().all(allowed) && name != "." && name != ".." {
        Ok(name)
    } else {
        Err(Error::InterfaceName {
            name: name.to_owned(),
        })
    }
}

/// A netlink socket of a protocol, that of routes without, which hears the kernel alone and listens to `groups`; it stays in
/// `namespace` whatever thread uses it.
pub(crate) fn open(namespace: &NetworkNamespace, protocol: Option<Protocol>, groups: u32) -> Result<OwnedFd> {
    let (family, kind, flags) = (AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC);
    let socket = namespace
        .run(|| socket_with(family, kind, flags, protocol))?
        .map_err(|source| Error::socket("open a netlink socket", source))?;
    listen(&socket, groups).map_err(|source| Error::socket("listen to the kernel", source))?;
    ask_for_explanations(&socket);
    Ok(socket)
}

/// Asks the kernel to say in words why it refuses. Kernels that cannot still give the code.
#[expect(unsafe_code, reason = "rustix has no netlink socket options")]
fn ask_for_explanations(socket: &OwnedFd) {
    for option in [libc::NETLINK_EXT_ACK, libc::NETLINK_CAP_ACK] {
        let on: libc::c_int = 1;
        let length = size_of::<libc::c_int>();
        // SAFETY: the descriptor is open for the whole call, and the kernel reads exactly one `c_int` from a
        // variable of that type.
        unsafe {
            libc::setsockopt(
                socket.as_raw_fd(),
                libc::SOL_NETLINK,
                option,
                (&raw const on).cast(),
                libc::socklen_t::try_from(length).unwrap_or_default(),
            );
        }
    }
}
