//! Faults that a test asks for, and the record of what was received.

use std::time::Duration;

/// Which message a [`Fault`] is about. Counting begins when the fault is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum When {
    /// The message behind so many others, whatever it is. Handshakes count, as `sockclnt_create`.
    After(usize),
    /// The message with this name behind so many others of that name.
    Named(String, usize),
}

/// What goes wrong, once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The message is not handled, and answered with this number; dumps are answered with nothing.
    Refuse(i32),
    /// Nothing is handled on that connection for so long.
    Delay(Duration),
    /// Nothing is handled on that connection until [`release`](super::Fake::release).
    Hold,
    /// The connection ends before the message is handled.
    DropBefore,
    /// The message is handled, and the connection ends before it is answered.
    DropAfter,
    /// The message is handled, and the connection ends in the middle of the frame of its first answer.
    DropMidFrame,
    /// The message is not handled: VPP is started again. All state is gone, messages have other numbers, every connection ends.
    Restart,
    /// The message is handled, and answered with these bytes instead.
    Garbage(Vec<u8>),
}

impl Fault {
    /// One of each kind, with so long a delay.
    pub fn each_kind(delay: Duration) -> [Self; 8] {
        [
            Self::Refuse(-1),
            Self::Delay(delay),
            Self::Hold,
            Self::DropBefore,
            Self::DropAfter,
            Self::DropMidFrame,
            Self::Restart,
            Self::Garbage(vec![0; 40]),
        ]
    }
}

/// A fault that waits for its message.
#[derive(Debug)]
pub(super) struct Armed {
    when: When,
    fault: Fault,
    passed: usize,
}

impl Armed {
    pub(super) fn new(when: When, fault: Fault) -> Self {
        Self {
            when,
            fault,
            passed: 0,
        }
    }

    /// Counts a message; whether it is the one.
    fn meets(&mut self, name: &str) -> bool {
        let (wanted, behind) = match &self.when {
            When::After(behind) => (true, *behind),
            When::Named(wanted, behind) => (wanted == name, *behind),
        };
        if wanted {
            self.passed += 1;
        }
        wanted && self.passed == behind + 1
    }
}

/// The fault that is about this message, the one asked for first if there are several. It is gone then.
pub(super) fn due(armed: &mut Vec<Armed>, name: &str) -> Option<Fault> {
    let mut met = None;
    for (place, fault) in armed.iter_mut().enumerate() {
        if fault.meets(name) {
            met.get_or_insert(place);
        }
    }
    met.map(|place| armed.remove(place).fault)
}

/// A message that a fake received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its name.
    pub name: String,
    /// Its bytes on the wire, those of its frame included.
    pub bytes: usize,
    /// Whether its handler stops all workers.
    pub stops_workers: bool,
    /// The number that it was answered with; none for dumps, and for what was not handled.
    pub retval: Option<i32>,
    pub(super) number: u64,
}
