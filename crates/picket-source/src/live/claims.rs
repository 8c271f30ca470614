//! Which pods say that an address is theirs, and whose it is.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use picket_cluster::Pod;
use smol_str::SmolStr;

use super::facts::{Life, Name};

/// What a pod says, which is never changed: who says something else claims anew.
pub(super) struct Said {
    /// The pod with the addresses that it says it has.
    pub(super) pod: Arc<Pod>,
    /// How old it is, and whether it will live on.
    pub(super) life: Life,
    /// Whether its node is the own one.
    pub(super) own: bool,
    /// The addresses of its node.
    pub(super) of_node: Arc<[IpAddr]>,
}

impl Said {
    /// What the pod is called.
    pub(super) fn name(&self) -> Name {
        let object = &self.pod.object;
        Name {
            namespace: object.namespace.clone(),
            name: object.name.clone(),
        }
    }

    /// Its namespace and its name.
    pub(super) fn sort_name(&self) -> (&SmolStr, &SmolStr) {
        (&self.pod.object.namespace, &self.pod.object.name)
    }
}

/// A pod that claims an address, of which the least has it. No two pods are equal.
pub(super) trait Claimant: Clone + Ord {
    /// What the pod says.
    fn said(&self) -> &Arc<Said>;
}

/// A claim to an address of the cluster network.
#[derive(Clone)]
pub(super) struct OnCluster(pub(super) Arc<Said>);

/// A claim to an address of another network.
#[derive(Clone)]
pub(super) struct Attached(pub(super) Arc<Said>);

impl Claimant for OnCluster {
    fn said(&self) -> &Arc<Said> {
        &self.0
    }
}

impl Claimant for Attached {
    fn said(&self) -> &Arc<Said> {
        &self.0
    }
}

impl OnCluster {
    fn rank(&self) -> impl Ord + '_ {
        let Said { life, own, .. } = &*self.0;
        (!own, Reverse(&life.created), self.0.sort_name())
    }
}

impl Attached {
    fn rank(&self) -> impl Ord + '_ {
        let Life { created, deleting } = &self.0.life;
        // Every API server says when; who does not say is not older for it.
        (deleting, created.is_empty(), created, self.0.sort_name())
    }
}

/// Orders values by what one of their methods gives.
macro_rules! ordered {
    ($($value:ty, by $rank:ident;)*) => { $(
        impl Ord for $value {
            fn cmp(&self, other: &Self) -> Ordering {
                self.$rank().cmp(&other.$rank())
            }
        }

        impl PartialOrd for $value {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl PartialEq for $value {
            fn eq(&self, other: &Self) -> bool {
                self.cmp(other).is_eq()
            }
        }

        impl Eq for $value {}
    )* };
}

pub(super) use ordered;

ordered! {
    OnCluster, by rank;
    Attached, by rank;
}

/// The pods that claim each address of a network.
pub(super) struct Claims<C> {
    /// Whose it is.
    holders: BTreeMap<IpAddr, C>,
    /// Who else claims it, which nearly always nobody does.
    others: BTreeMap<IpAddr, Others<C>>,
}

struct Others<C> {
    /// Pods of the own node, which are told.
    own: BTreeSet<C>,
    elsewhere: BTreeSet<C>,
}

impl<C> Default for Claims<C> {
    fn default() -> Self {
        Self {
            holders: BTreeMap::new(),
            others: BTreeMap::new(),
        }
    }
}

impl<C> Default for Others<C> {
    fn default() -> Self {
        Self {
            own: BTreeSet::new(),
            elsewhere: BTreeSet::new(),
        }
    }
}

impl<C: Claimant> Claims<C> {
    /// A pod says that an address is its own. Puts those for whom something changes into `affected`.
    pub(super) fn add(&mut self, address: IpAddr, claim: &C, affected: &mut BTreeSet<Name>) {
        let Some(holder) = self.holders.get_mut(&address) else {
            self.holders.insert(address, claim.clone());
            return;
        };
        match claim.cmp(holder) {
            Ordering::Equal => {}
            Ordering::Greater => self.others.entry(address).or_default().insert(claim.clone()),
            Ordering::Less => {
                let before = std::mem::replace(holder, claim.clone());
                affected.insert(before.said().name());
                self.others.entry(address).or_default().insert(before);
                self.concerns(address, affected);
            }
        }
    }

    /// It says so no longer. Puts those for whom something changes into `affected`.
    pub(super) fn remove(&mut self, address: IpAddr, claim: &C, affected: &mut BTreeSet<Name>) {
        let others = self.others.get_mut(&address);
        if self.holders.get(&address) != Some(claim) {
            if let Some(others) = others {
                others.remove(claim);
                self.forget_empty(address);
            }
            return;
        }
        match others.and_then(Others::pop_first) {
            None => drop(self.holders.remove(&address)),
            Some(next) => {
                self.holders.insert(address, next);
                self.forget_empty(address);
                self.concerns(address, affected);
            }
        }
    }

    fn forget_empty(&mut self, address: IpAddr) {
        if self.others.get(&address).is_some_and(Others::is_empty) {
            self.others.remove(&address);
        }
    }

    /// Puts into `affected` for whom it matters whose an address is: who has it, and those of the own node that have lost it
    /// and are told to whom. For others nothing changes, however many they are.
    pub(super) fn concerns(&self, address: IpAddr, affected: &mut BTreeSet<Name>) {
        let own = self
            .others
            .get(&address)
            .into_iter()
            .flat_map(|others| &others.own);
        let concerned = self.holders.get(&address).into_iter().chain(own);
        affected.extend(concerned.map(|claim| claim.said().name()));
    }

    /// Whose an address is.
    pub(super) fn holder(&self, address: IpAddr) -> Option<&Arc<Said>> {
        self.holders.get(&address).map(C::said)
    }

    /// Whether nobody claims any.
    pub(super) fn is_empty(&self) -> bool {
        self.holders.is_empty()
    }
}

impl<C: Claimant> Others<C> {
    fn of(&mut self, claim: &C) -> &mut BTreeSet<C> {
        if claim.said().own {
            &mut self.own
        } else {
            &mut self.elsewhere
        }
    }

    fn insert(&mut self, claim: C) {
        self.of(&claim).insert(claim);
    }

    fn remove(&mut self, claim: &C) {
        self.of(claim).remove(claim);
    }

    /// Takes out the least.
    fn pop_first(&mut self) -> Option<C> {
        let is_own = match (self.own.first(), self.elsewhere.first()) {
            (Some(own), Some(elsewhere)) => own < elsewhere,
            (own, _) => own.is_some(),
        };
        let first = if is_own {
            &mut self.own
        } else {
            &mut self.elsewhere
        };
        first.pop_first()
    }

    fn is_empty(&self) -> bool {
        self.own.is_empty() && self.elsewhere.is_empty()
    }
}
