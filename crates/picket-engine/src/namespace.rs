//! Namespaces, and the scopes that selectors cut out of them.

use picket_cluster::Namespace;
use picket_policy::{Labels, NamespaceScope};
use rustc_hash::FxHashMap;
use smol_str::SmolStr;

use crate::label::{Anchor, matches};
use crate::multimap::{MultiMap, insert_sorted, remove_sorted};
use crate::selection::Selection;
use crate::slab::{GroupId, Interner, NamespaceId, ScopeId, Slab};

/// A namespace that is known, or that a pod implies.
#[derive(Clone, Debug)]
pub(crate) struct NamespaceEntry {
    pub(crate) name: SmolStr,
    pub(crate) labels: Labels,
    /// Whether the object exists; if not, the namespace lives as long as it has groups.
    explicit: bool,
    /// The groups of its pods, sorted.
    pub(crate) groups: Vec<GroupId>,
    /// The scopes in use that hold it, sorted.
    pub(crate) scopes: Vec<ScopeId>,
}

impl NamespaceEntry {
    fn object(&self) -> Namespace {
        Namespace {
            name: self.name.clone(),
            labels: self.labels.clone(),
        }
    }
}

/// All namespaces, indexed by name and labels, and all scopes in use with their members.
#[derive(Clone, Debug, Default)]
pub(crate) struct Namespaces {
    entries: Slab<NamespaceId, NamespaceEntry>,
    by_name: FxHashMap<SmolStr, NamespaceId>,
    by_label: MultiMap<Anchor, NamespaceId>,
    scopes: Interner<ScopeId, NamespaceScope>,
    scopes_by_label: MultiMap<Anchor, ScopeId>,
    members: FxHashMap<ScopeId, Vec<NamespaceId>>,
}

impl Namespaces {
    pub(crate) fn get(&self, id: NamespaceId) -> &NamespaceEntry {
        &self.entries[id]
    }

    pub(crate) fn find(&self, name: &str) -> Option<NamespaceId> {
        self.by_name.get(name).copied()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.by_name.len()
    }

    /// Names of namespaces whose objects exist, sorted.
    pub(crate) fn explicit_names(&self) -> Vec<SmolStr> {
        let explicit = self.entries.iter().filter(|(_, entry)| entry.explicit);
        let mut names: Vec<_> = explicit.map(|(_, entry)| entry.name.clone()).collect();
        names.sort_unstable();
        names
    }

    /// The namespaces whose objects exist.
    pub(crate) fn explicit(&self) -> impl Iterator<Item = Namespace> {
        let explicit = self.entries.iter().filter(|(_, entry)| entry.explicit);
        explicit.map(|(_, entry)| entry.object())
    }

    /// The namespace of this name, if its object exists.
    pub(crate) fn explicit_one(&self, name: &str) -> Option<Namespace> {
        let entry = self.get(self.find(name)?);
        entry.explicit.then(|| entry.object())
    }

    /// The namespaces in a scope, sorted.
    pub(crate) fn in_scope(&self, scope: ScopeId) -> &[NamespaceId] {
        self.members.get(&scope).map_or(&[], Vec::as_slice)
    }

    /// Whether a scope holds all namespaces there are.
    pub(crate) fn is_everywhere(&self, scope: ScopeId) -> bool {
        self.in_scope(scope).len() == self.by_name.len()
    }

    /// Takes in an object; returns the namespace when the scopes that hold it changed.
    pub(crate) fn apply(&mut self, namespace: &Namespace) -> Option<NamespaceId> {
        let id = self.ensure(&namespace.name);
        self.entries[id].explicit = true;
        self.relabel(id, namespace.labels.clone()).then_some(id)
    }

    /// Forgets an object; returns the namespace when it lives on with other scopes.
    pub(crate) fn delete(&mut self, name: &str) -> Option<NamespaceId> {
        let id = self.find(name)?;
        self.entries[id].explicit = false;
        let changed = self.relabel(id, Namespace::implied(name).labels);
        let lives = !self.drop_if_unused(id);
        (lives && changed).then_some(id)
    }

    /// The namespace of this name, implied when it is new.
    pub(crate) fn ensure(&mut self, name: &SmolStr) -> NamespaceId {
        if let Some(id) = self.find(name) {
            return id;
        }
        let id = self.entries.insert(NamespaceEntry {
            name: name.clone(),
            labels: Labels::default(),
            explicit: false,
            groups: Vec::new(),
            scopes: Vec::new(),
        });
        self.by_name.insert(name.clone(), id);
        self.by_label.insert(Anchor::Any, id);
        self.relabel(id, Namespace::implied(name).labels);
        id
    }

    pub(crate) fn add_group(&mut self, id: NamespaceId, group: GroupId) {
        insert_sorted(&mut self.entries[id].groups, group);
    }

    pub(crate) fn remove_group(&mut self, id: NamespaceId, group: GroupId) {
        remove_sorted(&mut self.entries[id].groups, group);
        self.drop_if_unused(id);
    }

    pub(crate) fn find_scope(&self, scope: &NamespaceScope) -> Option<ScopeId> {
        self.scopes.find(scope)
    }

    pub(crate) fn acquire_scope(&mut self, scope: &NamespaceScope) -> ScopeId {
        let (id, new) = self.scopes.acquire(scope.clone());
        if new {
            let members = self.matching(scope);
            for &namespace in &members {
                insert_sorted(&mut self.entries[namespace].scopes, id);
            }
            self.members.insert(id, members);
            if let NamespaceScope::Matching(selector) = scope {
                for anchor in Anchor::of_selector(selector) {
                    self.scopes_by_label.insert(anchor, id);
                }
            }
        }
        id
    }

    pub(crate) fn release_scope(&mut self, id: ScopeId) {
        let Some(scope) = self.scopes.release(id) else {
            return;
        };
        for namespace in self.members.remove(&id).unwrap_or_default() {
            remove_sorted(&mut self.entries[namespace].scopes, id);
        }
        if let NamespaceScope::Matching(selector) = &scope {
            for anchor in Anchor::of_selector(selector) {
                self.scopes_by_label.remove(&anchor, id);
            }
        }
    }

    /// The namespaces that `scope` means now, sorted.
    fn matching(&self, scope: &NamespaceScope) -> Vec<NamespaceId> {
        match scope {
            NamespaceScope::Named(name) => self.find(name).into_iter().collect(),
            NamespaceScope::Matching(selector) => Selection::new(&self.by_label, selector).all(),
        }
    }

    /// Sets the labels and says whether that changed the scopes that hold the namespace.
    fn relabel(&mut self, id: NamespaceId, labels: Labels) -> bool {
        let entry = &mut self.entries[id];
        let before = std::mem::replace(&mut entry.labels, labels);
        if before != entry.labels {
            for anchor in Anchor::of_labels(&before) {
                if anchor != Anchor::Any {
                    self.by_label.remove(&anchor, id);
                }
            }
            for anchor in Anchor::of_labels(&entry.labels) {
                self.by_label.insert(anchor, id);
            }
        }
        let scopes = self.scopes_of(id);
        if scopes == self.entries[id].scopes {
            return false;
        }
        let before = std::mem::replace(&mut self.entries[id].scopes, scopes);
        for scope in before {
            if let Some(members) = self.members.get_mut(&scope) {
                remove_sorted(members, id);
            }
        }
        for &scope in &self.entries[id].scopes {
            if let Some(members) = self.members.get_mut(&scope) {
                insert_sorted(members, id);
            }
        }
        true
    }

    /// The scopes in use that hold a namespace by its name and labels, sorted.
    fn scopes_of(&self, id: NamespaceId) -> Vec<ScopeId> {
        let entry = &self.entries[id];
        let named = self.find_scope(&NamespaceScope::Named(entry.name.clone()));
        let mut scopes: Vec<_> = named.into_iter().collect();
        for anchor in Anchor::of_labels(&entry.labels) {
            let candidates = self.scopes_by_label.get(&anchor).iter().copied();
            scopes.extend(candidates.filter(|&scope| match &self.scopes[scope] {
                NamespaceScope::Matching(selector) => matches(selector, &entry.labels),
                NamespaceScope::Named(_) => false,
            }));
        }
        scopes.sort_unstable();
        scopes
    }

    fn drop_if_unused(&mut self, id: NamespaceId) -> bool {
        let entry = &self.entries[id];
        if entry.explicit || !entry.groups.is_empty() {
            return false;
        }
        if let Some(entry) = self.entries.remove(id) {
            self.by_name.remove(&entry.name);
            for anchor in Anchor::of_labels(&entry.labels) {
                self.by_label.remove(&anchor, id);
            }
            for scope in entry.scopes {
                if let Some(members) = self.members.get_mut(&scope) {
                    remove_sorted(members, id);
                }
            }
        }
        true
    }
}
