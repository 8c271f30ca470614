//! One pod, for people.

use std::collections::BTreeMap;
use std::io::{self, Write};

use picket_policy::{Direction, Tier};

use super::{Style, object, place};
use crate::explain::pod::{PodConnection, PodDirection, PodExplanation, PodPolicy, namespace_of};
use crate::map::{ConnectionFamily, EndpointKind};

/// The most names, and the most ranges of addresses, that stand in one line.
const SHOWN: usize = 5;

/// Everything about a pod, for people.
///
/// # Errors
/// When writing fails.
pub fn pod(explanation: &PodExplanation, style: Style, out: &mut impl Write) -> io::Result<()> {
    let labels: Vec<_> = explanation
        .labels
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let labels = if labels.is_empty() {
        "no labels".to_owned()
    } else {
        format!("labels {}", labels.join(", "))
    };
    let addresses = match explanation.addresses.as_slice() {
        [] => "no address".to_owned(),
        addresses => addresses.join(", "),
    };
    writeln!(out, "{}: {addresses}; {labels}", style.strong(&explanation.pod))?;
    if explanation.host_network {
        writeln!(out, "It shares its node's network: no policy selects it.")?;
    }
    direction(explanation, Direction::Ingress, &explanation.ingress, style, out)?;
    direction(explanation, Direction::Egress, &explanation.egress, style, out)
}

fn direction(
    explanation: &PodExplanation,
    direction: Direction,
    side: &PodDirection,
    style: Style,
    out: &mut impl Write,
) -> io::Result<()> {
    let by_default = |policy: &PodPolicy| policy.tier == Tier::ClusterDefault;
    let isolated = if side.isolated {
        "isolated: only what a rule accepts"
    } else if side.policies.iter().any(by_default) {
        "not isolated, and the cluster default is to deny"
    } else {
        "not isolated"
    };
    writeln!(out, "\n{}: {isolated}", style.strong(&direction.to_string()))?;
    for policy in &side.policies {
        self::policy(policy, style, out)?;
    }
    let title = match direction {
        Direction::Ingress => "who can reach it",
        Direction::Egress => "what it can reach",
    };
    writeln!(out, "  {title}:")?;
    let groups = groups(&side.connections);
    if groups.is_empty() {
        writeln!(out, "    nothing")?;
    }
    let width = groups
        .keys()
        .map(|what| what.chars().count())
        .max()
        .unwrap_or_default();
    for (what, ends) in &groups {
        writeln!(out, "    {what:<width$}  {}", names(explanation, ends))?;
    }
    Ok(())
}

fn policy(policy: &PodPolicy, style: Style, out: &mut impl Write) -> io::Result<()> {
    let mut notes = String::new();
    if let Some(priority) = policy.priority {
        notes = format!(", tier {:?}, priority {priority}", policy.tier);
    }
    if policy.rules.is_empty() {
        notes += ", has no rule";
    }
    writeln!(
        out,
        "  {}{}{notes}",
        object(&policy.kind, &policy.namespace, &policy.name),
        place(&policy.place, style)
    )?;
    for rule in &policy.rules {
        writeln!(
            out,
            "    rule {}{}: {}",
            rule.rule,
            place(&rule.place, style),
            rule.text
        )?;
    }
    Ok(())
}

/// The other ends, by what may pass.
fn groups(connections: &[PodConnection]) -> BTreeMap<String, Vec<&PodConnection>> {
    let mut groups: BTreeMap<String, Vec<&PodConnection>> = BTreeMap::new();
    for connection in connections {
        let traffic = if connection.traffic.is_all() {
            "everything".to_owned()
        } else {
            connection.traffic.to_string()
        };
        let what = match connection.family {
            ConnectionFamily::Any => traffic,
            ConnectionFamily::Ipv4 => format!("{traffic} (IPv4)"),
            ConnectionFamily::Ipv6 => format!("{traffic} (IPv6)"),
        };
        groups.entry(what).or_default().push(connection);
    }
    groups
}

/// Ends in few words: whole namespaces by their names, addresses by their first ranges.
fn names(explanation: &PodExplanation, ends: &[&PodConnection]) -> String {
    let mut pods: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let (mut nodes, mut ranges) = (Vec::new(), Vec::new());
    for connection in ends {
        let end = &connection.end;
        match (end.kind, namespace_of(end)) {
            (EndpointKind::External, _) => ranges.extend(end.addresses.iter().map(String::as_str)),
            (EndpointKind::Node, _) => nodes.push(end.id.as_str()),
            (_, Some(namespace)) => pods.entry(namespace).or_default().push(&end.id),
            (_, None) => {}
        }
    }
    let total: usize = explanation.others.values().sum();
    let found: usize = pods.values().map(Vec::len).sum();
    let mut parts = Vec::new();
    if found >= total && found > 1 {
        parts.push(format!("every other pod ({found})"));
    } else {
        let mut single = Vec::new();
        for (namespace, ids) in pods {
            let all = explanation.others.get(namespace).copied().unwrap_or_default();
            if ids.len() >= all && all > 1 {
                parts.push(format!("every pod of namespace {namespace} ({all})"));
            } else {
                single.extend(ids);
            }
        }
        parts.extend(shown(&single));
    }
    parts.extend(shown(&nodes));
    parts.extend(outside(explanation, &ranges));
    parts.join(", ")
}

/// Addresses outside the cluster: what is there, or what is not where that is less.
fn outside(explanation: &PodExplanation, ranges: &[&str]) -> Vec<String> {
    let of_family = |six: bool| move |range: &&str| range.contains(':') == six;
    let texts = [(false, "IPv4"), (true, "IPv6")].map(|(six, family)| {
        let here: Vec<_> = ranges.iter().copied().filter(of_family(six)).collect();
        let all = explanation
            .external
            .iter()
            .map(String::as_str)
            .filter(of_family(six));
        let missing: Vec<_> = all.filter(|range| !ranges.contains(range)).collect();
        let every = format!("every {family} address outside the cluster");
        match shown(&missing) {
            _ if here.is_empty() => None,
            None => Some(every),
            Some(missing_text) if missing.len() < here.len() => Some(format!("{every} but {missing_text}")),
            Some(_) => shown(&here),
        }
    });
    texts.into_iter().flatten().collect()
}

fn shown(names: &[&str]) -> Option<String> {
    if names.is_empty() {
        return None;
    }
    let first: Vec<_> = names.iter().take(SHOWN).copied().collect();
    let more = names.len().saturating_sub(SHOWN);
    Some(if more == 0 {
        first.join(", ")
    } else {
        format!("{} and {more} more", first.join(", "))
    })
}
