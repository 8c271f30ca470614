//! What the agent is told of VPP.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use anyhow::bail;
use clap::{Args, ValueEnum};
use picket_dataplane::EstablishedConnections;
use picket_node::{NatLoopback, Pattern, VppSettings, VppTarget};
use picket_vpp::{acl, session};

use crate::vpp::LocatedArguments;

/// What enforces the policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum Target {
    /// nftables, the packet filter of Linux
    Nftables,
    /// Access control lists of VPP's ACL plugin, for pods with an interface into VPP
    VppAcl,
    /// Rules of VPP's session layer, for pods whose sockets are VPP's own
    VppSession,
}

impl Target {
    /// What an agent can do with established connections that a change denies.
    fn established(self) -> &'static [EstablishedConnections] {
        match self {
            // Its rules keep them, and the agent cuts them where it is to.
            Self::Nftables => &[EstablishedConnections::Cut, EstablishedConnections::Keep],
            Self::VppAcl => acl::CAPABILITY.established,
            Self::VppSession => session::CAPABILITY.established,
        }
    }

    /// What it does with them where that is one thing.
    fn does(self) -> Option<String> {
        let name = self.to_possible_value()?;
        let does = match self.established() {
            [EstablishedConnections::Cut] => "cuts",
            [EstablishedConnections::Keep] => "keeps",
            _ => return None,
        };
        Some(format!("{} {does} established connections", name.get_name()))
    }
}

/// VPP.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "VPP")]
pub(super) struct VppArguments {
    /// What enforces the policies; can be given several times, and no target waits for another
    #[arg(long = "target", value_enum, value_name = "TARGET", default_value = "nftables", help_heading = None)]
    targets: Vec<Target>,

    #[command(flatten)]
    located: LocatedArguments,

    /// The most rules that a table of the session layer may have; what ranges of ports would need more of is denied
    #[arg(long, value_name = "N", default_value_t = session::Options::default().most_rules)]
    max_session_rules: usize,

    /// An interface of VPP that connects the node with the rest of the world: an uplink, the bridge interface of an overlay,
    /// the tap to the host. Names, where `*` stands for any text and `?` for any character; can be given several times
    /// [default: all that are no pod's, but local0]
    #[arg(long = "uplink", value_name = "NAME")]
    uplinks: Vec<Pattern>,

    /// How often to look for interfaces of VPP that it has not told of, as it tells of none that is not up, and into files that
    /// name what is a pod's, in milliseconds
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 1000,
        value_parser = clap::value_parser!(u32).range(1..))]
    vpp_look_interval: u32,

    /// The address that VPP gives packets of pods to themselves through a service; it counts as the node's. `none` when there
    /// is none [default: the last address for hosts in the node's podCIDRs, if no pod has it]
    #[arg(long, value_name = "ADDRESS", value_parser = nat_loopback)]
    nat_loopback: Option<NatLoopback>,
}

impl VppArguments {
    /// Whether nftables is a target.
    pub(super) fn nftables(&self) -> bool {
        self.targets.contains(&Target::Nftables)
    }

    /// Whether something else than nftables is a target.
    pub(super) fn is_other(&self) -> bool {
        self.targets.iter().any(|&target| target != Target::Nftables)
    }

    /// Fails where it is not said which namespaces pods have, and rules are to be put there.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        match self.targets.contains(&Target::VppSession) {
            true => self.located.needed_namespaces().map(drop),
            false => Ok(()),
        }
    }

    /// Fails where no target can do this with established connections.
    pub(super) fn check_established(&self, asked: EstablishedConnections) -> anyhow::Result<()> {
        let targets = || self.targets.iter();
        if targets().any(|target| target.established().contains(&asked)) {
            return Ok(());
        }
        let what = match asked {
            EstablishedConnections::Keep => "keep",
            EstablishedConnections::Cut | EstablishedConnections::Own => "cut",
        };
        let does: BTreeSet<_> = targets().filter_map(|target| target.does()).collect();
        let does: Vec<_> = does.into_iter().collect();
        bail!(
            "`--established {what}` is for no target that is given: {}",
            does.join(", ")
        )
    }

    /// What is to be enforced with VPP, if anything is. Everything is read back every so often.
    pub(super) fn settings(&self, refresh: Duration) -> Option<VppSettings> {
        let targets = self.targets.iter().filter_map(|target| match target {
            Target::Nftables => None,
            Target::VppAcl => Some(VppTarget::Acl),
            Target::VppSession => Some(VppTarget::Session),
        });
        let targets: BTreeSet<_> = targets.collect();
        (!targets.is_empty()).then(|| VppSettings {
            targets,
            socket: self.located.vpp_socket.clone(),
            pod_interfaces: self.located.vpp_pod_interface.clone(),
            pod_namespaces: self.located.namespaces().cloned(),
            most_session_rules: self.max_session_rules,
            uplinks: self.uplinks.clone(),
            nat_loopback: self.nat_loopback.unwrap_or_default(),
            refresh,
            look: Duration::from_millis(self.vpp_look_interval.into()),
        })
    }
}

fn nat_loopback(text: &str) -> Result<NatLoopback, String> {
    if text == "none" {
        return Ok(NatLoopback::None);
    }
    let address: Option<IpAddr> = picket_net::parse_address(text);
    address
        .map(NatLoopback::Address)
        .ok_or_else(|| "write an IP address or `none`".to_owned())
}
