//! Which networks are policed: those whose CNI plugin is in a list.

use std::collections::{BTreeMap, BTreeSet};

use picket_policy::NetworkName;
use smol_str::SmolStr;

/// The plugins of networks, and those whose networks are policed.
///
/// A network whose plugin is not known is policed too: a definition that goes, or that nobody can read, opens nothing.
pub(super) struct Plugins {
    policed: BTreeSet<SmolStr>,
    known: BTreeMap<NetworkName, SmolStr>,
}

impl Plugins {
    pub(super) fn new(policed: &[SmolStr]) -> Self {
        Self {
            policed: policed.iter().cloned().collect(),
            known: BTreeMap::new(),
        }
    }

    /// From now on this is the plugin of a network.
    pub(super) fn learn(&mut self, network: NetworkName, plugin: Option<SmolStr>) {
        match plugin {
            Some(plugin) => self.known.insert(network, plugin),
            None => self.known.remove(&network),
        };
    }

    /// Whether policies hold on a network.
    pub(super) fn police(&self, network: &NetworkName) -> bool {
        let plugin = self.known.get(network);
        plugin.is_none_or(|plugin| self.policed.contains(plugin))
    }

    /// What people may not expect of a network.
    pub(super) fn note(&self, network: &NetworkName, is_defined: bool) -> Option<String> {
        match self.known.get(network) {
            Some(plugin) if self.policed.contains(plugin) => None,
            Some(plugin) => {
                let plugin = plugin.escape_debug();
                Some(format!(
                    "network {network}: no policy holds on it, since its plugin `{plugin}` is not in `--network-plugins`"
                ))
            }
            None if is_defined => Some(format!(
                "network {network}: policies hold on it, though its NetworkAttachmentDefinition names no plugin that can be read"
            )),
            None => Some(format!(
                "network {network}: policies hold on it, though it has no NetworkAttachmentDefinition"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use picket_policy::NetworkName;

    use super::Plugins;

    #[test]
    fn only_what_is_known_to_be_of_another_plugin_is_not_policed() {
        let mut plugins = Plugins::new(&["macvlan".into(), "sriov".into()]);
        let network = NetworkName::parse("x/net", "x").unwrap();
        for (plugin, defined, policed, note) in [
            (None, false, true, Some("no NetworkAttachmentDefinition")),
            (None, true, true, Some("names no plugin that can be read")),
            (Some("macvlan"), true, true, None),
            (Some("sriov"), true, true, None),
            (
                Some("Macvlan"),
                true,
                false,
                Some("its plugin `Macvlan` is not in"),
            ),
            (
                Some("bri\ndge"),
                true,
                false,
                Some("its plugin `bri\\ndge` is not in"),
            ),
            (None, false, true, Some("no NetworkAttachmentDefinition")),
        ] {
            plugins.learn(network.clone(), plugin.map(Into::into));
            assert_eq!(plugins.police(&network), policed, "{plugin:?}");
            let said = plugins.note(&network, defined);
            assert_eq!(said.is_some(), note.is_some(), "{plugin:?}");
            assert!(
                said.unwrap_or_default().contains(note.unwrap_or_default()),
                "{plugin:?}"
            );
        }
    }
}
