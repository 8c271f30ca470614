//! How the values of ACLs, session rules and interfaces stand in messages.

use std::net::IpAddr;

use picket_net::{Family, Prefix};

use super::error::{Malformed, Problem};
use super::value::{AclAction, AclRule, Label, LinkState, SessionAction, SessionScope, Transport};
use super::wire::{Field, Fixed, Reader};

/// Bytes of an address of any family.
const ADDRESS: usize = 16;
/// Bytes of an entry of the table of messages.
const ENTRY: usize = 66;

/// `u8 af, u8 address[16], u8 len`. An IPv4 address is in the first four; what stands in the others counts for nothing,
/// and so do bits beyond the length.
impl Field for Prefix {
    fn write(&self, bytes: &mut Vec<u8>) {
        let end = bytes.len() + 1 + ADDRESS;
        match self.first() {
            IpAddr::V4(address) => {
                bytes.push(0);
                bytes.extend(address.octets());
            }
            IpAddr::V6(address) => {
                bytes.push(1);
                bytes.extend(address.octets());
            }
        }
        bytes.resize(end, 0);
        bytes.push(self.length());
    }

    fn read(reader: &mut Reader<'_>, field: &'static str) -> Result<Self, Malformed> {
        let family = match u8::read(reader, field)? {
            0 => Family::Ipv4,
            1 => Family::Ipv6,
            other => return Err(reader.wrong(field, Problem::Value(other.into()))),
        };
        let octets = <[u8; ADDRESS]>::read(reader, field)?;
        let [a, b, c, d, ..] = octets;
        let address = match family {
            Family::Ipv4 => IpAddr::from([a, b, c, d]),
            Family::Ipv6 => IpAddr::from(octets),
        };
        let length = u8::read(reader, field)?;
        Self::new(address, length).ok_or_else(|| reader.wrong(field, Problem::Value(length.into())))
    }
}

/// A number with the one value of each of some names.
macro_rules! enumeration {
    ($type:ty as $number:ty { $($value:path = $says:literal),* $(,)? }) => {
        impl Field for $type {
            fn write(&self, bytes: &mut Vec<u8>) {
                let number: $number = match self { $($value => $says),* };
                number.write(bytes);
            }

            fn read(reader: &mut Reader<'_>, field: &'static str) -> Result<Self, Malformed> {
                match <$number>::read(reader, field)? {
                    $($says => Ok($value),)*
                    other => Err(reader.wrong(field, Problem::Value(other.into()))),
                }
            }
        }
    };
}

enumeration!(AclAction as u8 {
    AclAction::Deny = 0,
    AclAction::Permit = 1,
    AclAction::PermitReflect = 2,
});

impl Field for Transport {
    fn write(&self, bytes: &mut Vec<u8>) {
        let number: u8 = match *self {
            Self::Tcp => 0,
            Self::Udp => 1,
            Self::Other(number) => number,
        };
        number.write(bytes);
    }

    fn read(reader: &mut Reader<'_>, field: &'static str) -> Result<Self, Malformed> {
        Ok(match u8::read(reader, field)? {
            0 => Self::Tcp,
            1 => Self::Udp,
            number => Self::Other(number),
        })
    }
}

/// How the session layer looks rules up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Engine {
    /// There are no sessions.
    Disabled,
    /// In the tables that `session_rule_add_del` changes.
    RuleTable,
    /// Not at all.
    NoRules,
    /// In a deny list of sources.
    DenyList,
}

enumeration!(Engine as u8 {
    Engine::Disabled = 0,
    Engine::RuleTable = 1,
    Engine::NoRules = 2,
    Engine::DenyList = 3,
});

/// `acl_rule`.
impl Field for AclRule {
    fn write(&self, bytes: &mut Vec<u8>) {
        self.action.write(bytes);
        self.source.write(bytes);
        self.destination.write(bytes);
        let (source, destination) = (self.source_ports, self.destination_ports);
        self.protocol.write(bytes);
        for port in [source.0, source.1, destination.0, destination.1] {
            port.write(bytes);
        }
        self.tcp_flags.0.write(bytes);
        self.tcp_flags.1.write(bytes);
    }

    fn read(reader: &mut Reader<'_>, _: &'static str) -> Result<Self, Malformed> {
        Ok(Self {
            action: AclAction::read(reader, "is_permit")?,
            source: Prefix::read(reader, "src_prefix")?,
            destination: Prefix::read(reader, "dst_prefix")?,
            protocol: u8::read(reader, "proto")?,
            source_ports: (
                u16::read(reader, "srcport_or_icmptype_first")?,
                u16::read(reader, "srcport_or_icmptype_last")?,
            ),
            destination_ports: (
                u16::read(reader, "dstport_or_icmpcode_first")?,
                u16::read(reader, "dstport_or_icmpcode_last")?,
            ),
            tcp_flags: (
                u8::read(reader, "tcp_flags_mask")?,
                u8::read(reader, "tcp_flags_value")?,
            ),
        })
    }
}

impl Fixed for AclRule {
    const LENGTH: usize = 48;
}

/// `u8 count, u8 n_input, u32 acls[count]`, of which the first `n_input` are for input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Lists {
    input: Vec<u32>,
    output: Vec<u32>,
}

impl Lists {
    /// The lists of both directions, or `None` when they have more than 255 together.
    pub(super) fn new(input: Vec<u32>, output: Vec<u32>) -> Option<Self> {
        let count = input.len() + output.len();
        (count <= usize::from(u8::MAX)).then_some(Self { input, output })
    }

    /// Those for input, and those for output.
    pub(super) fn into_parts(self) -> (Vec<u32>, Vec<u32>) {
        (self.input, self.output)
    }
}

impl Field for Lists {
    fn write(&self, bytes: &mut Vec<u8>) {
        // INVARIANT: there are at most 255 of both.
        for count in [self.input.len() + self.output.len(), self.input.len()] {
            bytes.push(u8::try_from(count).unwrap_or(u8::MAX));
        }
        self.input
            .iter()
            .chain(&self.output)
            .for_each(|acl| acl.write(bytes));
    }

    fn read(reader: &mut Reader<'_>, field: &'static str) -> Result<Self, Malformed> {
        let count = usize::from(u8::read(reader, "count")?);
        let n_input = usize::from(u8::read(reader, "n_input")?);
        reader.holds("count", count, u32::LENGTH)?;
        let Some(n_output) = count.checked_sub(n_input) else {
            let problem = Problem::Count {
                count: n_input,
                room: count,
            };
            return Err(reader.wrong("n_input", problem));
        };
        let mut some = |count| (0..count).map(|_| u32::read(reader, field)).collect();
        let input: Result<_, _> = some(n_input);
        Ok(Self {
            input: input?,
            output: some(n_output)?,
        })
    }
}

impl Field for SessionAction {
    fn write(&self, bytes: &mut Vec<u8>) {
        let number: u32 = match *self {
            Self::Defer => 0xffff_ffff,
            Self::Deny => 0xffff_fffe,
            Self::Allow => 0xffff_fffd,
            Self::Redirect(application) => application,
        };
        number.write(bytes);
    }

    fn read(reader: &mut Reader<'_>, field: &'static str) -> Result<Self, Malformed> {
        Ok(match u32::read(reader, field)? {
            0xffff_ffff => Self::Defer,
            0xffff_fffe => Self::Deny,
            0xffff_fffd => Self::Allow,
            application => Self::Redirect(application),
        })
    }
}

/// A scope as `session_rule_add_del` must say it. VPP copies the number to a byte without turning it around, and takes
/// it for its own, in which local is 2 and both are 3: the API's enum would make every rule global.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AskedScope(pub(super) SessionScope);

impl Field for AskedScope {
    fn write(&self, bytes: &mut Vec<u8>) {
        let first = match self.0 {
            SessionScope::Global => 0,
            SessionScope::Local => 2,
            SessionScope::Both => 3,
        };
        bytes.extend([first, 0, 0, 0]);
    }

    fn read(reader: &mut Reader<'_>, field: &'static str) -> Result<Self, Malformed> {
        match <[u8; 4]>::read(reader, field)? {
            [0 | 1, 0, 0, 0] => Ok(Self(SessionScope::Global)),
            [2, 0, 0, 0] => Ok(Self(SessionScope::Local)),
            [3, 0, 0, 0] => Ok(Self(SessionScope::Both)),
            other => Err(reader.wrong(field, Problem::Value(u32::from_be_bytes(other).into()))),
        }
    }
}

/// A scope as the details of rules say it: the API's enum, in the order of VPP's machine, which is the lowest byte first
/// wherever VPP runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ToldScope(pub(super) SessionScope);

impl Field for ToldScope {
    fn write(&self, bytes: &mut Vec<u8>) {
        let first = match self.0 {
            SessionScope::Global => 0,
            SessionScope::Local => 1,
            SessionScope::Both => 2,
        };
        bytes.extend([first, 0, 0, 0]);
    }

    fn read(reader: &mut Reader<'_>, field: &'static str) -> Result<Self, Malformed> {
        match <[u8; 4]>::read(reader, field)? {
            [0, 0, 0, 0] => Ok(Self(SessionScope::Global)),
            [1, 0, 0, 0] => Ok(Self(SessionScope::Local)),
            [2, 0, 0, 0] => Ok(Self(SessionScope::Both)),
            other => Err(reader.wrong(field, Problem::Value(u32::from_be_bytes(other).into()))),
        }
    }
}

/// `if_status_flags`: 1 for switched on, 2 for a link. Others count for nothing.
impl Field for LinkState {
    fn write(&self, bytes: &mut Vec<u8>) {
        let flags = u32::from(self.is_up) | u32::from(self.has_link) << 1;
        flags.write(bytes);
    }

    fn read(reader: &mut Reader<'_>, field: &'static str) -> Result<Self, Malformed> {
        let flags = u32::read(reader, field)?;
        Ok(Self {
            is_up: flags & 1 != 0,
            has_link: flags & 2 != 0,
        })
    }
}

/// `u16 count` and so many times `u16 msg_id, string name[64]`: the numbers of messages, by name and CRC.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MessageNumbers(pub(super) Vec<(u16, Label)>);

impl Field for MessageNumbers {
    fn write(&self, bytes: &mut Vec<u8>) {
        // INVARIANT: it was read, with a count of as many bytes, or is that of a test.
        u16::try_from(self.0.len()).unwrap_or(u16::MAX).write(bytes);
        for (id, name) in &self.0 {
            id.write(bytes);
            name.write(bytes);
        }
    }

    fn read(reader: &mut Reader<'_>, field: &'static str) -> Result<Self, Malformed> {
        let count = usize::from(u16::read(reader, "count")?);
        reader.holds("count", count, ENTRY)?;
        let mut entry = || Ok((u16::read(reader, field)?, Label::read(reader, field)?));
        (0..count).map(|_| entry()).collect::<Result<_, _>>().map(Self)
    }
}
