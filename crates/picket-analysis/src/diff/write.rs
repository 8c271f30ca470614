//! Presentations of a difference. Each is the same for the same difference, byte by byte.

mod json;
mod markdown;
mod text;

use picket_net::{AddressRange, parse_address};

use super::{Cause, Counts, Kind, Line, Only, Passing, PolicyDifference};
use crate::map::{EndpointKind, MapEndpoint};

pub use json::json;
pub use markdown::markdown;
pub use text::text;

/// How many endpoints of a line are named.
const NAMED: usize = 4;

/// Said when there is no difference.
const NOTHING: &str = "No difference: exactly the same may pass as before.";

/// The names of some endpoints and the number of the rest; `quoted` makes each of them.
fn names(endpoints: &[&MapEndpoint], quoted: impl Fn(&str) -> String) -> String {
    let mut names: Vec<_> = endpoints
        .iter()
        .take(NAMED)
        .map(|endpoint| name(endpoint, &quoted))
        .collect();
    let rest = endpoints.len().saturating_sub(NAMED);
    if rest > 0 {
        names.push(format!("and {rest} more"));
    }
    names.join(", ")
}

/// What people call an endpoint: of external addresses the ranges, as prefixes where they are such.
fn name(endpoint: &MapEndpoint, quoted: &impl Fn(&str) -> String) -> String {
    if endpoint.kind != EndpointKind::External {
        return quoted(&endpoint.id);
    }
    let shown = if endpoint.addresses.len() > 3 { 2 } else { 3 };
    let mut ranges: Vec<_> = endpoint
        .addresses
        .iter()
        .take(shown)
        .map(|text| quoted(&range(text)))
        .collect();
    let rest = endpoint.addresses.len().saturating_sub(shown);
    if rest > 0 {
        ranges.push(format!("{rest} more ranges"));
    }
    ranges.join(" and ")
}

/// A range as a prefix, if it is one.
fn range(text: &str) -> String {
    let parsed = text.split_once('-').and_then(|(first, last)| {
        let range = AddressRange::new(parse_address(first)?, parse_address(last)?)?;
        // An IPv4-mapped IPv6 address is read as IPv4, and is no such range.
        (range.to_string() == text).then_some(range)
    });
    match parsed.as_ref().map(AddressRange::prefixes).as_deref() {
        Some([only]) if only.first() == only.last() => only.first().to_string(),
        Some([only]) => only.to_string(),
        _ => text.to_owned(),
    }
}

fn passing(passing: &Passing) -> String {
    match passing {
        Passing::Same(traffic) => said(traffic),
        Passing::Differ(four, six) => format!("IPv4: {}; IPv6: {}", said(four), said(six)),
    }
}

fn said(traffic: &picket_net::TrafficSet) -> String {
    if traffic.is_all() {
        "everything".to_owned()
    } else if traffic.is_empty() {
        "nothing".to_owned()
    } else {
        traffic.to_string()
    }
}

/// What may pass now, and before, as far as either needs saying.
fn change(line: &Line<'_>) -> String {
    match line.kind {
        Kind::Added => passing(&line.new),
        Kind::Removed => passing(&line.old),
        Kind::Widened | Kind::Narrowed | Kind::Replaced => {
            format!("{}, before: {}", passing(&line.new), passing(&line.old))
        }
    }
}

/// A cause; `quoted` marks the names in it.
fn cause(cause: &Cause, quoted: &impl Fn(&str) -> String) -> String {
    match cause {
        Cause::Policy(policy) => changed_policy(policy, quoted),
        Cause::Endpoint(Only::New, id) => format!("{} is new", quoted(id)),
        Cause::Endpoint(Only::Old, id) => format!("{} is gone", quoted(id)),
        Cause::Object(what, id) => format!("other {what} of {}", quoted(id)),
        Cause::Unknown => "other identities or addresses elsewhere".to_owned(),
    }
}

fn changed_policy(policy: &PolicyDifference, quoted: &impl Fn(&str) -> String) -> String {
    let object = quoted(&policy.object.to_string());
    let change = policy.change.as_str();
    if policy.position.line == 0 {
        return format!("{object} {change}");
    }
    format!("{object} {change} ({})", policy.position)
}

/// How many pairs changed, and how.
fn counted(counts: Counts) -> String {
    let parts = [
        (counts.added, Kind::Added),
        (counts.widened, Kind::Widened),
        (counts.replaced, Kind::Replaced),
        (counts.narrowed, Kind::Narrowed),
        (counts.removed, Kind::Removed),
    ];
    let parts: Vec<_> = parts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, kind)| format!("{count} {}", kind.as_str()))
        .collect();
    let total = counts.added + counts.widened + counts.replaced + counts.narrowed + counts.removed;
    let plural = if total == 1 { "" } else { "s" };
    format!("{total} connection{plural} changed: {}", parts.join(", "))
}
