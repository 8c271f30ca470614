//! A way to a server that can be closed, and servers that talk nonsense.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

use picket_linux::NetworkNamespace;

/// Passes connections on as long as it is open.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    /// What passes through it; none while it is closed.
    connections: Arc<Mutex<Option<Vec<Passing>>>>,
    valve: Arc<Valve>,
}

/// A connection that passes through it.
struct Passing {
    ends: [TcpStream; 2],
    /// Whether what comes is lost.
    is_stalled: Arc<AtomicBool>,
}

/// What holds back what clients say.
#[derive(Default)]
struct Valve {
    /// How many bytes the server may still say before clients are held back; none are, where there is no number.
    left: Mutex<Option<usize>>,
    changed: Condvar,
}

impl Proxy {
    /// One to a port of this machine.
    pub(crate) fn to(port: u16) -> Self {
        Self::listen(TcpListener::bind("127.0.0.1:0").unwrap(), port)
    }

    /// One at the same port of another network namespace.
    pub(crate) fn from(namespace: &NetworkNamespace, port: u16) -> Self {
        let listener = namespace.run(|| TcpListener::bind(("127.0.0.1", port)));
        Self::listen(listener.unwrap().unwrap(), port)
    }

    fn listen(listener: TcpListener, port: u16) -> Self {
        let proxy = Self {
            port: listener.local_addr().unwrap().port(),
            connections: Arc::new(Mutex::new(Some(Vec::new()))),
            valve: Arc::default(),
        };
        let (connections, valve) = (Arc::clone(&proxy.connections), Arc::clone(&proxy.valve));
        thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.unwrap();
                let mut connections = connections.lock().unwrap();
                let Some(connections) = connections.as_mut() else {
                    continue;
                };
                let Ok(server) = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], port))) else {
                    // It is away, and whoever asks it learns that.
                    continue;
                };
                let is_stalled = Arc::new(AtomicBool::new(false));
                for (from, to, is_answer) in [(&client, &server, false), (&server, &client, true)] {
                    let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                    let (valve, is_stalled) = (Arc::clone(&valve), Arc::clone(&is_stalled));
                    thread::spawn(move || {
                        let _ = valve.pass(&from, &to, is_answer, &is_stalled);
                        let _ = to.shutdown(Shutdown::Both);
                    });
                }
                connections.push(Passing {
                    ends: [client, server],
                    is_stalled,
                });
            }
        });
        proxy
    }

    /// Ends all connections, and every new one.
    pub(crate) fn close(&self) {
        for connection in self.connections.lock().unwrap().take().into_iter().flatten() {
            for end in connection.ends {
                let _ = end.shutdown(Shutdown::Both);
            }
        }
    }

    /// Loses all that comes on the present connections from now on, and ends none of them: nobody is told.
    pub(crate) fn stall(&self) {
        for connection in self.connections.lock().unwrap().iter().flatten() {
            connection.is_stalled.store(true, Ordering::Relaxed);
        }
    }

    /// Passes on again.
    pub(crate) fn open(&self) {
        self.connections.lock().unwrap().get_or_insert_default();
    }

    /// Holds back what clients say once the server has said so many bytes.
    pub(crate) fn hold_after(&self, bytes: usize) {
        *self.valve.left.lock().unwrap() = Some(bytes);
    }

    /// Waits until clients are held back.
    pub(crate) fn until_held(&self) {
        let left = self.valve.left.lock().unwrap();
        drop(
            self.valve
                .changed
                .wait_while(left, |left| *left != Some(0))
                .unwrap(),
        );
    }

    /// Passes on what they said, and what they say.
    pub(crate) fn release(&self) {
        *self.valve.left.lock().unwrap() = None;
        self.valve.changed.notify_all();
    }
}

impl Valve {
    /// Passes on what one end says to the other until it ends, or loses it.
    fn pass(
        &self,
        mut from: &TcpStream,
        mut to: &TcpStream,
        is_answer: bool,
        is_stalled: &AtomicBool,
    ) -> std::io::Result<()> {
        let mut bytes = [0; 16_384];
        loop {
            let count = from.read(&mut bytes)?;
            if count == 0 {
                return Ok(());
            }
            let mut left = self.left.lock().unwrap();
            if !is_answer {
                left = self.changed.wait_while(left, |left| *left == Some(0)).unwrap();
            } else if let Some(left) = &mut *left {
                *left = left.saturating_sub(count);
                self.changed.notify_all();
            }
            drop(left);
            if !is_stalled.load(Ordering::Relaxed) {
                to.write_all(&bytes[..count])?;
            }
        }
    }
}

/// The port of a server that gives one answer to every request over HTTP, whatever it is.
pub(crate) fn nonsense(status: &'static str, body: &'static str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.unwrap();
            thread::spawn(move || {
                let _ = client.read(&mut [0; 4096]);
                let length = body.len();
                let answer = format!(
                    "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
                );
                let _ = client.write_all(answer.as_bytes());
            });
        }
    });
    port
}
