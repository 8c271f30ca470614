//! The one form that every policy dialect is lowered to.

use std::fmt;

use picket_net::{PortRange, Prefix, Protocol};
use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

use crate::{DomainName, Networks, ObjectRef, Position, Selector};

/// A policy, whatever dialect it was written in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    /// The object it was lowered from.
    pub object: ObjectRef,
    /// Where the object begins.
    pub position: Position,
    /// Whether it denies, or only tells what it would deny.
    pub mode: Mode,
    /// When it is judged, relative to other policies.
    pub tier: Tier,
    /// Order within the tier, lower first; always 0 in [`Tier::NetworkPolicy`], whose policies have no order.
    pub priority: u16,
    /// The networks on which it acts.
    pub networks: Networks,
    /// The pods it applies to.
    pub subject: PodSelector,
    /// What it says about connections to its subject.
    pub ingress: Side,
    /// What it says about connections from its subject.
    pub egress: Side,
}

impl Policy {
    /// What it says about one direction.
    pub fn side(&self, direction: Direction) -> &Side {
        match direction {
            Direction::Ingress => &self.ingress,
            Direction::Egress => &self.egress,
        }
    }

    /// Whether it isolates its subject in one direction. A policy that is audited isolates nothing, whatever its side says.
    pub fn isolates(&self, direction: Direction) -> bool {
        self.mode == Mode::Enforce && self.side(direction).isolates
    }

    /// Whether one of its rules decides where it matches: what an audited policy denies is not denied.
    pub fn counts(&self, rule: &Rule) -> bool {
        self.mode == Mode::Enforce || rule.action != Action::Deny
    }

    /// Whether packets can be dropped because of it.
    pub fn can_deny(&self, direction: Direction) -> bool {
        self.mode == Mode::Enforce && self.would_deny(direction)
    }

    /// Whether packets could be dropped because of it if it were enforced.
    pub fn would_deny(&self, direction: Direction) -> bool {
        let side = self.side(direction);
        side.isolates || side.rules.iter().any(|rule| rule.action == Action::Deny)
    }
}

/// What comes of what a policy denies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// It is denied.
    #[default]
    Enforce,
    /// It passes, and is logged and counted. What the policy accepts and passes on counts as ever, so that nothing that
    /// it would allow is denied because it is audited.
    Audit,
}

/// Tiers, in the order in which they are judged.
///
/// In all but `NetworkPolicy` the first matching rule decides, by priority and then by order.
/// `NetworkPolicy` is a union of accepts that isolates: once a policy isolates a pod, the tier's verdict is final.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Tier {
    /// Before all others, and only for pods that a policy of tier `NetworkPolicy` isolates (the custom-rule files of
    /// the documented nftables layout).
    Custom,
    /// Before NetworkPolicy (ClusterNetworkPolicy tier Admin, AdminNetworkPolicy).
    Admin,
    /// NetworkPolicy and MultiNetworkPolicy.
    NetworkPolicy,
    /// In place of NetworkPolicy, for pods that nothing isolates: the cluster default of the v1beta1 proposal. What it
    /// denies it denies to a pod's own node, too. It only denies.
    ClusterDefault,
    /// After NetworkPolicy, for pods that nothing isolates (ClusterNetworkPolicy tier Baseline,
    /// BaselineAdminNetworkPolicy).
    Baseline,
}

impl Tier {
    /// Every tier, in the order in which they are judged.
    pub const ALL: [Self; 5] = [
        Self::Custom,
        Self::Admin,
        Self::NetworkPolicy,
        Self::ClusterDefault,
        Self::Baseline,
    ];

    /// Whether its policies have an order that people choose.
    pub fn is_ordered(self) -> bool {
        !matches!(self, Self::NetworkPolicy | Self::ClusterDefault)
    }
}

/// The direction of a connection, seen from the pod that a policy selects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// The pod is the destination.
    Ingress,
    /// The pod is the source.
    Egress,
}

impl Direction {
    /// Both directions.
    pub const BOTH: [Self; 2] = [Self::Ingress, Self::Egress];

    /// The other one.
    #[must_use]
    pub fn opposite(self) -> Self {
        match self {
            Self::Ingress => Self::Egress,
            Self::Egress => Self::Ingress,
        }
    }
}

impl fmt::Display for Direction {
    /// `ingress` or `egress`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ingress => "ingress",
            Self::Egress => "egress",
        })
    }
}

/// What a policy says about one direction.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Side {
    /// Whether the subject is isolated in this direction: what no rule of the tier accepts is denied.
    /// Only in [`Tier::NetworkPolicy`].
    pub isolates: bool,
    /// Rules in the order written. In [`Tier::NetworkPolicy`] they are accepts, and count for every selected pod that
    /// any policy isolates, whichever it is. Rules that the dialect declares inert are not here.
    pub rules: Vec<Rule>,
}

/// One rule: matches a connection when its peers and its ports both do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    /// Its index in the list as written, from 0.
    pub index: u32,
    /// Where it begins.
    pub position: Position,
    /// What happens to a connection that matches.
    pub action: Action,
    /// Who is at the other end.
    pub peers: List<Peer>,
    /// Destination protocols and ports.
    pub ports: List<PortMatch>,
}

/// What a rule does with a connection that matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Action {
    /// Allow it, in this direction.
    Accept,
    /// Deny it.
    Deny,
    /// Leave the tier undecided.
    Pass,
}

/// A list whose absence means "anything", and whose emptiness means "nothing".
///
/// Dialects that read an empty list as an absent one, like networking.k8s.io/v1, lower it to [`List::Absent`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum List<T> {
    /// No restriction.
    Absent,
    /// Any of the items; none matches nothing.
    Items(Vec<T>),
}

/// One kind of other end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Peer {
    /// Pods, by namespace and labels.
    Pods(PodSelector),
    /// Addresses.
    Block(Block),
    /// Nodes, by labels: their own addresses, not those of pods on them.
    Nodes(Selector),
    /// A domain name, kept to be shown: nothing matches it. Blocks beside it hold the addresses that are known for it.
    Domain(DomainName),
}

/// Pods by namespace and labels. hostNetwork pods and finished pods are never selected.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodSelector {
    /// The namespaces to look in.
    pub namespaces: NamespaceScope,
    /// Which pods there.
    pub pods: Selector,
}

/// Some namespaces.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NamespaceScope {
    /// The one with this name.
    Named(SmolStr),
    /// Those whose labels match.
    Matching(Selector),
}

/// Addresses of one prefix, without exceptions. The exceptions hold for this block only.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Block {
    /// The addresses.
    pub prefix: Prefix,
    /// What is taken out of them: sorted, unique prefixes within `prefix`.
    pub except: Vec<Prefix>,
}

/// Destination protocols and ports.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PortMatch {
    /// All of one protocol.
    Protocol(Protocol),
    /// A range of ports of one protocol.
    Range(Protocol, PortRange),
    /// A container port's name, resolved on the destination pod; any protocol when `protocol` is `None`.
    Named {
        /// The protocol that the container port must have.
        protocol: Option<Protocol>,
        /// The name of the container port.
        name: SmolStr,
    },
}
