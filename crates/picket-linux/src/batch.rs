//! The bytes of nf_tables transactions (`linux/netfilter/nfnetlink.h`): messages of nested attributes, numbers in
//! network byte order.

use crate::message::{Message, NLM_F_ACK, NLM_F_REQUEST};

const SUBSYSTEM: u16 = 10;

/// The changes of one transaction, in order. Attributes go to the message begun last.
#[derive(Debug, Default)]
pub struct Batch {
    bytes: Vec<u8>,
    /// Where each message begins.
    starts: Vec<usize>,
    /// The first message with an attribute longer than its length can say.
    too_long: Option<usize>,
}

const NLA_F_NESTED: u16 = 0x8000;

impl Batch {
    /// Creates an object; one that is there and equal stays.
    pub const CREATE: u16 = 0x400;
    /// Adds behind what is there, with [`Batch::CREATE`].
    pub const APPEND: u16 = 0x800;

    /// Begins a message of a kind of nf_tables (`NFT_MSG_*`) about `family` (`NFPROTO_*`).
    pub fn message(&mut self, kind: u8, flags: u16, family: u8) {
        self.starts.push(self.bytes.len());
        self.bytes.extend(0u32.to_ne_bytes());
        self.bytes.extend(message_type(kind).to_ne_bytes());
        self.bytes.extend((NLM_F_REQUEST | flags).to_ne_bytes());
        self.bytes.extend([0; 8]);
        self.bytes.extend(family_header(family, 0));
    }

    /// How many messages there are.
    pub fn messages(&self) -> usize {
        self.starts.len()
    }

    /// Bytes so far.
    pub fn length(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there is nothing to do.
    pub fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    /// An attribute of these bytes.
    pub fn attribute(&mut self, kind: u16, payload: &[u8]) {
        self.payload(kind, |bytes| bytes.extend(payload));
    }

    /// An attribute whose bytes `write` appends.
    pub fn payload(&mut self, kind: u16, write: impl FnOnce(&mut Vec<u8>)) {
        let start = self.open(kind);
        write(&mut self.bytes);
        self.close(start);
    }

    /// Text that ends in a zero byte.
    pub fn text(&mut self, kind: u16, text: &str) {
        self.payload(kind, |bytes| {
            bytes.extend(text.as_bytes());
            bytes.push(0);
        });
    }

    /// A number of 32 bits.
    pub fn number(&mut self, kind: u16, number: u32) {
        self.attribute(kind, &number.to_be_bytes());
    }

    /// An attribute made of attributes.
    pub fn nest(&mut self, kind: u16, inside: impl FnOnce(&mut Self)) {
        let start = self.open(kind | NLA_F_NESTED);
        inside(self);
        self.close(start);
    }

    fn open(&mut self, kind: u16) -> usize {
        let start = self.bytes.len();
        self.bytes.extend([0; 2]);
        self.bytes.extend(kind.to_ne_bytes());
        start
    }

    fn close(&mut self, start: usize) {
        match u16::try_from(self.bytes.len() - start) {
            Ok(length) => self.write(start, &length.to_ne_bytes()),
            Err(_) => self.too_long = self.too_long.or(self.starts.len().checked_sub(1)),
        }
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn write(&mut self, at: usize, value: &[u8]) {
        if let Some(place) = self.bytes.get_mut(at..at + value.len()) {
            place.copy_from_slice(value);
        }
    }

    /// The first message with an attribute longer than 64 KiB.
    pub(crate) fn too_long(&self) -> Option<usize> {
        self.too_long
    }

    /// The bytes of the messages, numbered from `sequence` on; only the last asks for an answer: the kernel tells errors
    /// unasked, and an answer for each message would fill the buffer of the socket.
    pub(crate) fn finish(mut self, sequence: u32) -> Vec<u8> {
        let starts = std::mem::take(&mut self.starts);
        let ends = starts.iter().skip(1).copied().chain([self.bytes.len()]);
        let mut number = sequence;
        for (&start, end) in starts.iter().zip(ends) {
            let length = u32::try_from(end - start).unwrap_or(u32::MAX);
            self.write(start, &length.to_ne_bytes());
            self.write(start + 8, &number.to_ne_bytes());
            number = number.wrapping_add(1);
        }
        if let Some(&last) = starts.last()
            && let Some(flags) = self.bytes.get(last + 6..last + 8)
            && let Ok(flags) = flags.try_into()
        {
            let flags = u16::from_ne_bytes(flags) | NLM_F_ACK;
            self.write(last + 6, &flags.to_ne_bytes());
        }
        self.bytes
    }
}

/// The netlink type of a message of nf_tables.
pub(crate) fn message_type(kind: u8) -> u16 {
    SUBSYSTEM << 8 | u16::from(kind)
}

/// What follows the netlink header, `struct nfgenmsg`.
pub(crate) fn family_header(family: u8, resource: u16) -> [u8; 4] {
    let [high, low] = resource.to_be_bytes();
    [family, 0, high, low]
}

/// What begins or ends a batch.
pub(crate) fn frame(kind: u16) -> Message {
    Message::new(kind, NLM_F_REQUEST, &family_header(0, SUBSYSTEM))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_aligned_and_say_their_length() {
        let mut batch = Batch::default();
        batch.message(0, Batch::CREATE, 1);
        batch.nest(3, |inside| {
            inside.text(1, "ab");
            inside.number(2, 7);
        });
        let bytes = batch.finish(9);
        let expected: Vec<u8> = [
            &40u32.to_ne_bytes()[..],
            &(10u16 << 8).to_ne_bytes(),
            &0x405u16.to_ne_bytes(),
            &9u32.to_ne_bytes(),
            &[0, 0, 0, 0, 1, 0, 0, 0],
            &20u16.to_ne_bytes(),
            &0x8003u16.to_ne_bytes(),
            &7u16.to_ne_bytes(),
            &1u16.to_ne_bytes(),
            b"ab\0\0",
            &8u16.to_ne_bytes(),
            &2u16.to_ne_bytes(),
            &[0, 0, 0, 7],
        ]
        .concat();
        assert_eq!(bytes, expected);
    }

    #[test]
    fn only_the_last_message_asks_for_an_answer() {
        let mut batch = Batch::default();
        batch.message(1, 0, 1);
        batch.message(2, 0, 1);
        let bytes = batch.finish(1);
        let flags: Vec<u16> = [6, 26]
            .map(|at| u16::from_ne_bytes([bytes[at], bytes[at + 1]]))
            .into();
        assert_eq!(flags, [0x1, 0x5]);
    }

    #[test]
    fn an_attribute_that_is_too_long_is_noted_with_its_message() {
        let mut batch = Batch::default();
        batch.message(1, 0, 1);
        batch.attribute(1, &[0; 65_531]);
        assert_eq!(batch.too_long(), None);
        batch.message(1, 0, 1);
        batch.attribute(1, &[0; 65_532]);
        assert_eq!(batch.too_long(), Some(1));
    }
}
