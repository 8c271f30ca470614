//! Networks that pods are attached to besides the cluster network.

use std::fmt;

use smol_str::SmolStr;

/// A secondary network, by its NetworkAttachmentDefinition (k8s.cni.cncf.io/v1).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NetworkName {
    /// The namespace of the definition.
    pub namespace: SmolStr,
    /// Its name.
    pub name: SmolStr,
}

impl NetworkName {
    /// The network of `text`, which is `name` or `namespace/name`; `default` is the namespace when none is written.
    ///
    /// `None` when a part is empty or there are more than two.
    pub fn parse(text: &str, default: &str) -> Option<Self> {
        let (namespace, name) = text.split_once('/').unwrap_or((default, text));
        let (namespace, name) = (namespace.trim(), name.trim());
        let complete = !namespace.is_empty() && !name.is_empty() && !name.contains('/');
        complete.then(|| Self {
            namespace: namespace.into(),
            name: name.into(),
        })
    }
}

impl fmt::Display for NetworkName {
    /// `namespace/name`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The networks on which a policy acts.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Networks {
    /// The cluster network, which every pod has.
    #[default]
    Cluster,
    /// Secondary networks: sorted and unique; none when the policy applies to nothing.
    Attached(Vec<NetworkName>),
}

impl Networks {
    /// Whether a secondary network is among them.
    pub fn include(&self, network: &NetworkName) -> bool {
        match self {
            Self::Cluster => false,
            Self::Attached(networks) => networks.binary_search(network).is_ok(),
        }
    }

    /// The secondary networks.
    pub fn attached(&self) -> &[NetworkName] {
        match self {
            Self::Cluster => &[],
            Self::Attached(networks) => networks,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_written_with_or_without_its_namespace() {
        for (text, expected) in [
            ("net1", Some("shop/net1")),
            ("infra/net1", Some("infra/net1")),
            (" infra / net1 ", Some("infra/net1")),
            ("", None),
            ("/net1", None),
            ("infra/", None),
            ("a/b/c", None),
        ] {
            let found = NetworkName::parse(text, "shop").map(|network| network.to_string());
            assert_eq!(found.as_deref(), expected, "{text:?}");
        }
    }
}
