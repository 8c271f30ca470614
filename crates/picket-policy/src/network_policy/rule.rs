//! Rules: who, and which ports.

use super::{peer, port};
use crate::dialect::Options;
use crate::reader::{Cursor, Reader, Unreadable};
use crate::{Action, Direction, List, Peer, PortMatch, Rule};

/// Reads the rules of one direction. One that cannot be read keeps its place, and matches nothing.
pub(super) fn read_all(
    at: &Cursor<'_>,
    direction: Direction,
    options: Options,
    reader: &mut Reader<'_>,
) -> Vec<Rule> {
    let before = reader.diagnostics().len();
    let Ok(items) = at.items(reader) else {
        let note = format!("the policy has no {direction} rules that can be read");
        reader.consequence(before, at, &note);
        return Vec::new();
    };
    let mut rules = Vec::with_capacity(items.len());
    for (item, index) in items.iter().zip(0..) {
        let before = reader.diagnostics().len();
        let mut rule = Rule {
            index,
            position: reader.source().position(item.node().range.start),
            action: Action::Accept,
            peers: List::Absent,
            ports: List::Absent,
        };
        match read(item, direction, options, reader) {
            Ok((peers, ports)) => (rule.peers, rule.ports) = (peers, ports),
            Err(Unreadable) => {
                silence(&mut rule);
                let note = format!("the rule `{}` matches nothing", item.path());
                reader.consequence(before, item, &note);
            }
        }
        rules.push(rule);
    }
    rules
}

/// Makes a rule match nothing.
pub(crate) fn silence(rule: &mut Rule) {
    rule.peers = List::Items(Vec::new());
    rule.ports = List::Absent;
}

fn read(
    at: &Cursor<'_>,
    direction: Direction,
    options: Options,
    reader: &mut Reader<'_>,
) -> Result<(List<Peer>, List<PortMatch>), Unreadable> {
    let mut fields = at.fields(reader)?;
    let ports = fields.get("ports");
    let peers = fields.get(match direction {
        Direction::Ingress => "from",
        Direction::Egress => "to",
    });
    let known = fields.unknown(&[], reader).is_empty();
    // Both are read before either error returns, so that everything that is wrong is reported.
    let ports = list(ports, reader, port::read);
    let namespace = reader.object().namespace.clone();
    let peers = list(peers, reader, |item, reader| {
        peer::read(item, &namespace, options, reader)
    });
    let (ports, peers) = (ports?, peers?);
    if known {
        Ok((peers, ports))
    } else {
        Err(Unreadable)
    }
}

/// A list of which a missing and an empty one mean the same: anything.
fn list<T>(
    at: Option<Cursor<'_>>,
    reader: &mut Reader<'_>,
    mut read: impl FnMut(&Cursor<'_>, &mut Reader<'_>) -> Result<T, Unreadable>,
) -> Result<List<T>, Unreadable> {
    let Some(at) = at else {
        return Ok(List::Absent);
    };
    let items = at.items(reader)?;
    if items.is_empty() {
        return Ok(List::Absent);
    }
    let read: Vec<_> = items.iter().map(|item| read(item, reader)).collect();
    let read: Result<Vec<_>, _> = read.into_iter().collect();
    Ok(List::Items(read?))
}
