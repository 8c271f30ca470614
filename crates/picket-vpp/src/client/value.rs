//! What the client takes and gives: plain values, in the words of VPP's API.

use std::fmt;

use picket_net::Prefix;

/// A tag or a name: at most [`Label::LONGEST`] bytes and no zero among them, as VPP keeps it in 64 with a final zero.
///
/// Others may write whatever bytes they like.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(Box<[u8]>);

impl Label {
    /// The most bytes that one has.
    pub const LONGEST: usize = 63;

    /// The label of these bytes, or `None` when VPP cannot hold them.
    pub fn new(text: impl AsRef<[u8]>) -> Option<Self> {
        let bytes = text.as_ref();
        let fits = bytes.len() <= Self::LONGEST && !bytes.contains(&0);
        fits.then(|| Self(bytes.into()))
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// It as text, or `None` when it is none.
    pub fn as_str(&self) -> Option<&str> {
        std::str::from_utf8(&self.0).ok()
    }
}

impl fmt::Display for Label {
    /// On one line, whatever it holds.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", String::from_utf8_lossy(&self.0).escape_debug())
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// An access control list of the ACL plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Acl {
    /// By what its owner knows it; VPP lets several have the same.
    pub tag: Label,
    /// The first that matches decides; what none matches, the next list of the interface does, and the last denies.
    pub rules: Vec<AclRule>,
}

/// One rule of an [`Acl`]. VPP takes it only when both prefixes are of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AclRule {
    /// What it does.
    pub action: AclAction,
    /// From where.
    pub source: Prefix,
    /// Where to.
    pub destination: Prefix,
    /// The IP protocol; 0 is every one, and the fields below count for nothing then.
    pub protocol: u8,
    /// The first and the last source port, or type of ICMP.
    pub source_ports: (u16, u16),
    /// The first and the last destination port, or code of ICMP.
    pub destination_ports: (u16, u16),
    /// The flags of TCP that are looked at, and how they must be.
    pub tcp_flags: (u8, u8),
}

/// What a rule of an [`Acl`] does with the packets that it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum AclAction {
    /// Drops them.
    Deny,
    /// Lets them through.
    Permit,
    /// The same, and whatever else belongs to the connection, in both directions of the interface.
    PermitReflect,
}

/// The ACLs of an interface, by index and in the order in which they are asked; at most 255 together.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfaceLists {
    /// The index of the interface.
    pub interface: u32,
    /// For what enters VPP there.
    pub input: Vec<u32>,
    /// For what leaves VPP there.
    pub output: Vec<u32>,
}

/// A rule of the session layer, which judges connections that end in VPP.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionRule {
    /// The transport protocol.
    pub transport: Transport,
    /// The addresses on VPP's side. VPP makes it every address in a local rule.
    pub local: Prefix,
    /// The addresses of the other side.
    pub remote: Prefix,
    /// The port on VPP's side; 0 is every one, and what VPP makes of it in a local rule.
    pub local_port: u16,
    /// The port of the other side; 0 is every one.
    pub remote_port: u16,
    /// What it does.
    pub action: SessionAction,
    /// In which table of the namespace it is.
    pub scope: SessionScope,
    /// Its name, which no other of the same table and transport has.
    ///
    /// VPP looks the tags of IPv6 rules up wrongly when it lists them: there it may be empty, or that of an IPv4 rule.
    pub tag: Label,
}

/// A transport protocol of the session layer. Of a rule that is added VPP takes whatever is not UDP for TCP; it lists tables of
/// all protocols that it knows, the others without rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Transport {
    /// Transmission Control Protocol.
    Tcp,
    /// User Datagram Protocol.
    Udp,
    /// One of those that there are no rules for, by its number.
    Other(u8),
}

impl fmt::Display for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp => f.write_str("TCP"),
            Self::Udp => f.write_str("UDP"),
            Self::Other(number) => write!(f, "transport {number}"),
        }
    }
}

/// What a [`SessionRule`] does with connections that it matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SessionAction {
    /// Lets them be.
    Allow,
    /// Refuses them.
    Deny,
    /// Nothing: the rule above it in the tree decides.
    Defer,
    /// Gives them to the application of this index, which is below 0xfffffffd.
    Redirect(u32),
}

/// Which table of a namespace a [`SessionRule`] is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SessionScope {
    /// That of its FIB, for connections that arrive.
    Global,
    /// Its own, for connections that its applications begin.
    Local,
    /// Both.
    Both,
}

/// A [`SessionRule`] that VPP has.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstalledRule {
    /// The indices of the namespaces whose table it is in: several share that of a FIB.
    pub namespaces: Vec<u32>,
    /// What it says.
    pub rule: SessionRule,
}

/// An application namespace of the session layer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Namespace {
    /// Its name.
    pub id: Label,
    /// What an application must know to join it.
    pub secret: u64,
    /// The index of the interface whose FIBs are its own; `None`: those below.
    pub interface: Option<u32>,
    /// The table of IPv4.
    pub ipv4_fib: u32,
    /// The table of IPv6.
    pub ipv6_fib: u32,
}

/// An interface of VPP.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Interface {
    /// Its index.
    pub index: u32,
    /// The index of the interface that it is a part of; its own when it is none.
    pub parent: u32,
    /// Its link-layer address.
    pub address: [u8; 6],
    /// Whether it is switched on, and has a link.
    pub state: LinkState,
    /// Its name, as in `tap0`.
    pub name: Label,
    /// The kind of device, as in `virtio`.
    pub device: Label,
    /// What others call it.
    pub tag: Label,
}

/// Whether an interface passes packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkState {
    /// Whether it is switched on.
    pub is_up: bool,
    /// Whether it has a link.
    pub has_link: bool,
}

/// What happened in VPP.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Event {
    /// An interface is new, or as it was not before.
    Changed {
        /// Its index.
        interface: u32,
        /// How it is now.
        state: LinkState,
    },
    /// An interface is gone.
    Deleted {
        /// The index that it had.
        interface: u32,
    },
    /// More happened than was kept: ask for all interfaces.
    Lost,
}

/// The version of the ACL plugin's API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Version {
    /// What changes with what older clients cannot use.
    pub major: u32,
    /// What changes with what is added.
    pub minor: u32,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_what_vpp_can_hold() {
        assert!(Label::new("").is_some() && Label::new([b'x'; 63]).is_some());
        assert!(Label::new([b'x'; 64]).is_none() && Label::new("a\0b").is_none());
        let foreign = Label::new([b'a', 0xff, b'\n']).unwrap();
        assert_eq!(foreign.as_str(), None);
        assert_eq!(foreign.to_string(), "a\u{fffd}\\n");
    }
}
