//! Names that say what they name.

use std::net::IpAddr;

use picket_net::Prefix;
use sha2::{Digest as _, Sha256};

/// What the names of everything that picket puts into VPP begin with.
pub(crate) const OWN: &str = "picket-";

/// A hash of rules, for their name.
#[derive(Debug, Default)]
pub(crate) struct Digest(Vec<u8>);

impl Digest {
    /// One that takes in so many bytes.
    pub(crate) fn with_capacity(bytes: usize) -> Self {
        Self(Vec::with_capacity(bytes))
    }

    /// Takes in bytes.
    pub(crate) fn bytes(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.extend_from_slice(bytes.as_ref());
    }

    /// Takes in a network, in bytes that no other has.
    pub(crate) fn prefix(&mut self, prefix: Prefix) {
        self.bytes([prefix.length()]);
        match prefix.first() {
            IpAddr::V4(address) => {
                self.bytes([4]);
                self.bytes(address.octets());
            }
            IpAddr::V6(address) => {
                self.bytes([6]);
                self.bytes(address.octets());
            }
        }
    }

    /// 128 bits of it, in 32 digits.
    pub(crate) fn text(self) -> String {
        let digit = |number: u8| char::from_digit(number.into(), 16).unwrap_or_default();
        let bytes = Sha256::digest(&self.0);
        let digits = bytes
            .iter()
            .take(16)
            .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
        digits.collect()
    }
}
