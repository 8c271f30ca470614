//! Peers: pods at both ends, and nodes, networks and domain names as destinations.

use smol_str::SmolStr;

use super::{Schema, bounds, subject};
use crate::dialect::Options;
use crate::network_policy::cidr;
use crate::reader::{Cursor, Reader, Unreadable};
use crate::{Block, Direction, DomainName, Peer, Severity, code, label_selector};

/// The most networks or domain names of one peer.
const MOST_NAMES: usize = 25;

/// Reads an item of `from` or `to`. One with several networks or domain names is several peers.
pub(super) fn read(
    at: &Cursor<'_>,
    direction: Direction,
    options: Options,
    schema: &Schema,
    reader: &mut Reader<'_>,
) -> Result<Vec<Peer>, Unreadable> {
    let mut fields = at.fields(reader)?;
    let (field, at) = match (direction, schema.has_domain_names) {
        (Direction::Ingress, _) => bounds::one_of(&mut fields, ["namespaces", "pods"], code::PEER, reader),
        (Direction::Egress, false) => {
            let names = ["namespaces", "pods", "nodes", "networks"];
            bounds::one_of(&mut fields, names, code::PEER, reader)
        }
        (Direction::Egress, true) => {
            let names = ["namespaces", "pods", "nodes", "networks", "domainNames"];
            bounds::one_of(&mut fields, names, code::PEER, reader)
        }
    }?;
    match field {
        "namespaces" => pods(subject::namespaces(&at, reader)),
        "pods" => pods(subject::pods(&at, schema.needs_namespaces, reader)),
        "nodes" => {
            let nodes = label_selector::read(&at, reader).whole()?;
            Ok(vec![Peer::Nodes(nodes)])
        }
        "networks" => set(&at, reader, |at, reader| network(at, options, reader)),
        _ => set(&at, reader, domain_name),
    }
}

fn pods(reading: subject::Reading) -> Result<Vec<Peer>, Unreadable> {
    if reading.complete {
        Ok(vec![Peer::Pods(reading.pods)])
    } else {
        Err(Unreadable)
    }
}

/// A list of texts, each of which is there once.
fn set(
    at: &Cursor<'_>,
    reader: &mut Reader<'_>,
    read: impl Fn(&Cursor<'_>, &mut Reader<'_>) -> Result<Peer, Unreadable>,
) -> Result<Vec<Peer>, Unreadable> {
    let mut texts: Vec<&SmolStr> = Vec::new();
    let mut peers = Ok(Vec::new());
    for item in bounds::items(at, MOST_NAMES, reader)? {
        if let Ok(text) = item.string(reader) {
            if texts.contains(&text) {
                let message = format!("Duplicate value: {text:?}");
                let diagnostic = reader.report(code::COUNT, Severity::Error, &item, message);
                diagnostic.notes.push("it counts once".to_owned());
                continue;
            }
            texts.push(text);
        }
        // Every item is read, so that everything that is wrong is reported.
        match (read(&item, reader), &mut peers) {
            (Ok(peer), Ok(peers)) => peers.push(peer),
            (Err(Unreadable), peers) => *peers = Err(Unreadable),
            (Ok(_), Err(Unreadable)) => {}
        }
    }
    peers
}

fn network(at: &Cursor<'_>, options: Options, reader: &mut Reader<'_>) -> Result<Peer, Unreadable> {
    let prefix = cidr(at, options, reader)?;
    Ok(Peer::Block(Block {
        prefix,
        except: Vec::new(),
    }))
}

fn domain_name(at: &Cursor<'_>, reader: &mut Reader<'_>) -> Result<Peer, Unreadable> {
    const PATTERN: &str =
        r"^(\*\.)?([a-zA-Z0-9]([-a-zA-Z0-9_]*[a-zA-Z0-9])?\.)+[a-zA-Z0-9]([-a-zA-Z0-9_]*[a-zA-Z0-9])?\.?$";
    let text = at.string(reader)?;
    DomainName::parse(text).map(Peer::Domain).ok_or_else(|| {
        let message = format!(
            "Invalid value: {text:?}: {} in body should match '{PATTERN}'",
            at.path()
        );
        reader.error(code::DOMAIN_NAME, at, message)
    })
}
