//! What is asked.

use picket_net::{Family, Protocol};
use smol_str::SmolStr;

use crate::directory::{Party, UnknownParty};

/// May `from` open a connection to `to`?
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Who opens it.
    pub from: Party,
    /// To whom.
    pub to: Party,
    /// With which protocol, to which port.
    pub port: PortQuestion,
    /// Ask about this family only.
    pub family: Option<Family>,
}

/// Why a question cannot be answered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuestionError {
    /// No such source.
    #[error("from: {0}")]
    From(UnknownParty),
    /// No such destination.
    #[error("to: {0}")]
    To(UnknownParty),
    /// Not a port.
    #[error("port: {0}")]
    Port(PortError),
}

/// A protocol and, where it has ports, a destination port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PortQuestion {
    /// A port by its number, which is not 0.
    Number(Protocol, u16),
    /// A container port of the destination by its name.
    Name(Protocol, SmolStr),
    /// A protocol without ports.
    Portless(Protocol),
}

/// Why a text is no port.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortError {
    /// Nothing is there.
    #[error("nothing is named: {FORMS}")]
    Empty,
    /// The number is out of range.
    #[error("`{0}` is not within 1 to 65535")]
    Number(String),
    /// There is no such protocol.
    #[error("`{0}` is no protocol with ports: these are TCP, UDP and SCTP; {FORMS}")]
    Protocol(String),
    /// An IP protocol number is out of range.
    #[error("`{0}` is no IP protocol number: they go from 0 to 255")]
    ProtocolNumber(String),
    /// The protocol has ports, and none is named.
    #[error("{0} has ports, and the answer depends on them: write `NUMBER/{0}` or `NAME/{0}`")]
    NeedsPort(Protocol),
    /// The protocol has no ports, and one is named.
    #[error("{0} has no ports: write `{text}`", text = .0.to_string().to_lowercase())]
    HasNoPorts(Protocol),
}

const FORMS: &str = "write `80/tcp`, `http/tcp`, `53/udp`, `icmp`, `icmpv6` or `proto:47`";

impl PortQuestion {
    /// Reads `N/PROTO`, `NAME/PROTO`, `icmp`, `icmpv6`, `proto:N`, or a bare number or name, which is TCP. Protocols
    /// may be written in any case.
    ///
    /// # Errors
    /// When the text is none of these.
    pub fn parse(text: &str) -> Result<Self, PortError> {
        let text = text.trim();
        if let Some(number) = strip_prefix_ignoring_case(text, "proto:") {
            let parsed: Result<u8, _> = number.parse();
            let protocol =
                Protocol::from_number(parsed.map_err(|_| PortError::ProtocolNumber(number.to_owned()))?);
            return if protocol.has_ports() {
                Err(PortError::NeedsPort(protocol))
            } else {
                Ok(Self::Portless(protocol))
            };
        }
        if let Some(protocol) = portless(text) {
            return Ok(Self::Portless(protocol));
        }
        let (port, protocol) = match text.split_once('/') {
            None => (text, Protocol::TCP),
            Some((port, protocol)) => (port, with_ports(protocol)?),
        };
        if port.is_empty() {
            return Err(PortError::Empty);
        }
        if port.bytes().all(|byte| byte.is_ascii_digit()) {
            return match port.parse::<u16>() {
                Ok(number) if number > 0 => Ok(Self::Number(protocol, number)),
                _ => Err(PortError::Number(port.to_owned())),
            };
        }
        Ok(Self::Name(protocol, port.into()))
    }

    /// The protocol.
    pub fn protocol(&self) -> Protocol {
        match self {
            Self::Number(protocol, _) | Self::Name(protocol, _) | Self::Portless(protocol) => *protocol,
        }
    }
}

fn portless(text: &str) -> Option<Protocol> {
    [Protocol::ICMP, Protocol::ICMPV6]
        .into_iter()
        .find(|protocol| protocol.to_string().eq_ignore_ascii_case(text))
}

fn with_ports(text: &str) -> Result<Protocol, PortError> {
    if let Some(protocol) = portless(text) {
        return Err(PortError::HasNoPorts(protocol));
    }
    Protocol::WITH_PORTS
        .into_iter()
        .find(|protocol| protocol.to_string().eq_ignore_ascii_case(text))
        .ok_or_else(|| PortError::Protocol(text.to_owned()))
}

fn strip_prefix_ignoring_case<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let (start, rest) = text.split_at_checked(prefix.len())?;
    start.eq_ignore_ascii_case(prefix).then_some(rest)
}
