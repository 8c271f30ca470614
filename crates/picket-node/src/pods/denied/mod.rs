//! The log of denied connections in pods.
//!
//! Rules log to a netlink group of the namespace that they are in, so that each restricted pod has a socket of its own
//! ([`Hearing`]). One thread hears them all and folds what it hears ([`ears`]), however many there are, and tells the loop a few
//! lines a second. What is heard is about the pod in whose namespace the socket is, whatever the packets say.

mod ears;
mod logging;
mod share;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use picket_linux::runtime::SandboxId;
use picket_linux::{Logged, NetworkNamespace, PacketLog};
use picket_nftables::render::documented::logged_as;
use smol_str::SmolStr;

use super::network::Networks;
use super::sandbox::Place;
use super::{News, Outbox};
use crate::AgentError;
use crate::denied::{Denied, TURN, tell_in_pod, tell_missing};
use crate::metrics::Metrics;
use ears::{Ears, Hearing};
pub(super) use logging::Logging;

/// What of denied packets in a pod is one line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct DeniedThere {
    /// What the rule put before it, which says over which interface the packet went.
    pub(super) prefix: SmolStr,
    pub(super) denied: Denied,
}

/// What there is to tell, with the sandbox where it was heard.
pub(super) type Told = crate::denied::Told<(SandboxId, DeniedThere)>;

impl DeniedThere {
    /// The packet, if a rule of ours may have logged it and it was for one pod: what is sent to many at once is no connection.
    fn of(logged: &Logged) -> Option<Self> {
        let is_for_many = |address: IpAddr| address.is_multicast() || address == Ipv4Addr::BROADCAST;
        let (direction, audited) = logged_as(&logged.prefix)?;
        (!is_for_many(logged.packet.destination)).then(|| Self {
            prefix: logged.prefix.as_str().into(),
            denied: Denied::new(direction, audited, &logged.packet),
        })
    }
}

/// Who hears what is denied in pods.
#[derive(Clone)]
pub(super) struct Listener {
    ears: Arc<Ears>,
    group: u16,
}

impl Listener {
    /// Begins, in a thread of its own, which ends with the process.
    pub(super) fn start(group: u16, outbox: Outbox) -> Result<Self, AgentError> {
        let ears = Arc::new(Ears::new()?);
        let heard = Arc::clone(&ears);
        thread::Builder::new()
            .name("picket-denied".to_owned())
            .spawn(move || listen(&heard, &outbox))
            .map_err(AgentError::Start)?;
        Ok(Self { ears, group })
    }

    /// Hears what is denied in a sandbox, as long as what this gives is there.
    ///
    /// # Errors
    /// When the kernel does not let it, as while somebody else hears the group there.
    fn hear(&self, sandbox: &SandboxId, namespace: &NetworkNamespace) -> picket_linux::Result<Hearing> {
        let log = PacketLog::open(namespace, self.group)?;
        Ears::add(&self.ears, sandbox.clone(), log)
    }
}

/// Logs what was denied, with what is known of the pods and their networks now.
pub(super) fn tell(told: &Told, places: &BTreeMap<SandboxId, Place>, networks: &Networks, metrics: &Metrics) {
    for ((sandbox, there), packets) in &told.lines {
        let DeniedThere { prefix, denied } = there;
        let pod = places.get(sandbox).and_then(Place::of);
        let over = pod.and_then(|pod| networks.over(pod, denied, prefix));
        match over {
            Some((network, program, own)) => tell_in_pod(denied, *packets, &own, network, program),
            None => {
                tracing::debug!(%sandbox, %prefix, packets, "logged in a pod by no rule that is in force there");
            }
        }
    }
    tell_missing(told.unlisted, told.losses);
    metrics.unlogged.inc_by(told.unlisted + told.losses);
}

/// Whether the kernel logs packets to netlink groups at all: rules that do are refused where it does not.
pub(super) fn is_possible(group: u16) -> picket_linux::Result<()> {
    // In a namespace of its own, where nobody else hears it.
    PacketLog::open(&NetworkNamespace::create()?, group).map(drop)
}

fn listen(ears: &Ears, outbox: &Outbox) {
    let (began, mut next) = (Instant::now(), Duration::ZERO);
    loop {
        let wait = next.saturating_sub(began.elapsed());
        let ready = match ears.wait(wait) {
            Ok(ready) => ready,
            Err(error) => return tracing::error!(%error, "denied connections are not logged any more"),
        };
        ears.hear(&ready);
        let now = began.elapsed();
        if now >= next {
            next = now + TURN;
            let told = ears.tell(now);
            // When nobody hears it the agent has ended, and the process is about to.
            if !told.is_empty() && outbox.send(News::Denied(told)).is_err() {
                return;
            }
        }
    }
}
