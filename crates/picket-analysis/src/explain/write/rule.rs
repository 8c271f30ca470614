//! One rule and its conditions, for people.

use std::io::{self, Write};

use picket_policy::{Action, Direction};

use super::{Same, Style, place};
use crate::explain::answer::{ExplainedPeer, ExplainedPolicy, ExplainedPort, ExplainedRule};
use crate::explain::words;

/// The most peers, and the most ports, of a rule that are shown: those with the fewest failing conditions.
const SHOWN: usize = 8;

/// One condition, as each family sees it.
struct Item {
    title: String,
    /// Whether it holds in every family.
    matches: bool,
    /// How many conditions fail where it does not.
    failing: usize,
    why: String,
}

/// Every rule of a policy.
pub(super) fn all(
    policies: &Same<'_, ExplainedPolicy>,
    direction: Direction,
    style: Style,
    out: &mut impl Write,
) -> io::Result<()> {
    let count = policies.first().map_or(0, |(_, policy)| policy.rules.len());
    for at in 0..count {
        let same: Vec<_> = policies
            .iter()
            .filter_map(|&(family, policy)| Some((family, policy.rules.get(at)?)))
            .collect();
        rule(&same, direction, style, out)?;
    }
    Ok(())
}

fn rule(
    rules: &Same<'_, ExplainedRule>,
    direction: Direction,
    style: Style,
    out: &mut impl Write,
) -> io::Result<()> {
    let Some((_, first)) = rules.first() else {
        return Ok(());
    };
    let matching: Vec<_> = rules
        .iter()
        .filter(|(_, rule)| rule.matches)
        .map(|(family, _)| words::family(*family))
        .collect();
    let only = if matching.is_empty() || matching.len() == rules.len() {
        String::new()
    } else {
        format!(", for {} only", matching.join(", "))
    };
    let action = match first.action {
        Action::Accept => "accepts",
        Action::Deny => "denies",
        Action::Pass => "passes",
    };
    let says = match (matching.is_empty(), first.decides) {
        (true, _) => "does not match".to_owned(),
        (false, true) => format!("matches and {action}{only}"),
        (false, false) => format!("would match{only}"),
    };
    let mark = mark(!matching.is_empty(), style);
    writeln!(
        out,
        "      {mark} rule {}{}: {says}",
        first.rule,
        place(&first.place, style)
    )?;
    let peers: Vec<_> = (0..first.peers.as_ref().map_or(0, Vec::len))
        .filter_map(|at| peer(rules, at))
        .collect();
    let ports: Vec<_> = (0..first.ports.as_ref().map_or(0, Vec::len))
        .filter_map(|at| port(rules, at))
        .collect();
    let preposition = words::preposition(direction);
    let anybody = first.peers.is_none().then_some("anybody");
    items(preposition, peers, anybody, style, out)?;
    let every = first.ports.is_none().then_some("every port and protocol");
    items("on", ports, every, style, out)
}

/// The items of one list, or what its absence means. Of a list that matches only what does is shown.
fn items(
    preposition: &str,
    mut items: Vec<Item>,
    absent: Option<&str>,
    style: Style,
    out: &mut impl Write,
) -> io::Result<()> {
    let (good, bad) = (mark(true, style), mark(false, style));
    if let Some(absent) = absent {
        return writeln!(out, "          {good} {preposition} {absent}");
    }
    if items.is_empty() {
        return writeln!(out, "          {bad} {preposition} nothing: the list is empty");
    }
    if items.iter().any(|item| item.matches) {
        items.retain(|item| item.matches);
    }
    items.sort_by_key(|item| item.failing);
    let more = items.len().saturating_sub(SHOWN);
    let width = items
        .iter()
        .take(SHOWN)
        .map(|item| item.title.chars().count())
        .max()
        .unwrap_or_default();
    for Item {
        title, matches, why, ..
    } in items.iter().take(SHOWN)
    {
        if *matches {
            writeln!(out, "          {good} {preposition} {title}")?;
        } else {
            writeln!(out, "          {bad} {preposition} {title:<width$}  {why}")?;
        }
    }
    if more > 0 {
        writeln!(out, "            and {more} more (-o json lists all)")?;
    }
    Ok(())
}

fn mark(good: bool, style: Style) -> String {
    if good { style.good("✓") } else { style.bad("✗") }
}

fn peer(rules: &Same<'_, ExplainedRule>, at: usize) -> Option<Item> {
    let peers: Vec<_> = rules
        .iter()
        .filter_map(|(family, rule)| Some((*family, rule.peers.as_ref()?.get(at)?)))
        .collect();
    let (_, first): &(_, &ExplainedPeer) = peers.first()?;
    let why = |peer: &ExplainedPeer| {
        let texts: Vec<_> = peer.misses.iter().map(|miss| miss.text.as_str()).collect();
        texts.join(", ")
    };
    Some(Item {
        title: first.peer.clone(),
        matches: peers.iter().any(|(_, peer)| peer.matches),
        failing: peers.iter().map(|(_, peer)| peer.misses.len()).min()?,
        why: merged(peers.iter().map(|(family, peer)| (*family, why(peer))).collect()),
    })
}

fn port(rules: &Same<'_, ExplainedRule>, at: usize) -> Option<Item> {
    let ports: Vec<_> = rules
        .iter()
        .filter_map(|(family, rule)| Some((*family, rule.ports.as_ref()?.get(at)?)))
        .collect();
    let (_, first): &(_, &ExplainedPort) = ports.first()?;
    let why = |port: &ExplainedPort| {
        port.miss
            .as_ref()
            .map(|miss| miss.text.clone())
            .unwrap_or_default()
    };
    // A port of the same protocol is nearer.
    let other = first.miss.as_ref().is_some_and(|miss| miss.why == "protocol");
    Some(Item {
        title: first.port.clone(),
        matches: ports.iter().any(|(_, port)| port.matches),
        failing: usize::from(!first.matches) + usize::from(other),
        why: merged(ports.iter().map(|(family, port)| (*family, why(port))).collect()),
    })
}

/// What all families say, once; or what each says.
fn merged(texts: Vec<(picket_net::Family, String)>) -> String {
    let all_same = texts
        .iter()
        .all(|(_, text)| texts.first().is_some_and(|(_, first)| first == text));
    if all_same {
        return texts.into_iter().next().map(|(_, text)| text).unwrap_or_default();
    }
    let each: Vec<_> = texts
        .into_iter()
        .filter(|(_, text)| !text.is_empty())
        .map(|(family, text)| format!("{}: {text}", words::family(family)))
        .collect();
    each.join("; ")
}
