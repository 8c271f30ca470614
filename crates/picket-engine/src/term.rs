//! Distinct pod selectors, and which of them match a pod's namespace and labels.

use picket_policy::{Labels, NetworkName, Networks, PodSelector};
use rustc_hash::FxHashMap;

use crate::label::{Anchor, matches};
use crate::multimap::{MultiMap, insert_sorted, remove_sorted};
use crate::slab::{ScopeId, TermId};

/// A pod selector, and the networks of a policy that uses it: on another network nothing matches.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PodTerm {
    pub(crate) selector: PodSelector,
    pub(crate) networks: Networks,
}

impl PodTerm {
    /// Whether pods match that are in a namespace which the selector looks in.
    pub(crate) fn matches(&self, network: Option<&NetworkName>, labels: &Labels) -> bool {
        matches(&self.selector.pods, labels) && self.networks.hold(network)
    }
}

/// Pod selectors under the namespaces they look in. Namespace-scoped selectors are asked only about pods there.
#[derive(Clone, Debug, Default)]
pub(crate) struct SelectorIndex {
    scopes: FxHashMap<ScopeId, Scoped>,
}

/// The selectors of one scope.
#[derive(Clone, Debug, Default)]
struct Scoped {
    terms: Vec<TermId>,
    /// Filled once there are more terms than asking each would cost.
    by_label: Option<MultiMap<Anchor, TermId>>,
}

/// Up to this many terms of a scope are asked one by one.
const FEW: usize = 12;

impl SelectorIndex {
    /// Lists a selector; `selectors` gives those listed before.
    pub(crate) fn insert<'a>(
        &mut self,
        scope: ScopeId,
        term: TermId,
        selectors: impl Fn(TermId) -> Option<&'a PodTerm>,
    ) {
        let scoped = self.scopes.entry(scope).or_default();
        insert_sorted(&mut scoped.terms, term);
        let unlisted = match &scoped.by_label {
            Some(_) => vec![term],
            None if scoped.terms.len() > FEW => scoped.terms.clone(),
            None => return,
        };
        let by_label = scoped.by_label.get_or_insert_default();
        for term in unlisted {
            for anchor in selectors(term)
                .iter()
                .flat_map(|term| Anchor::of_selector(&term.selector.pods))
            {
                by_label.insert(anchor, term);
            }
        }
    }

    pub(crate) fn remove(&mut self, scope: ScopeId, term: TermId, selector: &PodSelector) {
        let Some(scoped) = self.scopes.get_mut(&scope) else {
            return;
        };
        remove_sorted(&mut scoped.terms, term);
        if let Some(by_label) = &mut scoped.by_label {
            for anchor in Anchor::of_selector(&selector.pods) {
                by_label.remove(&anchor, term);
            }
        }
        if scoped.terms.is_empty() {
            self.scopes.remove(&scope);
        }
    }

    /// The selectors that match pods with `labels` on a network, in a namespace that `scopes` hold; sorted.
    pub(crate) fn matching<'a>(
        &self,
        scopes: &[ScopeId],
        network: Option<&NetworkName>,
        labels: &Labels,
        selectors: impl Fn(TermId) -> Option<&'a PodTerm>,
    ) -> Vec<TermId> {
        let asked = |term: &TermId| selectors(*term).is_some_and(|term| term.matches(network, labels));
        let mut found = Vec::new();
        let mut anchors = Vec::new();
        for scoped in scopes.iter().filter_map(|scope| self.scopes.get(scope)) {
            match &scoped.by_label {
                None => found.extend(scoped.terms.iter().copied().filter(asked)),
                Some(by_label) => {
                    if anchors.is_empty() {
                        anchors.extend(Anchor::of_labels(labels));
                    }
                    for anchor in &anchors {
                        found.extend(by_label.get(anchor).iter().copied().filter(asked));
                    }
                }
            }
        }
        found.sort_unstable();
        found
    }
}
