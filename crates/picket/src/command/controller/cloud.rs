//! Which cloud, and how it is used.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::{Args, ValueEnum};
use picket_controller::{Cloud, ControllerError, Failure, Gate, Plan, Reason, Step, Wanted};
use picket_neutron::Name;
use picket_policy::ObjectRef;

use crate::neutron::NeutronArguments;

/// Which cloud, and how it is used.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Cloud")]
pub(super) struct CloudArguments {
    /// Which cloud of clouds.yaml [default: the environment variable OS_CLOUD, else the other variables OS_*]
    #[arg(long, value_name = "NAME", conflicts_with = "endpoint")]
    os_cloud: Option<String>,

    /// The clouds.yaml [default: OS_CLIENT_CONFIG_FILE, else ./clouds.yaml, ~/.config/openstack/clouds.yaml or
    /// /etc/openstack/clouds.yaml]
    #[arg(long, value_name = "FILE", conflicts_with = "endpoint")]
    clouds_file: Option<PathBuf>,

    /// Where Neutron is, as in `http://127.0.0.1:9696`, if it has no Keystone (`auth_strategy = noauth`)
    #[arg(long, value_name = "URL")]
    endpoint: Option<String>,

    /// How many seconds one call may take
    #[arg(long, default_value_t = 15, value_name = "SECONDS", value_parser = clap::value_parser!(u16).range(1..))]
    call_timeout: u16,

    /// How many calls there may be at once
    #[arg(long, default_value_t = 8, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..))]
    calls_at_once: u16,

    /// How many calls may begin in a second
    #[arg(long, default_value_t = 50, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..))]
    calls_per_second: u32,

    /// By what the ports of a pod are found, in this order: `tag=PATTERN` or `name=PATTERN`, in which {namespace}, {name} and {uid}
    /// stand for those of the pod; `annotation=NAME`, in which pods name their ports by id; or `address`, any of its own. Can
    /// be given several times
    #[arg(long, value_name = "RULE", default_values = ["tag=picket.dev/pod={namespace}/{name}", "name={namespace}/{name}", "address"])]
    port_by: Vec<PortRule>,

    /// What becomes of groups on ports of pods that are none of picket's
    #[arg(long, value_enum, default_value_t, value_name = "WHAT")]
    foreign_groups: ForeignGroups,

    /// How ports are attached at which Neutron is known to enforce groups (`binding:vnic_type`); pods at others are reported
    #[arg(long, value_name = "TYPES", value_delimiter = ',', default_value = "normal")]
    enforced_vnic_types: Vec<String>,
}

/// By what a port is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PortRule {
    /// A tag of the port.
    Tag(String),
    /// Its name.
    Name(String),
    /// Its id, in an annotation of the pod.
    Annotation(String),
    /// A fixed address of it, which is one of the pod's.
    Address,
}

impl FromStr for PortRule {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('=') {
            None if text == "address" => Ok(Self::Address),
            Some(("annotation", name)) if !name.is_empty() => Ok(Self::Annotation(name.to_owned())),
            Some(("tag", pattern)) if names_a_pod(pattern) => Ok(Self::Tag(pattern.to_owned())),
            Some(("name", pattern)) if names_a_pod(pattern) => Ok(Self::Name(pattern.to_owned())),
            Some(("tag" | "name", _)) => {
                Err("the pattern is the same for several pods: write {uid}, or {namespace} and {name}")
            }
            _ => Err("write `tag=PATTERN`, `name=PATTERN`, `annotation=NAME` or `address`"),
        }
    }
}

/// Whether a pattern is another one for every pod.
fn names_a_pod(pattern: &str) -> bool {
    pattern.contains("{uid}") || pattern.contains("{namespace}") && pattern.contains("{name}")
}

/// What becomes of groups on ports of pods that are none of picket's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(super) enum ForeignGroups {
    /// They are taken away
    #[default]
    Remove,
    /// They stay, and what they allow passes too: the pod is reported
    Refuse,
}

impl CloudArguments {
    /// How long a call may take.
    pub(super) fn timeout(&self) -> Duration {
        Duration::from_secs(self.call_timeout.into())
    }

    /// How many steps are done at once.
    pub(super) fn at_once(&self) -> usize {
        self.calls_at_once.into()
    }

    /// The cloud.
    pub(super) fn connect(
        &self,
        _: &NeutronArguments,
        _: Duration,
        _: Gate,
    ) -> Result<Unconnected, ControllerError> {
        Ok(Unconnected)
    }
}

/// A cloud that cannot be spoken to: there is no client yet.
pub(super) struct Unconnected;

#[derive(Clone)]
pub(super) enum NoStep {}

impl fmt::Display for NoStep {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

impl Step for NoStep {
    fn kind(&self) -> &'static str {
        match *self {}
    }

    fn group(&self) -> Option<Name> {
        match *self {}
    }

    fn pod(&self) -> Option<ObjectRef> {
        match *self {}
    }
}

impl Cloud for Unconnected {
    type State = ();
    type Step = NoStep;
    type Done = ();

    async fn read(&self) -> Result<(), Failure> {
        Err(Failure::new(
            Reason::Away,
            "this picket has no client of Neutron yet",
        ))
    }

    async fn find(&self, (): &mut (), _: &BTreeSet<ObjectRef>) -> Result<(), Failure> {
        self.read().await
    }

    fn plan(&self, (): &(), _: &Wanted<'_>) -> Plan<NoStep> {
        Plan::default()
    }

    async fn apply(&self, (): &(), step: &NoStep) -> Result<(), Failure> {
        match *step {}
    }

    fn note(&self, (): &mut (), step: &NoStep, (): ()) {
        match *step {}
    }

    fn id_of(&self, (): &(), _: &Name) -> Option<String> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_found_by_what_is_another_for_every_pod() {
        for (text, expected) in [
            ("address", Some(PortRule::Address)),
            ("tag={uid}", Some(PortRule::Tag("{uid}".to_owned()))),
            (
                "name={namespace}/{name}",
                Some(PortRule::Name("{namespace}/{name}".to_owned())),
            ),
            ("annotation=a/b", Some(PortRule::Annotation("a/b".to_owned()))),
            ("tag=pod", None),
            ("name={name}", None),
            ("annotation=", None),
            ("address=10.0.0.1", None),
            ("", None),
        ] {
            assert_eq!(text.parse().ok(), expected, "{text}");
        }
    }
}
