//! The interfaces that lead away from the node, and the thread that hears when they change.

use std::collections::BTreeSet;
use std::thread;
use std::time::Instant;

use picket_linux::{Netlink, NetworkNamespace, RouteMonitor};
use picket_nftables::model::InterfaceName;

use crate::AgentError;
use crate::inbox::{News, Outbox, readable};

/// The part of its time that the thread spends on reading routes at most, however often they change: one in so many.
const SHARE: u32 = 10;

/// What leads away from the node.
pub(crate) struct Uplinks {
    netlink: Netlink,
    monitor: RouteMonitor,
    known: BTreeSet<String>,
}

impl Uplinks {
    pub(crate) fn open(namespace: &NetworkNamespace) -> picket_linux::Result<Self> {
        // Whatever changes while they are listed is heard.
        let monitor = RouteMonitor::open(namespace)?;
        let mut netlink = Netlink::open(namespace)?;
        let known = netlink.uplinks()?;
        Ok(Self {
            netlink,
            monitor,
            known,
        })
    }

    /// Those that rules can name.
    pub(crate) fn names(&self) -> BTreeSet<InterfaceName> {
        let named = |name: &String| {
            let found = InterfaceName::new(name);
            if found.is_none() {
                tracing::warn!(
                    ?name,
                    "rules cannot name this interface, which leads away from the node"
                );
            }
            found
        };
        self.known.iter().filter_map(named).collect()
    }

    /// Tells when they change, in a thread of its own, which ends with the process.
    pub(crate) fn start(mut self, outbox: Outbox) -> Result<(), AgentError> {
        let readable = readable(&self.monitor)?;
        outbox.listen("picket-uplinks", readable, move || {
            Ok(self.changed()?.then(|| News::Uplinks(self.names())))
        })
    }

    /// Whether they are others than the last time.
    fn changed(&mut self) -> picket_linux::Result<bool> {
        if !self.monitor.has_changed()? {
            return Ok(false);
        }
        let began = Instant::now();
        let now = self.netlink.uplinks()?;
        // A router has many routes, and they change all the time.
        thread::sleep((SHARE - 1) * began.elapsed());
        let is_changed = now != self.known;
        self.known = now;
        Ok(is_changed)
    }
}
