//! Objects of which nobody can tell what they are now.

use picket_policy::{Diagnostic, ObjectRef};

use super::{Changes, Kind, Live, Name, Step};

impl Live {
    /// An object is there, in the list that comes in or as an event, and nobody can tell what it is: it is what it was before.
    pub(crate) fn unreadable(&mut self, kind: Kind, name: &Name, why: Diagnostic) -> Changes {
        let list = self.lists.entry(kind).or_default();
        list.named.insert(name.clone());
        let object = (kind, name.clone());
        self.unreadable.remove(&object);
        self.tell(kind, name, vec![why]);
        self.unreadable.insert(object);
        std::mem::take(&mut self.changes)
    }

    /// The first of such objects.
    pub(crate) fn first_unreadable(&self) -> Option<ObjectRef> {
        let (kind, name) = self.unreadable.first()?;
        Some(ObjectRef::new(kind, &name.namespace, &name.name))
    }

    /// Whether nobody can tell what an object is now: until one can, nothing else is said of it, whatever becomes of others.
    pub(super) fn is_unreadable(&self, object: &ObjectRef) -> bool {
        let name = || Name {
            namespace: object.namespace.clone(),
            name: object.name.clone(),
        };
        !self.unreadable.is_empty() && self.unreadable.contains(&(object.kind.as_str(), name()))
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
                let of_kind = self.unreadable.iter().filter(|(of, _)| *of == kind);
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
        let was_unreadable = self.unreadable.remove(&(kind, name.clone()));
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
