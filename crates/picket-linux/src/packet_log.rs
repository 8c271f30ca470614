//! Packets that rules log to a netlink group (`linux/netfilter/nfnetlink_log.h`).

mod header;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::RecvFlags;

use crate::batch::family_header;
use crate::message::{Message, NLM_F_ACK, NLM_F_REQUEST, u16_at};
use crate::nfnetlink::Nfnetlink;
use crate::receive::{Datagram, Room, receive};
use crate::reply::{Reply, split_message};
use crate::{Error, NetworkNamespace, Result, Tuple};

const SUBSYSTEM: u16 = 4;
const NFULNL_MSG_PACKET: u16 = 0;
const NFULNL_MSG_CONFIG: u16 = 1;

const NFULA_CFG_CMD: u16 = 1;
const NFULNL_CFG_CMD_BIND: u8 = 1;
const NFULA_CFG_MODE: u16 = 2;
const NFULNL_COPY_PACKET: u8 = 2;
const NFULA_CFG_TIMEOUT: u16 = 4;

const NFULA_PAYLOAD: u16 = 9;
const NFULA_PREFIX: u16 = 10;

/// How much of a packet is copied: an IPv6 header, some extension headers, and the ports.
const COPIED_BYTES: u32 = 128;
/// How long the kernel may keep packets until there are more, in hundredths of a second.
const PATIENCE: u32 = 10;

/// How often the socket is read before others get their turn.
const READINGS_AT_ONCE: usize = 64;

/// Hears the packets that rules of one network namespace log to one group. Only one socket can hear a group.
#[derive(Debug)]
pub struct PacketLog {
    socket: OwnedFd,
}

/// A packet that was logged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged {
    /// What the rule puts before it.
    pub prefix: String,
    /// What its headers say, as the rule saw them; the ports of what is no first fragment are not known.
    pub packet: Tuple,
}

/// What was heard.
#[derive(Debug, Default)]
pub struct Heard {
    /// In order.
    pub packets: Vec<Logged>,
    /// How often packets were lost because there was no room for them.
    pub losses: u64,
    /// How often the socket was read, which each time gave packets or a loss.
    pub readings: usize,
}

impl PacketLog {
    /// Hears what is logged in `namespace` to `group` from now on.
    ///
    /// # Errors
    /// [`Error::Netlink`] when the kernel logs no packets to groups, or another socket hears this one (`EPERM`).
    pub fn open(namespace: &NetworkNamespace, group: u16) -> Result<Self> {
        let mut netlink = Nfnetlink::open(namespace)?;
        let [a, b, c, d] = COPIED_BYTES.to_be_bytes();
        let flags = NLM_F_REQUEST | NLM_F_ACK;
        let request = Message::new(
            SUBSYSTEM << 8 | NFULNL_MSG_CONFIG,
            flags,
            &family_header(0, group),
        )
        .attribute(NFULA_CFG_CMD, &[NFULNL_CFG_CMD_BIND])
        .attribute(NFULA_CFG_MODE, &[a, b, c, d, NFULNL_COPY_PACKET, 0])
        .attribute(NFULA_CFG_TIMEOUT, &PATIENCE.to_be_bytes());
        netlink.request(request, flags, "hear logged packets", |_| Some(()))?;
        Ok(Self {
            socket: netlink.socket,
        })
    }

    /// What there was since the last time, or much of it; it does not wait. To wait, ask [`crate::Epoll`] about this: it says
    /// at once when there is more.
    ///
    /// # Errors
    /// [`Error::Socket`].
    pub fn heard(&mut self) -> Result<Heard> {
        let (mut heard, mut room) = (Heard::default(), Room::of_thread());
        while heard.readings < READINGS_AT_ONCE {
            let length = match receive(&self.socket, &mut room, RecvFlags::DONTWAIT) {
                Ok(Datagram::Whole(length)) => length,
                Ok(Datagram::Cut) | Err(Errno::NOBUFS) => {
                    heard.losses += 1;
                    heard.readings += 1;
                    continue;
                }
                Ok(Datagram::Foreign) => {
                    heard.readings += 1;
                    continue;
                }
                Err(Errno::AGAIN) => return Ok(heard),
                Err(source) => return Err(Error::socket("hear logged packets", source)),
            };
            heard.readings += 1;
            let packets = Logged::all(room.get(..length).unwrap_or_default());
            heard.packets.extend(packets);
        }
        Ok(heard)
    }
}

impl AsFd for PacketLog {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl Logged {
    /// The packets that some messages of the kernel tell of. What tells of something else is passed over, and so is what
    /// follows a message that is not whole.
    pub fn all(mut messages: &[u8]) -> Vec<Self> {
        let mut packets = Vec::new();
        while let Some((message, rest)) = split_message(messages) {
            packets.extend(Self::of(message));
            messages = rest;
        }
        packets
    }

    /// The packet of a message; `None` for one about something else, and for a packet without addresses.
    fn of(message: &[u8]) -> Option<Self> {
        if u16_at(message, 4)? != SUBSYSTEM << 8 | NFULNL_MSG_PACKET {
            return None;
        }
        let reply = Reply::of(message)?;
        let prefix = reply.attributes().find(NFULA_PREFIX).unwrap_or_default();
        Some(Self {
            prefix: String::from_utf8_lossy(prefix).trim_end_matches('\0').to_owned(),
            packet: header::read(reply.attributes().find(NFULA_PAYLOAD)?)?,
        })
    }
}
