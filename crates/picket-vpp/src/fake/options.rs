//! What a fake is started with.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Which dumps of session rules a VPP knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dumps {
    /// `session_rules_dump` alone, as before 24.10.
    First,
    /// `session_rules_v2_dump` alone, as when the deprecated one will be gone.
    Second,
    /// Both, as today.
    Both,
}

/// How a [`Fake`](super::Fake) is started, and started again.
#[derive(Clone, Debug)]
pub struct Options {
    pub(super) seed: u64,
    pub(super) socket: Option<PathBuf>,
    pub(super) crcs: BTreeMap<String, String>,
    pub(super) absent: BTreeSet<String>,
    pub(super) dumps: Dumps,
    pub(super) max_sessions: usize,
    pub(super) reads_sctp: bool,
    pub(super) interfaces: Vec<(String, String)>,
    pub(super) session_rules: Option<bool>,
    pub(super) namespaces: Vec<String>,
}

impl Options {
    /// A VPP of today, whose numbers of messages follow from `seed`, on a socket in a new temporary directory.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            socket: None,
            crcs: BTreeMap::new(),
            absent: BTreeSet::new(),
            dumps: Dumps::Both,
            max_sessions: 500_000,
            reads_sctp: false,
            interfaces: Vec::new(),
            session_rules: None,
            namespaces: Vec::new(),
        }
    }

    /// Listens at this path, where nothing may be.
    #[must_use]
    pub fn socket(mut self, path: impl Into<PathBuf>) -> Self {
        self.socket = Some(path.into());
        self
    }

    /// Says another checksum of a message: `crc("acl_add_replace", "1cabdeab")` is VPP 20.05.
    #[must_use]
    pub fn crc(mut self, message: &str, crc: &str) -> Self {
        self.crcs.insert(message.to_owned(), crc.to_owned());
        self
    }

    /// Has no such message, as when a plugin is not loaded.
    #[must_use]
    pub fn without(mut self, message: &str) -> Self {
        self.absent.insert(message.to_owned());
        self
    }

    /// Knows these dumps of session rules.
    #[must_use]
    pub fn dumps(mut self, dumps: Dumps) -> Self {
        self.dumps = dumps;
        self
    }

    /// Keeps at most so many reflected flows; 500,000 otherwise.
    #[must_use]
    pub fn max_sessions(mut self, max: usize) -> Self {
        self.max_sessions = max;
        self
    }

    /// Reads the ports of SCTP. VPP's ACL plugin does not: to it they are 0, so that a rule about any other matches nothing.
    #[must_use]
    pub fn reads_sctp(mut self) -> Self {
        self.reads_sctp = true;
        self
    }

    /// Has this interface, up, from every start on. Beside it there is always `local0` with index 0, which is down.
    #[must_use]
    pub fn interface(mut self, name: &str, tag: &str) -> Self {
        self.interfaces.push((name.to_owned(), tag.to_owned()));
        self
    }

    /// Has the session layer on from every start on, with its table of rules or without.
    #[must_use]
    pub fn session_layer(mut self, rules: bool) -> Self {
        self.session_rules = Some(rules);
        self
    }

    /// Has this namespace of applications, in FIB 0, from every start on, where the session layer is on. Beside it there is
    /// always `default` with index 0.
    #[must_use]
    pub fn namespace(mut self, id: &str) -> Self {
        self.namespaces.push(id.to_owned());
        self
    }

    /// A message that is to be changed or left out, and that the fake does not know.
    pub(super) fn unknown(&self) -> Option<&str> {
        let named = self.crcs.keys().chain(&self.absent);
        let known = |name: &str| super::names::MESSAGES.iter().any(|(known, _)| *known == name);
        named.map(String::as_str).find(|name| !known(name))
    }
}
