//! The connections that the kernel tracks in a network namespace: listing them, and forgetting single ones.

mod tuple;

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use rustix::io::Errno;

pub use tuple::{Carried, Tuple};

use crate::batch::family_header;
use crate::message::{HEADER, Message, NLM_F_ACK, NLM_F_REQUEST};
use crate::nfnetlink::{Nfnetlink, refused};
use crate::reply::Attributes;
use crate::request::NLM_F_DUMP;
use crate::{Error, Result};
use tuple::Part;

const SUBSYSTEM: u16 = 1;
const IPCTNL_MSG_CT_GET: u16 = 1;
const IPCTNL_MSG_CT_DELETE: u16 = 2;
const IPCTNL_MSG_CT_GET_STATS: u16 = 5;

const CTA_TUPLE_ORIG: u16 = 1;
const CTA_TUPLE_REPLY: u16 = 2;
const CTA_STATUS: u16 = 3;
const CTA_PROTOINFO: u16 = 4;
const CTA_ID: u16 = 12;
const CTA_TUPLE_MASTER: u16 = 14;
const CTA_ZONE: u16 = 18;
const CTA_FILTER: u16 = 25;
const CTA_FILTER_ORIG_FLAGS: u16 = 1;
const CTA_FILTER_REPLY_FLAGS: u16 = 2;
/// That sources are compared.
const CTA_FILTER_F_CTA_IP_SRC: u32 = 1;
const NLA_F_NESTED: u16 = 0x8000;

const CTA_PROTOINFO_TCP: u16 = 1;
const CTA_PROTOINFO_TCP_FLAGS_ORIGINAL: u16 = 4;
/// That sequence numbers are not looked at closely (`IP_CT_TCP_FLAG_BE_LIBERAL`).
const LIBERAL: u8 = 1 << 3;

const CTA_STATS_GLOBAL_ENTRIES: u16 = 1;

const IPS_SEEN_REPLY: u32 = 1 << 1;

/// Bytes of the header of a family, `struct nfgenmsg`.
const FAMILY_HEADER: usize = 4;
/// How often a list is begun again of which the kernel could not tell everything.
const READINGS: usize = 100;

/// A connection, or what the kernel tracks as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Connection {
    /// What its first packet carried when it came, before any translation.
    pub original: Tuple,
    /// What replies carry when they come: its source is the destination after translation, its destination the source after
    /// translation.
    pub reply: Tuple,
    /// The zone that both directions are in; 0 when there are none, or when [`Tuple::zone`] says it for one direction.
    pub zone: u16,
    /// What tells it from connections before and after it with the same addresses and ports.
    pub id: u32,
    /// What it is and what has happened to it (`IPS_*`).
    pub status: u32,
    /// The connection of which a helper of the kernel expected it, as its data connection for example.
    pub master: Option<Tuple>,
    /// Whether connection tracking may not have seen it begin: TCP that it met in the middle (`nf_conntrack_tcp_loose`) it takes for opened
    /// by whoever sent what it met. The kernel says of these that it is liberal with them (`tcp_new` in `nf_conntrack_proto_tcp.c`), as
    /// of those that go past it, through Open vSwitch or a flow table, whoever has opened them.
    pub is_taken_up: bool,
}

impl Connection {
    /// Whether the other end has answered.
    pub fn is_answered(&self) -> bool {
        self.status & IPS_SEEN_REPLY != 0
    }

    /// What a message of the kernel says; `None` when it is no connection.
    fn of(message: &[u8]) -> Option<Self> {
        Self::read(Attributes::of(message.get(HEADER + FAMILY_HEADER..)?))
    }

    /// What the attributes of a message say; `None` when they are those of no connection.
    pub fn read(attributes: Attributes<'_>) -> Option<Self> {
        let (mut original, mut reply, mut master) = (None, None, None);
        let (mut zone, mut id, mut status, mut is_taken_up) = (0, None, 0, false);
        for (kind, bytes) in attributes {
            match kind {
                CTA_TUPLE_ORIG => original = Some(Tuple::read(bytes)?),
                CTA_TUPLE_REPLY => reply = Some(Tuple::read(bytes)?),
                CTA_TUPLE_MASTER => master = Some(Tuple::read(bytes)?),
                CTA_ZONE => zone = u16::from_be_bytes(bytes.try_into().ok()?),
                CTA_ID => id = Some(u32::from_be_bytes(bytes.try_into().ok()?)),
                CTA_PROTOINFO => is_taken_up = is_liberal(bytes),
                CTA_STATUS => status = u32::from_be_bytes(bytes.try_into().ok()?),
                _ => {}
            }
        }
        Some(Self {
            original: original?,
            reply: reply?,
            zone,
            id: id?,
            status,
            master,
            is_taken_up,
        })
    }
}

/// Whether what a message says of the protocol of a connection is that the kernel is liberal with its TCP.
fn is_liberal(bytes: &[u8]) -> bool {
    let tcp = Attributes::of(bytes).find(CTA_PROTOINFO_TCP);
    let flags = tcp.and_then(|tcp| Attributes::of(tcp).find(CTA_PROTOINFO_TCP_FLAGS_ORIGINAL));
    // The flags, and which of them count.
    flags
        .and_then(<[u8]>::first)
        .is_some_and(|flags| flags & LIBERAL != 0)
}

impl fmt::Display for Connection {
    /// The first packet, and where it goes if that is elsewhere.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.original)?;
        if self.original.destination != self.reply.source {
            write!(f, " (translated to {})", self.reply.source)?;
        }
        Ok(())
    }
}

/// Which connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// All.
    All,
    /// Those of IPv6.
    Ipv6,
    /// Those that this address has opened, whatever their source is translated to.
    From(IpAddr),
    /// Those that lead to this address, after whatever translation.
    To(IpAddr),
}

impl Which {
    /// Whether a connection is one of them.
    fn has(self, connection: &Connection) -> bool {
        let (original, reply) = (&connection.original, &connection.reply);
        match self {
            Self::All => true,
            Self::Ipv6 => original.source.is_ipv6(),
            Self::From(address) => original.source == address,
            Self::To(address) => reply.source == address,
        }
    }
}

impl Nfnetlink {
    /// Gives `each` the connections of this namespace, one by one. One may come more than once, and one that begins
    /// meanwhile may be missing.
    ///
    /// The kernel does the choosing, but for addresses of IPv6: that of single addresses costs little however many connections
    /// there are. Of IPv6 kernels give all but those that are asked for (`!ipv6_addr_cmp` in `ctnetlink_filter_match_tuple`, up to
    /// Linux 6.18 at least), so that all of IPv6 are listed and chosen from. Kernels before 5.8 list all whatever is asked for.
    ///
    /// # Errors
    /// [`Error::Netlink`]. Some connections may have been given.
    pub fn connections(&mut self, which: Which, mut each: impl FnMut(&Connection)) -> Result<()> {
        let action = "list the connections that are tracked";
        for _ in 0..READINGS {
            let flags = NLM_F_REQUEST | NLM_F_DUMP;
            let came_whole = self.request(list(which, flags), flags, action, |message| {
                let connection = Connection::of(message)?;
                if which.has(&connection) {
                    each(&connection);
                }
                Some(())
            })?;
            if came_whole {
                return Ok(());
            }
        }
        Err(refused(action, Errno::NOBUFS))
    }

    /// How many connections this namespace has, with those of which the first packet is still under way.
    ///
    /// That costs nothing, while a list of no connections costs as much as one of about a thousand: the kernel looks through what it
    /// has of all namespaces.
    ///
    /// # Errors
    /// [`Error::Netlink`].
    pub fn connection_count(&mut self) -> Result<u32> {
        let action = "count the connections that are tracked";
        let mut count = None;
        let message = message(IPCTNL_MSG_CT_GET_STATS, NLM_F_REQUEST, 0);
        self.request(message, NLM_F_REQUEST, action, |message| {
            let attributes = Attributes::of(message.get(HEADER + FAMILY_HEADER..)?);
            let bytes = attributes.find(CTA_STATS_GLOBAL_ENTRIES)?;
            count = Some(u32::from_be_bytes(bytes.try_into().ok()?));
            Some(())
        })?;
        count.ok_or_else(|| refused(action, Errno::BADMSG))
    }

    /// The connection that was opened in this `zone` (see [`Connection::zone`]) by a packet that carried `original`.
    ///
    /// # Errors
    /// [`Error::Netlink`].
    pub fn connection(&mut self, original: &Tuple, zone: u16) -> Result<Option<Connection>> {
        let action = format!("look for the connection {original}");
        let message = about(IPCTNL_MSG_CT_GET, NLM_F_REQUEST, original, zone);
        let mut found = None;
        let outcome = self.request(message, NLM_F_REQUEST, &action, |message| {
            found = Some(Connection::of(message)?);
            Some(())
        });
        Ok(unless_missing(outcome)?.and(found))
    }

    /// Makes the kernel forget exactly this connection: its next packet opens a connection, or belongs to none. Whether it was
    /// still there; one that has begun since with the same addresses and ports stays, unless the kernel gave it the same
    /// [`Connection::id`], a hash of where the entry lies in memory.
    ///
    /// # Errors
    /// [`Error::Netlink`].
    pub fn forget(&mut self, connection: &Connection) -> Result<bool> {
        let action = format!("delete the entry of the connection {connection}");
        let flags = NLM_F_REQUEST | NLM_F_ACK;
        let message = about(IPCTNL_MSG_CT_DELETE, flags, &connection.original, connection.zone);
        let message = message.attribute(CTA_ID, &connection.id.to_be_bytes());
        let outcome = self.request(message, flags, &action, |_| Some(()));
        Ok(unless_missing(outcome)?.is_some())
    }
}

fn unless_missing<T>(outcome: Result<T>) -> Result<Option<T>> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(Error::Netlink { source, .. }) if source.raw_os_error() == Some(Errno::NOENT.raw_os_error()) => {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

fn message(kind: u16, flags: u16, family: u8) -> Message {
    Message::new(SUBSYSTEM << 8 | kind, flags, &family_header(family, 0))
}

fn about(kind: u16, flags: u16, original: &Tuple, zone: u16) -> Message {
    let message = message(kind, flags, family(original.source));
    let message = original.write(message, CTA_TUPLE_ORIG, Part::Whole);
    match zone {
        0 => message,
        _ => message.attribute(CTA_ZONE, &zone.to_be_bytes()),
    }
}

fn list(which: Which, flags: u16) -> Message {
    let (address, tuple, filter) = match which {
        Which::All => return message(IPCTNL_MSG_CT_GET, flags, 0),
        Which::Ipv6 | Which::From(IpAddr::V6(_)) | Which::To(IpAddr::V6(_)) => {
            return message(IPCTNL_MSG_CT_GET, flags, family(Ipv6Addr::UNSPECIFIED.into()));
        }
        Which::From(address) => (address, CTA_TUPLE_ORIG, CTA_FILTER_ORIG_FLAGS),
        Which::To(address) => (address, CTA_TUPLE_REPLY, CTA_FILTER_REPLY_FLAGS),
    };
    let wanted = Tuple {
        source: address,
        destination: address,
        protocol: 0,
        carried: Carried::Nothing,
        zone: 0,
    };
    let message = message(IPCTNL_MSG_CT_GET, flags, family(address));
    let (message, nest) = wanted
        .write(message, tuple, Part::Source)
        .open(CTA_FILTER | NLA_F_NESTED, &[]);
    let other = if filter == CTA_FILTER_ORIG_FLAGS {
        CTA_FILTER_REPLY_FLAGS
    } else {
        CTA_FILTER_ORIG_FLAGS
    };
    message
        .number(filter, CTA_FILTER_F_CTA_IP_SRC)
        .number(other, 0)
        .close(&nest)
}

/// The number of the family of an address (`AF_*`).
fn family(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 2,
        IpAddr::V6(_) => 10,
    }
}

#[cfg(test)]
mod tests;
