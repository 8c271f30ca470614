//! The other end of a socket, which says what a test tells it to.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::{JoinHandle, spawn};

use super::wire::label;
use crate::client::definition::{Address, Message};
use crate::client::field::MessageNumbers;
use crate::client::message::*;
use crate::client::{Connector, Definition, Feature, MESSAGES, Vpp};

/// What the first message has for a number.
const FIRST: u16 = 100;
/// Numbers of some messages, and of none.
pub(super) const NUMBERS: &[u16] = &[16, 105, 107, 108, 111, 113, 115, 134, 7];
/// Who a client is.
pub(super) const CLIENT: u32 = 0x8000_0001;

/// Everything that a test needs of VPP.
pub(super) const ALL: [Feature; 3] = [Feature::Acls, Feature::Interfaces, Feature::Sessions];

/// The number that a peer gives a message.
pub(super) fn number(definition: &Definition) -> u16 {
    let place = MESSAGES
        .iter()
        .position(|known| known.name == definition.name)
        .unwrap();
    FIRST + u16::try_from(place).unwrap()
}

/// Every message with its number.
pub(super) fn numbers() -> MessageNumbers {
    let each = MESSAGES.iter().map(|known| {
        let name = format!("{}_{:08x}", known.name, known.crc);
        (number(known), label(&name))
    });
    MessageNumbers(each.collect())
}

/// A message with the header of a frame.
pub(super) fn frame<M: Message>(id: u16, context: u32, message: &M) -> Vec<u8> {
    let mut body = Vec::new();
    let address = Address {
        id,
        client_index: 0,
        context,
    };
    message.write(address, &mut body);
    // The pointer before the length and the mark after it are VPP's own and say nothing.
    let length = u32::try_from(body.len()).unwrap();
    [&[0xab; 8][..], &length.to_be_bytes(), &[0xcd; 4], &body].concat()
}

/// The answer to the first message of a client, which can be said before it asks.
pub(super) fn greeting() -> Vec<u8> {
    let reply = SockclntCreateReply {
        response: 0,
        index: CLIENT,
        message_table: numbers(),
    };
    frame(CREATE_REPLY_ID, 1, &reply)
}

/// A client that has connected.
#[derive(Debug)]
pub(super) struct Peer(pub(super) UnixStream);

impl Peer {
    /// The next message with its header, unless the client is gone.
    pub(super) fn hear(&mut self) -> Option<Vec<u8>> {
        let mut header = [0; 16];
        self.0.read_exact(&mut header).ok()?;
        let length = u32::from_be_bytes(header[8..12].try_into().unwrap());
        let mut body = vec![0; usize::try_from(length).unwrap()];
        self.0.read_exact(&mut body).ok()?;
        Some([&header[..], &body].concat())
    }

    /// The next message, which is an `M`, and by what its answer is known.
    pub(super) fn expect<M: Message>(&mut self) -> (u32, M) {
        let heard = self.hear().unwrap();
        let (address, message) = M::read(&heard[16..]).unwrap();
        assert_eq!(address.id, number(&M::DEFINITION));
        assert_eq!(address.client_index, CLIENT);
        (address.context, message)
    }

    /// Says something, whether or not anybody listens.
    pub(super) fn say<M: Message>(&mut self, context: u32, message: &M) {
        let _ = self.0.write_all(&frame(number(&M::DEFINITION), context, message));
    }

    /// Answers the first message with these numbers.
    pub(super) fn greet(&mut self, message_table: MessageNumbers) {
        let context = self.meet();
        let reply = SockclntCreateReply {
            response: 0,
            index: CLIENT,
            message_table,
        };
        self.0
            .write_all(&frame(CREATE_REPLY_ID, context, &reply))
            .unwrap();
    }

    /// Hears the first message; by what its answer is known.
    pub(super) fn meet(&mut self) -> u32 {
        let heard = self.hear().unwrap();
        let (address, _) = SockclntCreate::read(&heard[16..]).unwrap();
        assert_eq!(address.id, CREATE_ID);
        address.context
    }

    /// Answers a ping.
    pub(super) fn pong(&mut self) {
        let (context, _) = self.expect::<ControlPing>();
        let reply = ControlPingReply {
            retval: 0,
            client_index: CLIENT,
            vpe_pid: 1,
        };
        self.say(context, &reply);
    }

    /// Makes sure that the client leaves without another word.
    pub(super) fn end(mut self) {
        assert_eq!(self.hear(), None);
    }
}

/// A folder that is there as long as this.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("picket-vpp-client-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A place where a peer listens, and the thread in which it does what it was told with each client in turn.
pub(super) struct Served {
    pub(super) connector: Connector,
    thread: JoinHandle<()>,
    _folder: Folder,
}

impl Served {
    /// Waits until the peer has done all, and fails when it has not.
    pub(super) fn finish(self) {
        self.thread.join().unwrap();
    }
}

/// A peer that does this with each client, as many as there are parts.
pub(super) fn listen(parts: Vec<Box<dyn FnOnce(Peer) + Send>>) -> Served {
    let folder = Folder::new();
    let path = folder.0.join("api.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let thread = spawn(move || {
        for part in parts {
            part(Peer(listener.accept().unwrap().0));
        }
    });
    Served {
        connector: Connector::new(path),
        thread,
        _folder: folder,
    }
}

/// A client, and the peer to which it has connected and which does this.
pub(super) fn connected(part: impl FnOnce(&mut Peer) + Send + 'static) -> (Vpp, Served) {
    let mut served = listen(vec![Box::new(|mut peer: Peer| {
        peer.greet(numbers());
        part(&mut peer);
        peer.end();
    })]);
    let vpp = served.connector.connect(&ALL).unwrap();
    (vpp, served)
}
