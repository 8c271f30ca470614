//! The bytes of netlink messages (`linux/netlink.h`, `linux/rtnetlink.h`): headers and aligned attributes, in the
//! byte order of the machine.

use std::net::IpAddr;

/// A message under construction: netlink header, family header, attributes.
#[derive(Debug)]
pub(crate) struct Message(Vec<u8>);

/// Where a nested attribute began.
#[derive(Debug)]
pub(crate) struct Nest(usize);

pub(crate) const HEADER: usize = 16;
/// The flag of every request.
pub(crate) const NLM_F_REQUEST: u16 = 0x1;
/// Asks for an answer also when there is no error.
pub(crate) const NLM_F_ACK: u16 = 0x4;

impl Message {
    /// A request of `kind` with `flags`, followed by the fixed header of its family.
    pub(crate) fn new(kind: u16, flags: u16, family_header: &[u8]) -> Self {
        let mut message = Self(Vec::with_capacity(128));
        message.0.extend(0u32.to_ne_bytes());
        message.0.extend(kind.to_ne_bytes());
        message.0.extend(flags.to_ne_bytes());
        message.0.extend([0; 8]);
        message.0.extend(family_header);
        message.align();
        message
    }

    pub(crate) fn attribute(mut self, kind: u16, payload: &[u8]) -> Self {
        let length = u16::try_from(payload.len() + 4).unwrap_or(u16::MAX);
        self.0.extend(length.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(payload);
        self.align();
        self
    }

    pub(crate) fn text(self, kind: u16, text: &str) -> Self {
        let mut payload = text.as_bytes().to_vec();
        payload.push(0);
        self.attribute(kind, &payload)
    }

    pub(crate) fn number(self, kind: u16, number: u32) -> Self {
        self.attribute(kind, &number.to_ne_bytes())
    }

    pub(crate) fn address(self, kind: u16, address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => self.attribute(kind, &address.octets()),
            IpAddr::V6(address) => self.attribute(kind, &address.octets()),
        }
    }

    /// Begins a nested attribute, which `header` follows at once when it is not empty.
    pub(crate) fn open(mut self, kind: u16, header: &[u8]) -> (Self, Nest) {
        let nest = Nest(self.0.len());
        self.0.extend([0; 2]);
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(header);
        self.align();
        (self, nest)
    }

    pub(crate) fn close(mut self, nest: &Nest) -> Self {
        let length = u16::try_from(self.0.len() - nest.0).unwrap_or(u16::MAX);
        if let Some(place) = self.0.get_mut(nest.0..nest.0 + 2) {
            place.copy_from_slice(&length.to_ne_bytes());
        }
        self
    }

    /// The finished bytes with this sequence number.
    pub(crate) fn finish(mut self, sequence: u32) -> Vec<u8> {
        let length = u32::try_from(self.0.len()).unwrap_or(u32::MAX);
        if let Some(place) = self.0.get_mut(..4) {
            place.copy_from_slice(&length.to_ne_bytes());
        }
        if let Some(place) = self.0.get_mut(8..12) {
            place.copy_from_slice(&sequence.to_ne_bytes());
        }
        self.0
    }

    fn align(&mut self) {
        self.0.resize(self.0.len().next_multiple_of(4), 0);
    }
}

/// The answer to a request that asked for one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Acknowledgement {
    pub(crate) sequence: u32,
    /// 0, or an error code as a positive number.
    pub(crate) error: i32,
    /// The kernel's explanation, if it gave one.
    pub(crate) explanation: Option<String>,
    /// The byte of the request where the attribute begins that is to blame, if the kernel said so.
    pub(crate) offset: Option<u32>,
}

const NLMSG_ERROR: u16 = 2;
const NLM_F_CAPPED: u16 = 0x100;
const NLMSGERR_ATTR_MSG: u16 = 1;
const NLMSGERR_ATTR_OFFS: u16 = 2;

/// Reads the first message of `bytes` when it is an acknowledgement.
pub(crate) fn acknowledgement(bytes: &[u8]) -> Option<Acknowledgement> {
    if u16_at(bytes, 4)? != NLMSG_ERROR {
        return None;
    }
    let length = usize::try_from(u32_at(bytes, 0)?).ok()?;
    let bytes = bytes.get(..length)?;
    let capped = u16_at(bytes, 6)? & NLM_F_CAPPED != 0;
    // The header of the request follows the code; the whole request unless the answer is capped.
    let request = if capped {
        HEADER
    } else {
        usize::try_from(u32_at(bytes, HEADER + 4)?).ok()?
    };
    let (mut explanation, mut offset) = (None, None);
    let mut at = HEADER + 4 + request.next_multiple_of(4);
    while let (Some(length), Some(kind)) = (u16_at(bytes, at), u16_at(bytes, at + 2)) {
        let length = usize::from(length).max(4);
        if kind == NLMSGERR_ATTR_MSG {
            let text = bytes.get(at + 4..at + length)?;
            explanation = Some(String::from_utf8_lossy(text).trim_end_matches('\0').to_owned());
        }
        if kind == NLMSGERR_ATTR_OFFS {
            offset = u32_at(bytes, at + 4);
        }
        at += length.next_multiple_of(4);
    }
    Some(Acknowledgement {
        sequence: u32_at(bytes, 8)?,
        error: u32_at(bytes, HEADER)?.cast_signed().checked_neg()?,
        explanation,
        offset,
    })
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}
