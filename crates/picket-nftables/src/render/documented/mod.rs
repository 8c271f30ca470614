//! The documented layout: what `nftables-implementation` of multi-networkpolicy describes, for one pod, inside its
//! network namespace. `docs/nftables.md` lists every deviation with its reason.

mod audit;
mod log;
mod mid_stream;
mod policy;
mod resolve;
mod skeleton;
mod view;

use std::collections::BTreeMap;

use picket_dataplane::Shortfall;
use picket_policy::{Action, Direction, ObjectRef, Tier};

pub use log::{log_prefix, logged_as};
pub use resolve::OtherEnds;
pub use view::{Interface, Peers, PodView, PolicyOnPod, ResolvedRule, ResolvedSide, Targets};

use crate::custom::CustomRules;
use crate::model::{Chain, Draft, ModelError, Name, NameHash, Statement, Table};
use crate::render::drops;

/// Flags of the documented controller that change what every isolated pod accepts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// `--accept-icmp`.
    pub accept_icmp: bool,
    /// `--accept-icmpv6`.
    pub accept_icmpv6: bool,
    /// `--custom-v4-ingress-rule-file` and so on, in the order in which they are judged.
    pub custom: Vec<CustomRules>,
    /// Whether TCP is refused that is in the middle of a connection which nobody knows and which may have begun in the
    /// direction that is not judged then. The document does not have it; it makes that connections can be cut.
    pub refuse_mid_stream: bool,
    /// Whether what is dropped is counted: for every policy that may be why, or as spoofed; see
    /// [`drops`].
    pub count_drops: bool,
    /// The netlink group to which packets are logged that policies drop, if they are; see [`log_prefix`].
    pub log_denied: Option<u16>,
}

/// The most rules of one pod that have an anonymous set of ports: loading them is quadratic in their number.
pub const MAX_ANONYMOUS_SETS: usize = 500;

/// Why a pod's policies have no documented layout.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DocumentedError {
    /// Two policies have one hash, so that their chains would have one name.
    #[error("{0} and {1} have the same hash, so that their chains would have the same name")]
    Collision(Box<ObjectRef>, Box<ObjectRef>),
    /// The table would not be one that nft takes, as when an interface is named like a part of a set's name.
    #[error("the ruleset of pod {pod} is not valid: {error}")]
    Model {
        /// The pod.
        pod: Box<ObjectRef>,
        /// What is wrong.
        error: ModelError,
    },
}

/// The name of the table in the namespace of each pod.
pub fn table_name() -> Name {
    name("multi_networkpolicy")
}

/// Whether a table of this layout was made with [`Options::refuse_mid_stream`].
pub fn refuses_mid_stream(table: &Table) -> bool {
    let mut chains = table.chains().iter();
    chains.any(|chain| chain.name.as_str() == mid_stream::CHAIN)
}

/// The table of one pod, and what it cannot say of the policies that select the pod.
///
/// A pod that no policy selects has the table with empty base chains.
pub fn render(view: &PodView, options: &Options) -> Result<(Table, Vec<Shortfall>), DocumentedError> {
    let hashes = hashes(view)?;
    let mut draft = Draft::new(table_name());
    let directions = Direction::BOTH.map(|direction| (direction, Plan::of(view, direction)));
    let mut anonymous_sets = 0;
    let mut chains = Vec::new();
    for policy in &view.policies {
        let parts = policy::Parts::of(
            view,
            policy,
            hash_of(&hashes, policy),
            options,
            &mut anonymous_sets,
        );
        let (sets, chain) = parts.map_err(|error| invalid(view, error))?;
        draft.sets.extend(sets);
        chains.push(chain);
    }
    if chains.iter().any(counts_spoofed) {
        draft.counters.push(drops::of_spoofed("from the own address"));
    }
    skeleton::write(view, options, &directions, &hashes, &mut draft).map_err(|error| invalid(view, error))?;
    draft.chains.extend(chains);
    let shortfalls = directions
        .iter()
        .flat_map(|(direction, plan)| plan.shortfalls(view, *direction))
        .collect();
    let table = draft.check().map_err(|error| invalid(view, error))?;
    Ok((table, shortfalls))
}

/// Whether something is counted there that comes from an address of the pod.
fn counts_spoofed(chain: &Chain) -> bool {
    let count = Statement::Count(drops::spoofed_counter());
    chain.rules.iter().any(|rule| rule.statements.contains(&count))
}

fn invalid(view: &PodView, error: ModelError) -> DocumentedError {
    DocumentedError::Model {
        pod: Box::new(view.pod.clone()),
        error,
    }
}

/// What a direction of a pod can be rendered as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    /// Nothing restricts it.
    Open,
    /// A union of accepts, then a drop.
    Isolated,
    /// A tiered policy denies part of it: this layout denies all of it. Whether connections with the pod's own node are
    /// decided before that policy.
    Closed { own_node_first: bool },
}

impl Plan {
    fn of(view: &PodView, direction: Direction) -> Self {
        let has = |tier, action| {
            view.policies
                .iter()
                .filter(|policy| policy.tier == tier)
                .any(|policy| {
                    let rules = &policy.side(direction).rules;
                    rules.iter().any(|rule| rule.action == action)
                })
        };
        let mut isolating = view.policies.iter().filter(|policy| policy.isolates(direction));
        // The other tiers are about the cluster network, which isolation on another one is not.
        let on_cluster = isolating.clone().any(|policy| policy.is_on_cluster(view));
        let isolated = isolating.next().is_some();
        if has(Tier::ClusterDefault, Action::Deny) && !on_cluster {
            Self::Closed {
                own_node_first: false,
            }
        } else if has(Tier::Admin, Action::Deny) {
            Self::Closed {
                own_node_first: direction == Direction::Ingress,
            }
        } else if has(Tier::Baseline, Action::Deny) && !on_cluster {
            Self::Closed { own_node_first: true }
        } else if isolated {
            Self::Isolated
        } else {
            Self::Open
        }
    }

    /// Whether packets over the interfaces of a policy can be denied.
    fn closes(self, policy: &PolicyOnPod, direction: Direction) -> bool {
        match self {
            Self::Open => false,
            Self::Isolated => policy.isolates(direction),
            Self::Closed { .. } => {
                policy.isolates(direction)
                    || (policy.tier != Tier::NetworkPolicy && !policy.side(direction).rules.is_empty())
            }
        }
    }

    /// What the plan leaves out of the tiered policies.
    fn shortfalls(self, view: &PodView, direction: Direction) -> Vec<Shortfall> {
        let instead = match self {
            Self::Closed { .. } => format!("every {direction} connection is denied"),
            Self::Isolated | Self::Open => format!("its {direction} rules are left out"),
        };
        // What an audited policy accepts and the cluster default does not.
        let mut audited = view.policies.iter().filter(|policy| policy.audits(direction));
        let audits = audited.any(|policy| policy.is_on_cluster(view)) && self != Self::Isolated;
        let matters = |policy: &&PolicyOnPod| match (policy.tier, self) {
            // The cluster default denies everything as it is, and isolation is final.
            (Tier::ClusterDefault, _) => audits,
            (Tier::NetworkPolicy, _) | (Tier::Baseline, Self::Isolated) => false,
            // Accepting is what happens anyway where nothing denies.
            (_, Self::Open) => false,
            _ => !policy.side(direction).rules.is_empty(),
        };
        view.policies
            .iter()
            .filter(matters)
            .map(|policy| Shortfall {
                target: "nftables, documented layout",
                policy: policy.object.clone(),
                direction,
                what: "a chain of accepts and one drop cannot express tiers".to_owned(),
                instead: instead.clone(),
            })
            .collect()
    }
}

/// The hash in the names of every policy's objects, by policy.
type Hashes<'a> = BTreeMap<&'a ObjectRef, NameHash>;

fn hashes(view: &PodView) -> Result<Hashes<'_>, DocumentedError> {
    let mut taken: BTreeMap<NameHash, &ObjectRef> = BTreeMap::new();
    for policy in &view.policies {
        let hash = policy_hash(&policy.object);
        if let Some(other) = taken.insert(hash, &policy.object) {
            return Err(DocumentedError::Collision(
                Box::new(other.clone()),
                Box::new(policy.object.clone()),
            ));
        }
    }
    Ok(taken.into_iter().map(|(hash, object)| (object, hash)).collect())
}

fn hash_of(hashes: &Hashes<'_>, policy: &PolicyOnPod) -> NameHash {
    // INVARIANT: `hashes` was made of the same policies.
    hashes
        .get(&policy.object)
        .copied()
        .unwrap_or_else(|| policy_hash(&policy.object))
}

/// The hash in the names of a policy's chain and sets: of `namespace/name` for a MultiNetworkPolicy, as documented, and
/// of `Kind/namespace/name` for every other kind.
pub fn policy_hash(object: &ObjectRef) -> NameHash {
    NameHash::of(&hashed(object))
}

/// What the hash of a policy is made of.
pub(in crate::render) fn hashed(object: &ObjectRef) -> String {
    let ObjectRef {
        kind,
        namespace,
        name,
        ..
    } = object;
    if kind == "MultiNetworkPolicy" {
        format!("{namespace}/{name}")
    } else {
        format!("{kind}/{namespace}/{name}")
    }
}

/// How comments name a policy: `namespace/name`, or `name` where there is no namespace.
pub(in crate::render) fn title(object: &ObjectRef) -> String {
    if object.namespace.is_empty() {
        object.name.to_string()
    } else {
        format!("{}/{}", object.namespace, object.name)
    }
}

#[expect(
    clippy::expect_used,
    reason = "only literals and hexadecimal characters are named with it"
)]
pub(super) fn name(text: &str) -> Name {
    Name::new(text).expect("INVARIANT: a letter, then letters, digits, `-` and `_`, and no keyword")
}

#[cfg(test)]
mod tests;
