//! ClusterNetworkPolicy of policy.networking.k8s.io/v1alpha2.

use picket_net::{PortRange, Protocol};

use crate::dialect::{Lowered, Options};
use crate::document::Manifest;
use crate::reader::{Cursor, Reader, Unreadable};
use crate::tiered::{self, Schema, bounds};
use crate::{Action, PortMatch, code};

const SCHEMA: Schema = Schema {
    tier: None,
    has_priority: true,
    actions: &[
        ("Accept", Action::Accept),
        ("Deny", Action::Deny),
        ("Pass", Action::Pass),
    ],
    most: 25,
    ports: "protocols",
    port: protocol,
    has_domain_names: true,
    needs_namespaces: false,
};

/// Reads a ClusterNetworkPolicy. See [`crate::lower`].
pub(crate) fn lower(manifest: &Manifest, options: Options) -> Lowered {
    tiered::lower(manifest, options, &SCHEMA)
}

/// Reads an item of `protocols`.
fn protocol(at: &Cursor<'_>, reader: &mut Reader<'_>) -> Result<PortMatch, Unreadable> {
    let mut fields = at.fields(reader)?;
    let names = ["tcp", "udp", "sctp", "destinationNamedPort"];
    let (field, at) = bounds::one_of(&mut fields, names, code::PORT, reader)?;
    let protocol = match field {
        "tcp" => Protocol::TCP,
        "udp" => Protocol::UDP,
        "sctp" => Protocol::SCTP,
        _ => return named(&at, reader),
    };
    let mut fields = at.fields(reader)?;
    let (_, port) = bounds::one_of(&mut fields, ["destinationPort"], code::PORT, reader)?;
    let mut fields = port.fields(reader)?;
    let range = match bounds::one_of(&mut fields, ["number", "range"], code::PORT, reader)? {
        ("number", at) => {
            let number = port_number(&at, reader)?;
            PortRange::new(number, number).ok_or(Unreadable)?
        }
        (_, at) => range(&at, reader)?,
    };
    Ok(PortMatch::Range(protocol, range))
}

/// A port of any protocol, by the name that the destination gives it.
fn named(at: &Cursor<'_>, reader: &mut Reader<'_>) -> Result<PortMatch, Unreadable> {
    let name = at.string(reader)?.clone();
    if name.is_empty() {
        let message = "Invalid value: \"\": an empty name is no name";
        return Err(reader.error(code::PORT, at, message));
    }
    Ok(PortMatch::Named { protocol: None, name })
}

/// A range of more than one port.
pub(crate) fn range(at: &Cursor<'_>, reader: &mut Reader<'_>) -> Result<PortRange, Unreadable> {
    let mut fields = at.fields(reader)?;
    let start = required(&mut fields, "start", reader);
    let end = required(&mut fields, "end", reader);
    let known = fields.unknown(&[], reader).is_empty();
    let (start, end) = (start?, end?);
    less(at, start, end, reader)?;
    let range = PortRange::new(start, end).filter(|_| known);
    range.ok_or(Unreadable)
}

/// A port number that must be there.
pub(crate) fn required(
    fields: &mut crate::reader::Fields<'_>,
    name: &'static str,
    reader: &mut Reader<'_>,
) -> Result<u16, Unreadable> {
    match fields.get(name) {
        Some(at) => port_number(&at, reader),
        None => Err(reader.missing(code::PORT, fields.cursor(), name, "Required value")),
    }
}

fn port_number(at: &Cursor<'_>, reader: &mut Reader<'_>) -> Result<u16, Unreadable> {
    bounds::number(at, 1, u16::MAX, code::PORT, reader)
}

/// Reports a range that does not have its first port below its last.
pub(crate) fn less(at: &Cursor<'_>, start: u16, end: u16, reader: &mut Reader<'_>) -> Result<(), Unreadable> {
    if start < end {
        return Ok(());
    }
    let message = "Invalid value: Start port must be less than End port";
    Err(reader.error(code::END_PORT, at, message))
}

#[cfg(test)]
mod tests;
