//! What the targets of VPP are told besides the policies.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use clap::Args;
use picket_cluster::{Pod, Snapshot};
use picket_engine::Program;
use picket_node::{NamespaceRule, Pattern, PodRule};
use picket_vpp::{acl, loopback, session};

/// Where VPP is, and what there is whose.
#[derive(Args, Clone, Debug)]
pub(crate) struct LocatedArguments {
    /// The socket of VPP's binary API (`socksvr { socket-name PATH }` in its configuration)
    #[arg(long, value_name = "PATH", default_value = "/run/vpp/api.sock")]
    pub(crate) vpp_socket: PathBuf,

    /// Which interface of VPP is that of a pod: the one with a tag or a name that holds its namespace and name, the one that
    /// a file names for it in a line as `shop/web tap3`, or the one that the annotation `picket.dev/vpp-interface` of the pod
    /// names, if it is one of the pattern, as in `tap*`. Whoever may write pods writes that
    #[arg(
        long,
        value_name = "tag=TEMPLATE|name=TEMPLATE|annotation=PATTERN|file=PATH",
        default_value_t
    )]
    pub(crate) vpp_pod_interface: PodRule,

    /// Which application namespace of VPP is that of a pod, by its index: a file says it in a line as `shop/web 3`. VPP does not;
    /// needed for session rules
    #[arg(long, value_name = "file=PATH")]
    vpp_pod_namespace: Option<NamespaceRule>,
}

impl LocatedArguments {
    /// How namespaces of pods are found, if that is said.
    pub(crate) fn namespaces(&self) -> Option<&NamespaceRule> {
        self.vpp_pod_namespace.as_ref()
    }

    /// The same where rules cannot be without them.
    pub(crate) fn needed_namespaces(&self) -> anyhow::Result<&NamespaceRule> {
        self.namespaces().context(
            "`--target vpp-session` needs `--vpp-pod-namespace file=PATH`: VPP does not say which namespace is whose",
        )
    }
}

/// Options of VPP.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Options of VPP")]
pub(crate) struct VppArguments {
    /// An interface that leads out of the node, or to the node itself; can be given several times [default: uplink]
    #[arg(long = "uplink", value_name = "NAME")]
    uplinks: Vec<String>,

    /// The address that VPP gives packets of pods to themselves through a service; it counts as the node's. `none` when there
    /// is none [default: the last address for hosts in the node's podCIDRs]
    #[arg(long, value_name = "ADDRESS", value_parser = nat_loopback)]
    nat_loopback: Option<NatLoopback>,

    /// The most rules that a table of the session layer may have; what ranges of ports would need more of is denied
    #[arg(long, value_name = "N", default_value_t = session::Options::default().most_rules)]
    max_session_rules: usize,
}

#[derive(Clone, Copy, Debug)]
enum NatLoopback {
    None,
    Address(IpAddr),
}

fn nat_loopback(text: &str) -> Result<NatLoopback, String> {
    match text {
        "none" => Ok(NatLoopback::None),
        text => {
            let address = picket_net::parse_address(text);
            address
                .map(NatLoopback::Address)
                .ok_or_else(|| "write an IP address or `none`".to_owned())
        }
    }
}

impl VppArguments {
    /// How lists are rendered of a node whose VPP nobody asks: the interface of a pod is called as the pod is.
    ///
    /// # Errors
    /// When one that leads out of the node is called like a pod, which would have none then.
    pub(crate) fn acl(&self, program: &Program) -> anyhow::Result<acl::Options> {
        for pod in program.pods() {
            let pod = &pod.pod().object;
            let id = format!("{}/{}", pod.namespace, pod.name);
            ensure!(
                !self.uplinks.contains(&id),
                "`--uplink {id}` is what the interface of that pod is called here"
            );
        }
        Ok(acl::Options {
            uplinks: match self.uplinks.as_slice() {
                [] => vec!["uplink".into()],
                uplinks => uplinks.iter().map(Into::into).collect(),
            },
        })
    }

    /// The interfaces that lead out of a node that there is: names, where `*` stands for any text and `?` for any character.
    pub(crate) fn uplinks(&self) -> anyhow::Result<Vec<Pattern>> {
        let patterns = self.uplinks.iter().map(|name| name.parse());
        patterns.collect::<Result<_, _>>().context("`--uplink`")
    }

    pub(crate) fn session(&self) -> session::Options {
        session::Options {
            most_rules: self.max_session_rules,
        }
    }

    /// Gives nodes the address of their translation.
    pub(crate) fn add_nat_loopback(&self, snapshot: &mut Snapshot) -> anyhow::Result<()> {
        match self.nat_loopback {
            Some(NatLoopback::None) => {}
            Some(NatLoopback::Address(address)) => {
                let is_its =
                    |pod: &&Arc<Pod>| !pod.host_network && pod.addresses.iter().any(|own| own == address);
                if let Some(pod) = snapshot.live_pods().find(is_its) {
                    bail!("`--nat-loopback {address}` is the address of pod `{}`", pod.id());
                }
                for node in snapshot.nodes.values_mut() {
                    node.addresses.insert(address);
                }
            }
            None => loopback::add(snapshot),
        }
        Ok(())
    }
}
