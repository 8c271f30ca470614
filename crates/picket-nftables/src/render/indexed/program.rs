//! What a compiled cluster means for one node.

use picket_engine::Program;

use super::restrict::Restrictions;
use super::view::{NodeView, regions};

impl NodeView {
    /// What `node` must know; with `None`, what one node that runs every pod must know.
    pub(super) fn of(program: &Program, node: Option<&str>, restrictions: &mut Restrictions) -> Self {
        let mut view = Self {
            sides: restrictions.update(program, node, None),
            ..Self::default()
        };
        if view.sides.is_empty() {
            return view;
        }
        let endpoints = program.endpoints();
        view.endpoints = endpoints
            .map(|(address, identity)| (address, identity.number()))
            .collect();
        view.regions = prefix_regions(program);
        view
    }
}

/// The identity of every address that no pod and no node has.
pub(super) fn prefix_regions(program: &Program) -> Vec<(picket_net::AddressRange, u32)> {
    let prefixes = program.prefixes().into_iter();
    regions(prefixes.map(|(prefix, identity)| (prefix, identity.number())))
}
