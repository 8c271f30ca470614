//! The threads: one that accepts, and one for each connection.

use std::io::{ErrorKind, Read};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::thread;

use super::fault::Fault;
use super::names::{SOCKCLNT_CREATE, SOCKCLNT_CREATE_REPLY};
use super::request::Request;
use super::shared::{Close, Connection, Receipt, Shared};
use super::wire::{Reader, Writer, terminated};

/// More than any message has.
const LONGEST: u32 = 1 << 28;

/// Accepts until the fake listens no more.
pub(super) fn accept(shared: &Arc<Shared>, listener: &UnixListener) {
    for stream in listener.incoming() {
        if !shared.lock().listening {
            return;
        }
        let Ok((stream, reader)) = stream.and_then(|stream| Ok((stream.try_clone()?, stream))) else {
            continue;
        };
        let connection = shared.connect(stream);
        let server = Arc::clone(shared);
        // A thread that cannot be started drops the stream, which ends the connection.
        drop(thread::Builder::new().spawn(move || serve(&server, &connection, reader)));
    }
}

fn serve(shared: &Shared, connection: &Connection, mut reader: UnixStream) {
    let mut greeted = false;
    while let Ok(message) = read(shared, &mut reader) {
        if take(shared, connection, &message, &mut greeted).is_err() {
            break;
        }
    }
    shared.disconnect(connection);
}

/// Reads the message of the next frame.
fn read(shared: &Shared, stream: &mut UnixStream) -> Result<Vec<u8>, Close> {
    let mut header = [0; 16];
    stream.read_exact(&mut header).map_err(|_| Close)?;
    let mut fields = Reader::new(&header);
    let (queue, length, mark) = (fields.u64(), fields.u32(), fields.u32());
    let length = length.filter(|length| (2..LONGEST).contains(length));
    let (Some(length), Some(0), Some(0)) = (length, queue, mark) else {
        return Err(shared.complain(format!("frame: a header that is none: {header:02x?}")));
    };
    let mut message = vec![0; usize::try_from(length).map_err(|_| Close)?];
    stream
        .read_exact(&mut message)
        .map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => shared.complain("frame: it ends before its message does".to_owned()),
            _ => Close,
        })?;
    Ok(message)
}

/// Handles one message.
fn take(shared: &Shared, connection: &Connection, message: &[u8], greeted: &mut bool) -> Result<(), Close> {
    let mut reader = Reader::new(message);
    let id = reader.u16().unwrap_or_default();
    if id == SOCKCLNT_CREATE {
        *greeted = true;
        return greet(shared, connection, message);
    }
    let names = Arc::clone(&shared.lock().names);
    let Some(name) = names.name(id).filter(|_| *greeted) else {
        return Err(shared.complain(format!("message {id}: there is none with this number")));
    };
    let (Some(client), Some(context)) = (reader.u32(), reader.u32()) else {
        return Err(shared.complain(format!("{name}: it has no context")));
    };
    if client != connection.client {
        return Err(shared.complain(format!("{name}: `client_index` is not that of the handshake")));
    }
    let Some(request) = Request::read(name, message.get(10..).unwrap_or_default()) else {
        return Err(shared.complain(format!("{name}: not with {} bytes", message.len())));
    };
    let receipt = shared.receive(name, message.len() + 16, Some(&request));
    begin(shared, connection, &receipt)?;
    shared.answer(connection, receipt, (name, context, request))
}

/// What a fault does before the message is handled.
fn begin(shared: &Shared, connection: &Connection, receipt: &Receipt) -> Result<(), Close> {
    match &receipt.fault {
        Some(Fault::Delay(delay)) => thread::sleep(*delay),
        Some(Fault::Hold) => shared.hold(connection, receipt.releases),
        Some(Fault::DropBefore) => return Err(Close),
        Some(Fault::Restart) => {
            shared.reset();
            return Err(Close);
        }
        _ => {}
    }
    Ok(())
}

/// The handshake: the number of the client, and the numbers of all messages.
fn greet(shared: &Shared, connection: &Connection, message: &[u8]) -> Result<(), Close> {
    let mut reader = Reader::new(message);
    let (_, context, name) = (reader.u16(), reader.u32(), reader.bytes(64));
    let named = name.and_then(terminated).is_some() && reader.is_empty();
    let (Some(context), true) = (context, named) else {
        return Err(shared.complain(format!("sockclnt_create: not with {} bytes", message.len())));
    };
    let receipt = shared.receive("sockclnt_create", message.len() + 16, None);
    begin(shared, connection, &receipt)?;
    let names = Arc::clone(&shared.lock().names);
    let count = u16::try_from(names.advertised.len()).unwrap_or(u16::MAX);
    let refused = match receipt.fault {
        Some(Fault::Refuse(retval)) => retval,
        _ => 0,
    };
    let head = Writer::default()
        .u16(SOCKCLNT_CREATE_REPLY)
        .u32(0)
        .u32(context)
        .i32(refused)
        .u32(connection.client)
        .u16(count);
    let reply = names
        .advertised
        .iter()
        .fold(head, |writer, (id, name)| writer.u16(*id).text(name.as_bytes()));
    shared.greet(connection, &reply.finish(), receipt.fault)
}
