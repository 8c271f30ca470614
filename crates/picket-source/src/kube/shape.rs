//! Reading of JSON no more than a shape has: what no policy can see is skipped while it is read.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// What is kept of a value. A value that is of another type than its shape has is kept whole: whoever reads it reports it.
#[derive(Clone, Copy)]
pub(crate) enum Shape {
    /// All of it.
    Whole,
    /// Nothing.
    Nothing,
    /// Of a mapping these fields, each with a shape of its own, and no other.
    Only(&'static [(&'static str, Shape)]),
    /// Of a mapping these fields as their shapes say, and all others whole.
    Except(&'static [(&'static str, Shape)]),
    /// Of a list every item, of this shape.
    Each(&'static Shape),
}

use Shape::{Each, Except, Nothing, Only, Whole};

/// An object without what is as long as the rest of it and says nothing about connectivity: who wrote which field last,
/// and what was applied last.
pub(crate) const OBJECT: Shape = Except(&[(
    "metadata",
    Except(&[
        ("managedFields", Nothing),
        (
            "annotations",
            Except(&[("kubectl.kubernetes.io/last-applied-configuration", Nothing)]),
        ),
    ]),
)]);

/// Of an object no more than what it is called.
pub(crate) const NAME: Shape = Only(&[
    ("apiVersion", Whole),
    ("kind", Whole),
    (
        "metadata",
        Only(&[("name", Whole), ("namespace", Whole), ("uid", Whole)]),
    ),
]);

/// What policies can see of a pod.
pub(crate) const POD: Shape = Only(&[
    ("apiVersion", Whole),
    ("kind", Whole),
    (
        "metadata",
        Only(&[
            ("name", Whole),
            ("namespace", Whole),
            ("uid", Whole),
            ("labels", Whole),
            (
                "annotations",
                Only(&[
                    ("kubernetes.io/config.hash", Whole),
                    ("k8s.v1.cni.cncf.io/networks", Whole),
                    ("k8s.v1.cni.cncf.io/network-status", Whole),
                    ("k8s.v1.cni.cncf.io/networks-status", Whole),
                    ("picket.dev/vpp-interface", Whole),
                    ("picket.dev/neutron-ports", Whole),
                ]),
            ),
        ]),
    ),
    (
        "spec",
        Only(&[
            ("nodeName", Whole),
            ("hostNetwork", Whole),
            ("containers", Each(&Only(&[("ports", Whole)]))),
            (
                "initContainers",
                Each(&Only(&[("restartPolicy", Whole), ("ports", Whole)])),
            ),
        ]),
    ),
    (
        "status",
        Only(&[
            ("phase", Whole),
            ("podIP", Whole),
            ("podIPs", Whole),
            ("hostIP", Whole),
            ("hostIPs", Whole),
        ]),
    ),
]);

/// What policies can see of a namespace.
#[cfg(feature = "etcd")]
pub(crate) const NAMESPACE: Shape = Only(&[
    ("apiVersion", Whole),
    ("kind", Whole),
    (
        "metadata",
        Only(&[("name", Whole), ("uid", Whole), ("labels", Whole)]),
    ),
]);

/// A policy without what changes while it means the same.
#[cfg(feature = "etcd")]
pub(crate) const POLICY: Shape = Except(&[
    (
        "metadata",
        Except(&[
            ("managedFields", Nothing),
            ("resourceVersion", Nothing),
            ("generation", Nothing),
            ("creationTimestamp", Nothing),
            (
                "annotations",
                Except(&[("kubectl.kubernetes.io/last-applied-configuration", Nothing)]),
            ),
        ]),
    ),
    ("status", Nothing),
]);

/// What policies can see of a node.
pub(crate) const NODE: Shape = Only(&[
    ("apiVersion", Whole),
    ("kind", Whole),
    (
        "metadata",
        Only(&[("name", Whole), ("uid", Whole), ("labels", Whole)]),
    ),
    ("spec", Only(&[("podCIDR", Whole), ("podCIDRs", Whole)])),
    ("status", Only(&[("addresses", Whole)])),
]);

/// The addresses of a service.
pub(crate) const SERVICE: Shape = Only(&[
    ("apiVersion", Whole),
    ("kind", Whole),
    (
        "metadata",
        Only(&[("name", Whole), ("namespace", Whole), ("uid", Whole)]),
    ),
    (
        "spec",
        Only(&[
            ("clusterIP", Whole),
            ("clusterIPs", Whole),
            ("externalIPs", Whole),
        ]),
    ),
    (
        "status",
        Only(&[(
            "loadBalancer",
            Only(&[("ingress", Each(&Only(&[("ip", Whole)])))]),
        )]),
    ),
]);

impl Shape {
    /// The shape of a field, unless it is skipped.
    fn field(self, name: &str) -> Option<Self> {
        let (fields, others) = match self {
            Only(fields) => (fields, None),
            Except(fields) => (fields, Some(Whole)),
            Whole | Nothing | Each(_) => return Some(Whole),
        };
        match fields.iter().find(|(field, _)| *field == name) {
            Some((_, Nothing)) => None,
            Some((_, shape)) => Some(*shape),
            None => others,
        }
    }
}

impl<'de> DeserializeSeed<'de> for Shape {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Shape {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let of_item = match self {
            Each(shape) => *shape,
            _ => Whole,
        };
        let mut kept = Vec::new();
        while let Some(item) = items.next_element_seed(of_item)? {
            kept.push(item);
        }
        Ok(Value::Array(kept))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let mut kept = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            match self.field(&name) {
                Some(shape) => {
                    let value = fields.next_value_seed(shape)?;
                    kept.insert(name, value);
                }
                None => drop(fields.next_value::<IgnoredAny>()?),
            }
        }
        Ok(Value::Object(kept))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(shape: Shape, text: &str) -> String {
        let mut reader = serde_json::Deserializer::from_str(text);
        shape.deserialize(&mut reader).unwrap().to_string()
    }

    #[test]
    fn a_shape_keeps_what_it_has_and_what_is_of_another_type() {
        for (shape, text, expected) in [
            (
                OBJECT,
                r#"{"metadata":{"name":"a","managedFields":[{"x":1}]},"spec":{"managedFields":[1.5,-1,null,true]}}"#,
                r#"{"metadata":{"name":"a"},"spec":{"managedFields":[1.5,-1,null,true]}}"#,
            ),
            (
                POD,
                r#"{"metadata":{"annotations":{"a":"b","picket.dev/vpp-interface":"tap1","picket.dev/neutron-ports":"1"}},"spec":{"containers":[{"image":"a","ports":[{"name":"b"}]},3]},"status":7}"#,
                r#"{"metadata":{"annotations":{"picket.dev/vpp-interface":"tap1","picket.dev/neutron-ports":"1"}},"spec":{"containers":[{"ports":[{"name":"b"}]},3]},"status":7}"#,
            ),
            (
                POD,
                r#"{"spec":{"containers":{"a":1}}}"#,
                r#"{"spec":{"containers":{"a":1}}}"#,
            ),
            (
                NODE,
                r#"{"spec":{"podCIDRs":[],"taints":[]},"status":{"addresses":[],"images":[1]}}"#,
                r#"{"spec":{"podCIDRs":[]},"status":{"addresses":[]}}"#,
            ),
            (NAME, "[{}]", "[{}]"),
        ] {
            assert_eq!(kept(shape, text), expected);
        }
    }
}
