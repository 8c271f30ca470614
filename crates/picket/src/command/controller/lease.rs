//! The Lease that controllers share.

use std::time::Duration;

use clap::Args;
use picket_controller::LeaseSettings;
use picket_source::Kube;

/// Where pods of a cluster find the name of their namespace.
const OWN_NAMESPACE: &str = "/var/run/secrets/kubernetes.io/serviceaccount/namespace";

/// The Lease that controllers share.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Lease")]
pub(super) struct LeaseArguments {
    /// How many seconds after a controller was last heard of another takes over: at least twice --call-timeout
    #[arg(long, default_value_t = 40, value_name = "SECONDS", value_parser = clap::value_parser!(u16).range(2..))]
    lease: u16,

    /// The name of the Lease
    #[arg(long, default_value = "picket-controller", value_name = "NAME")]
    lease_name: String,

    /// Its namespace [default: that of this pod, else `kube-system`]
    #[arg(long, value_name = "NAMESPACE")]
    lease_namespace: Option<String>,
}

impl LeaseArguments {
    pub(super) fn settings(&self, kube: Kube) -> LeaseSettings {
        let of_pod = || std::fs::read_to_string(OWN_NAMESPACE).ok();
        let namespace = self.lease_namespace.clone().or_else(of_pod);
        LeaseSettings {
            kube,
            namespace: match namespace.as_deref().map(str::trim) {
                None | Some("") => "kube-system".to_owned(),
                Some(namespace) => namespace.to_owned(),
            },
            name: self.lease_name.clone(),
            length: Duration::from_secs(self.lease.into()),
        }
    }
}
