//! One object of an answer.

use std::fmt;
use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeSeed, MapAccess, Visitor};
use serde::{Deserialize, Deserializer as Reads};
use serde_json::value::RawValue;
use serde_json::{Deserializer, Map, Value};

use super::kind::Resource;
use super::shape::Shape;
use crate::ObjectVersion;
use crate::live::Life;

/// An object as the API server writes it, but for what its shape leaves out.
pub(crate) struct Item {
    /// Its namespace, if it has one.
    pub(crate) namespace: Option<String>,
    /// Its name, which only garbage has not.
    pub(crate) name: Option<String>,
    /// Its uid.
    pub(crate) uid: Option<String>,
    /// The `resourceVersion` of its last change.
    pub(crate) version: Option<String>,
    /// How often its `spec` was written.
    pub(crate) generation: Option<i64>,
    /// How old it is, and whether it is being deleted.
    pub(crate) life: Life,
    content: Content,
}

enum Content {
    Decoded(Value),
    /// Text that is JSON and cannot be decoded, such as for its depth. Whoever reads it says so.
    Text(String),
}

#[derive(Default, Deserialize)]
struct Head {
    #[serde(default, deserialize_with = "mapping")]
    metadata: Metadata,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Metadata {
    namespace: Option<String>,
    name: Option<String>,
    uid: Option<String>,
    #[serde(rename = "resourceVersion")]
    version: Option<String>,
    /// Of whatever type: it is not worth the others.
    generation: Value,
    #[serde(rename = "creationTimestamp")]
    created: Option<String>,
    /// Of whatever type: somebody wants it to go.
    #[serde(rename = "deletionTimestamp")]
    deleted: Value,
}

impl Item {
    /// An object of a list or an event of `resource`.
    pub(crate) fn read(resource: &Resource, raw: &RawValue, shape: Shape) -> Self {
        let head: Head = serde_json::from_str(raw.get()).unwrap_or_default();
        let Metadata {
            namespace,
            name,
            uid,
            version,
            generation,
            created,
            deleted,
        } = head.metadata;
        let decoded = shape.deserialize(&mut Deserializer::from_str(raw.get()));
        let content = match decoded {
            Ok(Value::Object(fields)) => Content::Decoded(Value::Object(complete(resource, fields))),
            Ok(other) => Content::Decoded(other),
            Err(_) => Content::Text(raw.get().to_owned()),
        };
        Self {
            namespace,
            name,
            uid,
            version,
            generation: generation.as_i64(),
            life: Life {
                created: created.unwrap_or_default().into(),
                deleting: !deleted.is_null(),
            },
            content,
        }
    }

    /// The same without annotations where none of them is left.
    #[cfg(feature = "etcd")]
    pub(crate) fn without_empty_annotations(mut self) -> Self {
        if let Content::Decoded(value) = &mut self.content
            && let Some(Value::Object(metadata)) = value.get_mut("metadata")
            && let Some(Value::Object(annotations)) = metadata.get("annotations")
            && annotations.is_empty()
        {
            metadata.shift_remove("annotations");
        }
        self
    }

    /// In which version the API server has it.
    pub(crate) fn object_version(&self) -> ObjectVersion {
        ObjectVersion {
            resource_version: self.version.as_deref().map(Into::into),
            generation: self.generation,
            revision: None,
        }
    }

    /// As a manifest for people, line by line.
    pub(crate) fn pretty(&self) -> Vec<u8> {
        match &self.content {
            Content::Decoded(value) => format!("{value:#}\n").into_bytes(),
            Content::Text(text) => text.clone().into_bytes(),
        }
    }

    /// As a manifest that takes little memory.
    pub(crate) fn compact(self) -> String {
        match self.content {
            Content::Decoded(value) => value.to_string(),
            Content::Text(text) => text,
        }
    }
}

/// Reads a mapping alone: otherwise a sequence of values would do, too, as if they were the fields in order.
pub(crate) fn mapping<'de, D: Reads<'de>, T: Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    struct Mapping<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for Mapping<T> {
        type Value = T;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<T, A::Error> {
            T::deserialize(MapAccessDeserializer::new(fields))
        }
    }

    from.deserialize_map(Mapping(PhantomData))
}

/// Adds what lists leave out because all their items share it.
fn complete(resource: &Resource, fields: Map<String, Value>) -> Map<String, Value> {
    let mut all = Map::new();
    all.insert("apiVersion".to_owned(), resource.api_version().into());
    all.insert("kind".to_owned(), resource.kind.name.into());
    all.extend(fields);
    all
}
