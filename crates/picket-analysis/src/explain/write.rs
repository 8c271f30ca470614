//! Explanations for people.

mod pod;
mod rule;

use std::io::{self, Write};

use picket_cluster::{Reason, Verdict};
use picket_net::Family;
use picket_policy::{Direction, Mode, Tier};

use super::answer::{
    ExplainedEnd, ExplainedFlow, ExplainedPolicy, ExplainedTier, Explanation, FlipAnswer, Place, TierOutcome,
};
use super::words;

pub use pod::pod;

/// How text is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Whether the output takes colour.
    pub color: bool,
}

impl Style {
    fn paint(self, code: &str, text: &str) -> String {
        if self.color {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }

    fn good(self, text: &str) -> String {
        self.paint("32", text)
    }

    fn bad(self, text: &str) -> String {
        self.paint("31", text)
    }

    fn strong(self, text: &str) -> String {
        self.paint("1", text)
    }

    fn quiet(self, text: &str) -> String {
        self.paint("2", text)
    }

    fn verdict(self, allow: bool, text: &str) -> String {
        if allow { self.good(text) } else { self.bad(text) }
    }
}

/// The same part of the explanation of each family: they differ in addresses, so that most of what they say is the same.
type Same<'a, T> = [(Family, &'a T)];

/// An explanation for people: both ends, tier by tier, and what would make the verdict the other one.
///
/// # Errors
/// When writing fails.
pub fn text(explanation: &Explanation, style: Style, out: &mut impl Write) -> io::Result<()> {
    let answer = &explanation.answer;
    let families = [
        (Family::Ipv4, &explanation.explained.ipv4),
        (Family::Ipv6, &explanation.explained.ipv6),
    ];
    let explained = families
        .into_iter()
        .filter_map(|(family, flow)| Some((family, flow.as_ref()?)));
    let explained: Vec<_> = explained.collect();
    match explained.as_slice() {
        [] => nothing_explained(answer.egress.as_ref().map(|end| end.reason), out)?,
        [(_, four), (_, six)] if !four.is_like(six) => {
            for &(family, flow) in &explained {
                writeln!(out, "\n{}", style.strong(words::family(family)))?;
                flows((&answer.from, &answer.to), &[(family, flow)], style, out)?;
            }
        }
        alike => flows((&answer.from, &answer.to), alike, style, out)?,
    }
    Ok(())
}

fn nothing_explained(reason: Option<Reason>, out: &mut impl Write) -> io::Result<()> {
    let text = match reason {
        Some(Reason::UnresolvedPortName) => {
            "The destination has no port of that name and protocol: policies are not asked."
        }
        _ => "The two ends have no address family in common: policies are not asked.",
    };
    writeln!(out, "\n{text}")
}

impl ExplainedFlow {
    /// Whether both say the same for the same reasons, so that they can be told as one.
    fn is_like(&self, other: &Self) -> bool {
        let end = |one: &ExplainedEnd, other: &ExplainedEnd| {
            one.reason == other.reason
                && one.causes == other.causes
                && one.audited == other.audited
                && one.tiers.len() == other.tiers.len()
        };
        end(&self.egress, &other.egress)
            && end(&self.ingress, &other.ingress)
            && self.flip.as_ref().map(texts) == other.flip.as_ref().map(texts)
    }
}

fn texts(flip: &FlipAnswer) -> Vec<Vec<&str>> {
    [&flip.changes]
        .into_iter()
        .chain(&flip.others)
        .map(|way| way.iter().map(|change| change.text.as_str()).collect())
        .collect()
}

fn flows(
    (from, to): (&str, &str),
    flows: &Same<'_, ExplainedFlow>,
    style: Style,
    out: &mut impl Write,
) -> io::Result<()> {
    let ends = |pick: fn(&ExplainedFlow) -> &ExplainedEnd| -> Vec<_> {
        flows.iter().map(|&(family, flow)| (family, pick(flow))).collect()
    };
    end(Direction::Egress, from, &ends(|flow| &flow.egress), style, out)?;
    end(Direction::Ingress, to, &ends(|flow| &flow.ingress), style, out)?;
    let Some((_, first)) = flows.first() else {
        return Ok(());
    };
    match &first.flip {
        Some(found) => flip(found, style, out),
        None => writeln!(
            out,
            "\nNo change of a NetworkPolicy or of a label makes the verdict another."
        ),
    }
}

fn end(
    direction: Direction,
    id: &str,
    ends: &Same<'_, ExplainedEnd>,
    style: Style,
    out: &mut impl Write,
) -> io::Result<()> {
    let Some((_, first)) = ends.first() else {
        return Ok(());
    };
    let verdict = style.verdict(first.verdict.is_allow(), &first.verdict.to_string());
    let title = style.strong(&format!("{direction} of {id}"));
    writeln!(out, "\n{title}: {verdict}, {}", reason(first.reason, direction))?;
    for cause in &first.audited {
        writeln!(out, "  audited, else denied: {}", cause.shown())?;
    }
    for (at, tier) in first.tiers.iter().enumerate() {
        let same: Vec<_> = ends
            .iter()
            .filter_map(|&(family, end)| Some((family, end.tiers.get(at)?)))
            .collect();
        self::tier(tier, &same, direction, style, out)?;
    }
    if let Some(nearest) = &first.nearest {
        let place = place(&nearest.place, style);
        writeln!(
            out,
            "  nearest miss: rule {} of {}{place}: {}",
            nearest.rule,
            object(&nearest.kind, &nearest.namespace, &nearest.name),
            nearest.misses.join("; ")
        )?;
    }
    Ok(())
}

fn reason(reason: Reason, direction: Direction) -> String {
    match reason {
        Reason::SamePod => "a pod always reaches itself".to_owned(),
        Reason::NotAPod => "no policy applies to this end".to_owned(),
        Reason::LocalNode => "the other end is the pod's own node".to_owned(),
        Reason::NotIsolated => format!("no policy isolates the pod for {direction}"),
        Reason::AllowedByRule => "a rule accepts".to_owned(),
        Reason::DeniedByRule => "a rule denies".to_owned(),
        Reason::NoRuleMatches => "the pod is isolated and no rule matches".to_owned(),
        Reason::ClusterDefault => {
            "nothing isolates the pod, and the cluster default (`--v1beta1-default`) is to deny".to_owned()
        }
        Reason::IcmpAccepted => "ICMP is accepted by choice".to_owned(),
        Reason::UnresolvedPortName => "the destination has no port of that name".to_owned(),
        Reason::NoCommonFamily => "the ends have no address family in common".to_owned(),
    }
}

fn tier(
    first: &ExplainedTier,
    tiers: &Same<'_, ExplainedTier>,
    direction: Direction,
    style: Style,
    out: &mut impl Write,
) -> io::Result<()> {
    // The tiers beside NetworkPolicy are for those who use them.
    if first.tier != Tier::NetworkPolicy && first.policies.is_empty() {
        return Ok(());
    }
    let outcome = match first.outcome {
        TierOutcome::NotReached => style.quiet("decided before"),
        TierOutcome::NoPolicy => "no policy selects the pod".to_owned(),
        TierOutcome::NoMatch if first.tier == Tier::NetworkPolicy => "nothing isolates the pod".to_owned(),
        TierOutcome::NoMatch => "no rule matches".to_owned(),
        TierOutcome::Pass => "passes on".to_owned(),
        TierOutcome::Allow => style.good("allow"),
        TierOutcome::Deny => style.bad("deny"),
    };
    writeln!(out, "  tier {:?}: {outcome}", first.tier)?;
    for (at, policy) in first.policies.iter().enumerate() {
        policy_title(policy, direction, style, out)?;
        let same: Vec<_> = tiers
            .iter()
            .filter_map(|&(family, tier)| Some((family, tier.policies.get(at)?)))
            .collect();
        rule::all(&same, direction, style, out)?;
    }
    Ok(())
}

fn policy_title(
    policy: &ExplainedPolicy,
    direction: Direction,
    style: Style,
    out: &mut impl Write,
) -> io::Result<()> {
    let mut notes = Vec::new();
    if let Some(priority) = policy.priority {
        notes.push(format!("priority {priority}"));
    }
    if policy.isolates {
        notes.push("isolates".to_owned());
    }
    if policy.mode == Mode::Audit {
        notes.push("audited: denies nothing".to_owned());
    }
    if policy.rules.is_empty() {
        notes.push(format!("has no {direction} rule"));
    }
    let notes = if notes.is_empty() {
        String::new()
    } else {
        format!(", {}", notes.join(", "))
    };
    writeln!(
        out,
        "    {}{}{notes}",
        object(&policy.kind, &policy.namespace, &policy.name),
        place(&policy.place, style)
    )
}

fn object(kind: &str, namespace: &str, name: &str) -> String {
    picket_policy::ObjectRef::new(kind, namespace, name).to_string()
}

/// A place in brackets; nothing for what came from no file.
fn place(place: &Place, style: Style) -> String {
    if place.file.is_empty() {
        String::new()
    } else {
        style.quiet(&format!(" ({}:{})", place.file, place.line))
    }
}

fn flip(flip: &FlipAnswer, style: Style, out: &mut impl Write) -> io::Result<()> {
    let title = match (flip.to, flip.changes.len()) {
        (Verdict::Allow, 1) => "To allow it",
        (Verdict::Allow, _) => "To allow it, all of this",
        (Verdict::Deny, 1) => "To deny it",
        (Verdict::Deny, _) => "To deny it, all of this",
    };
    writeln!(out, "\n{}", style.strong(&format!("{title}:")))?;
    for change in &flip.changes {
        writeln!(out, "  - {}", change.text)?;
    }
    if !flip.others.is_empty() {
        let title = if flip.changes.len() == 1 {
            "Or:"
        } else {
            "Or, in place of one of them:"
        };
        writeln!(out, "{}", style.strong(title))?;
    }
    for way in &flip.others {
        // What a way shares with the one above need not be said again.
        let new = way.iter().filter(|change| !flip.changes.contains(change));
        let texts: Vec<_> = new.map(|change| change.text.as_str()).collect();
        writeln!(out, "  - {}", texts.join(", and "))?;
    }
    Ok(())
}
