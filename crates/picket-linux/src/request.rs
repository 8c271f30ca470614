//! One request to a subsystem of netfilter, and what comes for it.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::RecvFlags;

use crate::message::{Acknowledgement, HEADER, Message, acknowledgement, u16_at, u32_at};
use crate::nfnetlink::{Nfnetlink, refused};
use crate::receive::{Datagram, Room, receive};
use crate::reply::split_message;
use crate::{Error, Result};

/// Asks for every object there is.
pub(crate) const NLM_F_DUMP: u16 = 0x300;
const NLMSG_DONE: u16 = 3;

impl Nfnetlink {
    /// Sends `request`, which has these flags, and gives `each` what comes for it: the messages of a list, or one message.
    /// `each` gives nothing for a message that it cannot read. Tells whether everything came: what found no room in the
    /// buffer of the socket must be asked for again.
    ///
    /// # Errors
    /// [`Error::Netlink`].
    pub(crate) fn request(
        &mut self,
        request: Message,
        flags: u16,
        action: &str,
        each: impl FnMut(&[u8]) -> Option<()>,
    ) -> Result<bool> {
        let sequence = self.take_sequence(1);
        self.send(&[&request.finish(sequence)])
            .map_err(|error| refused(action, error))?;
        let asked = Asked {
            sequence,
            is_list: flags & NLM_F_DUMP == NLM_F_DUMP,
            action,
        };
        asked.answers(&self.socket, &mut Room::of_thread(), each)
    }
}

/// A request that was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) sequence: u32,
    pub(crate) is_list: bool,
    /// What was to be done.
    pub(crate) action: &'a str,
}

impl Asked<'_> {
    /// Gives `each` what comes for it, see [`Nfnetlink::request`].
    pub(crate) fn answers(
        &self,
        socket: &OwnedFd,
        buffer: &mut [u8],
        mut each: impl FnMut(&[u8]) -> Option<()>,
    ) -> Result<bool> {
        let action = self.action;
        let (mut came_whole, mut unreadable) = (true, false);
        loop {
            let length = match receive(socket, buffer, RecvFlags::empty()) {
                Ok(Datagram::Whole(length)) => length,
                Ok(Datagram::Cut) => return Err(refused(action, Errno::MSGSIZE)),
                Ok(Datagram::Foreign) => continue,
                Err(Errno::NOBUFS) if self.is_list => {
                    came_whole = false;
                    continue;
                }
                Err(error) => return Err(refused(action, error)),
            };
            let mut rest = buffer.get(..length).unwrap_or_default();
            while !rest.is_empty() {
                let (message, after) = split_message(rest).ok_or_else(|| refused(action, Errno::PROTO))?;
                rest = after;
                if u32_at(message, 8) != Some(self.sequence) {
                    continue;
                }
                let is_last = match ending(message) {
                    Some(Ending::Refused(answer)) => return Err(explained(action, &answer)),
                    Some(Ending::Done) => true,
                    None => {
                        // The rest of a list is in the way of the next request until it is read.
                        unreadable |= each(message).is_none();
                        !self.is_list
                    }
                };
                match (is_last, unreadable) {
                    (true, true) => return Err(refused(action, Errno::PROTO)),
                    (true, false) => return Ok(came_whole),
                    (false, _) => {}
                }
            }
        }
    }
}

/// What ends the answer to a request.
enum Ending {
    Done,
    Refused(Acknowledgement),
}

fn ending(message: &[u8]) -> Option<Ending> {
    if u16_at(message, 4) == Some(NLMSG_DONE) {
        let code = u32_at(message, HEADER).map_or(0, u32::cast_signed);
        return Some(match code.checked_neg() {
            Some(error) if code < 0 => Ending::Refused(Acknowledgement {
                sequence: 0,
                error,
                explanation: None,
                offset: None,
            }),
            _ => Ending::Done,
        });
    }
    let answer = acknowledgement(message)?;
    Some(match answer.error {
        0 => Ending::Done,
        _ => Ending::Refused(answer),
    })
}

fn explained(action: &str, answer: &Acknowledgement) -> Error {
    Error::Netlink {
        action: action.to_owned(),
        detail: answer
            .explanation
            .as_ref()
            .map_or(String::new(), |text| format!(": {text}")),
        source: io::Error::from_raw_os_error(answer.error),
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::{SendFlags, netlink, send, sockopt};

    use super::*;
    use crate::batch::{family_header, message_type};
    use crate::message::NLM_F_REQUEST;
    use crate::{Batch, NetworkNamespace};

    const NFT_MSG_NEWTABLE: u8 = 0;
    const NFT_MSG_GETTABLE: u8 = 1;
    const NFT_MSG_DELTABLE: u8 = 2;
    const NFTA_TABLE_NAME: u16 = 1;
    const INET: u8 = 1;
    /// The bit of `NFNLGRP_NFTABLES`.
    const GROUPS: u32 = 1 << 6;

    /// Nothing but the answers comes to the sockets of this crate that ask, so that one is made here to which more comes, and which has
    /// little room: between a request and its answers others change the ruleset more than that.
    #[test]
    fn what_found_no_room_is_missing() {
        let namespace = NetworkNamespace::create().unwrap();
        let socket = crate::netlink::open(&namespace, Some(netlink::NETFILTER), GROUPS).unwrap();
        sockopt::set_socket_recv_buffer_size(&socket, 1 << 17).unwrap();
        let mut other = Nfnetlink::open(&namespace).unwrap();
        let mut change = |kind: u8, flags: u16| {
            let mut batch = Batch::default();
            batch.message(kind, flags, INET);
            batch.text(NFTA_TABLE_NAME, "t");
            other.commit(batch, None).unwrap();
        };
        let tables = |sequence: u32, meanwhile: &mut dyn FnMut()| {
            let flags = NLM_F_REQUEST | NLM_F_DUMP;
            let request = Message::new(message_type(NFT_MSG_GETTABLE), flags, &family_header(INET, 0));
            send(&socket, &request.finish(sequence), SendFlags::empty()).unwrap();
            meanwhile();
            let asked = Asked {
                sequence,
                is_list: true,
                action: "list the tables",
            };
            let mut count = 0;
            let came_whole = asked.answers(&socket, &mut vec![0; 1 << 16], |_| {
                count += 1;
                Some(())
            });
            (came_whole.unwrap(), count)
        };
        change(NFT_MSG_NEWTABLE, Batch::CREATE);
        // Numbers that no transaction has.
        assert_eq!(tables(1 << 30, &mut || {}), (true, 1));
        let mut much = || {
            for _ in 0..500 {
                change(NFT_MSG_DELTABLE, 0);
                change(NFT_MSG_NEWTABLE, Batch::CREATE);
            }
        };
        let (came_whole, _) = tables((1 << 30) + 1, &mut much);
        assert!(!came_whole);
        // What is still there of what nobody asked for may leave no room once more.
        let mut again = (2..10).map(|number| tables((1 << 30) + number, &mut || {}));
        assert!(again.any(|read| read == (true, 1)));
    }
}
