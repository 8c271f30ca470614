//! From what each pod may exchange to the lists of the interfaces of its node.
//!
//! VPP judges what a pod sends before it translates the addresses of services, and what it sends to a pod afterwards. So
//! what counts is judged on the way to a pod, or out of the node, where both ends have their own addresses: the list to a
//! pod holds what the pod may receive and what other pods of the node may send to it, and the global list of the interfaces
//! that lead out holds what each pod of the node may send. On the way from a pod its own egress rules are judged too, but
//! for addresses of services; what passes there is reflected, so that replies pass on the way back.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use picket_engine::Program;
use picket_policy::ObjectRef;
use smol_str::SmolStr;

use super::model::Acls;
use super::node::NodeAcls;
use super::renderer::Renderer;
use crate::lists::Lists;
use crate::value::Values;

/// What lists depend on besides the policies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The interfaces that lead out of the node, or to the node itself.
    pub uplinks: Vec<SmolStr>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            uplinks: vec!["uplink".into()],
        }
    }
}

/// The lists of one node, or with `None` of one node that runs every pod.
///
/// Interfaces of pods have the names of the pods.
pub fn render(program: &Program, node: Option<&str>, options: &Options) -> Acls {
    let mut renderer = Renderer::new(node, options.clone());
    renderer.advance(program);
    renderer.into_acls()
}

/// The lists of pods of which it is known what each may receive and send, and of services with these addresses.
pub fn render_lists(
    pods: &BTreeMap<ObjectRef, Lists>,
    services: &[IpAddr],
    options: &Options,
    values: &mut Values,
) -> Acls {
    let mut node = NodeAcls::of_rules(options.clone());
    let each = pods.iter().map(|(pod, lists)| {
        let interface = format!("{}/{}", pod.namespace, pod.name).into();
        (pod.clone(), Some((interface, Arc::new(lists.clone()))))
    });
    node.advance(&each.collect(), Some(services.iter().copied().collect()), values);
    node.into_acls()
}
