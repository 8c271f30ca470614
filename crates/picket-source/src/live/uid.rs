//! Uids of the many objects of which little else is kept.

use smol_str::{SmolStr, format_smolstr};

/// A uid. As API servers write it, it is the 16 bytes that it stands for; as text it would be an allocation of 64 bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Uid {
    Number([u8; 16]),
    Other(Box<str>),
}

impl Uid {
    /// The uid that this says.
    pub(crate) fn new(text: &str) -> Self {
        let digits = text.replace('-', "");
        let number = u128::from_str_radix(&digits, 16).ok();
        match number.filter(|&number| written(number) == text) {
            Some(number) => Self::Number(number.to_be_bytes()),
            None => Self::Other(text.into()),
        }
    }

    /// What it says.
    pub(crate) fn text(&self) -> SmolStr {
        match self {
            Self::Number(bytes) => written(u128::from_be_bytes(*bytes)),
            Self::Other(text) => (**text).into(),
        }
    }
}

/// A number as a uid: eight digits, three times four, and twelve.
fn written(number: u128) -> SmolStr {
    let part = |from: u32, digits: u32| (number >> from) & ((1 << (4 * digits)) - 1);
    format_smolstr!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        part(96, 8),
        part(80, 4),
        part(64, 4),
        part(48, 4),
        part(0, 12)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_uid_says_comes_back() {
        for text in [
            "7d1f0c5e-9b1a-4a53-8f0e-2c9d5be7a614",
            "00000000-0000-0000-0000-000000000000",
            "0000000a-0000-0000-0000-00000000000f",
            "ffffffff-ffff-ffff-ffff-ffffffffffff",
        ] {
            assert!(matches!(Uid::new(text), Uid::Number(_)), "{text}");
            assert_eq!(Uid::new(text).text(), text);
        }
        for text in [
            "",
            "u",
            "7D1F0C5E-9b1a-4a53-8f0e-2c9d5be7a614",
            "7d1f0c5e9b1a4a538f0e2c9d5be7a614",
            "7d1f0c5e-9b1a-4a53-8f0e-2c9d5be7a614-",
            "+d1f0c5e-9b1a-4a53-8f0e-2c9d5be7a614",
            "net@7d1f0c5e-9b1a-4a53-8f0e-2c9d5be7a614",
        ] {
            assert!(matches!(Uid::new(text), Uid::Other(_)), "{text}");
            assert_eq!(Uid::new(text).text(), text);
        }
        assert!(Uid::new("1") != Uid::new("2"));
    }
}
