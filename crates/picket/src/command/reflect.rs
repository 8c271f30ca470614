//! `picket reflect`: what the API server says, kept in etcd.

use std::io::Write;
use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use picket_node::{reflect, reflect_difference, reflect_once};
use picket_source::{Difference, Reflector};

use crate::arguments::FollowArguments;
use crate::etcd::EtcdArguments;
use crate::logging::LogArguments;
use crate::output::{self, Outcome};
use crate::panics;

/// Keep in etcd what policies see of a cluster, for agents that read it there
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    extent: ExtentArguments,

    /// What this reflector is called; a number is added to it [default: the name of the machine]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// How often to compare all of etcd with the cluster, in seconds; it is also done after every failure
    #[arg(long, default_value_t = 300, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    pass_interval: u32,

    /// How many seconds after a reflector was last heard of another takes over
    #[arg(long, default_value_t = 15, value_name = "SECONDS", value_parser = clap::value_parser!(u16).range(2..))]
    lease: u16,

    /// Where to answer /metrics, /healthz and /readyz, as in `127.0.0.1:9481`; nowhere unless given
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,

    #[command(flatten)]
    cluster: FollowArguments,

    #[command(flatten)]
    etcd: EtcdArguments,

    #[command(flatten)]
    log: LogArguments,
}

/// How far to go.
#[derive(Args, Clone, Copy, Debug)]
#[group(multiple = false)]
struct ExtentArguments {
    /// Make etcd what the cluster is now, and end
    #[arg(long)]
    once: bool,

    /// Print what would be written and deleted to make etcd what the cluster is now, and write nothing
    #[arg(long)]
    dry_run: bool,
}

const EXAMPLES: &str = "\
Examples:
  picket reflect --etcd-endpoints http://127.0.0.1:2379              reflect until it is ended
  picket reflect --etcd-endpoints http://127.0.0.1:2379 --dry-run    print what would be written
  picket reflect --etcd-endpoints https://etcd-0:2379,https://etcd-1:2379 --etcd-cacert ca.pem \\
      --etcd-user picket --etcd-password-file password --listen 127.0.0.1:9481
  picket agent --source etcd --etcd-endpoints http://127.0.0.1:2379  enforce what is in etcd

Of each namespace, node, pod, policy and definition of a network there is one record below the prefix,
which holds what policies see of it and nothing else; docs/etcd.md describes it. Two reflectors may
run: one of them writes, and the other takes over when that one ends (--lease).

Whatever goes wrong, nothing is deleted that the API server has not said is gone.

Exit status: 0 it did what it was asked, 2 it could not.";

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let reflector = arguments.reflector()?;
    arguments.log.start()?;
    panics::end_the_process();
    match arguments.extent {
        ExtentArguments { once: true, .. } => print(&reflect_once(&reflector)?)?,
        ExtentArguments { dry_run: true, .. } => print(&reflect_difference(&reflector)?)?,
        _ => reflect(&reflector, arguments.listen)?,
    }
    Ok(Outcome::Yes)
}

/// Keys, each with what is to become of it.
fn print(difference: &Difference) -> anyhow::Result<()> {
    let mut out = output::stdout();
    for key in &difference.puts {
        writeln!(out, "put {key}")?;
    }
    for key in &difference.deletions {
        writeln!(out, "delete {key}")?;
    }
    out.flush()?;
    Ok(())
}

impl Arguments {
    fn reflector(&self) -> anyhow::Result<Reflector> {
        let name = match &self.name {
            Some(name) => name.clone(),
            None => {
                let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
                format!("picket-{}", name.trim())
            }
        };
        Ok(Reflector {
            kube: self.cluster.kube(),
            etcd: self.etcd.etcd()?,
            name,
            pass_every: Duration::from_secs(self.pass_interval.into()),
            discovery: self.cluster.discovery(),
            lease: Duration::from_secs(self.lease.into()),
        })
    }
}
