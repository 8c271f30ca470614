//! Rules: who, and which ports.

use super::{peer, port};
use crate::dialect::Options;
use crate::reader::{Cursor, Reader, Unreadable};
use crate::{Action, Direction, List, Peer, PortMatch, Rule};

/// What a rule matches.
type Matches = (List<Peer>, List<PortMatch>);

/// Reads the rules of one direction.
pub(super) fn read_all(
    at: &Cursor<'_>,
    direction: Direction,
    options: Options,
    reader: &mut Reader<'_>,
) -> Vec<Rule> {
    let field = match direction {
        Direction::Ingress => "from",
        Direction::Egress => "to",
    };
    let namespace = reader.object().namespace.clone();
    let peer = |item: &Cursor<'_>, reader: &mut Reader<'_>| peer::read(item, &namespace, options, reader);
    let before = reader.diagnostics().len();
    let rules = read_each(at, reader, |item, reader| {
        let (peers, ports) = matches(item, field, peer, port::read, reader)?;
        Ok((anything_if_empty(peers), anything_if_empty(ports)))
    });
    rules.unwrap_or_else(|Unreadable| {
        let note = format!("the policy has no {direction} rules that can be read");
        reader.consequence(before, at, &note);
        Vec::new()
    })
}

/// Reads rules by what `matches` makes of each. One that cannot be read keeps its place, and matches nothing.
///
/// # Errors
///
/// `at` is no list.
pub(crate) fn read_each(
    at: &Cursor<'_>,
    reader: &mut Reader<'_>,
    mut matches: impl FnMut(&Cursor<'_>, &mut Reader<'_>) -> Result<Matches, Unreadable>,
) -> Result<Vec<Rule>, Unreadable> {
    let items = at.items(reader)?;
    let read = |(item, index): (&Cursor<'_>, u32)| {
        let before = reader.diagnostics().len();
        let mut rule = Rule {
            index,
            position: reader.source().position(item.node().range.start),
            action: Action::Accept,
            peers: List::Absent,
            ports: List::Absent,
        };
        match matches(item, reader) {
            Ok((peers, ports)) => (rule.peers, rule.ports) = (peers, ports),
            Err(Unreadable) => {
                silence(&mut rule);
                let note = format!("the rule `{}` matches nothing", item.path());
                reader.consequence(before, item, &note);
            }
        }
        rule
    };
    Ok(items.iter().zip(0..).map(read).collect())
}

/// Makes a rule match nothing.
pub(crate) fn silence(rule: &mut Rule) {
    rule.peers = List::Items(Vec::new());
    rule.ports = List::Absent;
}

/// Reads the `ports` of a rule, and its peers in `field`.
///
/// # Errors
///
/// Something of it cannot be read, or means nothing that is known.
pub(crate) fn matches(
    at: &Cursor<'_>,
    field: &'static str,
    peer: impl FnMut(&Cursor<'_>, &mut Reader<'_>) -> Result<Peer, Unreadable>,
    port: impl FnMut(&Cursor<'_>, &mut Reader<'_>) -> Result<PortMatch, Unreadable>,
    reader: &mut Reader<'_>,
) -> Result<Matches, Unreadable> {
    let mut fields = at.fields(reader)?;
    let ports = fields.get("ports");
    let peers = fields.get(field);
    let known = fields.unknown(&[], reader).is_empty();
    // Both are read before either error returns, so that everything that is wrong is reported.
    let ports = list(ports, reader, port);
    let peers = list(peers, reader, peer);
    let (ports, peers) = (ports?, peers?);
    if known {
        Ok((peers, ports))
    } else {
        Err(Unreadable)
    }
}

/// A list as it is written: a missing one is not an empty one.
fn list<T>(
    at: Option<Cursor<'_>>,
    reader: &mut Reader<'_>,
    mut read: impl FnMut(&Cursor<'_>, &mut Reader<'_>) -> Result<T, Unreadable>,
) -> Result<List<T>, Unreadable> {
    let Some(at) = at else {
        return Ok(List::Absent);
    };
    let items = at.items(reader)?;
    let read: Vec<_> = items.iter().map(|item| read(item, reader)).collect();
    let read: Result<Vec<_>, _> = read.into_iter().collect();
    Ok(List::Items(read?))
}

/// A missing and an empty list mean the same here: anything.
fn anything_if_empty<T>(list: List<T>) -> List<T> {
    match list {
        List::Items(items) if items.is_empty() => List::Absent,
        list => list,
    }
}
