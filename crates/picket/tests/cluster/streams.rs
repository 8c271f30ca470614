//! A way to a server over HTTP/2 on which what was asked long ago is not answered for a while, and what is asked then is.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

/// Passes connections on, and holds back what streams say that there are when it is told so.
pub(crate) struct Streams {
    pub(crate) port: u16,
    connections: Arc<Mutex<Vec<Arc<Mutex<Answers>>>>>,
}

/// What a server says on one connection.
struct Answers {
    client: TcpStream,
    /// The last stream on which it has said anything; later ones have higher numbers.
    newest: u32,
    /// The last stream of those that are held back.
    held: Option<u32>,
    /// What they said.
    kept: Vec<u8>,
}

/// The bytes before what is in a frame: the length of that, its kind, flags, and its stream.
const HEAD: usize = 9;

/// The kind of frame that holds a part of an answer.
const DATA: u8 = 0;

impl Streams {
    /// One to a port of this machine.
    pub(crate) fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let streams = Self {
            port: listener.local_addr().unwrap().port(),
            connections: Arc::default(),
        };
        let connections = Arc::clone(&streams.connections);
        thread::spawn(move || {
            for client in listener.incoming() {
                let client = client.unwrap();
                let server = TcpStream::connect(("127.0.0.1", port)).unwrap();
                let answers = Arc::new(Mutex::new(Answers {
                    client: client.try_clone().unwrap(),
                    newest: 0,
                    held: None,
                    kept: Vec::new(),
                }));
                connections.lock().unwrap().push(Arc::clone(&answers));
                let (mut asking, mut asked) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                thread::spawn(move || {
                    let _ = std::io::copy(&mut asking, &mut asked);
                    let _ = asked.shutdown(Shutdown::Both);
                });
                thread::spawn(move || {
                    let _ = pass(server, &answers);
                    let _ = client.shutdown(Shutdown::Both);
                });
            }
        });
        streams
    }

    /// Holds back what is said from now on by streams that there are.
    pub(crate) fn hold(&self) {
        for answers in self.connections.lock().unwrap().iter() {
            let mut answers = answers.lock().unwrap();
            answers.held = Some(answers.newest);
        }
    }

    /// Passes on what they said, and what they say.
    pub(crate) fn release(&self) {
        for answers in self.connections.lock().unwrap().iter() {
            let mut answers = answers.lock().unwrap();
            answers.held = None;
            let kept = std::mem::take(&mut answers.kept);
            answers.client.write_all(&kept).unwrap();
        }
    }
}

/// Passes on frame by frame what a server says, until it ends.
fn pass(mut server: TcpStream, answers: &Mutex<Answers>) -> std::io::Result<()> {
    loop {
        let mut frame = vec![0; HEAD];
        server.read_exact(&mut frame)?;
        let number = |bytes: &[u8]| {
            bytes
                .iter()
                .fold(0, |number, byte| number << 8 | u32::from(*byte))
        };
        let (length, kind) = (number(&frame[..3]), frame[3]);
        // The first bit means nothing.
        let stream = number(&frame[5..]) & 0x7fff_ffff;
        frame.resize(HEAD + length as usize, 0);
        server.read_exact(&mut frame[HEAD..])?;
        let mut answers = answers.lock().unwrap();
        answers.newest = answers.newest.max(stream);
        if kind == DATA && answers.held.is_some_and(|last| stream <= last) {
            answers.kept.extend(frame);
        } else {
            answers.client.write_all(&frame)?;
        }
    }
}
