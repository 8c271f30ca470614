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
    /// Where the networks on one wire are looked at together, as if they were the cluster network: some of them, sorted and
    /// unique. The policy is about the interfaces on these, and its selectors match pods by them.
    Among(Vec<NetworkName>),
}

impl Networks {
    /// Whether a secondary network is among them.
    pub fn include(&self, network: &NetworkName) -> bool {
        match self {
            Self::Cluster | Self::Among(_) => false,
            Self::Attached(networks) => networks.binary_search(network).is_ok(),
        }
    }

    /// The secondary networks.
    pub fn attached(&self) -> &[NetworkName] {
        match self {
            Self::Cluster | Self::Among(_) => &[],
            Self::Attached(networks) => networks,
        }
    }

    /// Whether a policy with these is about what is looked at, be it the cluster network or a wire.
    pub fn are_looked_at(&self) -> bool {
        !matches!(self, Self::Attached(_))
    }

    /// Whether such a policy is about an endpoint, as its subject or as a peer of its selectors: about one on the cluster
    /// network (`None`), or about an interface on a secondary network.
    pub fn hold(&self, network: Option<&NetworkName>) -> bool {
        match self {
            Self::Cluster => true,
            Self::Attached(_) => false,
            Self::Among(networks) => network.is_some_and(|network| networks.binary_search(network).is_ok()),
        }
    }

    /// Whether these hold wherever the others do.
    pub fn cover(&self, others: &Self) -> bool {
        match others {
            Self::Cluster => *self == Self::Cluster,
            Self::Attached(others) => others.iter().all(|network| self.include(network)),
            Self::Among(others) => others.iter().all(|network| self.hold(Some(network))),
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

    #[test]
    fn a_policy_is_about_those_of_a_wire_that_it_names() {
        let name = |text: &str| NetworkName::parse(text, "x").unwrap();
        let some = |names: &[&str]| names.iter().map(|text| name(text)).collect::<Vec<_>>();
        let (all, ab, b) = (
            Networks::Cluster,
            Networks::Among(some(&["a", "b"])),
            Networks::Among(some(&["b"])),
        );
        let written = Networks::Attached(some(&["a", "b"]));
        for (networks, holds) in [
            (&all, [true, true, true]),
            (&ab, [false, true, false]),
            (&b, [false, false, false]),
            (&written, [false, false, false]),
        ] {
            let asked = [None, Some(name("a")), Some(name("c"))];
            assert_eq!(
                asked.map(|asked| networks.hold(asked.as_ref())),
                holds,
                "{networks:?}"
            );
        }
        for (one, other, covers) in [
            (&all, &ab, true),
            (&ab, &all, false),
            (&ab, &b, true),
            (&b, &ab, false),
            (&all, &all, true),
            (&written, &Networks::Attached(some(&["b"])), true),
            (&ab, &written, false),
        ] {
            assert_eq!(one.cover(other), covers, "{one:?} {other:?}");
        }
        assert!(all.are_looked_at() && b.are_looked_at() && !written.are_looked_at());
    }
}
