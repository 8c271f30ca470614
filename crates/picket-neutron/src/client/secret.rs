//! What must not be seen in logs.

use std::fmt;

/// A password or token. It is not shown by `Debug`, and has no `Display`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Keeps it from being seen.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// What it is, for whoever it is meant for.
    pub(super) fn expose(&self) -> &str {
        &self.0
    }

    /// A text of others without it: a server may repeat what it was sent.
    pub(super) fn hide_in(&self, text: &str) -> String {
        match self.0.is_empty() {
            true => text.to_owned(),
            false => text.replace(&self.0, "…"),
        }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}
