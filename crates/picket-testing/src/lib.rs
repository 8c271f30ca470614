//! Builders, generators and readable cases shared by the tests of every crate.
//!
//! - [`program`]: programs of others that tests run.
//! - [`apiserver`]: a real Kubernetes API server.
//! - [`etcd`]: a real etcd.
//! - [`neutron`]: a real Neutron, and a real Keystone.
//! - [`faults`]: what goes wrong between a client and a server over HTTP.
//! - `runtime`: real container runtimes, each on a node of its own, with the feature `runtime`.
//! - [`build`]: objects in one line each, as in `pod("x/web").label("app", "web").ip("10.0.0.5")`.
//! - [`applications`]: applications that exchange something, as many as one likes.
//! - [`generate`]: proptest strategies for random clusters, policies and event sequences.
//! - [`cases`]: Markdown files with manifests and the verdicts they must give.
//! - [`machine`]: the virtual machine that tests of other kernels run in.
//! - [`manifest`]: objects as the manifests that say them, in any of the ways to write them.
//! - [`reflected`]: a cluster as a reflector keeps it in etcd.
//! - [`replaced`]: what the program that picket replaces in pods has left in them.
//! - [`ran`]: how a program ended, and what it printed.
//! - [`confined`]: where the kernel refuses what is large.
//! - [`flows`]: the packets that tell policies of a snapshot apart.
//! - [`synthetic`]: large clusters with the shape of real ones.
//!
//! Nothing here evaluates policies: an evaluator tested with these must not be tested against itself.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "test support: a wrong literal in a test must fail that test at once"
)]

pub mod apiserver;
pub mod applications;
pub mod build;
pub mod cases;
pub mod confined;
pub mod etcd;
pub mod faults;
pub mod flows;
pub mod generate;
pub mod http;
pub mod lost;
pub mod machine;
pub mod manifest;
pub mod neutron;
pub mod program;
pub mod ran;
pub mod reflected;
pub mod replaced;
#[cfg(feature = "runtime")]
pub mod runtime;
pub mod signal;
pub mod synthetic;
