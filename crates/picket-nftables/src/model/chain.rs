//! Chains.

use super::{Comment, Name, Rule};

/// A place in the kernel's packet path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Hook {
    /// Every packet that arrives, before routing.
    Prerouting,
    /// Packets for this machine.
    Input,
    /// Packets that pass through.
    Forward,
    /// Packets made here.
    Output,
    /// Every packet that leaves, after routing.
    Postrouting,
}

impl Hook {
    /// Every hook that a chain of ours may have.
    pub const ALL: [Self; 5] = [
        Self::Prerouting,
        Self::Input,
        Self::Forward,
        Self::Output,
        Self::Postrouting,
    ];

    /// The hook that nft writes so.
    pub fn from_keyword(keyword: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|hook| hook.keyword() == keyword)
    }

    /// As nft writes it.
    pub const fn keyword(self) -> &'static str {
        match self {
            Self::Prerouting => "prerouting",
            Self::Input => "input",
            Self::Forward => "forward",
            Self::Output => "output",
            Self::Postrouting => "postrouting",
        }
    }
}

/// What a base chain does with packets that no rule of it decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Policy {
    /// They go on.
    Accept,
    /// They are dropped.
    Drop,
}

impl Policy {
    /// As nft writes it.
    pub fn keyword(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Drop => "drop",
        }
    }
}

/// Priorities that have names.
pub mod priority {
    /// `raw`, before connection tracking.
    pub const RAW: i32 = -300;
    /// `mangle`.
    pub const MANGLE: i32 = -150;
    /// `dstnat`, where destinations are translated.
    pub const DSTNAT: i32 = -100;
    /// `filter`.
    pub const FILTER: i32 = 0;
    /// `security`.
    pub const SECURITY: i32 = 50;
    /// `srcnat`, where sources are translated.
    pub const SRCNAT: i32 = 100;
}

/// Where a base chain of type `filter` hangs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Base {
    /// The place.
    pub hook: Hook,
    /// The order among base chains of one hook, lower first.
    pub priority: i32,
    /// What happens when no rule decides.
    pub policy: Policy,
}

/// A chain of rules: a base chain that packets enter by themselves, or one that rules jump to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Its name.
    pub name: Name,
    /// Where packets enter it by themselves.
    pub base: Option<Base>,
    /// What it is for.
    pub comment: Option<Comment>,
    /// Its rules, first to last.
    pub rules: Vec<Rule>,
}

impl Chain {
    /// A chain that rules jump to, without rules.
    pub fn regular(name: Name) -> Self {
        Self {
            name,
            base: None,
            comment: None,
            rules: Vec::new(),
        }
    }

    /// A base chain without rules.
    pub fn base(name: Name, base: Base) -> Self {
        Self {
            base: Some(base),
            ..Self::regular(name)
        }
    }

    /// The same chain with a comment.
    #[must_use]
    pub fn commented(self, comment: Comment) -> Self {
        Self {
            comment: Some(comment),
            ..self
        }
    }

    /// The same chain with these rules.
    #[must_use]
    pub fn with_rules(self, rules: impl IntoIterator<Item = Rule>) -> Self {
        Self {
            rules: rules.into_iter().collect(),
            ..self
        }
    }
}
