//! Who can talk to whom: verdicts, connectivity maps and their presentation.
//!
//! Pure: questions and compiled policies in, values out. What is written goes to any [`std::io::Write`]; nothing here
//! opens, reads or prints anything.
//!
//! ```
//! use picket_analysis::eval::{Evaluator, Overall};
//! use picket_analysis::map::{By, Map};
//! use picket_cluster::{Semantics, Written, assemble, parse};
//! use picket_engine::Engine;
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
//! let objects = manifests.iter().filter_map(|manifest| {
//!     let policy = lower(manifest, Options::default()).and_then(|lowered| lowered.policy);
//!     let policy = policy.map(|policy| Written::policy(manifest, policy));
//!     policy.or_else(|| parse(manifest, &mut diagnostics))
//! });
//! let (snapshot, _) = assemble(objects.collect());
//! let engine = Engine::compile(&snapshot, Semantics::default());
//!
//! // One question, as people ask it.
//! let evaluator = Evaluator::new(&snapshot, engine.program());
//! let question = evaluator.question("shop/web", "shop/db", "5432/tcp", None)?;
//! assert_eq!(evaluator.answer(&question).verdict, Overall::Allow);
//!
//! // Everything that is allowed.
//! let map = Map::new(&snapshot, engine.program(), By::Pod);
//! let mut to_db = Vec::new();
//! map.try_for_each(|connection| {
//!     if connection.to.id == "shop/db" {
//!         to_db.push(connection.from.id.clone());
//!     }
//!     Ok::<_, std::convert::Infallible>(())
//! })?;
//! assert_eq!(to_db, ["shop/web"]);
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```
//!
//! - [`assertion`]: what people assert about connectivity, and connections that show where it is otherwise.
//! - [`diff`]: what a change does to everything that is allowed.
//! - [`directory`]: what people call the endpoints of a cluster, and what they may have meant.
//! - [`eval`]: one question about one connection, and its answer with causes; batches of them.
//! - [`explain`]: why an answer is what it is, rule by rule, and the smallest change that makes it another.
//! - [`finding`]: diagnostics as JSON.
//! - [`lint`]: what policies say that was probably not meant.
//! - [`map`]: everything that is allowed between all endpoints at once.

pub mod assertion;
pub mod diff;
pub mod directory;
pub mod eval;
pub mod explain;
pub mod finding;
pub mod lint;
pub mod map;
mod xml;
