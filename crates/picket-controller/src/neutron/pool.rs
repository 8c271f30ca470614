//! By what ports that are kept ready for pods are known.

use std::str::FromStr;

use smol_str::SmolStr;

/// The most characters: with what is behind it, a tag may have 60.
const LONGEST: usize = 40;

/// The tag of ports that others keep ready for pods to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolTag(SmolStr);

/// Why something is no such tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("write at most 40 letters, digits, `-`, `_` and `.`")]
pub struct PoolTagError;

impl PoolTag {
    /// As Neutron has it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for PoolTag {
    type Err = PoolTagError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // Neutron finds no tag with a slash by its address, and a comma parts one tag from the next.
        let is_right = |char: char| char.is_ascii_alphanumeric() || "-_.".contains(char);
        match !text.is_empty() && text.len() <= LONGEST && text.chars().all(is_right) {
            true => Ok(Self(text.into())),
            false => Err(PoolTagError),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_of_a_pool_is_one_that_neutron_takes_and_finds() {
        for (text, is_right) in [
            ("kuryr-pool", true),
            ("", false),
            ("a/b", false),
            ("a,b", false),
            ("a=b", false),
            (&"a".repeat(40), true),
            (&"a".repeat(41), false),
        ] {
            assert_eq!(text.parse::<PoolTag>().is_ok(), is_right, "{text}");
        }
    }
}
