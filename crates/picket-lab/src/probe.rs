//! Probes with real packets, all of them from one event loop: sockets stay in the namespace they were made in.
//!
//! Silence is the only sign of a drop, so it is never concluded from one packet: what is not answered is sent again,
//! and what is silent against expectation is asked a third time, slowly.

use std::time::Duration;

use picket_cluster::{Flow, Verdict};
use picket_net::{Family, Protocol};
use picket_policy::NetworkName;

use crate::progress::Progress;
use crate::session::{Pace, Session};
use crate::{Error, Host, HostKind, Network, Ports, Topology};

/// One question to the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Probe {
    /// The protocol.
    pub protocol: Protocol,
    /// The destination port; 0 for ICMP.
    pub port: u16,
    /// Which addresses are used.
    pub family: Family,
    /// Who asks, by index into [`Topology::hosts`].
    pub source: usize,
    /// Who is asked.
    pub destination: usize,
}

impl Probe {
    /// The secondary network that it is on; `None` for the cluster network.
    pub fn network<'a>(&self, hosts: &'a [Host]) -> Option<&'a NetworkName> {
        hosts.get(self.source)?.network.as_ref()
    }

    /// What it is about, as in `a -> b 80/TCP IPv4`, followed by its network unless that is the cluster network.
    pub(crate) fn describe(&self, hosts: &[Host]) -> String {
        let label = |index: usize| hosts.get(index).map(Host::label).unwrap_or_default();
        let on = self
            .network(hosts)
            .map_or(String::new(), |network| format!(" on {network}"));
        format!(
            "{} -> {} {} {}{on}",
            label(self.source),
            label(self.destination),
            crate::grid::traffic(self.protocol, self.port),
            crate::grid::name_of(self.family),
        )
    }

    /// The flow it opens; `None` when a host is not there or has no address of the family.
    pub fn flow(&self, hosts: &[Host]) -> Option<Flow> {
        Some(Flow {
            source: hosts.get(self.source)?.endpoint(self.family)?,
            destination: hosts.get(self.destination)?.endpoint(self.family)?,
            family: self.family,
            protocol: self.protocol,
            port: self.port,
        })
    }
}

/// What the wire said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation {
    /// The right host answered.
    Answered,
    /// Nothing came back.
    Silent,
    /// The connection was refused.
    Refused,
    /// Neither: the network is not as it should be.
    Broken(String),
}

impl Observation {
    /// The verdict it shows, if it shows one.
    pub fn verdict(&self) -> Option<Verdict> {
        match self {
            Self::Answered => Some(Verdict::Allow),
            Self::Silent | Self::Refused => Some(Verdict::Deny),
            Self::Broken(_) => None,
        }
    }
}

/// Every ordered pair of hosts of one network with every protocol, port and family, but for pairs that share a namespace
/// and pairs that policies never judge: both ends outside the cluster.
pub fn all_pairs(topology: &Topology, ports: &Ports) -> Vec<Probe> {
    let hosts = &topology.hosts;
    let mut probes = Vec::new();
    for (source, from) in hosts.iter().enumerate() {
        for (destination, to) in hosts.iter().enumerate() {
            if from.network != to.network
                || from.place == to.place
                || (from.kind == HostKind::External && to.kind == HostKind::External)
            {
                continue;
            }
            for family in Family::BOTH {
                if from.addresses.of(family).is_none() || to.addresses.of(family).is_none() {
                    continue;
                }
                let with_ports = Protocol::WITH_PORTS
                    .into_iter()
                    .flat_map(|protocol| ports.of(protocol).iter().map(move |port| (protocol, *port)));
                let echo = match family {
                    Family::Ipv4 => Protocol::ICMP,
                    Family::Ipv6 => Protocol::ICMPV6,
                };
                probes.extend(with_ports.chain([(echo, 0)]).map(|(protocol, port)| Probe {
                    protocol,
                    port,
                    family,
                    source,
                    destination,
                }));
            }
        }
    }
    probes
}

/// Asks every probe and returns what the wire said, in the same order. The servers must be running.
///
/// `expected` sets the pace and decides which silences are doubted; it never turns one answer into another. `timeout`
/// is how long a probe waits for its answer, over two attempts; `round` tells apart runs, so that no
/// connection of an earlier run counts as established in this one: each run uses up one for each network.
///
/// # Errors
/// [`Error::Kernel`] when sockets cannot be made.
pub fn ask(
    network: &Network,
    topology: &Topology,
    ports: &Ports,
    probes: &[(Probe, Verdict)],
    timeout: Duration,
    round: u16,
    progress: &Progress,
) -> Result<Vec<Observation>, Error> {
    progress.begin("probing", probes.len());
    let mut session = Session::open(network, topology, ports, probes, round)?;
    let swift = Pace {
        patience: timeout / 2,
        window: 256,
    };
    let patient = Pace {
        patience: timeout * 2,
        window: 16,
    };
    session.attempt(|_| true, &swift, progress)?;
    session.attempt(|_| true, &swift, &Progress::hidden())?;
    session.attempt(Verdict::is_allow, &patient, &Progress::hidden())?;
    Ok(session.finish())
}
