//! NetworkPolicyPort.

use picket_net::{PortRange, Protocol};

use crate::document::Value;
use crate::reader::{Cursor, Reader, Unreadable};
use crate::{Edit, Fix, PortMatch, code, name};

const BETWEEN: &str = "must be between 1 and 65535, inclusive";

/// Reads an item of `ports`.
pub(crate) fn read(at: &Cursor<'_>, reader: &mut Reader<'_>) -> Result<PortMatch, Unreadable> {
    let mut fields = at.fields(reader)?;
    let protocol = fields.get("protocol");
    let port = fields.get("port");
    let end_port = fields.get("endPort");
    let known = fields.unknown(&[], reader).is_empty();

    let protocol = protocol.map_or(Ok(Protocol::TCP), |at| self::protocol(&at, reader));
    let ports = ports(port.as_ref(), end_port.as_ref(), reader);
    let (protocol, ports) = (protocol?, ports?);
    let ports = match ports {
        Ports::All => PortMatch::Protocol(protocol),
        Ports::Range(range) => PortMatch::Range(protocol, range),
        Ports::Named(name) => PortMatch::Named {
            protocol: Some(protocol),
            name,
        },
    };
    if known { Ok(ports) } else { Err(Unreadable) }
}

fn protocol(at: &Cursor<'_>, reader: &mut Reader<'_>) -> Result<Protocol, Unreadable> {
    let text = at.string(reader)?;
    Protocol::from_api_name(text)
        .ok_or_else(|| reader.unsupported(code::UNSUPPORTED_VALUE, at, text, &["TCP", "UDP", "SCTP"]))
}

enum Ports {
    All,
    Range(PortRange),
    Named(smol_str::SmolStr),
}

fn ports(
    port: Option<&Cursor<'_>>,
    end_port: Option<&Cursor<'_>>,
    reader: &mut Reader<'_>,
) -> Result<Ports, Unreadable> {
    let last = end_port.map(|at| Ok((at, at.integer(reader)?))).transpose();
    let Some(port) = port else {
        return match last? {
            None => Ok(Ports::All),
            Some((at, last)) => {
                let message =
                    format!("Invalid value: {last}: may not be specified when `port` is not specified");
                Err(reader.error(code::END_PORT, at, message))
            }
        };
    };
    match &port.node().value {
        Value::Integer(first) => range(port, *first, last?, reader).map(Ports::Range),
        Value::String(text) => {
            let mut sound = Ok(());
            if let Some((at, last)) = last? {
                let message =
                    format!("Invalid value: {last}: may not be specified when `port` is non-numeric");
                sound = Err(reader.error(code::END_PORT, at, message));
            }
            for problem in name::port_name(text) {
                sound = Err(bad_name(port, text, &problem, reader));
            }
            sound.map(|()| Ports::Named(text.clone()))
        }
        _ => Err(port.wrong_type(reader, "an integer or a string")),
    }
}

fn range(
    at: &Cursor<'_>,
    first: i64,
    last: Option<(&Cursor<'_>, i64)>,
    reader: &mut Reader<'_>,
) -> Result<PortRange, Unreadable> {
    let number = |number: i64| u16::try_from(number).ok().filter(|&number| number > 0);
    if number(first).is_none() {
        reader.error(code::PORT, at, format!("Invalid value: {first}: {BETWEEN}"));
    }
    let end = last.map_or(first, |(_, last)| last);
    if let Some((at, last)) = last {
        if last < first {
            // The number is that of `port` in the API server, too.
            let message = format!("Invalid value: {first}: must be greater than or equal to `port`");
            reader.error(code::END_PORT, at, message);
        }
        if number(last).is_none() {
            reader.error(code::END_PORT, at, format!("Invalid value: {last}: {BETWEEN}"));
        }
    }
    let range = number(first).zip(number(end));
    range
        .and_then(|(first, last)| PortRange::new(first, last))
        .ok_or(Unreadable)
}

fn bad_name(at: &Cursor<'_>, text: &str, problem: &str, reader: &mut Reader<'_>) -> Unreadable {
    let span = reader.source().span(at.node().range.clone());
    let message = format!("Invalid value: {text:?}: {problem}");
    let diagnostic = reader.report(code::PORT, crate::Severity::Error, at, message);
    if let Some(number) = text.parse::<u16>().ok().filter(|number| *number > 0) {
        diagnostic.fixes.push(Fix {
            title: format!("write the number without quotes: `{number}`"),
            edits: vec![Edit {
                span,
                replacement: number.to_string(),
            }],
        });
    }
    Unreadable
}
