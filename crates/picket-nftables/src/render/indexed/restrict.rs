//! What restricts the pods of a node, worked out again where a change can have touched it.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::net::IpAddr;
use std::sync::Arc;

use picket_engine::{AllowSet, IdentitySet, PodRef, Program, SubjectId};
use picket_net::TrafficSet;
use picket_policy::ObjectRef;
use rustc_hash::{FxHashMap, FxHasher};

use super::renderer::Changes;
use super::view::{LocalSide, Role, same, side_name};
use crate::model::Name;

/// Pods to which all of these subjects apply, in one role.
type Subjects = (Role, Vec<SubjectId>);

/// What restricts the pods of a node, and what that was worked out from.
#[derive(Debug, Default)]
pub(super) struct Restrictions {
    alike: BTreeMap<Subjects, Alike>,
}

/// Pods that something may restrict, and to which the same subjects apply.
#[derive(Debug)]
struct Alike {
    addresses: Arc<BTreeSet<IpAddr>>,
    /// The numbers of the subjects.
    numbers: Arc<[u32]>,
    /// The name of a side of them alone.
    name: Name,
    /// `None` until it is worked out.
    known: Option<Known>,
}

/// What some subjects together mean.
#[derive(Debug)]
struct Known {
    /// What each allows. Its allocation stays the same as long as it does.
    sources: Vec<Arc<AllowSet>>,
    /// `None` when they restrict nothing.
    content: Option<Content>,
}

#[derive(Clone, Debug)]
struct Content {
    allowed: Arc<[(TrafficSet, IdentitySet)]>,
    denying: Denying,
    /// Equal for equal contents.
    hash: u64,
}

/// The policies because of which something is denied.
#[derive(Clone, Debug)]
struct Denying {
    policies: Arc<BTreeSet<ObjectRef>>,
    /// Equal for equal policies.
    hash: u64,
}

impl Restrictions {
    /// The sides of `node` in a program; with `None`, of one node that runs every pod. Only what the changes since the last
    /// time can have touched is worked out again; with `None` everything.
    pub(super) fn update(
        &mut self,
        program: &Program,
        node: Option<&str>,
        changes: Option<&Changes>,
    ) -> Vec<LocalSide> {
        if changes.is_none_or(|changes| changes.own_pods) {
            let mut before = std::mem::take(&mut self.alike);
            let now = alike(program, node).into_iter().map(|(subjects, addresses)| {
                let mut alike = before
                    .remove(&subjects)
                    .unwrap_or_else(|| Alike::unknown(&subjects));
                alike.addresses = Arc::new(addresses);
                (subjects, alike)
            });
            self.alike = now.collect();
        }
        for (subjects, alike) in &mut self.alike {
            let touched = changes.is_none_or(|changes| {
                let mut own = subjects.1.iter();
                own.any(|subject| changes.subjects.contains(subject))
            });
            let is_current = alike.known.as_ref().zip(changes).is_some_and(|(known, changes)| {
                !touched && (changes.identities.is_empty() || known.is_current(program, subjects))
            });
            if !is_current {
                alike.known = Some(Known::of(program, subjects, alike.known.as_ref(), touched));
            }
        }
        self.sides()
    }

    /// Puts pods that are restricted alike together.
    fn sides(&self) -> Vec<LocalSide> {
        let mut sides: Vec<LocalSide> = Vec::with_capacity(self.alike.len());
        let mut places: FxHashMap<(Role, u64), usize> = FxHashMap::default();
        places.reserve(self.alike.len());
        for ((role, _), alike) in &self.alike {
            let Some(content) = alike.known.as_ref().and_then(|known| known.content.as_ref()) else {
                continue;
            };
            let side = LocalSide {
                name: alike.name.clone(),
                role: *role,
                subject: Arc::clone(&alike.numbers),
                addresses: Arc::clone(&alike.addresses),
                allowed: Arc::clone(&content.allowed),
                denying: Arc::clone(&content.denying.policies),
            };
            // Of other contents with the same hash each has the next place that is free.
            for hash in std::iter::successors(Some(content.hash), |hash| Some(hash.wrapping_add(1))) {
                let at = *places.entry((*role, hash)).or_insert(sides.len());
                match sides.get_mut(at) {
                    None => sides.push(side),
                    Some(first) if first.says_as(&side) => {
                        Arc::make_mut(&mut first.addresses).extend(&*side.addresses);
                    }
                    Some(_) => continue,
                }
                break;
            }
        }
        sides
    }
}

impl Alike {
    /// No pods yet, to which these subjects apply.
    fn unknown((role, subjects): &Subjects) -> Self {
        let numbers: Arc<[u32]> = subjects.iter().map(|subject| subject.number()).collect();
        Self {
            addresses: Arc::default(),
            name: side_name(*role, &numbers),
            numbers,
            known: None,
        }
    }
}

impl Known {
    /// What subjects mean. Where that is what it was, the allocations stay the same. Which policies deny is worked out again
    /// only where the subjects were `touched`.
    fn of(program: &Program, subjects: &Subjects, before: Option<&Self>, touched: bool) -> Self {
        let sources: Vec<_> = sources(program, subjects).collect();
        let before = before.and_then(|known| known.content.as_ref());
        let content = allowed(subjects, &sources).map(|allowed| {
            let denying = before.filter(|_| !touched).map(|before| before.denying.clone());
            let denying = denying.unwrap_or_else(|| Denying::of(program, subjects));
            Content::of(allowed, denying).or_as(before)
        });
        Self { sources, content }
    }

    fn is_current(&self, program: &Program, subjects: &Subjects) -> bool {
        let now = sources(program, subjects);
        now.zip(&self.sources)
            .all(|(now, before)| Arc::ptr_eq(&now, before))
    }
}

impl Denying {
    fn of(program: &Program, (role, subjects): &Subjects) -> Self {
        let policies = subjects.iter().flat_map(|&subject| match role.audits() {
            true => program.audited_policies(subject).collect::<Vec<_>>(),
            false => program.denying_policies(subject).collect(),
        });
        let policies: BTreeSet<_> = policies.map(|policy| policy.object.clone()).collect();
        Self {
            hash: hash_of(&policies),
            policies: Arc::new(policies),
        }
    }
}

/// Equal for equal values.
pub(super) fn hash_of(value: &impl Hash) -> u64 {
    let mut hasher = FxHasher::default();
    value.hash(&mut hasher);
    hasher.finish()
}

impl Content {
    fn of(allowed: Arc<[(TrafficSet, IdentitySet)]>, denying: Denying) -> Self {
        let hash = hash_of(&(&allowed, denying.hash));
        Self {
            allowed,
            denying,
            hash,
        }
    }

    fn or_as(mut self, before: Option<&Self>) -> Self {
        if let Some(before) = before {
            if same(&self.allowed, &before.allowed) {
                self.allowed = Arc::clone(&before.allowed);
            }
            if same(&self.denying.policies, &before.denying.policies) {
                self.denying = before.denying.clone();
            }
        }
        self
    }
}

/// Which own pods something may restrict, and what.
fn alike(program: &Program, node: Option<&str>) -> BTreeMap<Subjects, BTreeSet<IpAddr>> {
    let mut subjects: BTreeMap<(Role, IpAddr), BTreeSet<SubjectId>> = BTreeMap::new();
    for pod in own_pods(program, node) {
        for role in Role::ALL {
            let Some(subject) = pod.subject(role.direction()) else {
                continue;
            };
            for address in pod.pod().addresses.iter() {
                subjects.entry((role, address)).or_default().insert(subject);
            }
        }
    }
    let mut alike: BTreeMap<Subjects, BTreeSet<IpAddr>> = BTreeMap::new();
    for ((role, address), subjects) in subjects {
        let subjects = (role, subjects.into_iter().collect());
        alike.entry(subjects).or_default().insert(address);
    }
    alike
}

/// The addresses of the pods of `node`, or with `None` of all that policies can apply to.
pub(super) fn own_addresses(program: &Program, node: Option<&str>) -> BTreeSet<IpAddr> {
    let pods = own_pods(program, node).into_iter();
    pods.flat_map(|pod| pod.pod().addresses.iter()).collect()
}

/// The pods of a node; with `None` all of them.
pub(super) fn own_pods<'p>(program: &'p Program, node: Option<&str>) -> Vec<PodRef<'p>> {
    match node {
        Some(node) => program.pods_on(node),
        None => program.pods().filter(PodRef::is_managed).collect(),
    }
}

/// The allow sets that a role is made of: one of each subject, and for what is only audited then those that are in force.
fn sources(program: &Program, (role, subjects): &Subjects) -> impl Iterator<Item = Arc<AllowSet>> {
    let own = subjects.iter().map(move |&subject| match role {
        Role::Egress | Role::Ingress => program.allow_set(subject),
        Role::OwnNode | Role::FromOwnNode => program.own_node_allow_set(subject),
        Role::AuditEgress | Role::AuditIngress => program.allow_set_if_enforced(subject),
        Role::AuditOwnNode => program.own_node_allow_set_if_enforced(subject),
    });
    let audited = subjects.iter().filter(|_| role.audits());
    own.chain(audited.map(move |&subject| match role {
        Role::AuditOwnNode => program.own_node_allow_set(subject),
        _ => program.allow_set(subject),
    }))
}

/// What is allowed to the pods to which all of `subjects` apply; `None` when nothing restricts them.
fn allowed(
    (role, subjects): &Subjects,
    sources: &[Arc<AllowSet>],
) -> Option<Arc<[(TrafficSet, IdentitySet)]>> {
    let (sources, in_force) = sources.split_at(subjects.len());
    // Enforcing every policy may deny no more than is denied.
    if role.audits()
        && sources
            .iter()
            .zip(in_force)
            .all(|(source, in_force)| same(source, in_force))
    {
        return None;
    }
    sources
        .iter()
        .filter(|allowed| !allowed.is_everything())
        .map(|allowed| allowed.shared_entries())
        .reduce(|one, other| intersection(&one, &other).into())
}

/// What two subjects both allow.
fn intersection(
    one: &[(TrafficSet, IdentitySet)],
    other: &[(TrafficSet, IdentitySet)],
) -> Vec<(TrafficSet, IdentitySet)> {
    let mut both: BTreeMap<TrafficSet, IdentitySet> = BTreeMap::new();
    for (traffic, peers) in one {
        for (other_traffic, other_peers) in other {
            let (traffic, peers) = (
                traffic.intersection(other_traffic),
                peers.intersection(other_peers),
            );
            if !traffic.is_empty() && !peers.is_empty() {
                let present = both.entry(traffic).or_default();
                *present = present.union(&peers);
            }
        }
    }
    both.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_subjects_allow_together_what_both_allow() {
        let tcp = TrafficSet::from(picket_net::Protocol::TCP);
        let peers = |numbers: &[u32]| numbers.iter().copied().collect::<IdentitySet>();
        let one = [(tcp.clone(), peers(&[1, 2])), (TrafficSet::all(), peers(&[3, 4]))];
        let other = [(TrafficSet::all(), peers(&[2, 3]))];
        let both = [(tcp, peers(&[2])), (TrafficSet::all(), peers(&[3]))];
        let found = intersection(&one, &other);
        assert_eq!(found.len(), 2);
        assert!(both.iter().all(|entry| found.contains(entry)));
    }
}
