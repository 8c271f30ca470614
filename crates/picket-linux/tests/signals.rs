//! Signals that come while the kernel is asked and waited for. These need root.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

mod numbers;

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use picket_linux::{Batch, Epoll, Interest, Monitor, NetworkNamespace, Nfnetlink};

use numbers::{DELTABLE, INET, NEWSETELEM, count, elements, set};

/// How many elements each table has, and how many tables come and go.
const COUNT: u32 = 2_000;
const TABLES: usize = 20;

/// How often the signal was handled.
static HANDLED: AtomicUsize = AtomicUsize::new(0);

extern "C" fn handle(_signal: libc::c_int) {
    HANDLED.fetch_add(1, Ordering::Relaxed);
}

/// Has the signal interrupt what waits, and nothing begun anew by itself.
#[expect(unsafe_code, reason = "handlers of signals are set by unsafe calls alone")]
fn interrupt_by(signal: libc::c_int) {
    // SAFETY: all bytes zero are a valid `sigaction` without flags, of which the handler is set; that adds to an atomic, which is safe
    // at any moment.
    let outcome = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handle as extern "C" fn(libc::c_int) as libc::sighandler_t;
        libc::sigaction(signal, &raw const action, ptr::null_mut())
    };
    assert_eq!(outcome, 0);
}

fn table_with_elements() -> Batch {
    let mut batch = Batch::default();
    set(&mut batch);
    elements(&mut batch, NEWSETELEM, 0..COUNT);
    batch
}

fn no_table() -> Batch {
    let mut batch = Batch::default();
    batch.message(DELTABLE, 0, INET);
    batch.text(1, "t");
    batch
}

/// Makes tables, reads them, hears of them, and removes them, and waits before and after.
fn work() {
    let namespace = NetworkNamespace::create().unwrap();
    let mut netlink = Nfnetlink::open(&namespace).unwrap();
    let mut monitor = Monitor::open(&namespace).unwrap();
    let waiting = Epoll::new().unwrap();
    waiting.add(&monitor, 7, Interest::Read).unwrap();
    for _ in 0..TABLES {
        assert_eq!(waiting.wait(Some(Duration::from_millis(5))).unwrap(), []);
        let before = netlink.generation().unwrap();
        netlink.commit(table_with_elements(), Some(before)).unwrap();
        assert_eq!(
            u32::try_from(count(&mut netlink)).unwrap(),
            COUNT,
            "nothing is lost"
        );
        let heard = waiting.wait(None).unwrap();
        assert!(
            heard.iter().all(|ready| ready.token == 7 && !ready.failed),
            "{heard:?}"
        );
        assert!(!monitor.notices().unwrap().is_empty());
        netlink.commit(no_table(), Some(before + 1)).unwrap();
        assert!(!monitor.notices().unwrap().is_empty());
    }
}

#[test]
#[expect(unsafe_code, reason = "signals are sent to a thread by an unsafe call alone")]
fn nothing_is_lost_or_done_twice_where_signals_interrupt() {
    interrupt_by(libc::SIGUSR1);
    let is_done = AtomicBool::new(false);
    // SAFETY: it asks for the number of this thread, which runs until the scope has ended.
    let worker = unsafe { libc::pthread_self() };
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut sent = 0;
            while !is_done.load(Ordering::Relaxed) {
                // One after the other.
                if HANDLED.load(Ordering::Relaxed) == sent {
                    // SAFETY: the thread waits for this one before it ends.
                    unsafe { libc::pthread_kill(worker, libc::SIGUSR1) };
                    sent += 1;
                }
                thread::yield_now();
            }
        });
        // Without it the other thread would never end where this one panics.
        let outcome = std::panic::catch_unwind(work);
        is_done.store(true, Ordering::Relaxed);
        outcome.unwrap();
    });
    assert!(
        HANDLED.load(Ordering::Relaxed) > TABLES,
        "signals have come all the time"
    );
}
