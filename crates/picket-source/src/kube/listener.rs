//! Who follows a cluster, and what they keep of its objects.

use picket_cluster::Event;
use serde_json::value::RawValue;

use super::follow::Change;
use super::item::Item;
use super::kind::{Kind, Resource};
use super::shape::{NAME, NODE, OBJECT, POD, SERVICE, Shape};
use crate::Text;
use crate::live::{Changes, Facts, Found, Live, Name, Packed, PolicyText, Step, Uid};

/// Who takes in what becomes known of a cluster.
pub(crate) trait Listener {
    /// What it keeps of an object.
    type Object: Kept;

    /// Nothing is known yet.
    fn begin(&mut self);

    /// Something becomes known of a kind.
    fn step(&mut self, kind: &'static Kind, step: Step<Self::Object>);

    /// All changes of a kind have been told up to this `resourceVersion`.
    fn reached(&mut self, kind: &'static Kind, version: String);

    /// Everything is known for the first time.
    fn complete(&mut self);
}

/// What is kept of an object.
pub(crate) trait Kept: Sized + Send + 'static {
    /// What of it is read at all.
    fn shape(kind: &'static Kind) -> Shape;

    /// What is kept of an object of `resource` as the API server writes it; `None` when it is of another kind.
    fn read(resource: &Resource, name: Name, item: Item, raw: &RawValue) -> Option<Self>;
}

/// What is kept of objects of a kind by those who enforce policies.
pub(crate) fn shape(kind: &str) -> Shape {
    match kind {
        "Pod" => POD,
        "Node" => NODE,
        "Service" => SERVICE,
        "NetworkAttachmentDefinition" => NAME,
        _ => OBJECT,
    }
}

impl Found {
    /// What an item of `resource` says; `None` when it is of another kind.
    pub(crate) fn of_item(resource: &Resource, name: Name, item: Item) -> Option<Self> {
        let kind = resource.kind;
        let facts = if kind.is_policy() {
            let text = PolicyText {
                plural: kind.plural,
                uid: Uid::new(item.uid.as_deref().unwrap_or_default()),
                version: item.object_version(),
                object: Packed::new(&item.compact()),
            };
            Facts::Policy(text, None)
        } else {
            let life = item.life.clone();
            let text = Text {
                name: kind.text_name(item.namespace.as_deref(), &name.name).into(),
                bytes: item.compact().into_bytes(),
            };
            Facts::read(&text, life)?
        };
        Some(Self { name, facts })
    }
}

impl Kept for Found {
    fn shape(kind: &'static Kind) -> Shape {
        shape(kind.name)
    }

    fn read(resource: &Resource, name: Name, item: Item, raw: &RawValue) -> Option<Self> {
        let Self { name, facts } = Self::of_item(resource, name, item)?;
        let facts = facts.of_whole(raw.get());
        Some(Self { name, facts })
    }
}

/// Those who enforce policies: they hear what changes of what policies see.
pub(crate) struct Objects<S> {
    pub(crate) live: Live,
    pub(crate) sink: S,
}

impl<S: FnMut(Change)> Objects<S> {
    /// Passes on what changed.
    pub(crate) fn emit(&mut self, changes: Changes) {
        for (policy, version) in changes.versions {
            (self.sink)(Change::Version(policy, version));
        }
        for (network, plugin) in changes.plugins {
            (self.sink)(Change::Plugin(network, plugin));
        }
        if !changes.events.is_empty() {
            (self.sink)(Change::Events(changes.events));
        }
        for (object, diagnostics) in changes.diagnoses {
            (self.sink)(Change::Diagnosis(object, diagnostics));
        }
    }
}

impl<S: FnMut(Change)> Listener for Objects<S> {
    type Object = Found;

    fn begin(&mut self) {
        (self.sink)(Change::Events(vec![Event::Init]));
    }

    fn step(&mut self, kind: &'static Kind, step: Step) {
        let changes = self.live.step(kind.name, step);
        self.emit(changes);
    }

    fn reached(&mut self, kind: &'static Kind, version: String) {
        (self.sink)(Change::Reached {
            kind: kind.full_name().into(),
            version: version.into(),
        });
    }

    fn complete(&mut self) {
        (self.sink)(Change::Events(vec![Event::InitDone]));
    }
}
