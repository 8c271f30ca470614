//! Packets that are on their way.

use std::fs;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, sleep};
use std::time::Duration;

use rustix::thread::{MembarrierCommand, membarrier};

/// How long a packet is on its way at most, where the kernel does not say when it has come.
const LONG: Duration = Duration::from_millis(100);

/// The waits of this process, one after the other: a wait that has not begun yet serves all who need one.
static GRACES: Graces = Graces {
    counts: Mutex::new(Counts {
        wanted: 0,
        begun: 0,
        over: 0,
        has_thread: false,
    }),
    changed: Condvar::new(),
};

/// Waits until every packet has been judged that was being judged when this began: a grace period of RCU, under which the kernel judges
/// packets. That takes some 5 to 50 ms.
///
/// Source: membarrier(2), `MEMBARRIER_CMD_GLOBAL`. A kernel some of whose processors are kept from all interruptions (`nohz_full`) does
/// not have it, and with one processor it waits for nothing.
fn await_packets() {
    if is_alone() || membarrier(MembarrierCommand::Global).is_err() {
        sleep(LONG);
    }
}

/// Whether the machine has one processor, as far as it says.
fn is_alone() -> bool {
    let online = fs::read_to_string("/sys/devices/system/cpu/online");
    online.is_ok_and(|online| !online.contains([',', '-']))
}

/// The time until every packet has been judged that was being judged at a moment: a grace period of RCU, which is waited for
/// beside what else is done, in a thread that lives as long as the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passing {
    /// The number of the first wait that began after that moment; `None` where nobody waits beside.
    wait: Option<u64>,
}

impl Passing {
    /// It is that moment now.
    pub fn begin() -> Self {
        Self { wait: GRACES.begin() }
    }

    /// Whether it is over for certain.
    pub fn is_over(self) -> bool {
        self.wait.is_some_and(|wait| GRACES.counts().over >= wait)
    }

    /// Waits for the rest of it.
    pub fn end(self) {
        match self.wait {
            Some(wait) => GRACES.end(wait),
            None => await_packets(),
        }
    }
}

struct Graces {
    counts: Mutex<Counts>,
    changed: Condvar,
}

/// How many waits are wanted, have begun and are over.
struct Counts {
    wanted: u64,
    begun: u64,
    over: u64,
    has_thread: bool,
}

impl Graces {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the next wait, which begins as soon as it can; `None` where no thread can.
    fn begin(&'static self) -> Option<u64> {
        let mut counts = self.counts();
        if !counts.has_thread {
            let thread = thread::Builder::new().name("picket-packets".to_owned());
            counts.has_thread = thread.spawn(|| self.run()).is_ok();
        }
        let next = counts.begun + 1;
        counts.has_thread.then(|| {
            counts.wanted = next;
            self.changed.notify_all();
            next
        })
    }

    fn end(&self, wait: u64) {
        let mut counts = self.counts();
        while counts.over < wait {
            counts = self.changed.wait(counts).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits whenever that is wanted, for ever.
    fn run(&self) {
        let mut counts = self.counts();
        loop {
            if counts.begun == counts.wanted {
                counts = self.changed.wait(counts).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            counts.begun += 1;
            drop(counts);
            await_packets();
            counts = self.counts();
            counts.over = counts.begun;
            self.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graces() -> &'static Graces {
        let counts = Counts {
            wanted: 0,
            begun: 0,
            over: 0,
            has_thread: true,
        };
        Box::leak(Box::new(Graces {
            counts: Mutex::new(counts),
            changed: Condvar::new(),
        }))
    }

    #[test]
    fn what_has_begun_ends_and_what_has_ended_is_over() {
        let passing = [(); 3].map(|()| Passing::begin());
        for one in passing {
            one.end();
            assert!(one.is_over());
            one.end();
        }
        let later = Passing::begin();
        assert!(!passing.contains(&later), "a wait that began before it");
        later.end();
    }

    #[test]
    fn a_wait_that_has_begun_serves_nobody_who_comes_then() {
        let graces = graces();
        assert_eq!([graces.begin(), graces.begin()], [Some(1), Some(1)]);
        graces.counts().begun = 1;
        assert_eq!([graces.begin(), graces.begin()], [Some(2), Some(2)]);
        graces.counts().over = 1;
        assert_eq!(graces.begin(), Some(2));
    }
}
