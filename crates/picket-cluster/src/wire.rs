//! Which wire a secondary network is on.

use std::fmt;
use std::str::FromStr;

use smol_str::SmolStr;

/// The highest VLAN (IEEE 802.1Q).
pub(crate) const LAST_VLAN: u16 = 4094;

/// How a CNI plugin brings interfaces of pods onto a wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Medium {
    Bridge,
    Ipvlan,
    Macvlan,
    Vlan,
}

impl Medium {
    const ALL: [Self; 4] = [Self::Bridge, Self::Ipvlan, Self::Macvlan, Self::Vlan];

    /// The one that a plugin of this type makes, if picket knows how the plugin is told where its wire is.
    pub(crate) fn of_plugin(plugin: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|medium| medium.name() == plugin)
    }

    /// The type of its plugin.
    fn name(self) -> &'static str {
        match self {
            Self::Bridge => "bridge",
            Self::Ipvlan => "ipvlan",
            Self::Macvlan => "macvlan",
            Self::Vlan => "vlan",
        }
    }
}

/// What interfaces are on that reach each other without a router, as far as the configuration of a CNI plugin tells.
///
/// Networks with equal wires are parts of one. Those with different wires may be, too: picket does not look at what links and
/// bridges lead to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wire {
    pub(crate) medium: Medium,
    /// The name of the bridge, or of the link below the interfaces; empty for the link of the default route.
    pub(crate) link: SmolStr,
    /// 0 for none.
    pub(crate) vlan: u16,
}

impl fmt::Display for Wire {
    /// The type of the plugin, the link or bridge, and the VLAN if there is one, as in `macvlan/eth1` and `bridge/br0/10`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.medium.name(), self.link)?;
        match self.vlan {
            0 => Ok(()),
            vlan => write!(f, "/{vlan}"),
        }
    }
}

/// Text that is no [`Wire`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a wire is the type of a plugin and a link, as in `macvlan/eth1`, and perhaps a VLAN, as in `bridge/br0/10`"
)]
pub struct NoWire;

impl FromStr for Wire {
    type Err = NoWire;

    /// What [`Display`](fmt::Display) writes.
    fn from_str(text: &str) -> Result<Self, NoWire> {
        let mut parts = text.split('/');
        let medium = parts.next().and_then(Medium::of_plugin).ok_or(NoWire)?;
        let link = parts.next().ok_or(NoWire)?;
        let vlan = parts.next().map_or(Ok(0), str::parse).map_err(|_| NoWire)?;
        let wire = Self {
            medium,
            link: link.into(),
            vlan,
        };
        let proper = (link.is_empty() || is_interface_name(link)) && vlan <= LAST_VLAN;
        // One text for each wire.
        (proper && wire.to_string() == text).then_some(wire).ok_or(NoWire)
    }
}

/// What the kernel takes for the name of an interface (Linux `dev_valid_name`).
pub(crate) fn is_interface_name(name: &str) -> bool {
    let barred = |character: char| character == '/' || character == ':' || character.is_whitespace();
    (1..16).contains(&name.len()) && name != "." && name != ".." && !name.contains(barred)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wire_is_read_as_it_is_written() {
        for text in [
            "macvlan/eth1",
            "macvlan/",
            "ipvlan/bond0.10",
            "bridge/br0/10",
            "vlan/eth1/4094",
        ] {
            assert_eq!(text.parse::<Wire>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "macvlan",
            "bond/eth1",
            "Macvlan/eth1",
            "macvlan/eth1/",
            "macvlan/eth1/0",
            "macvlan/eth1/010",
            "macvlan/eth1/+1",
            "macvlan/eth1/4095",
            "macvlan/eth1/99999",
            "macvlan/eth1/1/2",
            "macvlan/e:1",
            "macvlan/e 1",
            "macvlan/a-name-that-is-long",
        ] {
            assert_eq!(text.parse::<Wire>(), Err(NoWire), "{text:?}");
        }
    }
}
