//! Explanations, in the shape of their JSON (`docs/schema/explain.schema.json`).

use picket_cluster::{Reason, Verdict};
use picket_policy::{Direction, Mode, ObjectRef, Position};
use serde::Serialize;
use smol_str::SmolStr;

use super::change::Change;
use crate::eval::{Answer, CauseAnswer};

/// The answer to one question, with what every policy at both ends has to say about it.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// What `picket eval` says.
    #[serde(flatten)]
    pub answer: Answer,
    /// Per family that both ends have, what led to it.
    pub explained: Explained,
}

/// One explanation per family.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Explained {
    /// IPv4, when both ends have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv4: Option<ExplainedFlow>,
    /// IPv6, when both ends have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv6: Option<ExplainedFlow>,
}

/// What led to the verdict about one connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExplainedFlow {
    /// Whether both ends allow.
    pub verdict: Verdict,
    /// The source.
    pub egress: ExplainedEnd,
    /// The destination.
    pub ingress: ExplainedEnd,
    /// What would make the verdict the other one; `None` when no change of policies or labels does.
    pub flip: Option<FlipAnswer>,
}

/// What one end says and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExplainedEnd {
    /// Its verdict.
    pub verdict: Verdict,
    /// Why.
    pub reason: Reason,
    /// The rules that accept or deny, or the policies that isolate.
    pub causes: Vec<CauseAnswer>,
    /// Where it allows what would be denied if no policy were only audited: the causes that denial would have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub audited: Vec<CauseAnswer>,
    /// What each tier says, in the order in which they are judged; empty where no policy applies.
    pub tiers: Vec<ExplainedTier>,
    /// Of an end at which no rule matches, the rule with the fewest failing conditions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nearest: Option<NearestRule>,
}

/// What a tier says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExplainedTier {
    /// `Custom`, `Admin`, `NetworkPolicy` or `Baseline`.
    pub tier: picket_policy::Tier,
    /// What comes of it.
    pub outcome: TierOutcome,
    /// The policies of the tier that select the pod and say something about the direction.
    pub policies: Vec<ExplainedPolicy>,
}

/// What comes of a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TierOutcome {
    /// It was decided before.
    NotReached,
    /// No policy of it selects the pod.
    NoPolicy,
    /// No rule matches, and nothing isolates the pod.
    NoMatch,
    /// A rule passes on to the next tier.
    Pass,
    /// It allows.
    Allow,
    /// It denies.
    Deny,
}

/// A policy that selects the pod.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExplainedPolicy {
    /// The kind.
    pub kind: SmolStr,
    /// The namespace; empty for cluster-scoped kinds.
    pub namespace: SmolStr,
    /// The name.
    pub name: SmolStr,
    /// Its place.
    #[serde(flatten)]
    pub place: Place,
    /// Its place among the policies of its tier; `None` in a tier without an order.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u16>,
    /// Whether it isolates the pod in this direction.
    pub isolates: bool,
    /// Whether it denies, or is only audited.
    pub mode: Mode,
    /// Its rules, in the order written.
    pub rules: Vec<ExplainedRule>,
}

/// A line in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// The file as given or found.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
}

impl From<&Position> for Place {
    fn from(position: &Position) -> Self {
        Self {
            file: position.file.to_string(),
            line: position.line,
        }
    }
}

/// One rule, and whether it matches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExplainedRule {
    /// Its index as written, from 0.
    pub rule: u32,
    /// Its place.
    #[serde(flatten)]
    pub place: Place,
    /// What it does with connections that match.
    pub action: picket_policy::Action,
    /// Whether this one does.
    pub matches: bool,
    /// Whether the tier decides by it.
    pub decides: bool,
    /// How many conditions fail, of the peer with the fewest and of the ports.
    pub failing: usize,
    /// Its peers; `None` when it is about anybody.
    pub peers: Option<Vec<ExplainedPeer>>,
    /// Its ports; `None` when it is about every port and protocol.
    pub ports: Option<Vec<ExplainedPort>>,
}

/// One peer, and whether it is the other end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExplainedPeer {
    /// The peer in words.
    pub peer: String,
    /// Whether it matches.
    pub matches: bool,
    /// Every condition that is not met.
    pub misses: Vec<MissAnswer>,
}

/// One port, and whether it is the one asked about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ExplainedPort {
    /// The port in words.
    pub port: String,
    /// Whether it matches.
    pub matches: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub miss: Option<MissAnswer>,
}

/// A condition that is not met.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MissAnswer {
    /// What kind of condition.
    pub why: &'static str,
    /// In words.
    pub text: String,
}

/// The rule that fails by the fewest conditions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NearestRule {
    /// The kind of its policy.
    pub kind: SmolStr,
    /// The namespace of its policy.
    pub namespace: SmolStr,
    /// The name of its policy.
    pub name: SmolStr,
    /// Its index as written, from 0.
    pub rule: u32,
    /// Its place.
    #[serde(flatten)]
    pub place: Place,
    /// How many conditions fail.
    pub failing: usize,
    /// They, in words.
    pub misses: Vec<String>,
}

/// What would make a verdict the other one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FlipAnswer {
    /// What the verdict would be.
    pub to: Verdict,
    /// The fewest changes that do it, all of which are needed.
    pub changes: Vec<ChangeAnswer>,
    /// Other ways, each complete.
    pub others: Vec<Vec<ChangeAnswer>>,
}

/// One change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangeAnswer {
    /// What kind of change.
    pub change: &'static str,
    /// What to do, in words.
    pub text: String,
    /// The policy to change, or the pod or namespace to label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<ObjectRef>,
    /// The side of the policy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<Direction>,
    /// The rule, by its index as written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<u32>,
    /// The place of the rule or policy.
    #[serde(flatten)]
    pub place: Option<Place>,
    /// The key of a label.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<SmolStr>,
    /// The value that the label gets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<SmolStr>,
    /// The change itself.
    #[serde(skip)]
    pub applied: Change,
}
