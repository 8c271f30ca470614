//! Manifests in files that are followed as they change.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use picket_cluster::{Addresses, Event, Snapshot};
use picket_policy::{Diagnostic, Labels, ObjectRef, Options};
use tokio::time::sleep;

use crate::files::{Text, read};
use crate::kube::{Change, Health};
use crate::load::load_texts;

/// What reading the files is called in [`Health::kinds`].
const FILES: &str = "files";

/// Manifests in files and directories, for a node without a cluster to ask.
#[derive(Clone, Debug)]
pub struct Directory {
    /// The files and directories.
    pub paths: Vec<PathBuf>,
    /// How often to look whether they have changed.
    pub interval: Duration,
}

impl Directory {
    /// Follows the files from now on: `sink` gets every change, and `health` shows how it goes.
    ///
    /// The changes are those that [`Kube::follow`](crate::Kube::follow) would give to whom everything interests; pods without
    /// an address have none made up, and workloads stand for nothing. What changes at once is one change. As long as a file
    /// cannot be read or parsed, what was known before holds, all of it; so does a policy of which nobody can tell any more
    /// what it selects.
    pub async fn follow(&self, health: Health, mut sink: impl FnMut(Change)) -> Infallible {
        let mut known = Known::default();
        sink(Change::Events(vec![Event::Init]));
        health.note(FILES, |_| {});
        loop {
            match known.look(&self.paths) {
                Ok(changes) => {
                    health.note(FILES, |health| {
                        health.answered();
                        health.complete = true;
                        health.lists += u64::from(!changes.is_empty());
                    });
                    changes.into_iter().for_each(&mut sink);
                }
                Err(why) => health.note(FILES, |health| health.failed(why)),
            }
            sleep(self.interval).await;
        }
    }
}

/// What files said when they last could be read.
#[derive(Default)]
struct Known {
    texts: Option<Vec<Text>>,
    snapshot: Snapshot,
    diagnoses: BTreeMap<ObjectRef, Vec<Diagnostic>>,
}

impl Known {
    /// What changed since the last time.
    ///
    /// # Errors
    /// Why nobody can tell.
    fn look(&mut self, paths: &[PathBuf]) -> Result<Vec<Change>, String> {
        let texts = read(paths, &mut io::empty()).map_err(|error| error.to_string())?;
        if self.texts.as_ref() == Some(&texts) {
            return Ok(Vec::new());
        }
        // As all others that read these files: whoever has proved what they mean gets just that.
        let loaded = load_texts(&texts, Options::default());
        if let Some(gap) = loaded.gap() {
            return Err(gap);
        }
        let mut diagnoses: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for diagnostic in loaded.diagnostics {
            let object = diagnostic.object.clone();
            let object = object.unwrap_or_else(|| ObjectRef::new("File", "", place(&diagnostic)));
            diagnoses.entry(named(&object)).or_default().push(diagnostic);
        }
        let mut now = as_followed(loaded.snapshot);
        for (object, policy) in &self.snapshot.policies {
            if diagnoses.contains_key(&named(object)) && !now.policies.contains_key(object) {
                now.policies.insert(object.clone(), Arc::clone(policy));
            }
        }
        let mut events = self.snapshot.events_to(&now);
        if self.texts.is_none() {
            events.push(Event::InitDone);
        }
        let mut changes = Vec::new();
        if !events.is_empty() {
            changes.push(Change::Events(events));
        }
        let objects: BTreeSet<_> = self.diagnoses.keys().chain(diagnoses.keys()).collect();
        for object in objects {
            let found = diagnoses.get(object);
            if self.diagnoses.get(object) != found {
                let found = found.cloned().unwrap_or_default();
                changes.push(Change::Diagnosis(object.clone(), found));
            }
        }
        (self.texts, self.snapshot, self.diagnoses) = (Some(texts), now, diagnoses);
        Ok(changes)
    }
}

/// An object by its name alone.
fn named(object: &ObjectRef) -> ObjectRef {
    ObjectRef::new(&object.kind, &object.namespace, &object.name)
}

/// The file that a diagnostic is about.
fn place(diagnostic: &Diagnostic) -> &str {
    diagnostic.labels.first().map_or("", |label| &label.span.file)
}

/// Only what there is in a cluster and policies can see: no workloads, no addresses that are made up, and of services the
/// addresses.
fn as_followed(mut snapshot: Snapshot) -> Snapshot {
    for service in snapshot.services.values_mut() {
        service.selector = Labels::default();
        service.ports.clear();
    }
    snapshot
        .pods
        .retain(|_, pod| !pod.is_workload() && pod.is_managed());
    for pod in snapshot.pods.values_mut() {
        let is_made_up = pod.synthetic || pod.attachments.iter().any(|attachment| attachment.synthetic);
        if !is_made_up {
            continue;
        }
        let pod = Arc::make_mut(pod);
        if std::mem::take(&mut pod.synthetic) {
            pod.addresses = Addresses::default();
        }
        for attachment in &mut pod.attachments {
            if std::mem::take(&mut attachment.synthetic) {
                attachment.addresses = Addresses::default();
            }
        }
    }
    snapshot
}

#[cfg(test)]
mod tests {
    use std::fs;

    use picket_cluster::Store;

    use super::*;

    const POLICY: &str = "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: web, namespace: shop}, \
                          spec: {podSelector: {}}}";

    const SERVICE: &str = "{apiVersion: v1, kind: Service, metadata: {name: web, namespace: shop}, \
                           spec: {clusterIP: 10.96.0.1, selector: {app: web}, ports: [{port: 80}]}}";

    fn pod(label: &str) -> String {
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: web, namespace: shop, labels: {{app: {label}}}}}, \
             spec: {{nodeName: here}}, status: {{podIP: 10.0.0.1}}}}"
        )
    }

    /// The state after some changes, and in how many events.
    fn apply(store: &mut Store, changes: &[Change]) -> usize {
        let events = changes.iter().filter_map(|change| match change {
            Change::Events(events) => Some(events.clone()),
            _ => None,
        });
        let events: Vec<_> = events.flatten().collect();
        events.iter().for_each(|event| store.apply(event.clone()));
        events.len()
    }

    /// A file that is followed.
    struct Followed {
        folder: tempfile::TempDir,
        known: Known,
        store: Store,
    }

    impl Followed {
        fn new() -> Self {
            Self {
                folder: tempfile::tempdir().unwrap(),
                known: Known::default(),
                store: Store::new(),
            }
        }

        /// Takes in what the file says now; in how many events.
        fn look(&mut self, text: &str) -> usize {
            fs::write(self.folder.path().join("all.yaml"), text).unwrap();
            let changes = self.known.look(&[self.folder.path().to_owned()]).unwrap();
            apply(&mut self.store, &changes)
        }
    }

    #[test]
    fn what_is_known_is_what_files_say() {
        let folder = tempfile::tempdir().unwrap();
        let paths = [folder.path().to_owned()];
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        let (mut known, mut store) = (Known::default(), Store::new());
        assert!(known.look(&paths).is_err(), "nothing is there");
        write("policy.yaml", POLICY);
        write("pod.yaml", &pod("a"));
        let changes = known.look(&paths).unwrap();
        assert!(matches!(&changes[0], Change::Events(events) if events.last() == Some(&Event::InitDone)));
        apply(&mut store, &changes);
        assert_eq!(
            (store.snapshot().pods.len(), store.snapshot().policies.len()),
            (1, 1)
        );
        assert_eq!(known.look(&paths), Ok(Vec::new()));
        write("pod.yaml", &pod("b"));
        assert_eq!(apply(&mut store, &known.look(&paths).unwrap()), 1);
        // What cannot be parsed says nothing about the rest.
        write("pod.yaml", "{");
        assert!(known.look(&paths).is_err());
        write("pod.yaml", &pod("b"));
        assert_eq!(known.look(&paths), Ok(Vec::new()));
        let before = store.snapshot();
        write(
            "policy.yaml",
            &POLICY.replace("spec: {podSelector: {}}", "spec: 7"),
        );
        let changes = known.look(&paths).unwrap();
        assert!(
            matches!(changes.as_slice(), [Change::Diagnosis(..)]),
            "{changes:?}"
        );
        assert_eq!(store.snapshot(), before);
        fs::remove_file(folder.path().join("policy.yaml")).unwrap();
        apply(&mut store, &known.look(&paths).unwrap());
        assert_eq!(
            (store.snapshot().pods.len(), store.snapshot().policies.len()),
            (1, 0)
        );
    }

    #[test]
    fn a_namespace_that_isolates_as_it_was_proposed_isolates() {
        let mut followed = Followed::new();
        let mut look = |more: &str| {
            followed.look(&format!(
                "{{apiVersion: v1, kind: Namespace, metadata: {{name: shop}}{more}}}"
            ));
            let snapshot = followed.store.snapshot();
            let policies = &snapshot.policies;
            policies.keys().map(ToString::to_string).collect::<Vec<_>>()
        };
        let isolates = ", spec: {networkPolicy: {ingress: {isolation: DefaultDeny}}}";
        assert_eq!(look(""), Vec::<String>::new());
        assert_eq!(look(isolates), ["Namespace shop"]);
        assert_eq!(look(""), Vec::<String>::new());
    }

    #[test]
    fn of_services_the_addresses_are_known() {
        let mut followed = Followed::new();
        let mut look = |text: &str| {
            let events = followed.look(text);
            let snapshot = followed.store.snapshot();
            let services = snapshot.services.values();
            let addresses = services
                .flat_map(|service| &service.addresses)
                .map(ToString::to_string);
            (events, addresses.collect::<Vec<_>>())
        };
        assert_eq!(look(SERVICE).1, ["10.96.0.1"]);
        // Who is behind it, and at which ports, is nothing that policies see.
        let other = SERVICE.replace("80", "81").replace("app: web", "app: api");
        assert_eq!(look(&other), (0, vec!["10.96.0.1".to_owned()]));
        assert_eq!(
            look(&SERVICE.replace("0.1", "0.2")),
            (1, vec!["10.96.0.2".to_owned()])
        );
        assert_eq!(look(POLICY), (2, Vec::new()));
    }
}
