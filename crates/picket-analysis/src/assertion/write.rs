//! How assertions fared, for people and for programs. The same for the same input, byte by byte.

mod json;
mod junit;
mod tap;
mod text;

use super::{Assertion, Failure, Outcome};
use crate::eval::{Answer, EndAnswer};

pub use json::json;
pub use junit::junit;
pub use tap::tap;
pub use text::text;

/// An assertion and how it fared.
pub type Judged<'a> = (&'a Assertion, &'a Outcome);

fn failed(judged: &[Judged<'_>]) -> usize {
    judged.iter().filter(|(_, outcome)| !outcome.holds()).count()
}

/// What a failed assertion shows, one line each: connections or steps, what decides at their ends, and how many more.
fn lines(outcome: &Outcome) -> Vec<String> {
    let mut lines: Vec<_> = outcome.failures.iter().flat_map(of_failure).collect();
    let more = outcome.failed.saturating_sub(outcome.failures.len());
    if more > 0 {
        lines.push(format!("and {more} more"));
    }
    lines
}

fn of_failure(failure: &Failure) -> Vec<String> {
    let mut lines = Vec::new();
    let (several, mut indent) = (failure.steps.len() > 1, "");
    if let (Some(first), Some(last), true) = (failure.steps.first(), failure.steps.last(), several) {
        let steps = failure.steps.len();
        lines.push(format!("{} reaches {} in {steps} steps:", first.from, last.to));
        indent = "  ";
    }
    for answer in &failure.steps {
        let verdict = match (several, failure.expected) {
            (true, _) => "",
            (false, true) => ": should be allowed, and is denied",
            (false, false) => ": should be denied, and is allowed",
        };
        lines.push(format!("{indent}{}{verdict}", connection(answer)));
        for (name, end) in ends(answer) {
            lines.push(format!("{indent}  {name} {}", said(end)));
            lines.extend(
                end.causes
                    .iter()
                    .map(|cause| format!("{indent}    {}", cause.shown())),
            );
        }
    }
    lines
}

/// Both ends; where families differ, those of the first.
fn ends(answer: &Answer) -> Vec<(&'static str, &EndAnswer)> {
    let family = answer
        .families
        .iter()
        .next()
        .map(|family| (&family.egress, &family.ingress));
    let agreed = answer.egress.as_ref().zip(answer.ingress.as_ref());
    let ends = agreed.or(family).into_iter();
    ends.flat_map(|(egress, ingress)| [("egress ", egress), ("ingress", ingress)])
        .collect()
}

fn connection(answer: &Answer) -> String {
    let port = match (&answer.port_name, answer.port) {
        (Some(name), Some(port)) => format!(" {name} ({port})"),
        (Some(name), None) => format!(" {name}"),
        (None, Some(port)) => format!(" {port}"),
        (None, None) => String::new(),
    };
    let family = match (&answer.families.ipv4, &answer.families.ipv6) {
        (Some(_), None) => ", IPv4",
        (None, Some(_)) => ", IPv6",
        _ => "",
    };
    let network = answer
        .network
        .as_ref()
        .map(|network| format!(" on network {network}"));
    format!(
        "{} → {}, {}{port}{family}{}",
        answer.from,
        answer.to,
        answer.protocol,
        network.unwrap_or_default()
    )
}

fn said(end: &EndAnswer) -> String {
    // A reason is one word in JSON.
    let reason = serde_json::to_value(end.reason).unwrap_or_default();
    let verdict = if end.verdict.is_allow() { "allow" } else { "deny" };
    format!("{verdict}  {}", reason.as_str().unwrap_or_default())
}
