//! Hashes for names.

use sha2::{Digest as _, Sha256};

/// A hash of a list of texts: no two lists give the bytes of one another.
#[derive(Debug)]
pub(crate) struct Digest(Sha256);

impl Digest {
    /// One of what `kind` says.
    pub(crate) fn of(kind: &str) -> Self {
        Self(Sha256::new()).text(kind)
    }

    /// Takes in one more text.
    #[must_use]
    pub(crate) fn text(mut self, text: &str) -> Self {
        self.0
            .update(u64::try_from(text.len()).unwrap_or(u64::MAX).to_be_bytes());
        self.0.update(text);
        self
    }

    /// Takes in several, and how many they are.
    #[must_use]
    pub(crate) fn texts<T: AsRef<str>>(self, texts: impl IntoIterator<Item = T>) -> Self {
        let texts: Vec<T> = texts.into_iter().collect();
        let counted = self.text(&texts.len().to_string());
        texts
            .iter()
            .fold(counted, |digest, text| digest.text(text.as_ref()))
    }

    /// 64 bits of it, in 16 digits.
    pub(crate) fn digits(self) -> String {
        let digit = |number: u8| char::from_digit(number.into(), 16).unwrap_or_default();
        let bytes = self.0.finalize();
        let digits = bytes
            .iter()
            .take(8)
            .flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]);
        digits.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_text_ends_counts() {
        let one = Digest::of("x").texts(["a", "bc"]).digits();
        let other = Digest::of("x").texts(["ab", "c"]).digits();
        assert_ne!(one, other);
        assert_eq!(one.len(), 16);
    }
}
