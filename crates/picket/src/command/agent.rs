//! `picket agent`: a live cluster, enforced on this node.

mod vpp;

use std::env;
use std::io::Write;
use std::net::SocketAddr;
use std::num::NonZero;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use picket_dataplane::EstablishedConnections;
use picket_nftables::diff::PORTION;
use picket_node::pods::{self, CustomFile};
use picket_node::{
    AgentError, CleanUp, Ended, Extent, Listen, PodSettings, Settings, Source, UntilSynced, VppTarget,
    clean_up, clean_up_vpp, run as enforce,
};
use picket_source::Directory;

use crate::arguments::{CustomRuleArguments, FollowArguments, SemanticsArguments};
use crate::etcd::EtcdArguments;
use crate::logging::LogArguments;
use crate::output::{self, Outcome};
use crate::panics;
use vpp::VppArguments;

/// What makes an agent enforce in pods. What concerns the table of the node alone does not go with it.
const PODS: &str = "container_runtime_endpoint";

/// Enforce the policies of a cluster on this node
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    extent: ExtentArguments,

    /// Who says what the cluster is: `kube`, its API server; `etcd`, in which `picket reflect` keeps it; or the path of a
    /// directory of manifests, which is read again when it changes
    #[arg(long, value_name = "kube|etcd|DIR", default_value = "kube", value_parser = source)]
    source: SourceArgument,

    /// The name of this node in the cluster [default: the environment variable NODE_NAME, else the name of the machine]
    #[arg(long, value_name = "NAME")]
    hostname_override: Option<String>,

    /// What pods may do until the cluster is known that the rules on the node do not know, where the agent runs on and on
    #[arg(long, value_enum, default_value_t, value_name = "VERDICT", conflicts_with = PODS)]
    until_synced: UntilSyncedArgument,

    /// What to do with forwarded packets whose source cannot be where they come from
    #[arg(long, value_enum, default_value_t, value_name = "MODE", conflicts_with = PODS)]
    anti_spoof: AntiSpoof,

    /// What to do with established connections that a change denies. VPP's lists always cut them, and its session layer always
    /// keeps them: asking for what no target can do is an error [default: cut, where a target can]
    #[arg(long, value_enum, value_name = "WHAT")]
    established: Option<EstablishedArgument>,

    /// Who may change the table while the agent runs
    #[arg(long, value_enum, default_value_t, value_name = "WHO")]
    table_owner: TableOwner,

    /// How much one transaction of the kernel makes at most, of what nothing leads to yet
    #[arg(long, hide = true, value_name = "OBJECTS")]
    portion: Option<NonZero<usize>>,

    /// How often to prove that the rules in the kernel mean what the policies say, and to read back what VPP has, in seconds
    #[arg(long, default_value_t = 300, value_name = "SECONDS",
        value_parser = clap::value_parser!(u32).range(1..))]
    verify_interval: u32,

    #[command(flatten)]
    vpp: VppArguments,

    #[command(flatten)]
    cluster: FollowArguments,

    #[command(flatten)]
    etcd: EtcdArguments,

    #[command(flatten)]
    semantics: SemanticsArguments,

    #[command(flatten)]
    pods: PodsArguments,

    #[command(flatten)]
    custom: CustomRuleArguments,

    #[command(flatten)]
    telling: TellingArguments,
}

/// Secondary networks.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Secondary networks")]
struct PodsArguments {
    /// Enforce MultiNetworkPolicies in the pods of this node, and nothing else: the socket of its container runtime, as
    /// in `/run/containerd/containerd.sock` or `/run/crio/crio.sock`
    #[arg(long, value_name = "PATH", value_parser = endpoint)]
    container_runtime_endpoint: Option<String>,

    /// The CNI plugins on whose networks policies hold, by the `type` of a NetworkAttachmentDefinition or of the first of
    /// its `plugins`; policies also hold where the plugin is not known
    #[arg(long, value_name = "TYPES", value_delimiter = ',', default_value = "macvlan", value_parser = plugin,
        requires = "container_runtime_endpoint")]
    network_plugins: Vec<String>,

    /// Where the root of the node is mounted, as in `/host`; for the socket of the runtime and the namespaces of pods
    #[arg(long, value_name = "PATH", default_value = "", hide_default_value = true)]
    // A path may not be empty here, and the program that this replaces has an empty one.
    host_prefix: String,
}

/// How far to go.
#[derive(Args, Clone, Copy, Debug)]
#[group(multiple = false)]
struct ExtentArguments {
    /// Enforce what the cluster is now, and end; the rules stay
    #[arg(long)]
    once: bool,

    /// Print what would be done to enforce what the cluster is now, as nft commands and as requests to VPP, and do nothing
    #[arg(long)]
    dry_run: bool,

    /// Remove everything that agents have put into the kernel of this node, or into VPP where that is a target, and nothing
    /// else
    #[arg(long)]
    cleanup: bool,
}

/// Who says what the cluster is.
#[derive(Clone, Debug)]
enum SourceArgument {
    Kube,
    Etcd,
    Directory(PathBuf),
}

/// What pods may do until the cluster is known.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum UntilSyncedArgument {
    /// Nothing new is forwarded from or to them, on a node without rules nothing at all; connections that are established go on.
    /// With VPP nothing passes at their interfaces that have no lists; its session layer has nothing of the kind, and lets them
    #[default]
    Deny,
    /// Everything
    Allow,
}

/// What to do with forwarded packets whose source cannot be where they come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum AntiSpoof {
    /// Drop them where the way back leads elsewhere, but for what comes by an interface with a gateway or a default route
    #[default]
    Strict,
    /// Judge them like others
    Off,
}

/// What to do with established connections that a change denies.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum EstablishedArgument {
    /// Cut them
    Cut,
    /// Let them go on until they end
    Keep,
}

/// Who may change the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum TableOwner {
    /// Only the agent: nobody else can change or flush it (Linux 6.9; before, as with `everybody`)
    #[default]
    Agent,
    /// Everybody; the agent changes it back at once
    Everybody,
}

/// How to tell what happens.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Telling")]
struct TellingArguments {
    /// Where to answer /metrics, /healthz and /readyz, as in `127.0.0.1:9480`; nowhere unless given
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,

    /// The Unix socket at which `picket status` asks; only its owner may
    #[arg(long, default_value = DEFAULT_SOCKET, value_name = "PATH")]
    socket: PathBuf,

    /// Whether to log denied connections: who, to whom, to which port, and which policies deny it
    #[arg(long, value_enum, default_value_t, value_name = "ON_OR_OFF")]
    log_denied: Switch,

    /// The netlink group by which the kernel tells which packets are denied; only one program of a node, or of a pod, can hear
    /// one
    #[arg(long, default_value_t = 9480, value_name = "NUMBER")]
    log_denied_group: u16,

    /// Whether to write Events on objects that cannot be read or enforced, for `kubectl describe`
    #[arg(long, value_enum, default_value_t, value_name = "ON_OR_OFF")]
    events: Switch,

    #[command(flatten)]
    log: LogArguments,
}

/// Where agents answer.
pub(crate) const DEFAULT_SOCKET: &str = "/run/picket/agent.sock";

/// Whether to do something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Switch {
    /// Do it
    #[default]
    On,
    /// Leave it
    Off,
}

const EXAMPLES: &str = "\
Examples:
  picket agent --listen 127.0.0.1:9480      enforce until it is ended; the rules stay
  picket agent --dry-run                    print what would be done
  picket agent --once                       enforce what the cluster is now
  picket agent --source etcd --etcd-endpoints https://etcd-0:2379
                                            read the cluster from etcd, where `picket reflect` keeps it
  picket agent --source manifests/          read it from files
  picket agent --target vpp-acl --vpp-pod-interface 'tag={namespace}/{name}'
                                            enforce with lists of VPP instead of nftables
  picket agent --target vpp-session --vpp-pod-namespace file=/run/vpp/pods
                                            enforce with rules of its session layer
  picket agent --target vpp-acl --dry-run   print what would be changed in VPP
  picket agent --cleanup                    remove what agents have put into the kernel
  picket agent --target vpp-acl --cleanup   remove what agents have put into VPP
  picket agent --container-runtime-endpoint /run/containerd/containerd.sock
                                            enforce MultiNetworkPolicies in the pods of the node
  picket status                             what is in force

With --container-runtime-endpoint there is no table of the node: --until-synced and --anti-spoof are
refused.

With --target vpp-acl or vpp-session there is no table of the node unless --target nftables is given
too; then the agent needs no capability, only the socket of VPP. What VPP has stays until the cluster
is known, and with --until-synced deny interfaces of pods without lists let nothing pass until then;
where VPP has no session rules of picket's, nothing may be opened by pods or from outside.

The agent runs in the network namespace of the node and needs CAP_NET_ADMIN there; for pods it also
needs CAP_SYS_ADMIN, CAP_SYS_PTRACE, the socket of the runtime and /proc of the node. Whatever goes
wrong, the rules that are in force stay.

Exit status: 0 it did what it was asked, 2 it could not.";

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let pods = arguments.pods()?;
    if arguments.extent.cleanup {
        return match pods {
            Some(pods) => cleanup_pods(&pods),
            None => cleanup(arguments),
        };
    }
    arguments.vpp.check()?;
    let extent = match arguments.extent {
        ExtentArguments { once: true, .. } => Extent::Once,
        ExtentArguments { dry_run: true, .. } => Extent::DryRun,
        _ => Extent::Forever,
    };
    let settings = arguments.settings()?;
    arguments.telling.log.start()?;
    panics::end_the_process();
    let ended = match pods {
        Some(pods) => pods::run(&settings, &pods, extent)?,
        None => enforce(&settings, extent)?,
    };
    match ended {
        Ended::Stopped | Ended::Done => {}
        Ended::Plan(plan) => {
            let mut out = output::stdout();
            out.write_all(plan.as_bytes())?;
            out.flush()?;
        }
    }
    Ok(Outcome::Yes)
}

/// Removes what agents have put there with each target, whatever becomes of the others.
fn cleanup(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let (mut told, mut failed) = (String::new(), Vec::new());
    if arguments.vpp.nftables() {
        match clean_up() {
            Ok(CleanUp::Removed) => told += "removed table `inet picket`\n",
            Ok(CleanUp::Nothing) => told += "there is no table `inet picket`\n",
            Err(error) if !arguments.vpp.is_other() => return Err(error.into()),
            Err(error) => failed.push(format!("nftables: {error}")),
        }
    }
    let of_vpp = arguments.vpp.settings(Duration::MAX);
    for (target, removed) in of_vpp.iter().flat_map(clean_up_vpp) {
        let what = match target {
            VppTarget::Acl => "lists",
            VppTarget::Session => "session rules",
        };
        match removed {
            Ok(0) => told += &format!("VPP has no {what} of picket\n"),
            Ok(removed) => told += &format!("removed {removed} {what} from VPP\n"),
            Err(why) => failed.push(format!("{target}: {why}")),
        }
    }
    let mut out = output::stdout();
    out.write_all(told.as_bytes())?;
    out.flush()?;
    match failed.is_empty() {
        true => Ok(Outcome::Yes),
        false => Err(AgentError::Targets(failed).into()),
    }
}

fn cleanup_pods(settings: &PodSettings) -> anyhow::Result<Outcome> {
    let removed = pods::clean_up(settings)?;
    let mut out = output::stdout();
    writeln!(
        out,
        "removed table `inet multi_networkpolicy` from {removed} pods"
    )?;
    out.flush()?;
    Ok(Outcome::Yes)
}

impl Arguments {
    /// What is asked of pods, if something is.
    fn pods(&self) -> anyhow::Result<Option<PodSettings>> {
        let files = self.custom.files().into_iter();
        let custom = files.map(|(path, direction, family)| CustomFile {
            path: path.to_owned(),
            direction,
            family,
        });
        let custom: Vec<_> = custom.collect();
        if self.vpp.is_other() && self.pods.container_runtime_endpoint.is_some() {
            bail!("`--container-runtime-endpoint` is for nftables: leave `--target` away");
        }
        let Some(endpoint) = &self.pods.container_runtime_endpoint else {
            if !custom.is_empty() {
                bail!("custom rules are for pods on secondary networks: give `--container-runtime-endpoint`");
            }
            return Ok(None);
        };
        Ok(Some(PodSettings {
            endpoint: endpoint.clone(),
            prefix: self.pods.host_prefix.clone().into(),
            custom,
            plugins: self.pods.network_plugins.iter().map(Into::into).collect(),
        }))
    }

    fn settings(&self) -> anyhow::Result<Settings> {
        Ok(Settings {
            source: self.source()?,
            node: self.node()?.into(),
            nftables: self.vpp.nftables(),
            vpp: self
                .vpp
                .settings(Duration::from_secs(self.verify_interval.into())),
            semantics: self.semantics.semantics(),
            until_synced: match self.until_synced {
                UntilSyncedArgument::Deny => UntilSynced::Deny,
                UntilSyncedArgument::Allow => UntilSynced::Allow,
            },
            anti_spoof: self.anti_spoof == AntiSpoof::Strict,
            established: self.established()?,
            hold: self.table_owner == TableOwner::Agent,
            portion: self.portion.map_or(PORTION, NonZero::get),
            verify_every: Duration::from_secs(self.verify_interval.into()),
            discover_every: self.cluster.discovery(),
            log_denied: (self.telling.log_denied == Switch::On).then_some(self.telling.log_denied_group),
            events: self.telling.events == Switch::On,
            listen: Listen {
                address: self.telling.listen,
                socket: self.telling.socket.clone(),
            },
        })
    }

    /// What to do with established connections.
    fn established(&self) -> anyhow::Result<EstablishedConnections> {
        let asked = match self.established {
            None => return Ok(EstablishedConnections::Cut),
            Some(EstablishedArgument::Cut) => EstablishedConnections::Cut,
            Some(EstablishedArgument::Keep) => EstablishedConnections::Keep,
        };
        self.vpp.check_established(asked)?;
        Ok(asked)
    }

    fn source(&self) -> anyhow::Result<Source> {
        Ok(match &self.source {
            SourceArgument::Kube => Source::Kube(self.cluster.kube()),
            SourceArgument::Etcd => Source::Etcd(self.etcd.etcd()?),
            SourceArgument::Directory(path) => Source::Directory(Directory {
                paths: vec![path.clone()],
                interval: Duration::from_secs(1),
            }),
        })
    }

    /// The name of the node: the first that is given. Kubernetes gives nodes the name of the machine in lower case.
    fn node(&self) -> anyhow::Result<String> {
        let of_machine = || std::fs::read_to_string("/proc/sys/kernel/hostname");
        named(
            [self.hostname_override.clone(), env::var("NODE_NAME").ok()],
            of_machine,
        )
    }
}

/// The name of a node: the first that is given, else that of the machine.
fn named(
    given: [Option<String>; 2],
    of_machine: impl FnOnce() -> std::io::Result<String>,
) -> anyhow::Result<String> {
    let mut given = given.into_iter().flatten().filter(|name| !name.trim().is_empty());
    let name = match given.next() {
        Some(name) => name,
        None => of_machine().context("the name of the machine is not known: give `--hostname-override`")?,
    };
    Ok(name.trim().to_lowercase())
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

/// The socket of a runtime. An empty one is not taken for none, which would enforce on the node.
fn endpoint(text: &str) -> Result<String, &'static str> {
    match text {
        "" => Err("the socket of the container runtime is missing"),
        path => Ok(path.to_owned()),
    }
}

/// A type of plugins in a list.
fn plugin(text: &str) -> Result<String, &'static str> {
    match text.trim() {
        "" => Err("the type of a plugin is missing"),
        plugin => Ok(plugin.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::arguments::{Arguments, Command};
    use crate::predecessor;

    /// The agent of the program that picket replaces, called with these flags.
    fn agent(flags: &[&str]) -> Result<super::Arguments, clap::Error> {
        let given = [&["multi-networkpolicy-nftables"], flags].concat();
        let given = predecessor::arguments(given.into_iter().map(Into::into));
        match Arguments::try_parse_from(given)?.command {
            Command::Agent(agent) => Ok(*agent),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_the_program_before_takes_for_not_given_is_not_given() {
        let empty = [
            "--custom-v4-ingress-rule-file=",
            "-custom-v4-egress-rule-file=",
            "--custom-v6-ingress-rule-file",
            "",
            "--custom-v6-egress-rule-file=",
            "--host-prefix=",
            "--kubeconfig=",
            "--container-runtime-endpoint=/run/crio/crio.sock",
        ];
        let agent = agent(&empty).unwrap();
        let pods = agent.pods().unwrap().unwrap();
        assert!(pods.custom.is_empty() && pods.prefix.as_os_str().is_empty());
        assert_eq!(agent.cluster.kube().kubeconfig, None);
    }

    #[test]
    fn a_node_has_the_first_name_that_is_given_or_that_of_the_machine_in_lower_case() {
        let endpoint = "--container-runtime-endpoint=/run/crio/crio.sock";
        for (flag, variable, expected) in [
            (None, None, "machine-1"),
            (Some(""), None, "machine-1"),
            (Some(""), Some(" "), "machine-1"),
            (Some(""), Some("Node-1"), "node-1"),
            (Some("Other-1"), Some("node-1"), "other-1"),
        ] {
            let flag = flag.map(|flag| format!("--hostname-override={flag}"));
            let flags: Vec<_> = flag.iter().map(String::as_str).chain([endpoint]).collect();
            let given = [
                agent(&flags).unwrap().hostname_override,
                variable.map(str::to_owned),
            ];
            let named = super::named(given, || Ok("Machine-1\n".to_owned()));
            assert_eq!(named.unwrap(), expected, "{flag:?}, {variable:?}");
        }
        let unknown = super::named([None, None], || Err(std::io::ErrorKind::NotFound.into()));
        assert!(unknown.unwrap_err().to_string().contains("--hostname-override"));
    }

    #[test]
    fn a_runtime_must_be_somewhere() {
        let cases: [&[&str]; 3] = [
            &["--container-runtime-endpoint="],
            &[],
            &["--host-prefix=/host", "--accept-icmp", "--kubeconfig=x"],
        ];
        for flags in cases {
            let error = agent(flags).unwrap_err().to_string();
            assert!(
                error.contains("the socket of the container runtime is missing"),
                "{flags:?}: {error}"
            );
        }
    }
}
