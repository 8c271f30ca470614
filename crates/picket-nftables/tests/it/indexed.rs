//! The indexed layout: against the reference, and in the kernel.

mod in_transit;
pub(crate) mod kernel;
pub(crate) mod meaning;
mod renderer;

use picket_cluster::{Semantics, Snapshot};
use picket_engine::Engine;
use picket_nftables::model::{InterfaceName, Table};
use picket_nftables::render::indexed::{self, Guard, Options};

/// The group that denied packets are logged to.
const LOG_GROUP: u16 = 5;

/// A node that looks at the way back of what does not come by `net1`.
pub(crate) fn guard() -> Guard {
    Guard {
        uplinks: InterfaceName::new("net1").into_iter().collect(),
        anti_spoof: true,
    }
}

/// The table of one node, or of all pods.
fn table(snapshot: &Snapshot, node: Option<&str>) -> Table {
    rendered(snapshot, &Semantics::default(), node, None)
}

/// With all that a table can have.
pub(crate) fn table_with(snapshot: &Snapshot, semantics: &Semantics, node: Option<&str>) -> Table {
    rendered(snapshot, semantics, node, Some(guard()))
}

fn rendered(snapshot: &Snapshot, semantics: &Semantics, node: Option<&str>, guard: Option<Guard>) -> Table {
    let engine = Engine::compile(snapshot, semantics.clone());
    let options = Options {
        log_denied: Some(LOG_GROUP),
        guard,
    };
    indexed::render_with(engine.program(), node, &options).expect("a table")
}
