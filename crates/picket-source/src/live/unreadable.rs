//! Objects of which nobody can tell what they are now.

use picket_policy::{Diagnostic, ObjectRef};

use super::{Changes, Found, Kind, Live, Name, Step};

/// What is known of an object of which nobody can tell what it is now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    /// Perhaps nothing.
    Perhaps,
    /// What it was before.
    Before,
    /// What is there in its place.
    Instead,
}

impl Live {
    /// An object is there, in the list that comes in or as an event, and nobody can tell what it is: it is what it was before. A
    /// policy of which nothing is known is what is there `instead`, if anything is.
    pub(crate) fn unreadable(
        &mut self,
        kind: Kind,
        name: &Name,
        why: Diagnostic,
        instead: Option<Found>,
    ) -> Changes {
        let list = self.lists.entry(kind).or_default();
        list.named.insert(name.clone());
        let object = (kind, name.clone());
        let stood = self.unreadable.remove(&object) == Some(Known::Instead);
        let known = match instead {
            Some(instead) if stood || !self.policies.has(kind, name) => {
                self.put(kind, instead);
                Known::Instead
            }
            Some(_) => Known::Before,
            None if stood => Known::Instead,
            None => Known::Perhaps,
        };
        self.tell(kind, name, vec![why]);
        self.unreadable.insert(object, known);
        std::mem::take(&mut self.changes)
    }

    /// The first of such objects of which it may be that nothing is known.
    pub(crate) fn first_unknown(&self) -> Option<ObjectRef> {
        let mut unreadable = self.unreadable.iter();
        let ((kind, name), _) = unreadable.find(|(_, known)| **known == Known::Perhaps)?;
        Some(ObjectRef::new(kind, &name.namespace, &name.name))
    }

    /// Whether nobody can tell what an object is now: until one can, nothing else is said of it, whatever becomes of others.
    pub(super) fn is_unreadable(&self, object: &ObjectRef) -> bool {
        let name = || Name {
            namespace: object.namespace.clone(),
            name: object.name.clone(),
        };
        !self.unreadable.is_empty() && self.unreadable.contains_key(&(object.kind.as_str(), name()))
    }

    /// Whether one can tell again after this step of an object of which one could not.
    pub(super) fn is_readable_again(&mut self, kind: Kind, step: &Step) -> bool {
        if self.unreadable.is_empty() {
            return false;
        }
        match step {
            Step::Begin => false,
            Step::Listed(found) | Step::Apply(found) => self.read_again(kind, &found.name),
            Step::Delete(name) => self.read_again(kind, name),
            Step::End | Step::Gone => {
                let is_gone = matches!(step, Step::Gone);
                let named = |name: &Name| {
                    let list = self.lists.get(kind);
                    list.is_some_and(|list| list.named.contains(name))
                };
                let of_kind = self.unreadable.keys().filter(|(of, _)| *of == kind);
                let gone = of_kind.filter(|(_, name)| is_gone || !named(name));
                let gone: Vec<_> = gone.map(|(_, name)| name.clone()).collect();
                for name in &gone {
                    self.read_again(kind, name);
                }
                !gone.is_empty()
            }
        }
    }

    fn read_again(&mut self, kind: Kind, name: &Name) -> bool {
        let was_unreadable = self.unreadable.remove(&(kind, name.clone())).is_some();
        if was_unreadable {
            self.tell(kind, name, Vec::new());
        }
        was_unreadable
    }

    fn tell(&mut self, kind: Kind, name: &Name, diagnostics: Vec<Diagnostic>) {
        let object = ObjectRef::new(kind, &name.namespace, &name.name);
        self.report(Changes {
            diagnoses: vec![(object, diagnostics)],
            ..Changes::default()
        });
    }
}
