//! What the target of Neutron is told besides the policies.

use clap::Args;
use picket_net::Prefix;
use picket_neutron::Options;

/// Options of Neutron.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Options of Neutron")]
pub(crate) struct NeutronArguments {
    /// What the names of all groups begin with; each cluster of a project needs one of its own
    #[arg(long, value_name = "NAME", default_value = "picket", value_parser = cluster)]
    neutron_cluster: String,

    /// Do without address groups, for a Neutron that has no extension `address-group`: several prefixes take a rule each
    #[arg(long)]
    no_address_groups: bool,

    /// A network of nodes with which isolated pods exchange everything, besides their own node; can be given several times
    #[arg(
        long = "node-subnet",
        visible_alias = "node-subnets",
        value_name = "CIDR",
        value_delimiter = ','
    )]
    node_subnets: Vec<Prefix>,

    /// A network of Services to which isolated pods may send everything, where what balances load needs it; can be given several
    /// times
    #[arg(
        long = "service-subnet",
        alias = "service-subnets",
        value_name = "CIDR",
        value_delimiter = ','
    )]
    service_subnets: Vec<Prefix>,
}

/// The beginning of names: nothing that a part of a name could be taken for.
fn cluster(text: &str) -> Result<String, String> {
    let is_plain =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.');
    match !text.is_empty() && text.len() <= 60 && text.bytes().all(is_plain) {
        true => Ok(text.to_owned()),
        false => Err("write at most 60 of a-z, 0-9, `-` and `.`".to_owned()),
    }
}

impl NeutronArguments {
    pub(crate) fn options(&self) -> Options {
        Options {
            cluster: self.neutron_cluster.as_str().into(),
            address_groups: !self.no_address_groups,
            node_subnets: self.node_subnets.clone(),
            service_subnets: self.service_subnets.clone(),
            ..Options::default()
        }
    }
}
