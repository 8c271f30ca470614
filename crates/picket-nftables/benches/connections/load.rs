//! The two ends of the measured connections.

use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Threads at either end: enough that neither waits for the other on a machine with few cores.
const THREADS: usize = 4;

/// What happens before counting, so that caches, neighbours and routes are warm.
const WARM_UP: Duration = Duration::from_millis(200);

/// How long a connection may take. A dropped SYN is sent again after a second, and that must not pass for success.
const PATIENCE: Duration = Duration::from_millis(900);

/// Accepts connections and resets them for as long as the process lives.
///
/// A reset leaves nothing in TIME_WAIT at either end, so ports never run out.
pub(crate) fn serve(listener: TcpListener) -> std::io::Result<()> {
    for _ in 0..THREADS {
        let listener = listener.try_clone()?;
        std::thread::spawn(move || {
            loop {
                if let Ok((stream, _)) = listener.accept() {
                    // A connection that is already gone needs no reset.
                    let _ = rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO));
                }
            }
        });
    }
    Ok(())
}

/// What a measurement gave.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured {
    /// Connections per second.
    pub(crate) rate: f64,
    /// Connections per second of processor time that this process got: what other work on the machine disturbs less.
    /// Packets are handled on the time of the thread that sends them.
    pub(crate) per_processor_second: f64,
    /// Connections that did not come about.
    pub(crate) failed: u64,
}

/// Opens connections from the calling thread's network namespace for `duration`.
pub(crate) fn connect(address: SocketAddr, duration: Duration) -> Measured {
    let (opened, failed) = (AtomicU64::new(0), AtomicU64::new(0));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            // Threads begin in the namespace of the one that starts them.
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let outcome = if open(address).is_ok() { &opened } else { &failed };
                    outcome.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        std::thread::sleep(WARM_UP);
        let (begin, before) = (Instant::now(), opened.load(Ordering::Relaxed));
        let processor_before = processor_time();
        std::thread::sleep(duration);
        let count = opened.load(Ordering::Relaxed) - before;
        let (elapsed, processor) = (begin.elapsed(), processor_time() - processor_before);
        stop.store(true, Ordering::Relaxed);
        Measured {
            rate: count as f64 / elapsed.as_secs_f64(),
            per_processor_second: count as f64 / processor,
            failed: failed.load(Ordering::Relaxed),
        }
    })
}

/// Seconds of processor time that this process has had: fields 14 and 15 of `/proc/self/stat`, in ticks of 10 ms.
fn processor_time() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The second field is the program's name in parentheses, and may hold spaces.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u32 = fields
        .skip(11)
        .take(2)
        .filter_map(|field| field.parse::<u32>().ok())
        .sum();
    f64::from(ticks) / 100.0
}

/// Opens one connection and waits until the server has reset it, so that its queue never overflows.
fn open(address: SocketAddr) -> std::io::Result<()> {
    match TcpStream::connect_timeout(&address, PATIENCE) {
        Ok(mut stream) => {
            // A reset that a full queue lost never comes: the connection was opened all the same.
            stream.set_read_timeout(Some(PATIENCE))?;
            let _reset = stream.read(&mut [0]);
            Ok(())
        }
        // Accepted and reset before this thread looked.
        Err(error) if error.kind() == ErrorKind::ConnectionReset => Ok(()),
        Err(error) => Err(error),
    }
}
