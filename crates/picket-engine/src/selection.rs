//! What a selector matches, worked out from the lists of what has each label: no labels are looked at one by one.

use picket_policy::{PodSelector, Requirement, Selector};

use crate::group::Kind;
use crate::label::Anchor;
use crate::multimap::MultiMap;
use crate::program::Program;
use crate::slab::{GroupId, Key, ScopeId};
use crate::term::PodTerm;

/// A selector over what an index lists under the facts about its labels.
pub(crate) struct Selection<'a, K> {
    everything: &'a [K],
    /// The one that leaves the fewest first.
    conditions: Vec<Condition<'a, K>>,
}

/// A requirement: whether to be in any of some lists, which are sorted and disjoint, or in none.
struct Condition<'a, K> {
    lists: Vec<&'a [K]>,
    wanted: bool,
}

impl<'a, K: Key> Selection<'a, K> {
    pub(crate) fn new(index: &'a MultiMap<Anchor, K>, selector: &Selector) -> Self {
        let requirements = selector.requirements().iter();
        let mut conditions: Vec<_> = requirements
            .map(|requirement| Condition::new(index, requirement))
            .collect();
        conditions.sort_by_key(|condition| (!condition.wanted, condition.listed()));
        Self {
            everything: index.get(&Anchor::Any),
            conditions,
        }
    }

    /// At most so many match.
    fn bound(&self) -> usize {
        let first = self.conditions.first().filter(|condition| condition.wanted);
        first.map_or(self.everything.len(), Condition::listed)
    }

    /// Everything that matches, sorted.
    pub(crate) fn all(&self) -> Vec<K> {
        match self.conditions.split_first() {
            Some((first, others)) if first.wanted => {
                let mut candidates = first.lists.concat();
                if first.lists.len() > 1 {
                    candidates.sort_unstable();
                }
                among(others, candidates)
            }
            _ => among(&self.conditions, self.everything.to_vec()),
        }
    }

    /// What matches of `candidates`, which are sorted.
    fn among(&self, candidates: Vec<K>) -> Vec<K> {
        among(&self.conditions, candidates)
    }
}

fn among<K: Key>(conditions: &[Condition<'_, K>], mut candidates: Vec<K>) -> Vec<K> {
    for Condition { lists, wanted } in conditions {
        let mut lists = lists.clone();
        candidates.retain(|key| {
            let listed = lists.iter_mut().any(|list| {
                *list = from(list, key);
                list.first() == Some(key)
            });
            listed == *wanted
        });
    }
    candidates
}

/// A sorted list from `key` on; the nearer that is to its beginning, the faster.
fn from<'a, K: Key>(list: &'a [K], key: &K) -> &'a [K] {
    let mut reach = 1;
    while list.get(reach).is_some_and(|other| other < key) {
        reach *= 2;
    }
    let near = list.get(..reach).unwrap_or(list);
    let below = near.partition_point(|other| other < key);
    list.get(below..).unwrap_or_default()
}

impl<'a, K: Key> Condition<'a, K> {
    fn new(index: &'a MultiMap<Anchor, K>, requirement: &Requirement) -> Self {
        let key = requirement.key();
        let lists = match requirement {
            Requirement::In(_, values) | Requirement::NotIn(_, values) => values
                .iter()
                .map(|value| index.get(&Anchor::Pair(key.clone(), value.clone())))
                .collect(),
            Requirement::Exists(_) | Requirement::DoesNotExist(_) => {
                vec![index.get(&Anchor::Key(key.clone()))]
            }
        };
        Self {
            lists,
            wanted: matches!(requirement, Requirement::In(..) | Requirement::Exists(_)),
        }
    }

    /// How many are in the lists.
    fn listed(&self) -> usize {
        self.lists.iter().map(|list| list.len()).sum()
    }
}

impl Program {
    /// The groups of pods that a term matches.
    pub(crate) fn groups_selected(&self, term: &PodTerm) -> Vec<GroupId> {
        let mut groups = self.groups_labelled(&term.selector);
        groups.retain(|&group| term.networks.hold(self.groups[group].kind.network()));
        groups
    }

    /// Those that a selector matches on whatever network, from the labels or from the namespaces, whichever are fewer.
    fn groups_labelled(&self, selector: &PodSelector) -> Vec<GroupId> {
        let Some(scope) = self.namespaces.find_scope(&selector.namespaces) else {
            return Vec::new();
        };
        let selection = Selection::new(&self.groups.by_label, &selector.pods);
        if self.namespaces.is_everywhere(scope) {
            return selection.all();
        }
        let namespaces = self.namespaces.in_scope(scope).iter();
        let groups = namespaces.map(|&namespace| &self.namespaces.get(namespace).groups);
        let mut room = selection.bound();
        let fewer = groups.clone().all(|groups| {
            let left = room.checked_sub(groups.len());
            room = left.unwrap_or(0);
            left.is_some()
        });
        if fewer {
            let mut groups: Vec<_> = groups.flatten().copied().collect();
            groups.sort_unstable();
            return selection.among(groups);
        }
        let mut groups = selection.all();
        groups.retain(|&group| self.is_in_scope(group, scope));
        groups
    }

    fn is_in_scope(&self, group: GroupId, scope: ScopeId) -> bool {
        match self.groups[group].kind {
            Kind::Pods { namespace, .. } => {
                let scopes = &self.namespaces.get(namespace).scopes;
                scopes.binary_search(&scope).is_ok()
            }
            Kind::External | Kind::Node(_) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use picket_policy::Labels;

    use super::*;
    use crate::label::matches;
    use crate::slab::NamespaceId;

    #[test]
    fn lists_say_what_labels_say() {
        let labelled: Vec<Labels> = (0..200)
            .map(|at| {
                let labels = Labels::default().with("number", &format!("{}", at % 7));
                if at % 3 == 0 {
                    labels.with("third", "")
                } else {
                    labels
                }
            })
            .collect();
        let mut index = MultiMap::default();
        for (at, labels) in (0..).zip(&labelled) {
            for anchor in Anchor::of_labels(labels) {
                index.insert(anchor, NamespaceId(at));
            }
        }
        for (selector, count) in [
            ("", 200),
            ("third", 67),
            ("!third", 133),
            ("number=3", 29),
            ("number in (1,3,9),third", 19),
            ("number notin (1,3),!third", 94),
            ("number notin (9)", 200),
            ("absent notin (9)", 200),
            ("absent", 0),
        ] {
            let parsed = picket_testing::build::selector(selector);
            let selection = Selection::new(&index, &parsed);
            let matching = (0..)
                .zip(&labelled)
                .filter(|(_, labels)| matches(&parsed, labels));
            let expected: Vec<_> = matching.map(|(at, _)| NamespaceId(at)).collect();
            assert_eq!(selection.all(), expected, "{selector}");
            assert_eq!(expected.len(), count, "{selector}");
            assert!(selection.bound() >= count, "{selector}");
            let few = || (90..110).map(NamespaceId);
            let among = selection.among(few().collect());
            assert_eq!(
                among,
                few().filter(|id| expected.contains(id)).collect::<Vec<_>>(),
                "{selector}"
            );
        }
    }
}
