//! One question about connectivity, and its answer.

use std::fmt;
use std::net::IpAddr;

use picket_net::{Family, Protocol};
use picket_policy::{Direction, ObjectRef, Position};
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

/// One end of a connection.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Endpoint {
    /// A pod or workload, by its object.
    Pod(ObjectRef),
    /// A node, by its name and the one of its addresses that the connection uses.
    Node {
        /// The name.
        name: SmolStr,
        /// The address: policies can tell the addresses of one node apart.
        address: IpAddr,
    },
    /// An address that belongs to no pod and no node.
    External(IpAddr),
}

/// A new connection, judged after service translation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Flow {
    /// Who opens it.
    pub source: Endpoint,
    /// To whom.
    pub destination: Endpoint,
    /// Which addresses of the two are used. Ends that carry an address carry one of this family.
    pub family: Family,
    /// The protocol.
    pub protocol: Protocol,
    /// The destination port; 0 and without meaning for protocols that have none.
    pub port: u16,
}

/// Choices that Kubernetes leaves to the implementation, and flags of the documented nftables layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Semantics {
    /// Whether an ipBlock matches the addresses of pods. Conformance tests require it.
    pub ipblock_matches_pods: bool,
    /// Whether isolated pods accept and may send ICMP whatever the rules say.
    pub accept_icmp: bool,
    /// The same for ICMPv6.
    pub accept_icmpv6: bool,
}

impl Default for Semantics {
    fn default() -> Self {
        Self {
            ipblock_matches_pods: true,
            accept_icmp: false,
            accept_icmpv6: false,
        }
    }
}

/// Allowed or denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The connection may be opened.
    Allow,
    /// It may not.
    Deny,
}

impl Verdict {
    /// Allow when `allowed`.
    pub fn from_allowed(allowed: bool) -> Self {
        if allowed { Self::Allow } else { Self::Deny }
    }

    /// Whether it is [`Verdict::Allow`].
    pub fn is_allow(self) -> bool {
        self == Self::Allow
    }

    /// Allow only when both allow.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self::from_allowed(self.is_allow() && other.is_allow())
    }
}

impl fmt::Display for Verdict {
    /// `allow` or `deny`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_allow() { "allow" } else { "deny" })
    }
}

/// Why one end allows or denies. A closed list: the JSON schema of `eval` restates it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    /// A pod always reaches itself.
    SamePod,
    /// This end is no pod that policies apply to: an external address, a node, or a hostNetwork pod.
    NotAPod,
    /// The other end is the pod's own node.
    LocalNode,
    /// No policy isolates the pod in this direction.
    NotIsolated,
    /// A rule accepts the connection.
    AllowedByRule,
    /// A rule of the Admin or Baseline tier denies the connection.
    DeniedByRule,
    /// Policies isolate the pod and no rule accepts the connection.
    NoRuleMatches,
    /// Nothing isolates the pod, and the cluster default of the v1beta1 proposal is to deny.
    ClusterDefault,
    /// The ICMP flags accept the packet.
    IcmpAccepted,
    /// The destination has no port of that name and protocol.
    UnresolvedPortName,
    /// The two ends have no address family in common.
    NoCommonFamily,
}

/// A policy, or one rule of it, that a judgement rests on.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cause {
    /// The policy.
    pub object: ObjectRef,
    /// The side of the policy that counts.
    pub direction: Direction,
    /// The rule by its index as written; `None` when the policy matters because it isolates.
    pub rule: Option<u32>,
    /// Where the rule, or the policy, begins.
    pub position: Position,
}

/// What one end says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EndJudgement {
    /// Its verdict.
    pub verdict: Verdict,
    /// Why.
    pub reason: Reason,
    /// For [`Reason::AllowedByRule`] every rule of the deciding tier that accepts (Admin and Baseline: the first that
    /// matches); for [`Reason::NoRuleMatches`] every policy that isolates; sorted. Empty for other reasons.
    pub causes: Vec<Cause>,
    /// Where it allows what would be denied if no policy were only audited: the causes that denial would have. Else empty.
    pub audited: Vec<Cause>,
}

impl EndJudgement {
    /// A judgement that rests on no policy.
    pub fn without_cause(verdict: Verdict, reason: Reason) -> Self {
        Self {
            verdict,
            reason,
            causes: Vec::new(),
            audited: Vec::new(),
        }
    }
}

/// The answer to a [`Flow`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// What the source's egress says.
    pub egress: EndJudgement,
    /// What the destination's ingress says.
    pub ingress: EndJudgement,
}

impl Judgement {
    /// Allowed only when both ends allow.
    pub fn verdict(&self) -> Verdict {
        self.egress.verdict.and(self.ingress.verdict)
    }
}
