//! Which cloud, and how it is used.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use picket_controller::{ControllerError, Gate, InstalledNeutron, Neutron, NeutronSettings, PortRule};
use picket_neutron::client::{self, Auth, Cloud, CloudError, Sources};
use picket_neutron::plan;
use smol_str::SmolStr;

/// Which cloud, how it is read, and which of its ports are whose.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Cloud")]
pub(crate) struct CloudArguments {
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

    /// The project that everything is in, for --endpoint [default: the environment variable OS_PROJECT_ID, else whatever is seen]
    #[arg(long, value_name = "ID", requires = "endpoint")]
    project: Option<String>,

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
    /// stand for those of the pod; `annotation`, the ids that its annotation `picket.dev/neutron-ports` names; or `address`, any of
    /// its own that no other port has. Can be given several times
    #[arg(long, value_name = "RULE", default_values = ["tag=picket.dev/pod={namespace}/{name}", "name={namespace}/{name}", "address"])]
    port_by: Vec<PortRule>,

    /// How ports are attached at which Neutron is known to enforce groups (`binding:vnic_type`); pods at others are reported
    #[arg(long, value_name = "TYPES", value_delimiter = ',', default_value = "normal")]
    enforced_vnic_types: Vec<String>,
}

/// The same where it is looked at only with `--live`: which cloud it is means nothing without.
#[derive(Args, Clone, Debug)]
#[command(mut_group("CloudArguments", |group| group.requires("live")))]
pub(crate) struct LiveCloudArguments {
    #[command(flatten)]
    pub(crate) cloud: CloudArguments,
}

/// What becomes of groups on ports of pods that are none of picket's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ForeignGroups {
    /// They are taken away
    #[default]
    Remove,
    /// They stay, and what they allow passes too: the pod is reported
    Refuse,
}

impl CloudArguments {
    /// How long a call may take.
    pub(crate) fn timeout(&self) -> Duration {
        Duration::from_secs(self.call_timeout.into())
    }

    /// How many steps are done at once.
    pub(crate) fn at_once(&self) -> usize {
        self.calls_at_once.into()
    }

    /// Reads what there is.
    pub(crate) fn read(&self, cluster: &SmolStr) -> Result<InstalledNeutron, ControllerError> {
        InstalledNeutron::read(|gate| self.connect(cluster, ForeignGroups::default(), gate))
    }

    /// The cloud.
    pub(crate) fn connect(
        &self,
        cluster: &SmolStr,
        foreign_groups: ForeignGroups,
        gate: Gate,
    ) -> Result<Neutron, ControllerError> {
        let settings = NeutronSettings {
            cluster: cluster.clone(),
            port_by: self.port_by.clone(),
            foreign_groups: match foreign_groups {
                ForeignGroups::Remove => plan::ForeignGroups::Remove,
                ForeignGroups::Refuse => plan::ForeignGroups::Refuse,
            },
            enforced_vnic_types: self.enforced_vnic_types.iter().map(SmolStr::from).collect(),
            options: client::Options {
                timeout: self.timeout(),
                at_once: self.at_once(),
                per_second: self.calls_per_second,
                ..client::Options::default()
            },
        };
        let cloud = self
            .cloud()
            .map_err(|error| ControllerError::Cloud(error.to_string()))?;
        Neutron::new(cloud, settings, gate).map_err(|error| ControllerError::Cloud(error.to_string()))
    }

    fn cloud(&self) -> Result<Cloud, CloudError> {
        let Some(endpoint) = &self.endpoint else {
            return Sources::with_file(self.clouds_file.as_deref())?.cloud(self.os_cloud.as_deref());
        };
        let mut cloud = Cloud::open(endpoint);
        let of_environment = || std::env::var("OS_PROJECT_ID").ok();
        let project = self.project.clone().or_else(of_environment);
        if let Auth::None { project: known, .. } = &mut cloud.auth {
            *known = project.filter(|project| !project.is_empty()).map(SmolStr::from);
        }
        Ok(cloud)
    }
}
