//! Which packets look for their route in which table (policy routing, `linux/fib_rules.h`).

use std::net::IpAddr;

use crate::message::Message;
use crate::netlink::{CREATE_EXCL, REQUEST_ACK, interface_name};
use crate::{Netlink, Result};

const RTM_NEWRULE: u16 = 32;
const RTM_DELRULE: u16 = 33;

const FRA_DST: u16 = 1;
const FRA_SRC: u16 = 2;
const FRA_IIFNAME: u16 = 3;
const FRA_PRIORITY: u16 = 6;
const FRA_TABLE: u16 = 15;
const FRA_OIFNAME: u16 = 17;
const FR_ACT_TO_TBL: u8 = 1;

/// A version of the Internet Protocol; each has its own rules and tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum IpVersion {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl IpVersion {
    /// That of an address.
    pub fn of(address: IpAddr) -> Self {
        if address.is_ipv4() { Self::V4 } else { Self::V6 }
    }

    /// The number of its address family in netlink headers.
    pub(crate) fn family(self) -> u8 {
        let number = match self {
            Self::V4 => libc::AF_INET,
            Self::V6 => libc::AF_INET6,
        };
        u8::try_from(number).unwrap_or_default()
    }
}

/// A routing table, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RouteTable(pub u32);

impl RouteTable {
    /// The one in which routes are, unless another is said.
    pub const MAIN: Self = Self(254);
    /// The one in which the kernel keeps the addresses of the namespace itself.
    pub const LOCAL: Self = Self(255);
}

/// A rule that says which packets look for their route in which table. The kernel asks rules in ascending order of
/// priority; its own are at 0 (every packet in the local table) and 32766 (in the main table).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RouteRule {
    /// The packets that it is for.
    pub version: IpVersion,
    /// When it is asked.
    pub priority: u32,
    /// What else they must be.
    pub packets: Vec<RuleMatch>,
    /// Where they look.
    pub table: RouteTable,
}

/// What a packet must be for a [`RouteRule`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleMatch {
    /// Sent by this namespace itself.
    FromHere,
    /// From this address.
    Source(IpAddr),
    /// To this address.
    Destination(IpAddr),
    /// Sent through a socket that is bound to this interface.
    BoundTo(String),
}

impl Netlink {
    /// Adds a rule.
    ///
    /// # Errors
    /// [`Error::Netlink`](crate::Error::Netlink), for example when there is one just like it.
    pub fn add_rule(&mut self, rule: &RouteRule) -> Result<()> {
        let message = rule_message(RTM_NEWRULE, CREATE_EXCL, rule)?;
        self.request(message, || format!("add the routing rule {}", rule.priority))
    }

    /// Removes a rule.
    ///
    /// # Errors
    /// [`Error::Netlink`](crate::Error::Netlink) when there is none like it.
    pub fn delete_rule(&mut self, rule: &RouteRule) -> Result<()> {
        let message = rule_message(RTM_DELRULE, 0, rule)?;
        self.request(message, || format!("delete the routing rule {}", rule.priority))
    }
}

/// A message about a rule; its header is `struct fib_rule_hdr`.
fn rule_message(kind: u16, flags: u16, rule: &RouteRule) -> Result<Message> {
    let (mut source_length, mut destination_length) = (0, 0);
    for packets in &rule.packets {
        match packets {
            RuleMatch::Source(address) => source_length = host_length(*address),
            RuleMatch::Destination(address) => destination_length = host_length(*address),
            RuleMatch::FromHere | RuleMatch::BoundTo(_) => {}
        }
    }
    let mut header = vec![
        rule.version.family(),
        destination_length,
        source_length,
        0,
        0,
        0,
        0,
        FR_ACT_TO_TBL,
    ];
    header.extend([0; 4]);
    let mut message = Message::new(kind, REQUEST_ACK | flags, &header)
        .number(FRA_PRIORITY, rule.priority)
        .number(FRA_TABLE, rule.table.0);
    for packets in &rule.packets {
        message = match packets {
            RuleMatch::FromHere => message.text(FRA_IIFNAME, "lo"),
            RuleMatch::Source(address) => message.address(FRA_SRC, *address),
            RuleMatch::Destination(address) => message.address(FRA_DST, *address),
            RuleMatch::BoundTo(name) => message.text(FRA_OIFNAME, interface_name(name)?),
        };
    }
    Ok(message)
}

/// The length of the prefix that has no other address.
pub(crate) fn host_length(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}
