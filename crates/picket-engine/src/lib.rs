//! Selectors become identities, policies become allow sets, events become deltas.
//!
//! ```
//! use picket_cluster::{Event, Flow, Semantics, Verdict, Written, assemble, parse};
//! use picket_engine::Engine;
//! use picket_net::{Family, Protocol};
//! use picket_policy::{Options, lower, read};
//!
//! let text = b"
//! {apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop, labels: {app: web}}}
//! ---
//! {apiVersion: v1, kind: Pod, metadata: {name: db, namespace: shop, labels: {app: db}}}
//! ---
//! apiVersion: networking.k8s.io/v1
//! kind: NetworkPolicy
//! metadata: {name: db, namespace: shop}
//! spec:
//!   podSelector: {matchLabels: {app: db}}
//!   ingress: [{from: [{podSelector: {matchLabels: {app: web}}}], ports: [{port: 5432}]}]
//! ";
//! let (manifests, mut diagnostics) = read(&"shop.yaml".into(), text);
//! let mut objects = Vec::new();
//! for manifest in &manifests {
//!     match lower(manifest, Options::default()).and_then(|lowered| lowered.policy) {
//!         Some(policy) => objects.push(Written::policy(manifest, policy)),
//!         None => objects.extend(parse(manifest, &mut diagnostics)),
//!     }
//! }
//! let (snapshot, _) = assemble(objects);
//! let mut engine = Engine::compile(&snapshot, Semantics::default());
//!
//! let end = |name| snapshot.endpoint_at(snapshot.pod("Pod", "shop", name).unwrap().addresses.v4.unwrap().into());
//! let flow = Flow {
//!     source: end("web"),
//!     destination: end("db"),
//!     family: Family::Ipv4,
//!     protocol: Protocol::TCP,
//!     port: 80,
//! };
//! let judgement = engine.program().judge(&flow);
//! assert_eq!(judgement.verdict(), Verdict::Deny);
//! assert_eq!(judgement.ingress.causes[0].object.name, "db");
//!
//! // Events change the program in place, and say what changed.
//! let delta = engine.apply(Event::Delete(judgement.ingress.causes[0].object.clone()));
//! assert!(!delta.is_empty());
//! assert_eq!(engine.program().judge(&flow).verdict(), Verdict::Allow);
//! ```
//!
//! The shape of it, in the order in which things depend on each other:
//! - [`slab`], [`multimap`]: small keys, interned values, posting lists.
//! - [`label`], [`namespace`], [`term`], [`selection`]: which selectors match which labels, without asking each about
//!   each.
//! - [`partition`]: members with equal terms form classes; a term that comes splits them, one that goes merges them.
//! - [`atom`]: the prefixes of all blocks as a tree, whose nodes are such members.
//! - [`group`]: pods with the same namespace, labels and ports, which are such members too.
//! - [`identity`]: a class of selectors together with a class of blocks.
//! - [`policy`], [`subject`], [`universal`], [`allow`]: policies in these terms, who they are about, and what they then
//!   allow.
//! - [`program`], [`judge`], [`view`], [`equivalence`]: reading.
//! - [`identify`], [`grouping`], [`lowering`], [`apply`], [`commit`], [`delta`]: writing.

#![expect(
    clippy::indexing_slicing,
    reason = "INVARIANT: only slabs and interners are indexed, by keys that never leave the engine and are dropped with \
              the values that they stand for; slices are not"
)]

mod alike;
mod allow;
mod apply;
mod atom;
mod commit;
mod delta;
mod equivalence;
mod fold;
mod group;
mod grouping;
mod identify;
mod identity;
mod judge;
mod known;
mod label;
mod lowering;
mod multimap;
mod namespace;
mod partition;
mod policy;
mod program;
mod selection;
mod slab;
mod subject;
mod term;
mod universal;
mod view;

pub use allow::AllowSet;
pub use apply::Engine;
pub use delta::{Change, Comings, Delta, PodState};
pub use equivalence::equivalent;
pub use identity::{Identity, IdentitySet};
pub use program::{PodRef, Program};
pub use subject::SubjectId;
pub use view::{Blocks, PeerView, PolicyView, RuleView, SideView};
