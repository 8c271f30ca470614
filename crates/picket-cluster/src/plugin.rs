//! What the configuration of CNI plugins says of a secondary network.
//!
//! `spec.config` of a NetworkAttachmentDefinition is text in which anybody may have written anything. It is read as plugins read
//! it, whose JSON does not tell fields by the case of their names; where two could be meant, nobody knows which. Multus runs
//! the `type` of a configuration that also has `plugins`, and others look at these alone: two that differ there could both be
//! meant.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use smol_str::SmolStr;

use crate::Wire;
use crate::wire::{LAST_VLAN, Medium, is_interface_name};

/// The longest name that a file can have, and so a plugin (Linux, `NAME_MAX`).
const LONGEST: usize = 255;

/// The bridge of the plugin `bridge` where none is named (its documentation, `bridge`).
const DEFAULT_BRIDGE: &str = "cni0";

/// What the configuration of a network tells. The first plugin of a list is the one that counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkConfig {
    /// The `type` of the plugin; `None` when nobody can tell.
    pub plugin: Option<SmolStr>,
    /// The wire that the plugin brings interfaces onto; `None` when nobody can tell, so that it is no other network's.
    pub wire: Option<Wire>,
}

impl NetworkConfig {
    /// Reads the `spec.config` of a NetworkAttachmentDefinition: the `type` of a configuration, or that of the first of its
    /// `plugins` (CNI specification 1.1, section 1), and what that plugin is told of the wire.
    pub fn read(text: &str) -> Self {
        let config: Config = serde_json::from_str(text).unwrap_or_default();
        let (name, place) = match (config.plugins, config.name) {
            // Which of the two says where the wire is depends on who runs it.
            (Some(first), Some(own)) => (
                first.and_then(|first| first.name).filter(|first| *first == own),
                None,
            ),
            (Some(first), None) => first.map_or((None, None), |first| (first.name, Some(first.place))),
            (None, own) => (own, Some(config.place)),
        };
        let plugin = name.filter(|name| (1..=LONGEST).contains(&name.len()));
        let wire = plugin
            .as_deref()
            .zip(place)
            .and_then(|(plugin, place)| place.wire(plugin));
        Self {
            plugin: plugin.map(Into::into),
            wire,
        }
    }
}

/// What a configuration says of plugins.
#[derive(Default)]
struct Config {
    name: Option<String>,
    place: Place,
    /// The first of a list, when it is one.
    plugins: Option<Option<Box<Config>>>,
}

/// What a configuration says of the wire, in the plugins' own words.
#[derive(Default)]
struct Place {
    master: Option<Box<RawValue>>,
    bridge: Option<Box<RawValue>>,
    vlan: Option<Box<RawValue>>,
    vlan_id: Option<Box<RawValue>>,
    vlan_trunk: Option<Box<RawValue>>,
    in_container: Option<Box<RawValue>>,
    /// Whether something is there twice.
    unclear: bool,
}

impl Place {
    /// The place of a field, in small letters.
    fn field(&mut self, name: &str) -> Option<&mut Option<Box<RawValue>>> {
        Some(match name {
            "master" => &mut self.master,
            "bridge" => &mut self.bridge,
            "vlan" => &mut self.vlan,
            "vlanid" => &mut self.vlan_id,
            "vlantrunk" => &mut self.vlan_trunk,
            "linkincontainer" => &mut self.in_container,
            _ => return None,
        })
    }

    /// The wire, if it is one of the node and told without doubt.
    fn wire(&self, plugin: &str) -> Option<Wire> {
        let medium = Medium::of_plugin(plugin)?;
        // A link in the pod may be another in each pod.
        let in_container = self.in_container.as_deref().map_or(Some(None), said::<bool>)?;
        if self.unclear || in_container == Some(true) {
            return None;
        }
        let (link, vlan) = match medium {
            Medium::Macvlan | Medium::Ipvlan => (link(self.master.as_deref())?, vlan(self.vlan.as_deref())?),
            Medium::Bridge => {
                // An interface of a trunk is on several at once.
                let trunk = self
                    .vlan_trunk
                    .as_deref()
                    .map_or(Some(None), said::<Vec<IgnoredAny>>)?;
                if trunk.is_some_and(|trunk| !trunk.is_empty()) {
                    return None;
                }
                let name = link(self.bridge.as_deref())?;
                let name = if name.is_empty() {
                    DEFAULT_BRIDGE.into()
                } else {
                    name
                };
                (name, vlan(self.vlan.as_deref())?)
            }
            Medium::Vlan => {
                let (master, vlan) = (link(self.master.as_deref())?, vlan(self.vlan_id.as_deref())?);
                if master.is_empty() || vlan == 0 {
                    return None;
                }
                (master, vlan)
            }
        };
        Some(Wire { medium, link, vlan })
    }
}

/// A value of a type; `Some(None)` when it is null, and `None` when it is of another type.
fn said<T: for<'de> Deserialize<'de>>(value: &RawValue) -> Option<Option<T>> {
    serde_json::from_str(value.get()).ok()
}

/// The name of a link, empty where none is given; `None` for what names none.
fn link(value: Option<&RawValue>) -> Option<SmolStr> {
    let name = value.map_or(Some(None), said::<String>)?.unwrap_or_default();
    (name.is_empty() || is_interface_name(&name)).then(|| name.into())
}

/// A VLAN, 0 where none is given; `None` for what is none.
fn vlan(value: Option<&RawValue>) -> Option<u16> {
    let vlan = value.map_or(Some(None), said::<u16>)?.unwrap_or_default();
    (vlan <= LAST_VLAN).then_some(vlan)
}

impl<'de> Deserialize<'de> for Config {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields)
    }
}

struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = Config;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the configuration of a plugin")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Config, A::Error> {
        let mut config = Config::default();
        while let Some(field) = fields.next_key::<String>()? {
            let folded: String = field.chars().map(fold).collect();
            match folded.as_str() {
                "type" if config.name.is_none() => config.name = Some(fields.next_value()?),
                "plugins" if config.plugins.is_none() => {
                    let plugins: Vec<Config> = fields.next_value()?;
                    config.plugins = Some(plugins.into_iter().next().map(Box::new));
                }
                "type" | "plugins" => return Err(Error::custom("a field is there twice")),
                other => match config.place.field(other) {
                    Some(place) => {
                        let again = place.replace(fields.next_value()?).is_some();
                        config.place.unclear |= again;
                    }
                    None => drop(fields.next_value::<IgnoredAny>()?),
                },
            }
        }
        Ok(config)
    }
}

/// A character as Go compares it in the names of fields (`unicode.SimpleFold`): outside ASCII two are letters of ASCII too.
fn fold(character: char) -> char {
    match character {
        'ſ' => 's',
        '\u{212a}' => 'k',
        _ => character.to_ascii_lowercase(),
    }
}

#[cfg(test)]
mod tests;
