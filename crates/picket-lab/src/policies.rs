//! picket's own enforcement: verdicts of the engine, rulesets of the nftables target.

use std::collections::BTreeMap;

use picket_cluster::{Flow, Judgement, Semantics, Snapshot};
use picket_engine::Engine;
use picket_nftables::model::{InterfaceName, Table};
use picket_nftables::print;
use picket_nftables::render::{documented, indexed};

use crate::{Compile, Enforcement, Error, Place, Topology};

/// Where and how policies are enforced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// One table on every node.
    #[default]
    Indexed,
    /// One table inside every pod.
    Documented,
}

/// A compiler of snapshots to `layout`.
pub fn compile(layout: Layout, semantics: &Semantics) -> Compile {
    let semantics = semantics.clone();
    Box::new(move |snapshot: &Snapshot| {
        Ok(Box::new(Policies {
            engine: Engine::compile(snapshot, semantics.clone()),
            layout,
        }))
    })
}

struct Policies {
    engine: Engine,
    layout: Layout,
}

impl Enforcement for Policies {
    fn judge(&self, flow: &Flow) -> Judgement {
        self.engine.program().judge(flow)
    }

    fn rulesets(&self, topology: &Topology) -> Result<BTreeMap<Place, String>, Error> {
        let enforcing = topology.places().into_iter().filter(|place| {
            matches!(
                (self.layout, place),
                (Layout::Indexed, Place::Node(_)) | (Layout::Documented, Place::Pod(_))
            )
        });
        enforcing
            .map(|place| {
                let table = self.table(&place).map_err(|message| Error::Render {
                    place: Box::new(place.clone()),
                    message,
                })?;
                Ok((place, print::text(&table)))
            })
            .collect()
    }
}

impl Policies {
    fn table(&self, place: &Place) -> Result<Table, String> {
        let program = self.engine.program();
        match place {
            Place::Node(name) => indexed::render(program, Some(name)).map_err(|error| error.to_string()),
            Place::Pod(pod) => {
                let interface =
                    InterfaceName::new("eth0").ok_or_else(|| "`eth0` is no interface".to_owned())?;
                let view = documented::PodView::of(program, pod, &interface)
                    .ok_or_else(|| "the engine does not know the pod".to_owned())?;
                let semantics = program.semantics();
                let options = documented::Options {
                    accept_icmp: semantics.accept_icmp,
                    accept_icmpv6: semantics.accept_icmpv6,
                    custom: Vec::new(),
                };
                // What the layout cannot say it narrows, and then the grid shows it.
                let (table, _narrowed) =
                    documented::render(&view, &options).map_err(|error| error.to_string())?;
                Ok(table)
            }
            Place::Fabric | Place::External(_) => Err("nothing is enforced there".to_owned()),
        }
    }
}
