//! A NetworkPolicy in the place of one that is too large: it isolates the same pods, and allows them nothing.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use super::read_mapping;

/// The most bytes of a part that is kept: what fits in any record, and what fits where nearly nothing does.
pub(super) const LARGEST: [usize; 2] = [1 << 16, 1 << 8];

#[derive(Serialize, Deserialize)]
struct Policy<'a> {
    #[serde(borrow, rename = "apiVersion")]
    api_version: &'a RawValue,
    #[serde(borrow)]
    kind: &'a RawValue,
    #[serde(borrow)]
    metadata: Metadata<'a>,
    #[serde(borrow)]
    spec: Spec<'a>,
}

#[derive(Serialize, Deserialize)]
struct Metadata<'a> {
    #[serde(borrow)]
    namespace: &'a RawValue,
    #[serde(borrow)]
    name: &'a RawValue,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    uid: Option<&'a RawValue>,
    /// By one of them a policy is only audited.
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    annotations: Option<&'a RawValue>,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec<'a> {
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    pod_selector: Option<&'a RawValue>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    policy_types: Option<&'a RawValue>,
    /// Only whether there are rules matters: they decide about what a policy without types is.
    #[serde(borrow, default, skip_serializing)]
    egress: Option<&'a RawValue>,
}

/// The one that stands for a policy; `None` where that cannot be told. What of it is larger than so many bytes is as narrow as can
/// be: it is about every pod, in both directions, and in force.
pub(super) fn policy(policy: &RawValue, largest: usize) -> Option<Box<RawValue>> {
    let is_large = |part: &RawValue| part.get().len() > largest;
    let (everybody, both) = (
        raw(&Value::Object(Default::default()))?,
        raw(&["Ingress", "Egress"])?,
    );
    let mut policy: Policy<'_> = read_mapping(policy.get().as_bytes()).ok()?;
    policy.metadata.annotations = policy.metadata.annotations.filter(|part| !is_large(part));
    let spec = &mut policy.spec;
    if spec.pod_selector.is_some_and(is_large) {
        spec.pod_selector = Some(&everybody);
    }
    let has_egress = spec
        .egress
        .is_some_and(|rules| !matches!(rules.get(), "[]" | "null"));
    if spec.policy_types.map_or(has_egress, is_large) {
        spec.policy_types = Some(&both);
    }
    raw(&policy)
}

fn raw(value: &impl Serialize) -> Option<Box<RawValue>> {
    to_raw_value(value).ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const LARGE: usize = 100;

    fn closed(metadata: Value, spec: Value) -> (Value, Value) {
        let whole = json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": metadata,
            "spec": spec,
        });
        let stands = policy(&raw(&whole).unwrap(), LARGE).unwrap();
        let stands: Value = serde_json::from_str(stands.get()).unwrap();
        assert_eq!(stands["kind"], whole["kind"]);
        assert_eq!(stands["apiVersion"], whole["apiVersion"]);
        (stands["metadata"].clone(), stands["spec"].clone())
    }

    fn named() -> Value {
        json!({"namespace": "shop", "name": "web"})
    }

    #[test]
    fn it_is_about_the_same_pods_and_directions_and_has_no_rules() {
        let rules = json!([{}]);
        let selector = json!({"matchLabels": {"app": "web"}});
        for (given, expected) in [
            (json!({"ingress": rules}), json!({})),
            (json!({"egress": []}), json!({})),
            (
                json!({"ingress": rules, "egress": rules}),
                json!({"policyTypes": ["Ingress", "Egress"]}),
            ),
            (
                json!({"podSelector": selector, "policyTypes": ["Egress"], "egress": rules}),
                json!({"podSelector": selector, "policyTypes": ["Egress"]}),
            ),
        ] {
            assert_eq!(closed(named(), given).1, expected);
        }
    }

    #[test]
    fn it_stays_audited_and_keeps_its_uid_but_not_its_labels() {
        let mut metadata = named();
        metadata["uid"] = json!("u");
        metadata["annotations"] = json!({"picket.dev/mode": "audit"});
        let kept = metadata.clone();
        metadata["labels"] = json!({"app": "web"});
        assert_eq!(closed(metadata, json!({})).0, kept);
    }

    #[test]
    fn what_is_too_large_of_it_is_as_narrow_as_can_be() {
        let long = "x".repeat(LARGE);
        let mut metadata = named();
        metadata["annotations"] = json!({"picket.dev/mode": "audit", "long": long});
        let spec = json!({"podSelector": {"matchLabels": {"a": long}}, "policyTypes": [long]});
        let (metadata, spec) = closed(metadata, spec);
        assert_eq!(metadata, named());
        assert_eq!(
            spec,
            json!({"podSelector": {}, "policyTypes": ["Ingress", "Egress"]})
        );
    }
}
