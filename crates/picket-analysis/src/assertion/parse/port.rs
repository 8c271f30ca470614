//! Reading ports.

use picket_net::{PortRange, Protocol};
use picket_policy::{Cursor, Reader, Unreadable, Value};

use super::super::{PortSpec, codes};
use super::one_or_more;

/// One port or a list of ports.
pub(super) fn ports(at: &Cursor<'_>, reader: &mut Reader<'_>) -> Result<Vec<PortSpec>, Unreadable> {
    let mut ports = Vec::new();
    let mut sound = Ok(());
    let items = one_or_more(at, reader)?;
    if items.is_empty() {
        let message = "the list is empty: leave `ports` out to speak of everything";
        return Err(reader.error(codes::PORT, at, message));
    }
    for item in items {
        match port(&item, reader) {
            Ok(port) => ports.push(port),
            Err(unreadable) => sound = Err(unreadable),
        }
    }
    sound.map(|()| ports)
}

fn port(at: &Cursor<'_>, reader: &mut Reader<'_>) -> Result<PortSpec, Unreadable> {
    let number;
    let text = match &at.node().value {
        Value::Integer(integer) => {
            number = integer.to_string();
            number.as_str()
        }
        _ => at.string(reader)?.as_str(),
    };
    read(text).map_err(|message| reader.error(codes::PORT, at, message))
}

/// What a text says, or what is wrong with it.
fn read(text: &str) -> Result<PortSpec, String> {
    if text.eq_ignore_ascii_case("other") {
        return Ok(PortSpec::Other);
    }
    if let Some(protocol) = protocol(text) {
        return Ok(PortSpec::Protocol(protocol));
    }
    let (port, protocol) = match text.split_once('/') {
        None => (text, Protocol::TCP),
        Some((port, name)) => {
            let with_ports = protocol(name).filter(|protocol| protocol.has_ports());
            (port, with_ports.ok_or_else(|| not_a_port(text))?)
        }
    };
    if port.starts_with(|first: char| first.is_ascii_digit())
        && !port.contains(|one: char| one.is_ascii_alphabetic())
    {
        return Ok(PortSpec::Range(protocol, range(text, port)?));
    }
    let allowed = |one: char| one.is_ascii_alphanumeric() || one == '-';
    if port.is_empty() || !port.chars().all(allowed) || port.starts_with('-') {
        return Err(not_a_port(text));
    }
    Ok(PortSpec::Named(protocol, port.into()))
}

fn protocol(text: &str) -> Option<Protocol> {
    if let Some(number) = text.strip_prefix("proto:") {
        return number.parse().ok().map(Protocol::from_number);
    }
    let portless = [Protocol::ICMP, Protocol::ICMPV6];
    let mut known = Protocol::WITH_PORTS.into_iter().chain(portless);
    known.find(|protocol| protocol.to_string().eq_ignore_ascii_case(text))
}

fn range(text: &str, ports: &str) -> Result<PortRange, String> {
    let (first, last) = ports.split_once('-').unwrap_or((ports, ports));
    let number = |text: &str| text.parse::<u16>().ok().filter(|&number| number > 0);
    let (Some(first), Some(last)) = (number(first), number(last)) else {
        return Err(format!("`{text}` is no port: they go from 1 to 65535"));
    };
    PortRange::new(first, last)
        .ok_or_else(|| format!("`{text}` holds no port: the first is above the last; write `{last}-{first}`"))
}

fn not_a_port(text: &str) -> String {
    format!(
        "`{text}` is no port: write `80`, `53/udp`, `8000-8010/tcp`, `http`, or a protocol such as `tcp`, `icmp` or \
         `proto:47`"
    )
}
