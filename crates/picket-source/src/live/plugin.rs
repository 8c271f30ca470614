//! The CNI plugin of a secondary network, as its NetworkAttachmentDefinition names it.

use picket_cluster::NetworkConfig;
use serde::Deserialize;
use smol_str::SmolStr;

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
    network_config(definition).plugin
}

/// What a NetworkAttachmentDefinition, in JSON as the API server writes it, says of its plugin and wire.
pub(crate) fn network_config(definition: &str) -> NetworkConfig {
    let definition: Option<Definition> = serde_json::from_str(definition).ok();
    definition.map_or_else(NetworkConfig::default, |definition| {
        NetworkConfig::read(&definition.spec.config)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::network_plugin;

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
