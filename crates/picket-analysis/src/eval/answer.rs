//! Answers, in the shape of their JSON (`docs/schema/eval.schema.json`).

use picket_cluster::{Cause, EndJudgement, Reason, Verdict};
use picket_policy::Direction;
use serde::Serialize;
use smol_str::SmolStr;

/// The answer to one question.
///
/// `E` is what an end says: [`EndAnswer`], or a JSON text of one that is written more often than made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Answer<E = EndAnswer> {
    /// The source: `namespace/name`, `namespace/Kind/name`, a node's name, or an address.
    pub from: String,
    /// The destination, likewise.
    pub to: String,
    /// The secondary network that was asked about, as `namespace/name`; `None` for the cluster network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// The interface that the source is on a secondary network.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from_interface: Option<SmolStr>,
    /// The interface that the destination is there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to_interface: Option<SmolStr>,
    /// `TCP`, `UDP`, `SCTP`, `ICMP`, `ICMPv6` or `proto:N`.
    pub protocol: String,
    /// The number of the port; `None` for protocols without ports and names that nothing resolves. Of several numbers
    /// of one name the lowest that is not allowed, else the lowest: the one that the ends speak of.
    pub port: Option<u16>,
    /// The name that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port_name: Option<SmolStr>,
    /// What all families say.
    pub verdict: Overall,
    /// What each family says that both ends have.
    pub families: Families<E>,
    /// What the source's egress says, when all families agree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub egress: Option<E>,
    /// What the destination's ingress says, when all families agree.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ingress: Option<E>,
}

/// The verdict over all families.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Overall {
    /// Every family is allowed.
    Allow,
    /// No family is allowed.
    Deny,
    /// One is, the other is not.
    Mixed,
}

impl Overall {
    /// What verdicts amount to; [`Overall::Deny`] for none.
    pub fn of(verdicts: impl Iterator<Item = Verdict>) -> Self {
        let (mut allowed, mut denied) = (false, false);
        for verdict in verdicts {
            if verdict.is_allow() {
                allowed = true;
            } else {
                denied = true;
            }
        }
        match (allowed, denied) {
            (true, false) => Self::Allow,
            (true, true) => Self::Mixed,
            (false, _) => Self::Deny,
        }
    }

    /// `allow`, `deny` or `mixed`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::Mixed => "mixed",
        }
    }
}

/// One answer per family.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Families<E = EndAnswer> {
    /// IPv4, when both ends have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv4: Option<FamilyAnswer<E>>,
    /// IPv6, when both ends have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ipv6: Option<FamilyAnswer<E>>,
}

impl<E> Families<E> {
    /// The families that there are, IPv4 first.
    pub fn iter(&self) -> impl Iterator<Item = &FamilyAnswer<E>> {
        self.ipv4.iter().chain(&self.ipv6)
    }
}

/// What one family says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FamilyAnswer<E = EndAnswer> {
    /// Whether both ends allow.
    pub verdict: Verdict,
    /// The source's egress.
    pub egress: E,
    /// The destination's ingress.
    pub ingress: E,
}

/// What one end says.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct EndAnswer {
    /// Its verdict.
    pub verdict: Verdict,
    /// Why.
    pub reason: Reason,
    /// The rules that accept or deny, or the policies that isolate; empty for reasons that rest on no policy.
    pub causes: Vec<CauseAnswer>,
    /// Where it allows what would be denied if no policy were only audited: the causes that denial would have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub audited: Vec<CauseAnswer>,
}

impl From<&EndJudgement> for EndAnswer {
    fn from(judgement: &EndJudgement) -> Self {
        Self {
            verdict: judgement.verdict,
            reason: judgement.reason,
            causes: judgement.causes.iter().map(CauseAnswer::from).collect(),
            audited: judgement.audited.iter().map(CauseAnswer::from).collect(),
        }
    }
}

/// A policy, or one of its rules.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct CauseAnswer {
    /// The kind of the policy.
    pub kind: SmolStr,
    /// Its namespace; empty for cluster-scoped kinds.
    pub namespace: SmolStr,
    /// Its name.
    pub name: SmolStr,
    /// The side of the policy that counts.
    pub direction: Direction,
    /// The rule by its index as written, from 0; `None` when the policy counts because it isolates.
    pub rule: Option<u32>,
    /// The file as given or found, `-` for standard input.
    pub file: String,
    /// The line at which the rule, or the policy, begins, from 1.
    pub line: u32,
}

impl CauseAnswer {
    /// The policy with the rule and the place, for people.
    pub fn shown(&self) -> String {
        let rule = self.rule.map_or("isolates".to_owned(), |rule| {
            format!("{} rule {rule}", self.direction)
        });
        let object = match self.namespace.as_str() {
            "" => self.name.to_string(),
            namespace => format!("{namespace}/{}", self.name),
        };
        format!("{} {object}, {rule} ({}:{})", self.kind, self.file, self.line)
    }
}

impl From<&Cause> for CauseAnswer {
    fn from(cause: &Cause) -> Self {
        Self {
            kind: cause.object.kind.clone(),
            namespace: cause.object.namespace.clone(),
            name: cause.object.name.clone(),
            direction: cause.direction,
            rule: cause.rule,
            file: cause.position.file.to_string(),
            line: cause.position.line,
        }
    }
}
