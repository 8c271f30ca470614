//! Packets that are on their way.

use std::thread::sleep;
use std::time::Duration;

use rustix::thread::{MembarrierCommand, membarrier};

/// How long a packet is on its way at most, where the kernel does not say when it has come.
const LONG: Duration = Duration::from_millis(100);

/// Waits until every packet has been judged that was being judged when this began: a grace period of RCU, under which the kernel judges
/// packets. That takes some 10 to 50 ms.
///
/// Source: membarrier(2), `MEMBARRIER_CMD_GLOBAL`. A kernel some of whose processors are kept from all interruptions (`nohz_full`) does
/// not have it.
pub fn await_packets() {
    if membarrier(MembarrierCommand::Global).is_err() {
        sleep(LONG);
    }
}
