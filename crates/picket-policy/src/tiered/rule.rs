//! Rules, which are judged in the order written.

use super::{Schema, bounds, peer};
use crate::dialect::Options;
use crate::reader::{Cursor, Fields, Reader, Unreadable};
use crate::{Action, Direction, List, Peer, PortMatch, Position, Rule, Severity, code};

/// The longest name of a rule, in characters.
const LONGEST_NAME: usize = 100;

/// Reads the rules of one direction. One that cannot be read keeps its place, and fails closed.
pub(super) fn read_all(
    at: &Cursor<'_>,
    direction: Direction,
    options: Options,
    schema: &Schema,
    reader: &mut Reader<'_>,
) -> Vec<Rule> {
    let before = reader.diagnostics().len();
    let Ok(items) = at.items(reader) else {
        let note = format!("the policy denies all {direction}");
        reader.consequence(before, at, &note);
        return vec![deny_all(0, reader.source().position(at.node().range.start))];
    };
    bounds::at_most(at, items.len(), schema.most, reader);
    let read = |(item, index)| read(item, index, direction, options, schema, reader);
    items.iter().zip(0..).map(read).collect()
}

fn read(
    at: &Cursor<'_>,
    index: u32,
    direction: Direction,
    options: Options,
    schema: &Schema,
    reader: &mut Reader<'_>,
) -> Rule {
    let before = reader.diagnostics().len();
    let position = reader.source().position(at.node().range.start);
    let mut rule = deny_all(index, position);
    let Ok(mut fields) = at.fields(reader) else {
        let note = format!("the rule `{}` denies all {direction}", at.path());
        reader.consequence(before, at, &note);
        return rule;
    };
    let action = action(&mut fields, schema, reader);
    name(&mut fields, reader);
    let matches = matches(&mut fields, action.ok(), direction, options, schema, reader);
    let note = match (action, matches) {
        (Ok(action), Ok((peers, ports))) => {
            (rule.action, rule.peers, rule.ports) = (action, peers, ports);
            return rule;
        }
        (Ok(Action::Accept), Err(Unreadable)) => {
            rule.action = Action::Accept;
            only_deny(&mut rule);
            format!("the rule `{}` matches nothing", at.path())
        }
        (Ok(Action::Deny | Action::Pass) | Err(Unreadable), _) => {
            format!("the rule `{}` denies all {direction}", at.path())
        }
    };
    reader.consequence(before, at, &note);
    rule
}

/// A rule that denies everything.
pub(super) fn deny_all(index: u32, position: Position) -> Rule {
    Rule {
        index,
        position,
        action: Action::Deny,
        peers: List::Absent,
        ports: List::Absent,
    }
}

/// What is left of a rule when nobody can tell for which pods, or when, it is judged. An accept may accept what others
/// deny, and a pass may leave out what denies.
pub(super) fn only_deny(rule: &mut Rule) {
    match rule.action {
        Action::Accept => {
            rule.peers = List::Items(Vec::new());
            rule.ports = List::Absent;
        }
        Action::Pass => rule.action = Action::Deny,
        Action::Deny => {}
    }
}

fn action(fields: &mut Fields<'_>, schema: &Schema, reader: &mut Reader<'_>) -> Result<Action, Unreadable> {
    let Some(at) = fields.get("action") else {
        return Err(reader.missing(code::ACTION, fields.cursor(), "action", "Required value"));
    };
    let text = at.string(reader)?;
    let found = schema.actions.iter().find(|(name, _)| *name == text);
    found.map(|(_, action)| *action).ok_or_else(|| {
        let names: Vec<_> = schema.actions.iter().map(|(name, _)| *name).collect();
        reader.unsupported(code::ACTION, &at, text, &names)
    })
}

/// A name means nothing, so that one which cannot be used only has to be reported.
fn name(fields: &mut Fields<'_>, reader: &mut Reader<'_>) {
    let Some(at) = fields.get("name") else { return };
    let Ok(text) = at.string(reader) else { return };
    if text.chars().count() > LONGEST_NAME {
        let message = format!("Too long: may not be more than {LONGEST_NAME} bytes");
        let diagnostic = reader.report(code::COUNT, Severity::Error, &at, message);
        diagnostic
            .notes
            .push("the rule is read without its name".to_owned());
    }
}

type Matches = (List<Peer>, List<PortMatch>);

fn matches(
    fields: &mut Fields<'_>,
    action: Option<Action>,
    direction: Direction,
    options: Options,
    schema: &Schema,
    reader: &mut Reader<'_>,
) -> Result<Matches, Unreadable> {
    let at = fields.cursor().clone();
    let field = match direction {
        Direction::Ingress => "from",
        Direction::Egress => "to",
    };
    let peers = fields.get(field);
    let ports = fields.get(schema.ports);
    let known = fields.unknown(&[], reader).is_empty();
    // Both are read before either error returns, so that everything that is wrong is reported.
    let ports = match ports {
        Some(at) => list(&at, schema.most, reader, |item, reader| {
            Ok(vec![(schema.port)(item, reader)?])
        })
        .map(List::Items),
        None => Ok(List::Absent),
    };
    let peers = match &peers {
        Some(at) => list(at, schema.most, reader, |item, reader| {
            peer::read(item, direction, options, schema, reader)
        }),
        None => Err(reader.missing(code::PEER, &at, field, "Required value")),
    };
    let (peers, ports) = (peers?, ports?);
    together(&at, action, &peers, &ports, schema, reader)?;
    if known {
        Ok((List::Items(peers), ports))
    } else {
        Err(Unreadable)
    }
}

fn list<T>(
    at: &Cursor<'_>,
    most: usize,
    reader: &mut Reader<'_>,
    mut read: impl FnMut(&Cursor<'_>, &mut Reader<'_>) -> Result<Vec<T>, Unreadable>,
) -> Result<Vec<T>, Unreadable> {
    let items = bounds::items(at, most, reader)?;
    let read: Vec<_> = items.iter().map(|item| read(item, reader)).collect();
    let read: Result<Vec<_>, _> = read.into_iter().collect();
    Ok(read?.into_iter().flatten().collect())
}

/// What may not stand together in one rule.
fn together(
    at: &Cursor<'_>,
    action: Option<Action>,
    peers: &[Peer],
    ports: &List<PortMatch>,
    schema: &Schema,
    reader: &mut Reader<'_>,
) -> Result<(), Unreadable> {
    let named = |port: &PortMatch| matches!(port, PortMatch::Named { .. });
    let has_names = matches!(ports, List::Items(ports) if ports.iter().any(named));
    if has_names && !peers.iter().all(|peer| matches!(peer, Peer::Pods(_))) {
        let kinds = if schema.has_domain_names {
            "networks/nodes/domainNames"
        } else {
            "networks/nodes"
        };
        let message = format!(
            "Invalid value: {kinds} peer cannot be set with namedPorts since there are no namedPorts for {kinds}"
        );
        return Err(reader.error(code::PEER, at, message));
    }
    let domain = peers.iter().any(|peer| matches!(peer, Peer::Domain(_)));
    if domain && matches!(action, Some(Action::Deny | Action::Pass)) {
        let accept = schema
            .actions
            .iter()
            .find(|(_, action)| *action == Action::Accept);
        let accept = accept.map_or("Accept", |(name, _)| name);
        let message = format!("Invalid value: DomainNames is only supported for {accept} rules");
        return Err(reader.error(code::DOMAIN_NAME, at, message));
    }
    Ok(())
}
