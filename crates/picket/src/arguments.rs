//! The command line: what all subcommands share. Each subcommand's own arguments are beside its code.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::bail;
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use picket_cluster::Semantics;
use picket_net::Family;
use picket_policy::{ClusterDefault, Direction, Options, V1beta1};
use picket_source::Kube;

use crate::command;
use crate::output::Color;

/// Network policies of Kubernetes, evaluated, rendered, tried out and enforced
#[derive(Debug, Parser)]
#[command(name = "picket", version, about, after_help = EXIT_STATUS, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,

    /// When to use colour
    #[arg(long, global = true, value_enum, default_value_t, value_name = "WHEN")]
    pub(crate) color: Color,
}

/// What every `--help` says about exit statuses.
pub(crate) const EXIT_STATUS: &str = "\
Exit status: 0 yes or clean, 1 no or findings, 2 usage or input error.";

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Check(command::check::Arguments),
    Eval(command::eval::Arguments),
    Explain(command::explain::Arguments),
    Matrix(command::matrix::Arguments),
    Diff(command::diff::Arguments),
    Test(command::test::Arguments),
    Render(command::render::Arguments),
    Verify(command::verify::Arguments),
    Lab(command::lab::Arguments),
    Agent(Box<command::agent::Arguments>),
    Controller(Box<command::controller::Arguments>),
    Reflect(command::reflect::Arguments),
    Status(command::status::Arguments),
    Trace(command::trace::Arguments),
    Completions(command::completions::Arguments),
    Man(command::man::Arguments),
}

/// Which manifests to read, and how; or which cluster.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Input")]
pub(crate) struct Input {
    /// A file or a directory of manifests, YAML or JSON; `-` is standard input. May be repeated
    #[arg(
        short = 'f',
        long = "filename",
        required_unless_present = "kube",
        value_name = "PATH"
    )]
    pub(crate) paths: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) cluster: ClusterArguments,

    #[command(flatten)]
    pub(crate) reading: Reading,
}

/// Which manifests to read, and how.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Input")]
pub(crate) struct Manifests {
    /// A file or a directory of manifests, YAML or JSON; `-` is standard input. May be repeated
    #[arg(short = 'f', long = "filename", required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,

    #[command(flatten)]
    pub(crate) reading: Reading,
}

impl From<Manifests> for Input {
    fn from(Manifests { paths, reading }: Manifests) -> Self {
        Self {
            paths,
            cluster: ClusterArguments::default(),
            reading,
        }
    }
}

/// Which live cluster to read.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Input")]
pub(crate) struct ClusterArguments {
    /// Read the live cluster that KUBECONFIG or ~/.kube/config names, or that this pod is in
    #[arg(long, conflicts_with = "paths")]
    pub(crate) kube: bool,

    /// The context of the kubeconfig [default: its current context]
    #[arg(long, requires = "kube", conflicts_with = "paths", value_name = "NAME")]
    context: Option<String>,

    /// How many seconds the API server may take for one answer [default: 30]
    #[arg(long, requires = "kube", conflicts_with = "paths", value_name = "SECONDS",
        value_parser = clap::value_parser!(u16).range(1..))]
    request_timeout: Option<u16>,
}

impl ClusterArguments {
    /// The cluster, if one is asked for.
    pub(crate) fn origin(&self) -> Option<Kube> {
        let timeout = Duration::from_secs(self.request_timeout.unwrap_or(30).into());
        self.kube.then(|| Kube::new(self.context.clone(), timeout))
    }
}

/// How manifests are read.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Input")]
pub(crate) struct Reading {
    /// Refuse CIDRs that the API server only tolerates in stored objects, such as 10.0.0.5/8 or 010.0.0.0/8
    #[arg(long)]
    pub(crate) strict_cidr: bool,

    /// A file with the addresses of domain names in policies, in the format of hosts(5)
    #[arg(long, value_name = "FILE")]
    pub(crate) dns: Option<PathBuf>,

    /// How to read NetworkPolicy of extensions/v1beta1: as it was proposed or as v1 [default: as proposed when a namespace
    /// has the annotation of the proposal]
    #[arg(long, value_enum, value_name = "DIALECT")]
    pub(crate) v1beta1: Option<V1beta1Argument>,

    /// Where extensions/v1beta1 is read as it was proposed: whether pods in a namespace without isolation may receive
    /// anything. What is denied is denied to their own nodes, too, whatever policies say
    #[arg(long, value_enum, value_name = "VERDICT", default_value = "allow")]
    pub(crate) v1beta1_default: ClusterDefaultArgument,

    /// Read policies with the annotation `picket.dev/mode: audit` as if they were enforced
    #[arg(long)]
    pub(crate) enforce_audited: bool,
}

/// The cluster default of the proposal.
#[derive(clap::ValueEnum, Clone, Copy, Debug)]
pub(crate) enum ClusterDefaultArgument {
    /// Everything
    Allow,
    /// Nothing
    Deny,
}

impl Reading {
    /// How the manifests are read.
    pub(crate) fn options(&self) -> Options {
        Options {
            strict_cidr: self.strict_cidr,
            v1beta1: match self.v1beta1 {
                None => V1beta1::Automatic,
                Some(V1beta1Argument::Proposal) => V1beta1::Proposal,
                Some(V1beta1Argument::V1) => V1beta1::V1,
            },
            v1beta1_default: match self.v1beta1_default {
                ClusterDefaultArgument::Allow => ClusterDefault::Allow,
                ClusterDefaultArgument::Deny => ClusterDefault::Deny,
            },
            enforce_audited: self.enforce_audited,
        }
    }
}

/// How NetworkPolicy of extensions/v1beta1 is read.
#[derive(clap::ValueEnum, Clone, Copy, Debug)]
pub(crate) enum V1beta1Argument {
    /// As it was proposed: namespaces isolate, policies allow
    Proposal,
    /// As networking.k8s.io/v1
    V1,
}

/// Files of custom rules, for the documented layout.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Custom rules")]
pub(crate) struct CustomRuleArguments {
    /// A file of nftables rules for what isolated pods receive over IPv4, judged before every policy; docs/nftables.md
    /// has the grammar
    #[arg(long, value_name = "FILE", value_parser = path_or_nothing())]
    pub(crate) custom_v4_ingress_rule_file: Option<PathBuf>,

    /// The same for what they send over IPv4
    #[arg(long, value_name = "FILE", value_parser = path_or_nothing())]
    pub(crate) custom_v4_egress_rule_file: Option<PathBuf>,

    /// The same for what they receive over IPv6
    #[arg(long, value_name = "FILE", value_parser = path_or_nothing())]
    pub(crate) custom_v6_ingress_rule_file: Option<PathBuf>,

    /// The same for what they send over IPv6
    #[arg(long, value_name = "FILE", value_parser = path_or_nothing())]
    pub(crate) custom_v6_egress_rule_file: Option<PathBuf>,
}

impl CustomRuleArguments {
    /// Fails when files are given: the indexed layout has no place for them.
    pub(crate) fn none_for_indexed(&self) -> anyhow::Result<()> {
        if !self.files().is_empty() {
            bail!("custom rules belong to `--layout documented`: the indexed layout has no place for them");
        }
        Ok(())
    }

    /// Fails when files are given, for targets that have no place for them.
    pub(crate) fn none_for_others(&self) -> anyhow::Result<()> {
        if !self.files().is_empty() {
            bail!(
                "custom rules belong to `--target nftables --layout documented`: no other target has a place for them"
            );
        }
        Ok(())
    }

    /// The files that are given, with what each is for; in the order in which their rules are judged.
    pub(crate) fn files(&self) -> Vec<(&Path, Direction, Family)> {
        let files = [
            (
                &self.custom_v4_ingress_rule_file,
                Direction::Ingress,
                Family::Ipv4,
            ),
            (&self.custom_v4_egress_rule_file, Direction::Egress, Family::Ipv4),
            (
                &self.custom_v6_ingress_rule_file,
                Direction::Ingress,
                Family::Ipv6,
            ),
            (&self.custom_v6_egress_rule_file, Direction::Egress, Family::Ipv6),
        ];
        let files = files
            .into_iter()
            .filter_map(|(file, direction, family)| Some((given(file.as_deref())?, direction, family)));
        files.collect()
    }
}

/// A path that may be empty, which is as if it were not [`given`]: so the program that picket replaces takes its defaults.
fn path_or_nothing() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().map(PathBuf::from)
}

fn given(path: Option<&Path>) -> Option<&Path> {
    path.filter(|path| !path.as_os_str().is_empty())
}

/// Which network to look at.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Network")]
pub(crate) struct NetworkArgument {
    /// Look at a secondary network, as the NetworkAttachmentDefinition NAMESPACE/NAME defines it, instead of the cluster
    /// network
    #[arg(long, value_name = "NAMESPACE/NAME")]
    pub(crate) network: Option<String>,
}

/// An address family.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum FamilyArgument {
    /// IPv4
    Ipv4,
    /// IPv6
    Ipv6,
}

impl From<FamilyArgument> for Family {
    fn from(family: FamilyArgument) -> Self {
        match family {
            FamilyArgument::Ipv4 => Self::Ipv4,
            FamilyArgument::Ipv6 => Self::Ipv6,
        }
    }
}

/// The choices that Kubernetes leaves to the implementation.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Semantics")]
pub(crate) struct SemanticsArguments {
    /// Whether an ipBlock matches the addresses of pods
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value_t = true,
        default_missing_value = "true", value_name = "BOOL")]
    ipblock_matches_pods: bool,

    /// Let isolated pods send and receive ICMP whatever the rules say
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value_t = false,
        default_missing_value = "true", value_name = "BOOL", hide_default_value = true)]
    accept_icmp: bool,

    /// Let isolated pods send and receive ICMPv6 whatever the rules say
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value_t = false,
        default_missing_value = "true", value_name = "BOOL", hide_default_value = true)]
    accept_icmpv6: bool,
}

impl SemanticsArguments {
    pub(crate) fn semantics(&self) -> Semantics {
        Semantics {
            ipblock_matches_pods: self.ipblock_matches_pods,
            accept_icmp: self.accept_icmp,
            accept_icmpv6: self.accept_icmpv6,
        }
    }
}

/// Which cluster to follow.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct FollowArguments {
    /// The kubeconfig [default: KUBECONFIG, else ~/.kube/config, else the cluster that this pod is in]
    #[arg(long, value_name = "FILE", value_parser = path_or_nothing())]
    kubeconfig: Option<PathBuf>,

    /// The context of the kubeconfig [default: its current context]
    #[arg(long, value_name = "NAME")]
    context: Option<String>,

    /// How many seconds the API server may take for one answer
    #[arg(long, default_value_t = 30, value_name = "SECONDS", value_parser = clap::value_parser!(u16).range(1..))]
    request_timeout: u16,

    /// How often to ask which kinds of policies the cluster has, in seconds
    #[arg(long, default_value_t = 60, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    discovery_interval: u32,
}

impl FollowArguments {
    /// The cluster.
    pub(crate) fn kube(&self) -> Kube {
        let timeout = Duration::from_secs(self.request_timeout.into());
        let mut kube = Kube::new(self.context.clone(), timeout);
        kube.kubeconfig = given(self.kubeconfig.as_deref()).map(Path::to_owned);
        kube
    }

    /// How often to ask which kinds of policies it has.
    pub(crate) fn discovery(&self) -> Duration {
        Duration::from_secs(self.discovery_interval.into())
    }
}
