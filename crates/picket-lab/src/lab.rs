//! A standing lab: network, servers and the rulesets that are in force.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use crate::loaded::Loaded;
use crate::{
    Cell, Error, Expectation, Grid, Host, HostKind, Network, Observation, Place, Ports, Probe, Progress,
    Servers, Topology, all_pairs, ask,
};
use picket_cluster::{Flow, Judgement, Snapshot, Verdict};
use picket_policy::NetworkName;

/// What decides about flows, and the rulesets that make it so.
pub trait Enforcement: Send {
    /// The verdict that policies give to a flow on a secondary network, or on the cluster network (`None`).
    fn judge(&self, network: Option<&NetworkName>, flow: &Flow) -> Judgement;

    /// For each place that enforces, the text that `nft -f` loads in one transaction, replacing what was loaded before.
    ///
    /// # Errors
    /// [`Error::Render`] when the policies cannot be expressed.
    fn rulesets(&self, topology: &Topology) -> Result<BTreeMap<Place, String>, Error>;
}

/// Makes the enforcement of a snapshot.
pub type Compile = Box<dyn Fn(&Snapshot) -> Result<Box<dyn Enforcement>, Error> + Send>;

/// What a lab is made of besides its snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Lab nodes over which pods without a node are spread.
    pub nodes: usize,
    /// Addresses outside the cluster that get a host, besides those that policies call for, with the secondary network
    /// that they are on (`None`: behind the fabric).
    pub outside: BTreeSet<(Option<NetworkName>, IpAddr)>,
    /// How long a probe waits for its answer.
    pub timeout: Duration,
}

/// A lab that stands. Dropping it removes everything.
pub struct Lab {
    shape: Shape,
    compile: Compile,
    topology: Topology,
    /// Held for their threads, and ended before the network is.
    servers: Servers,
    ports: Ports,
    /// Ports that somebody asked for, besides those that the snapshot names.
    asked: Vec<Expectation>,
    enforcement: Box<dyn Enforcement>,
    loaded: Loaded,
    network: Network,
    round: u16,
}

/// What a change of policies changed.
#[derive(Debug)]
pub struct Changes {
    /// Every probe between hosts that were there before whose verdict changed, with the new verdict, and what the wire
    /// says now.
    pub grid: Grid,
    /// How many rulesets were replaced.
    pub rulesets: usize,
    /// How many were there.
    pub of: usize,
}

impl Lab {
    /// Builds the network of `snapshot`, loads its rulesets and starts its servers. `expectations` may name addresses
    /// and ports that are to be probed.
    ///
    /// # Errors
    /// What could not be planned, built, rendered or loaded; nothing is left behind.
    pub fn up(
        snapshot: &Snapshot,
        mut shape: Shape,
        expectations: &[Expectation],
        compile: Compile,
        progress: &Progress,
    ) -> Result<Self, Error> {
        shape
            .outside
            .extend(expectations.iter().flat_map(Expectation::addresses));
        let topology = Topology::plan(snapshot, shape.nodes, &shape.outside)?;
        let enforcement = compile(&topology.snapshot)?;
        let network = Network::build(&topology, progress)?;
        let mut loaded = Loaded::default();
        loaded.replace(&network, enforcement.rulesets(&topology)?, progress)?;
        let ports = ports_of(&topology.snapshot, expectations);
        let servers = Servers::start(&network, &topology, &ports)?;
        progress.end();
        Ok(Self {
            shape,
            compile,
            topology,
            servers,
            ports,
            asked: expectations.to_vec(),
            enforcement,
            loaded,
            network,
            round: 0,
        })
    }

    /// What was planned.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// What was built.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// The places that have a ruleset.
    pub fn enforced(&self) -> impl Iterator<Item = &Place> {
        self.loaded.places()
    }

    /// How many sockets answer probes.
    pub fn sockets(&self) -> usize {
        self.servers.sockets()
    }

    /// How long a probe waits for its answer.
    pub fn timeout(&self) -> Duration {
        self.shape.timeout
    }

    /// Makes the lab ready for `expectations`: builds external hosts for their addresses, serves their ports.
    ///
    /// # Errors
    /// As [`Lab::up`].
    pub fn prepare(&mut self, expectations: &[Expectation], progress: &Progress) -> Result<(), Error> {
        let addresses: BTreeSet<_> = expectations.iter().flat_map(Expectation::addresses).collect();
        let known = self.shape.outside.is_superset(&addresses);
        self.asked.extend(expectations.iter().cloned());
        if known && ports_of(&self.topology.snapshot, &self.asked) == self.ports {
            return Ok(());
        }
        self.shape.outside.extend(addresses);
        let topology =
            self.topology
                .replan(&self.topology.snapshot, self.shape.nodes, &self.shape.outside)?;
        self.move_to(topology, None, progress)?;
        Ok(())
    }

    /// Probes every pair, on every network or on one secondary network only, and holds what the wire says against the
    /// policies.
    ///
    /// # Errors
    /// [`Error::Kernel`] when sockets cannot be made.
    pub fn probe(
        &mut self,
        network: Option<&NetworkName>,
        timeout: Duration,
        progress: &Progress,
    ) -> Result<Grid, Error> {
        let hosts = &self.topology.hosts;
        let mut probes = all_pairs(&self.topology, &self.ports);
        probes.retain(|probe| network.is_none() || probe.network(hosts) == network);
        self.ask(&probes, timeout, progress)
    }

    /// The secondary network that `name` names, of which there are interfaces; of several on one wire the first.
    ///
    /// # Errors
    /// Text for people.
    pub fn find_network(&self, name: &str) -> Result<NetworkName, String> {
        let attached = self.topology.snapshot.attached_networks();
        let networks: Vec<_> = attached.into_keys().collect();
        if let Some(network) = networks.iter().find(|network| network.to_string() == name) {
            return Ok(self.topology.wire(network));
        }
        let known: Vec<_> = networks.iter().map(|network| format!("`{network}`")).collect();
        Err(match known.len() {
            0 => format!("no pod of the lab is on the network `{name}`, nor on any other secondary network"),
            _ => format!(
                "no pod of the lab is on the network `{name}`; there are {}",
                known.join(", ")
            ),
        })
    }

    /// Lets expectations be about the hosts of the wires that their networks are on.
    pub fn place(&self, expectations: &mut [Expectation]) {
        for expectation in expectations {
            expectation.place(&self.topology);
        }
    }

    /// Changes to the objects of `snapshot`: policies, labels, pods and nodes. Pods that stay keep their place. Then
    /// probes what has changed.
    ///
    /// # Errors
    /// As [`Lab::up`]. When planning or rendering fails nothing has changed; where a ruleset does not load nothing
    /// passes, and all others are in force.
    pub fn apply(&mut self, snapshot: &Snapshot, progress: &Progress) -> Result<Changes, Error> {
        self.change(snapshot, None, progress)
    }

    /// The same, with another compiler from now on.
    ///
    /// # Errors
    /// As [`Lab::apply`].
    pub fn apply_with(
        &mut self,
        snapshot: &Snapshot,
        compile: Compile,
        progress: &Progress,
    ) -> Result<Changes, Error> {
        self.change(snapshot, Some(compile), progress)
    }

    fn change(
        &mut self,
        snapshot: &Snapshot,
        compile: Option<Compile>,
        progress: &Progress,
    ) -> Result<Changes, Error> {
        let topology = self
            .topology
            .replan(snapshot, self.shape.nodes, &self.shape.outside)?;
        // The new enforcement replaces this one, which has to be asked what it said.
        let former = (self.compile)(&self.topology.snapshot)?;
        let before = self.topology.hosts.clone();
        let rulesets = self.move_to(topology, compile, progress)?;
        let hosts = &self.topology.hosts;
        let known: BTreeSet<_> = before.iter().map(Host::key).collect();
        let was_there = |index: usize| {
            hosts
                .get(index)
                .is_some_and(|host| host.kind == HostKind::External || known.contains(&host.key()))
        };
        let differs = |probe: &Probe| {
            let network = probe.network(hosts);
            probe.flow(hosts).is_some_and(|flow| {
                let now = self.enforcement.judge(network, &flow).verdict();
                former.judge(network, &flow).verdict() != now
            })
        };
        let changed: Vec<Probe> = all_pairs(&self.topology, &self.ports)
            .into_iter()
            .filter(|probe| was_there(probe.source) && was_there(probe.destination) && differs(probe))
            .collect();
        let grid = self.ask(&changed, self.shape.timeout, progress)?;
        Ok(Changes {
            grid,
            rulesets,
            of: self.loaded.len(),
        })
    }

    /// Returns how many rulesets were replaced.
    fn move_to(
        &mut self,
        topology: Topology,
        compile: Option<Compile>,
        progress: &Progress,
    ) -> Result<usize, Error> {
        let enforcement = compile.as_ref().unwrap_or(&self.compile)(&topology.snapshot)?;
        let rulesets = enforcement.rulesets(&topology)?;
        let new = self.network.change(&topology, progress)?;
        let places = topology.places();
        self.loaded
            .keep(|place| places.contains(place) && !new.contains(place));
        self.topology = topology;
        self.enforcement = enforcement;
        if let Some(compile) = compile {
            self.compile = compile;
        }
        let replaced = self.loaded.replace(&self.network, rulesets, progress);
        self.ports = ports_of(&self.topology.snapshot, &self.asked);
        // The old servers hold the addresses of the new ones.
        self.servers.stop();
        self.servers = Servers::start(&self.network, &self.topology, &self.ports)?;
        progress.end();
        replaced
    }

    fn ask(&mut self, probes: &[Probe], timeout: Duration, progress: &Progress) -> Result<Grid, Error> {
        let hosts = &self.topology.hosts;
        let judge = |probe: &Probe| {
            let flow = probe.flow(hosts)?;
            Some(self.enforcement.judge(probe.network(hosts), &flow))
        };
        let expected: Vec<(Probe, Verdict)> = probes
            .iter()
            .filter_map(|probe| Some((*probe, judge(probe)?.verdict())))
            .collect();
        // Each network takes one, so that no two of any run are the same.
        let round = self.round;
        let taken = u16::try_from(self.topology.networks().len()).unwrap_or(u16::MAX);
        self.round = round.wrapping_add(taken);
        let seen = ask(
            &self.network,
            &self.topology,
            &self.ports,
            &expected,
            timeout,
            round,
            progress,
        )?;
        progress.end();
        let cells = expected.into_iter().zip(seen).map(|((probe, expected), seen)| {
            let judgement = (seen.verdict() != Some(expected))
                .then(|| judge(&probe))
                .flatten();
            Cell {
                probe,
                expected,
                seen,
                judgement,
            }
        });
        Ok(Grid::new(hosts, cells.collect()))
    }
}

impl Changes {
    /// One line for each probe whose verdict changed.
    pub fn lines(&self) -> Vec<String> {
        let cells = self.grid.cells().iter();
        cells
            .map(|cell| {
                let wire = match (&cell.seen, cell.agrees()) {
                    (_, true) => String::new(),
                    (Observation::Broken(text), _) => format!(", but the wire: {text}"),
                    (_, false) => ", but the wire says otherwise".to_owned(),
                };
                let verdict = if cell.expected.is_allow() {
                    "now allowed"
                } else {
                    "now denied "
                };
                format!("{verdict} {}{wire}", cell.probe.describe(self.grid.hosts()))
            })
            .collect()
    }
}

fn ports_of(snapshot: &Snapshot, expectations: &[Expectation]) -> Ports {
    let mut ports = Ports::of_snapshot(snapshot);
    for (protocol, port) in expectations.iter().filter_map(Expectation::port) {
        ports.insert(protocol, port);
    }
    ports
}
