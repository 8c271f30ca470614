//! What the kernel says about objects of nf_tables (`linux/netfilter/nfnetlink.h`).

use crate::message::{HEADER, u16_at, u32_at};

/// Bytes of the header of a family, `struct nfgenmsg`.
const FAMILY_HEADER: usize = 4;

/// An object of a dump.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// Its kind (`NFT_MSG_*`).
    pub kind: u8,
    attributes: Vec<u8>,
}

impl Reply {
    /// What it says.
    pub fn attributes(&self) -> Attributes<'_> {
        Attributes::of(&self.attributes)
    }

    /// The objects that some messages are, as the kernel sends them; `None` when the last is not whole.
    pub fn all(mut messages: &[u8]) -> Option<Vec<Self>> {
        let mut objects = Vec::new();
        while !messages.is_empty() {
            let (message, rest) = split_message(messages)?;
            objects.push(Self::of(message)?);
            messages = rest;
        }
        Some(objects)
    }

    /// The object that one message is.
    pub(crate) fn of(message: &[u8]) -> Option<Self> {
        let [kind, _subsystem] = u16_at(message, 4)?.to_le_bytes();
        let attributes = message.get(HEADER + FAMILY_HEADER..)?.to_vec();
        Some(Self { kind, attributes })
    }
}

/// The attributes in some bytes, each with its kind and its bytes.
#[derive(Clone, Debug)]
pub struct Attributes<'a>(&'a [u8]);

impl<'a> Attributes<'a> {
    /// Those of a message, or within an attribute.
    pub fn of(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The bytes of the first of one kind.
    pub fn find(self, kind: u16) -> Option<&'a [u8]> {
        let mut all = self;
        all.find_map(|(found, bytes)| (found == kind).then_some(bytes))
    }

    /// The bytes after the last that was taken; once there are no more, those that make no attribute.
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        const KIND: u16 = 0x3fff;
        let length = usize::from(u16_at(self.0, 0)?);
        let kind = u16_at(self.0, 2)? & KIND;
        let payload = self.0.get(4..length)?;
        self.0 = self.0.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, payload))
    }
}

/// The first message of a datagram, and what follows it.
pub(crate) fn split_message(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = usize::try_from(u32_at(bytes, 0)?).ok()?;
    let message = bytes.get(..length).filter(|message| message.len() >= HEADER)?;
    Some((
        message,
        bytes.get(length.next_multiple_of(4)..).unwrap_or_default(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Batch;

    #[test]
    fn what_is_cut_off_is_noticed() {
        let mut batch = Batch::default();
        for kind in [0, 3] {
            batch.message(kind, 0, 1);
            batch.text(1, "name");
        }
        let bytes = batch.finish(1);
        let kinds = |bytes: &[u8]| Reply::all(bytes).map(|all| all.iter().map(|one| one.kind).collect());
        assert_eq!(kinds(&bytes), Some(vec![0, 3]));
        for end in 1..bytes.len() {
            let expected = (end == bytes.len() / 2).then(|| vec![0]);
            assert_eq!(kinds(&bytes[..end]), expected, "{end} bytes");
        }
    }

    #[test]
    fn what_is_no_attribute_is_left() {
        let bytes = [8, 0, 1, 0, 1, 2, 3, 4, 9, 0, 2, 0, 5];
        let mut attributes = Attributes::of(&bytes);
        assert_eq!(attributes.next(), Some((1, &[1, 2, 3, 4][..])));
        assert_eq!(attributes.next(), None);
        assert_eq!(attributes.rest(), [9, 0, 2, 0, 5]);
    }
}
