//! What the controller writes into the cluster.

use clap::{Args, ValueEnum};
use picket_controller::PublishSettings;
use picket_source::Kube;

/// What the controller writes into the cluster.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Telling the cluster")]
pub(super) struct PublishArguments {
    /// The annotation of each pod with the ids of its groups, parted by commas, for whoever creates its port; none if it is
    /// empty. With it picket.dev/not-enforced says why policies are not enforced on a pod, where that is so
    #[arg(long, default_value = "picket.dev/security-groups", value_name = "NAME")]
    annotation: String,

    /// Whether to write a NetworkPolicyStatus for each NetworkPolicy; deploy/crd-networkpolicystatus.yaml defines the kind
    #[arg(long, value_enum, default_value_t, value_name = "ON_OR_OFF")]
    policy_status: Switch,
}

/// Whether to do something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Switch {
    /// Do it
    On,
    /// Leave it
    #[default]
    Off,
}

impl PublishArguments {
    pub(super) fn settings(&self, kube: Kube) -> Option<PublishSettings> {
        let annotation = Some(self.annotation.clone()).filter(|name| !name.is_empty());
        let states = self.policy_status == Switch::On;
        (annotation.is_some() || states).then_some(PublishSettings {
            kube,
            annotation,
            states,
        })
    }
}
