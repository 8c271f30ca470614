//! picket's own enforcement: verdicts of the engine, rulesets of the nftables target.

use std::collections::{BTreeMap, BTreeSet};

use picket_cluster::{Flow, Judgement, Semantics, Snapshot};
use picket_engine::Engine;
use picket_net::AddressSet;
use picket_nftables::custom::{self, CustomRules};
use picket_nftables::model::{InterfaceName, Table};
use picket_nftables::print;
use picket_nftables::render::documented::{self, OtherEnds, PodView};
use picket_nftables::render::indexed;
use picket_policy::{NetworkName, ObjectRef};

use crate::attached::wire;
use crate::topology::CLUSTER_INTERFACE;
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

/// Adds custom rules to what a lab is built from, in place of those that were added before.
pub fn add_custom_rules(rules: &[CustomRules], snapshot: &mut Snapshot) {
    custom::add(rules, snapshot, &CLUSTER_INTERFACE);
}

/// A compiler of snapshots to `layout`. Snapshots have the custom rules of [`add_custom_rules`].
pub fn compile(layout: Layout, semantics: &Semantics, custom: &[CustomRules]) -> Compile {
    let (semantics, custom) = (semantics.clone(), custom.to_vec());
    Box::new(move |snapshot: &Snapshot| {
        let networks = snapshot.attached_networks().into_keys();
        let wires: BTreeSet<_> = networks.map(|network| wire(snapshot, network)).collect();
        Ok(Box::new(Policies {
            cluster: Engine::compile(snapshot, semantics.clone()),
            wires: wires
                .into_iter()
                .map(|network| {
                    let mut on = snapshot.on(&network);
                    custom::add(&custom, &mut on, &CLUSTER_INTERFACE);
                    let engine = Engine::compile(&on, semantics.clone());
                    (network, engine)
                })
                .collect(),
            nowhere: Engine::new(semantics.clone()),
            layout,
            custom: custom.clone(),
        }))
    })
}

struct Policies {
    /// The cluster network.
    cluster: Engine,
    /// By the first of the networks on each.
    wires: BTreeMap<NetworkName, Engine>,
    /// A network that nothing is on.
    nowhere: Engine,
    layout: Layout,
    custom: Vec<CustomRules>,
}

impl Enforcement for Policies {
    fn judge(&self, network: Option<&NetworkName>, flow: &Flow) -> Judgement {
        let engine = match network {
            None => &self.cluster,
            Some(network) => self.wires.get(network).unwrap_or(&self.nowhere),
        };
        engine.program().judge(flow)
    }

    fn rulesets(&self, topology: &Topology) -> Result<BTreeMap<Place, String>, Error> {
        // No node sees what goes over secondary networks: each pod enforces that itself.
        let enforcing = topology.places().into_iter().filter(|place| match place {
            Place::Node(_) => self.layout == Layout::Indexed,
            Place::Pod(_) => self.layout == Layout::Documented || !topology.attachments_of(place).is_empty(),
            Place::Fabric | Place::Network(_) | Place::External(..) => false,
        });
        enforcing
            .map(|place| {
                let table = self.table(&place, topology).map_err(|message| Error::Render {
                    place: Box::new(place.clone()),
                    message,
                })?;
                Ok((place, print::text(&table)))
            })
            .collect()
    }
}

impl Policies {
    fn table(&self, place: &Place, topology: &Topology) -> Result<Table, String> {
        match place {
            Place::Node(name) => {
                indexed::render(self.cluster.program(), Some(name)).map_err(|error| error.to_string())
            }
            Place::Pod(pod) => self.table_of_pod(pod, topology),
            Place::Fabric | Place::Network(_) | Place::External(..) => {
                Err("nothing is enforced there".to_owned())
            }
        }
    }

    fn table_of_pod(&self, pod: &ObjectRef, topology: &Topology) -> Result<Table, String> {
        let mut view = match self.layout {
            // Its node enforces what policies say of the cluster network.
            Layout::Indexed => PodView {
                pod: pod.clone(),
                interfaces: Vec::new(),
                own_node: AddressSet::default(),
                policies: Vec::new(),
            },
            Layout::Documented => {
                let interface = InterfaceName::new(&CLUSTER_INTERFACE)
                    .ok_or_else(|| format!("`{CLUSTER_INTERFACE}` is no interface"))?;
                PodView::of(self.cluster.program(), &OtherEnds::default(), pod, &interface)
                    .ok_or_else(|| "the engine does not know the pod".to_owned())?
            }
        };
        let attachments = topology.attachments_of(&Place::Pod(pod.clone())).into_iter();
        let networks: BTreeSet<_> = attachments.map(|attachment| &attachment.network).collect();
        for network in networks {
            let engine = self.wires.get(&topology.wire(network)).unwrap_or(&self.nowhere);
            let attached = view.attach(engine.program(), &OtherEnds::default(), network);
            attached
                .map_err(|names| format!("`{}` cannot be the name of an interface", names.join("`, `")))?;
        }
        let semantics = self.cluster.program().semantics();
        let options = documented::Options {
            accept_icmp: semantics.accept_icmp,
            accept_icmpv6: semantics.accept_icmpv6,
            custom: self.custom.clone(),
            ..documented::Options::default()
        };
        // What the layout cannot say it narrows, and then the grid shows it.
        let (table, _narrowed) = documented::render(&view, &options).map_err(|error| error.to_string())?;
        Ok(table)
    }
}
