//! The CNI plugin of a secondary network, as its NetworkAttachmentDefinition names it.
//!
//! `spec.config` is text in which anybody may have written anything. It is read as plugins read it, whose JSON does not
//! tell fields by the case of their names; where two could be meant, nobody knows which plugin it is. Multus runs the `type`
//! of a configuration that also has `plugins`, and others look at these alone: two that differ there could both be meant.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use smol_str::SmolStr;

/// The longest name that a file can have, and so a plugin (Linux, `NAME_MAX`).
const LONGEST: usize = 255;

#[derive(Deserialize)]
struct Definition {
    spec: Spec,
}

#[derive(Deserialize)]
struct Spec {
    config: String,
}

/// The type of the CNI plugin that a NetworkAttachmentDefinition, in JSON as the API server writes it, names first; `None`
/// when nobody can tell.
pub fn network_plugin(definition: &str) -> Option<SmolStr> {
    let definition: Definition = serde_json::from_str(definition).ok()?;
    of_config(&definition.spec.config)
}

/// The `type` of a configuration, or that of the first of its `plugins` (CNI specification 1.1, section 1).
fn of_config(text: &str) -> Option<SmolStr> {
    let config: Config = serde_json::from_str(text).ok()?;
    let name = match (config.plugins, config.name) {
        (Some(first), Some(own)) => first.filter(|first| *first == own),
        (Some(first), None) => first,
        (None, own) => own,
    }?;
    (1..=LONGEST).contains(&name.len()).then(|| name.into())
}

/// What a configuration says of plugins.
#[derive(Default)]
struct Config {
    name: Option<String>,
    /// The first of a list, when it is one.
    plugins: Option<Option<String>>,
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
                    config.plugins = Some(plugins.into_iter().next().and_then(|first| first.name));
                }
                "type" | "plugins" => return Err(Error::custom("a field is there twice")),
                _ => drop(fields.next_value::<IgnoredAny>()?),
            }
        }
        Ok(config)
    }
}

/// A character as Go compares it in the names of fields (`unicode.SimpleFold`): outside ASCII two are letters of ASCII too,
/// of which the names have one.
fn fold(character: char) -> char {
    match character {
        'ſ' => 's',
        _ => character.to_ascii_lowercase(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{network_plugin, of_config};

    #[test]
    fn the_first_plugin_is_the_one_that_counts() {
        let deep = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let long = "x".repeat(1_000_000);
        for (config, plugin) in [
            (r#"{"type": "macvlan"}"#, Some("macvlan")),
            (
                r#"{"cniVersion": "1.0.0", "plugins": [{"type": "bond"}, {"type": "tuning"}]}"#,
                Some("bond"),
            ),
            (
                r#"{"type": "bridge", "plugins": [{"type": "bridge"}, {"type": "tuning"}]}"#,
                Some("bridge"),
            ),
            (r#"{"type": "bridge", "plugins": [{"type": "macvlan"}]}"#, None),
            (r#"{"type": "bridge", "plugins": [{}]}"#, None),
            (r#"{"Type": "bridge"}"#, Some("bridge")),
            (r#"{"type": "bridge", "TYPE": "macvlan"}"#, None),
            (r#"{"type": "bridge", "type": "macvlan"}"#, None),
            (
                r#"{"plugins": [{"type": "bridge"}], "pluginſ": [{"type": "macvlan"}]}"#,
                None,
            ),
            (
                r#"{"type": "macvlan", "plugıns": [{"type": "bridge"}]}"#,
                Some("macvlan"),
            ),
            (r#"{"plugins": [{"type": "bridge", "Type": "macvlan"}]}"#, None),
            (r#"{"type": "bridge", "plugins": []}"#, None),
            (r#"{"type": "bridge", "plugins": null}"#, None),
            (r#"{"plugins": [{}, {"type": "bridge"}]}"#, None),
            (r#"{"plugins": ["bridge"]}"#, None),
            (r#"{"plugins": {"type": "bridge"}}"#, None),
            (r#"{"type": 1}"#, None),
            (r#"{"type": ""}"#, None),
            (r#"{"type": "bridge"} {"type": "macvlan"}"#, None),
            (r#"[{"type": "bridge"}]"#, None),
            (r#"{"type": "bridge""#, None),
            ("type: bridge", None),
            ("", None),
            (&format!(r#"{{"type": "{long}"}}"#), None),
            (
                &format!(r#"{{"ipam": "{long}", "type": "bridge"}}"#),
                Some("bridge"),
            ),
            (
                &format!(r#"{{"ipam": {}, "type": "bridge"}}"#, deep(100_000)),
                Some("bridge"),
            ),
            (&format!(r#"{{"type": {}}}"#, deep(100_000)), None),
            (
                &format!(
                    r#"{}"type": "bridge"{}"#,
                    r#"{"plugins": [{"#.repeat(50_000),
                    "}]}".repeat(50_000)
                ),
                None,
            ),
            (
                &format!(
                    r#"{}{{}}{}"#,
                    r#"{"plugins": ["#.repeat(100_000),
                    "]}".repeat(100_000)
                ),
                None,
            ),
        ] {
            assert_eq!(
                of_config(config).as_deref(),
                plugin,
                "{}",
                config.get(..80).unwrap_or(config)
            );
        }
    }

    #[test]
    fn a_definition_may_be_of_any_form() {
        let config = r#"{"type": "ipvlan"}"#;
        for (definition, plugin) in [
            (
                json!({"metadata": {"name": "net"}, "spec": {"config": config}}),
                Some("ipvlan"),
            ),
            (
                json!({"metadata": {"name": "net"}, "spec": {"config": {"type": "ipvlan"}}}),
                None,
            ),
            (
                json!({"metadata": {"name": "net"}, "spec": {"config": [[[]]]}}),
                None,
            ),
            (json!({"metadata": {"name": "net"}, "spec": []}), None),
            (json!({"metadata": {"name": "net"}, "spec": {}}), None),
            (json!({"metadata": {"name": "net"}}), None),
        ] {
            assert_eq!(
                network_plugin(&definition.to_string()).as_deref(),
                plugin,
                "{definition}"
            );
        }
    }
}
