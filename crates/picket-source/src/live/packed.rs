//! Texts that take little memory.

use lz4_flex::block::{compress_prepend_size_with_dict, decompress_size_prepended_with_dict};

/// What policies have in common, whoever wrote them: what of a text is here takes no memory again.
const COMMON: &str = concat!(
    r#"{"apiVersion":"policy.networking.k8s.io/v1alpha2","kind":"ClusterNetworkPolicy","spec":{"tier":"Baseline","priority":100,"#,
    r#""subject":{"namespaces":{"matchLabels":{"#,
    r#""egress":[{"name":"","action":"Pass","to":[{"networks":["#,
    r#""ingress":[{"action":"Accept","from":[{"pods":{"namespaceSelector":{},"podSelector":{}}}],"#,
    r#""protocols":[{"tcp":{"destinationPort":{"number":"#,
    r#"{"apiVersion":"k8s.cni.cncf.io/v1beta1","kind":"MultiNetworkPolicy","metadata":{"annotations":{"k8s.v1.cni.cncf.io/policy-for":""#,
    r#"{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":{"#,
    r#""annotations":{"meta.helm.sh/release-name":"","meta.helm.sh/release-namespace":""},"#,
    r#""creationTimestamp":"2026-01-01T00:00:00Z","generation":1,"#,
    r#""labels":{"app.kubernetes.io/component":"","app.kubernetes.io/instance":"","app.kubernetes.io/managed-by":"Helm","#,
    r#""app.kubernetes.io/name":"","app.kubernetes.io/part-of":"","app.kubernetes.io/version":"1.0.0","helm.sh/chart":""},"#,
    r#""name":"","namespace":"","resourceVersion":"","uid":"00000000-0000-4000-8000-000000000000"},"#,
    r#""spec":{"podSelector":{"matchExpressions":[{"key":"","operator":"NotIn","values":["","operator":"Exists"}]},"#,
    r#""matchLabels":{"app":"","k8s-app":"","app.kubernetes.io/name":"","app.kubernetes.io/instance":""}},"#,
    r#""policyTypes":["Ingress","Egress"],"#,
    r#""ingress":[{"from":[{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":""}},"#,
    r#""podSelector":{"matchLabels":{"app.kubernetes.io/name":""}}},{"podSelector":{}}],"#,
    r#""ports":[{"protocol":"TCP","port":8080,"endPort":},{"port":443,"protocol":"TCP"}]}],"#,
    r#""egress":[{"to":[{"ipBlock":{"cidr":"0.0.0.0/0","except":["10.0.0.0/8","172.16.0.0/12","192.168.0.0/16"]}}],"#,
    r#""ports":[{"port":53,"protocol":"UDP"},{"port":53,"protocol":"TCP"}]}]}}"#,
);

/// A text, packed. The same text is packed alike each time.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Packed(Box<[u8]>);

impl Packed {
    /// Packs a text.
    pub(crate) fn new(text: &str) -> Self {
        Self(compress_prepend_size_with_dict(text.as_bytes(), COMMON.as_bytes()).into())
    }

    /// The text.
    pub(crate) fn text(&self) -> String {
        let bytes = decompress_size_prepended_with_dict(&self.0, COMMON.as_bytes()).unwrap_or_default();
        // INVARIANT: it is what a text was packed to, from which that comes back.
        String::from_utf8(bytes).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_is_packed_comes_back(parts in prop::collection::vec("\\PC{0,40}|(ab){0,400}|\\{\"apiVersion\":\"networking", 0..20)) {
            let text = parts.concat();
            let packed = Packed::new(&text);
            prop_assert_eq!(packed.text(), &*text);
            let (again, other) = (Packed::new(&text), Packed::new(&format!("{text}.")));
            prop_assert!(packed == again && packed != other);
        }
    }

    #[test]
    fn policies_take_a_third_of_their_texts() {
        let labels = |name: &str| {
            format!(
                r#"{{"app.kubernetes.io/name":"{name}","app.kubernetes.io/instance":"{name}-production"}}"#
            )
        };
        let (own, peer) = (labels("checkout"), labels("storefront"));
        let text = format!(
            r#"{{"apiVersion":"networking.k8s.io/v1","kind":"NetworkPolicy","metadata":{{"creationTimestamp":"2026-03-07T11:42:05Z","generation":3,"labels":{own},"name":"checkout","namespace":"shop-production","resourceVersion":"90312846","uid":"7d1f0c5e-9b1a-4a53-8f0e-2c9d5be7a614"}},"spec":{{"podSelector":{{"matchLabels":{own}}},"policyTypes":["Ingress","Egress"],"ingress":[{{"from":[{{"podSelector":{{"matchLabels":{peer}}}}},{{"namespaceSelector":{{"matchLabels":{{"kubernetes.io/metadata.name":"monitoring"}}}}}}],"ports":[{{"protocol":"TCP","port":9090}}]}}],"egress":[{{"to":[{{"ipBlock":{{"cidr":"10.31.0.0/16","except":["10.31.7.0/24"]}}}}],"ports":[{{"protocol":"TCP","port":5432}}]}},{{"ports":[{{"protocol":"UDP","port":53}}]}}]}}}}"#
        );
        let packed = Packed::new(&text);
        assert!(
            packed.0.len() * 3 <= text.len(),
            "{} of {}",
            packed.0.len(),
            text.len()
        );
    }
}
