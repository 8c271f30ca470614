//! The log of denied connections: rules tell which packets they drop, and the agent who that is.
//!
//! A thread of its own hears the packets and folds them ([`fold`]), so that however many there are, the one that enforces gets
//! a few lines a second to name the ends of ([`mod@line`]).

mod fold;
mod line;

use std::net::IpAddr;
use std::thread;
use std::time::{Duration, Instant};

use picket_linux::{Carried, Logged, PacketLog, Tuple};
use picket_net::Protocol;
use picket_nftables::render::indexed;
use picket_policy::Direction;

use crate::AgentError;
use crate::inbox::{News, Outbox, readable};
pub(crate) use fold::{AT_ONCE, Fold, Told};
pub(crate) use line::{tell, tell_in_pod, tell_missing};

/// How often lines are told.
pub(crate) const TURN: Duration = Duration::from_secs(1);

/// The most lines that are known at a time.
const KNOWN: usize = 1024;

/// What of denied packets is one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Denied {
    /// Whether the source or the destination may not.
    direction: Direction,
    /// Whether it passed, because the policies that it would have been denied by are only audited.
    audited: bool,
    source: IpAddr,
    /// After translation.
    destination: IpAddr,
    protocol: Protocol,
    /// The destination port, or the type of ICMP; none where the protocol has neither or the packet does not say it.
    number: Option<u16>,
}

impl Denied {
    /// The packet, if it was logged by a rule of ours.
    fn of(logged: &Logged) -> Option<Self> {
        let (direction, audited) = indexed::logged_as(&logged.prefix)?;
        Some(Self::new(direction, audited, &logged.packet))
    }

    /// A packet of which one end may not, or might not if policies were not only `audited`.
    pub(crate) fn new(direction: Direction, audited: bool, packet: &Tuple) -> Self {
        Self {
            direction,
            audited,
            source: packet.source,
            destination: packet.destination,
            protocol: Protocol::from_number(packet.protocol),
            number: match packet.carried {
                Carried::Ports { destination, .. } => Some(destination),
                Carried::Icmp { kind, .. } => Some(kind.into()),
                Carried::Nothing => None,
            },
        }
    }

    /// Whether the source or the destination may not.
    pub(crate) fn direction(&self) -> Direction {
        self.direction
    }

    /// Whether it passed.
    pub(crate) fn is_audited(&self) -> bool {
        self.audited
    }

    /// The address of the pod that may not, and that of the other end.
    fn ends(&self) -> (IpAddr, IpAddr) {
        match self.direction {
            Direction::Egress => (self.source, self.destination),
            Direction::Ingress => (self.destination, self.source),
        }
    }
}

/// Tells which packets are denied, in a thread of its own, which ends with the process.
pub(crate) fn start(mut log: PacketLog, outbox: Outbox) -> Result<(), AgentError> {
    let readable = readable(&log)?;
    let mut fold = Fold::new(KNOWN);
    let (began, mut next) = (Instant::now(), Duration::ZERO);
    let listen = move || {
        loop {
            let wait = next.saturating_sub(began.elapsed());
            let heard = readable.wait((!fold.is_empty()).then_some(wait));
            match heard.and_then(|_| log.heard()) {
                Ok(heard) => {
                    fold.lose(heard.losses);
                    heard
                        .packets
                        .iter()
                        .filter_map(Denied::of)
                        .for_each(|denied| fold.add(denied));
                }
                Err(error) => return tracing::error!(%error, "denied connections are not logged any more"),
            }
            let now = began.elapsed();
            if now >= next {
                next = now + TURN;
                let told = fold.tell(now, AT_ONCE);
                if !told.is_empty() {
                    outbox.tell(News::Denied(told));
                }
            }
        }
    };
    thread::Builder::new()
        .name("picket-denied".to_owned())
        .spawn(listen)
        .map_err(AgentError::Start)?;
    Ok(())
}
