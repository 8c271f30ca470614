//! Rules as VPP's session layer has them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use picket_net::{Family, Prefix, Protocol};
use picket_policy::ObjectRef;
use smol_str::SmolStr;

use crate::digest::{Digest, OWN};

/// The transport that a rule is about. Nothing else reaches the session layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

impl Transport {
    /// Both.
    pub const BOTH: [Self; 2] = [Self::Tcp, Self::Udp];

    /// Its protocol.
    pub fn protocol(self) -> Protocol {
        match self {
            Self::Tcp => Protocol::TCP,
            Self::Udp => Protocol::UDP,
        }
    }
}

/// What becomes of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// It is dropped.
    Drop,
    /// It is allowed.
    Allow,
}

impl Action {
    /// The number that the API has for it (`action_index`).
    pub fn index(self) -> u32 {
        match self {
            Self::Drop => 0xffff_fffe,
            Self::Allow => 0xffff_fffd,
        }
    }
}

/// The name of a rule: at most 63 bytes, and another for every other rule of its table.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(SmolStr);

impl Tag {
    /// Whether a rule of this name is picket's.
    pub fn is_own(text: &str) -> bool {
        text.starts_with(OWN)
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// One rule. Both prefixes are of one family; port 0 stands for every port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionRule {
    /// The transport.
    pub transport: Transport,
    /// The addresses at this end.
    pub local: Prefix,
    /// The addresses at the other end.
    pub remote: Prefix,
    /// The port at this end.
    pub local_port: u16,
    /// The port at the other end.
    pub remote_port: u16,
    /// What becomes of what it matches.
    pub action: Action,
}

impl SessionRule {
    /// Its name, which says everything that it says.
    pub fn tag(&self) -> Tag {
        let mut digest = Digest::default();
        digest.bytes(self.action.index().to_be_bytes());
        digest.bytes([self.transport.protocol().number()]);
        digest.prefix(self.local);
        digest.prefix(self.remote);
        digest.bytes(self.local_port.to_be_bytes());
        digest.bytes(self.remote_port.to_be_bytes());
        Tag(format!("{OWN}{}", digest.text()).into())
    }

    /// The rules by which nothing may be opened to addresses of these families, in order. Where no other rule has its place below
    /// them they decide.
    pub fn closing(families: &[Family]) -> Arc<[Self]> {
        let everything = Transport::BOTH.into_iter().flat_map(|transport| {
            families.iter().map(move |&family| Self {
                transport,
                local: Prefix::all(family),
                remote: Prefix::all(family),
                local_port: 0,
                remote_port: 0,
                action: Action::Drop,
            })
        });
        everything.collect()
    }

    /// Whether it is one of [these](Self::closing).
    pub fn is_closing(&self) -> bool {
        let ends = self.local.length() == 0 && self.remote.length() == 0;
        let ports = (self.local_port, self.remote_port) == (0, 0);
        ends && ports && self.action == Action::Drop
    }

    /// The family of its addresses.
    pub fn family(&self) -> Family {
        self.local.family()
    }
}

/// The rules of one node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionRules {
    /// What each pod may open, in its application namespace; in the order of addition.
    pub local: BTreeMap<ObjectRef, Vec<SessionRule>>,
    /// What may be opened to pods of the node over the network; in the order of addition.
    pub global: Vec<SessionRule>,
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
        })
    }
}

impl fmt::Display for SessionRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let action = match self.action {
            Action::Drop => "drop",
            Action::Allow => "allow",
        };
        write!(
            f,
            "{} {} {} {} {} {action}",
            self.transport, self.local, self.local_port, self.remote, self.remote_port
        )
    }
}
