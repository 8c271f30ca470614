//! `picket controller`: a live cluster, enforced by a cloud.

mod lease;
mod publish;

use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use picket_controller::{Ended, Extent, Settings, Status, Timing, run as enforce};
use picket_node::{Listen, Source, fetch_status};
use picket_source::Directory;

use crate::arguments::{FollowArguments, SemanticsArguments};
use crate::cloud::{CloudArguments, ForeignGroups};
use crate::etcd::EtcdArguments;
use crate::logging::LogArguments;
use crate::neutron::NeutronArguments;
use crate::output::{self, Outcome};
use crate::panics;
use lease::LeaseArguments;
use publish::PublishArguments;

/// Enforce the policies of a cluster by the security groups of its pods' ports
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    extent: ExtentArguments,

    /// What enforces the policies
    #[arg(long, value_enum, default_value_t, value_name = "TARGET")]
    target: TargetArgument,

    /// Who says what the cluster is: `kube`, its API server; `etcd`, in which `picket reflect` keeps it; or the path of a
    /// directory of manifests, which is read again when it changes
    #[arg(long, value_name = "kube|etcd|DIR", default_value = "kube", value_parser = source)]
    source: SourceArgument,

    /// What this controller is called; what no other is called is made of it [default: the name of the machine]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// How often to read all that Neutron has and to repair what others have changed, in seconds
    #[arg(long, default_value_t = 600, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    resync: u32,

    /// How many milliseconds nothing more may change until what has changed is enforced; at most ten times as long is waited
    #[arg(long, default_value_t = 100, value_name = "MILLISECONDS", value_parser = clap::value_parser!(u32).range(0..60_000))]
    debounce: u32,

    #[command(flatten)]
    cloud: CloudArguments,

    /// What becomes of groups on ports of pods that are none of picket's
    #[arg(
        long,
        value_enum,
        default_value_t,
        value_name = "WHAT",
        help_heading = "Cloud"
    )]
    foreign_groups: ForeignGroups,

    #[command(flatten)]
    neutron: NeutronArguments,

    #[command(flatten)]
    lease: LeaseArguments,

    #[command(flatten)]
    publish: PublishArguments,

    #[command(flatten)]
    cluster: FollowArguments,

    #[command(flatten)]
    etcd: EtcdArguments,

    #[command(flatten)]
    semantics: SemanticsArguments,

    #[command(flatten)]
    telling: TellingArguments,
}

/// How far to go.
#[derive(Args, Clone, Copy, Debug)]
#[group(multiple = false)]
struct ExtentArguments {
    /// Enforce what the cluster is now, and end; while another controller leads this fails
    #[arg(long)]
    once: bool,

    /// Print what would be done to enforce what the cluster is now, a step a line, and change nothing
    #[arg(long)]
    dry_run: bool,

    /// Print how the controller goes that answers at --socket, as JSON, and end
    #[arg(long)]
    status: bool,
}

/// What enforces the policies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum TargetArgument {
    /// Security groups of OpenStack Neutron
    #[default]
    Neutron,
}

/// Who says what the cluster is.
#[derive(Clone, Debug)]
enum SourceArgument {
    Kube,
    Etcd,
    Directory(PathBuf),
}

/// How to tell what happens.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Telling")]
struct TellingArguments {
    /// Where to answer /metrics, /healthz and /readyz, as in `127.0.0.1:9483`; nowhere unless given
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,

    /// The Unix socket at which /status is answered too, as JSON; only its owner may ask
    #[arg(long, default_value = "/run/picket/controller.sock", value_name = "PATH")]
    socket: PathBuf,

    #[command(flatten)]
    log: LogArguments,
}

const EXAMPLES: &str = "\
Examples:
  picket controller --os-cloud prod --dry-run     print what would be done with the cloud `prod` of clouds.yaml
  picket controller --os-cloud prod --once        do it
  picket controller --os-cloud prod --listen 0.0.0.0:9483
                                                  enforce until it is ended; what is in force stays
  picket controller --source manifests/ --endpoint http://127.0.0.1:9696 --once
                                                  manifests, and a Neutron without Keystone
  picket controller --status                      how the one on this machine goes
  picket render -f manifests/ --target neutron    the groups alone, without a cloud

Of several controllers one does the work: the one that has the Lease (--lease-name). Another takes
over at once when that one ends in order, and --lease seconds after it was last heard of when it does
not. No call begins that could outlast the Lease, and who takes over first waits as long as a call may
take (--call-timeout). With --source DIR there is no Lease: run one.

A pod needs a port of Neutron, which others make; until there is one it is pending. Which port is
whose is found by --port-by. A group that cannot be made, or a port that cannot be changed, is tried
again later and later; everything else goes on, and nothing is opened on the way.

It may `list` and `watch` namespaces, nodes, pods and policies, `patch` pods (--annotation), and get,
create and update its Lease. Of Neutron it needs to read networks' ports and to change their security
groups, and to create and delete security groups, their rules and address groups of its project.

Exit status: 0 it did what it was asked, 2 it could not.";

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    if arguments.extent.status {
        let status: Status = fetch_status(&arguments.telling.socket)?;
        let mut out = output::stdout();
        serde_json::to_writer_pretty(&mut out, &status)?;
        writeln!(out)?;
        out.flush()?;
        return Ok(Outcome::Yes);
    }
    let extent = match arguments.extent {
        ExtentArguments { once: true, .. } => Extent::Once,
        ExtentArguments { dry_run: true, .. } => Extent::DryRun,
        _ => Extent::Forever,
    };
    let settings = arguments.settings()?;
    arguments.telling.log.start()?;
    panics::end_the_process();
    let connect = |gate| {
        let cluster = &settings.options.cluster;
        arguments.cloud.connect(cluster, arguments.foreign_groups, gate)
    };
    if let Ended::Plan(plan) = enforce(&settings, extent, connect)? {
        let mut out = output::stdout();
        out.write_all(plan.as_bytes())?;
        out.flush()?;
    }
    Ok(Outcome::Yes)
}

impl Arguments {
    fn settings(&self) -> anyhow::Result<Settings> {
        let source = match &self.source {
            SourceArgument::Kube => Source::Kube(self.cluster.kube()),
            SourceArgument::Etcd => Source::Etcd(self.etcd.etcd()?),
            SourceArgument::Directory(path) => Source::Directory(Directory {
                paths: vec![path.clone()],
                interval: Duration::from_secs(1),
            }),
        };
        let has_cluster = !matches!(self.source, SourceArgument::Directory(_));
        let quiet = Duration::from_millis(self.debounce.into());
        Ok(Settings {
            source,
            name: self.name(),
            lease: has_cluster.then(|| self.lease.settings(self.cluster.kube())),
            semantics: self.semantics.semantics(),
            options: self.neutron.options(),
            timing: Timing {
                call: self.call(),
                quiet,
                patience: quiet * 10,
                resync: Duration::from_secs(self.resync.into()),
            },
            at_once: self.cloud.at_once(),
            publish: match has_cluster {
                true => self.publish.settings(self.cluster.kube()),
                false => None,
            },
            discover_every: self.cluster.discovery(),
            listen: Listen {
                address: self.telling.listen,
                socket: self.telling.socket.clone(),
            },
        })
    }

    fn call(&self) -> Duration {
        self.cloud.timeout()
    }

    fn name(&self) -> String {
        let of_machine = || std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        self.name
            .clone()
            .unwrap_or_else(|| of_machine().trim().to_owned())
    }
}

/// A source in an argument.
fn source(text: &str) -> Result<SourceArgument, &'static str> {
    match text {
        "" => Err("the source is missing: `kube`, `etcd` or a directory"),
        "kube" => Ok(SourceArgument::Kube),
        "etcd" => Ok(SourceArgument::Etcd),
        path => Ok(SourceArgument::Directory(path.into())),
    }
}
