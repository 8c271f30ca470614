//! Rulesets and the places where they are loaded: what `render` prints and `verify` proves.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use clap::{Args, ValueEnum};
use picket_analysis::directory::{Directory, Party, nearest};
use picket_cluster::{Pod, Snapshot};
use picket_dataplane::Shortfall;
use picket_engine::{Engine, Program};
use picket_nftables::custom::{self, CustomRules};

use picket_nftables::model::{InterfaceName, Table};
use picket_nftables::render::documented::{self, OtherEnds, PodView};
use picket_nftables::render::indexed;
use picket_policy::NetworkName;
use picket_source::Loaded;

use crate::arguments::CustomRuleArguments;

/// Which ruleset.
#[derive(Args, Clone, Debug)]
pub(crate) struct PlaceArguments {
    /// What enforces the policies
    #[arg(long, value_enum)]
    target: Target,

    /// How the ruleset is laid out
    #[arg(long, value_enum, default_value_t)]
    layout: Layout,

    /// The node whose pods are policed, for the indexed layout; needed when there are several
    #[arg(long, value_name = "NAME", conflicts_with = "pod")]
    node: Option<String>,

    /// The pod in whose network namespace the ruleset is loaded, for the documented layout
    #[arg(long, value_name = "NS/POD", required_if_eq("layout", "documented"))]
    pod: Option<String>,

    /// The interface of the pod on the cluster network, for the documented layout
    #[arg(long, value_name = "NAME", default_value = "eth0")]
    interface: String,
}

/// What enforces the policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Target {
    /// nftables, the packet filter of Linux
    Nftables,
    /// Access control lists of VPP's ACL plugin
    VppAcl,
    /// Rules of VPP's session layer, for pods whose sockets are VPP's own
    VppSession,
    /// Security groups of OpenStack Neutron, for pods on ports of its networks
    Neutron,
}

/// How the ruleset is laid out.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(crate) enum Layout {
    /// For a node: constant work per new connection, however many policies there are
    #[default]
    Indexed,
    /// For a pod's own network namespace: one chain per policy, as multi-networkpolicy documents it
    Documented,
}

/// Where a ruleset is loaded.
pub(crate) enum Place {
    /// On a node; `None` for one node that runs every pod.
    Node(Option<String>),
    /// In the network namespace of a pod.
    Pod(PodPlace),
}

/// A pod with what its networks say.
pub(crate) struct PodPlace {
    /// The pod.
    pub(crate) pod: Arc<Pod>,
    /// Its interface on the cluster network.
    pub(crate) interface: InterfaceName,
    /// Its secondary networks, each as it sees the cluster.
    pub(crate) networks: Vec<(NetworkName, Snapshot, Engine)>,
}

impl PlaceArguments {
    /// The place that the arguments name.
    pub(crate) fn find(
        &self,
        loaded: &Loaded,
        program: &Program,
        custom: &[CustomRules],
    ) -> anyhow::Result<Place> {
        match self.layout {
            Layout::Indexed => Ok(Place::Node(self.node(loaded)?)),
            Layout::Documented => Ok(Place::Pod(self.pod(loaded, program, custom)?)),
        }
    }

    /// What enforces the policies.
    pub(crate) fn target(&self) -> Target {
        self.target
    }

    /// The node that the arguments name, for a target of VPP; `None` for one that runs every pod.
    pub(crate) fn vpp_node(&self, loaded: &Loaded) -> anyhow::Result<Option<String>> {
        match self.layout {
            Layout::Indexed => self.node(loaded),
            Layout::Documented => bail!("`--layout` is for `--target nftables`: VPP has one"),
        }
    }

    /// Fails when a place is named, for a target that has one for the whole cluster.
    pub(crate) fn none_for_neutron(&self) -> anyhow::Result<()> {
        match (&self.node, &self.pod, self.layout) {
            (None, None, Layout::Indexed) => Ok(()),
            _ => bail!(
                "`--node`, `--pod` and `--layout` are for other targets: Neutron has groups for the whole cluster"
            ),
        }
    }

    /// The interface of pods on the cluster network.
    pub(crate) fn interface(&self) -> &str {
        &self.interface
    }

    /// Fails when custom rules are given for a layout that has no place for them.
    pub(crate) fn allows(&self, custom: &CustomRuleArguments) -> anyhow::Result<()> {
        match self.layout {
            Layout::Documented => Ok(()),
            Layout::Indexed => custom.none_for_indexed(),
        }
    }

    /// How the ruleset is laid out.
    pub(crate) fn layout(&self) -> Layout {
        self.layout
    }

    fn node(&self, loaded: &Loaded) -> anyhow::Result<Option<String>> {
        if self.pod.is_some() {
            bail!("`--pod` is for `--layout documented`: everything else is for a node, write `--node`");
        }
        let nodes = &loaded.snapshot.nodes;
        let names = || nodes.keys().map(|name| name.to_string());
        match &self.node {
            Some(name) if nodes.contains_key(name.as_str()) => Ok(Some(name.clone())),
            Some(name) => {
                let (near, _) = nearest(name, names(), 3);
                let near = if near.is_empty() {
                    "the input has no nodes: leave `--node` out".to_owned()
                } else {
                    format!("did you mean `{}`?", near.join("` or `"))
                };
                bail!("no node is called `{name}`; {near}");
            }
            None if nodes.len() > 1 => {
                let some: Vec<_> = names().take(3).collect();
                bail!(
                    "the input has {} nodes: name one with `--node`, such as `{}`",
                    nodes.len(),
                    some.join("` or `")
                );
            }
            // A single node runs every pod, also those that nobody has placed yet.
            None => Ok(None),
        }
    }

    fn pod(&self, loaded: &Loaded, program: &Program, custom: &[CustomRules]) -> anyhow::Result<PodPlace> {
        let asked = self.pod.as_deref().unwrap_or_default();
        let directory = Directory::new(&loaded.snapshot);
        let Party::Pod(pod) = directory.find(asked).context("pod")? else {
            bail!("`{asked}` is no pod: write `namespace/pod`, or `namespace/Kind/name` for a workload");
        };
        let interface = InterfaceName::new(&self.interface)
            .with_context(|| format!("`{}` cannot be the name of an interface", self.interface))?;
        if pod
            .attachments
            .iter()
            .any(|own| own.interface == interface.as_str())
        {
            bail!(
                "`{interface}` is an interface of pod `{asked}` on a secondary network: name another with \
                 `--interface`"
            );
        }
        let names: BTreeSet<_> = pod.attachments.iter().map(|own| &own.network).collect();
        let networks = names.into_iter().map(|network| {
            let mut snapshot = loaded.snapshot.on(network);
            custom::add(custom, &mut snapshot, &self.interface);
            let engine = Engine::compile(&snapshot, program.semantics().clone());
            (network.clone(), snapshot, engine)
        });
        Ok(PodPlace {
            networks: networks.collect(),
            pod,
            interface,
        })
    }
}

impl Place {
    /// The ruleset of the policies here, and what it cannot say.
    pub(crate) fn table(
        &self,
        program: &Program,
        custom: Vec<CustomRules>,
    ) -> anyhow::Result<(Table, Vec<Shortfall>)> {
        match self {
            Self::Node(node) => Ok((indexed::render(program, node.as_deref())?, Vec::new())),
            Self::Pod(place) => place.table(program, custom),
        }
    }
}

impl PodPlace {
    fn table(&self, program: &Program, custom: Vec<CustomRules>) -> anyhow::Result<(Table, Vec<Shortfall>)> {
        let mut view = PodView::of(program, &OtherEnds::default(), &self.pod.object, &self.interface)
            .with_context(|| format!("nothing is known of pod `{}`", self.pod.id()))?;
        for (network, _, engine) in &self.networks {
            let attached = view.attach(engine.program(), &OtherEnds::default(), network);
            attached
                .map_err(|names| anyhow!("`{}` cannot be the name of an interface", names.join("`, `")))?;
        }
        let semantics = program.semantics();
        let options = documented::Options {
            accept_icmp: semantics.accept_icmp,
            accept_icmpv6: semantics.accept_icmpv6,
            custom,
            ..documented::Options::default()
        };
        Ok(documented::render(&view, &options)?)
    }
}
