//! A Lease of `coordination.k8s.io/v1`. Its times are for people: nobody goes by them.

use std::time::Duration;

use serde_json::{Map, Value, json};

/// A Lease as it was read. What others have put into it stays there.
pub(super) struct Record<'a>(&'a Value);

impl<'a> Record<'a> {
    pub(super) fn of(object: &'a Value) -> Self {
        Self(object)
    }

    fn field(&self, name: &str) -> Option<&'a Value> {
        self.0.get("spec")?.get(name)
    }

    /// Who has it; nobody where that is empty.
    pub(super) fn holder(&self) -> &'a str {
        let holder = self.field("holderIdentity").and_then(Value::as_str);
        holder.unwrap_or_default()
    }

    /// How long it is from when it was renewed.
    pub(super) fn length(&self) -> Duration {
        let seconds = self.field("leaseDurationSeconds").and_then(Value::as_u64);
        Duration::from_secs(seconds.unwrap_or_default())
    }

    /// How often it went from one to another.
    fn transitions(&self) -> i64 {
        let transitions = self.field("leaseTransitions").and_then(Value::as_i64);
        transitions.unwrap_or_default()
    }

    /// The same, renewed by `holder`.
    pub(super) fn renewed(&self, holder: &str, length: Duration, time: &str) -> Value {
        self.with(&json!({
            "holderIdentity": holder,
            "leaseDurationSeconds": length.as_secs(),
            "renewTime": time,
        }))
    }

    /// The same, in the hands of `holder` from now on.
    pub(super) fn taken(&self, holder: &str, length: Duration, time: &str) -> Value {
        let transitions = match self.0 {
            Value::Null => 0,
            _ => self.transitions().saturating_add(1),
        };
        self.with(&json!({
            "holderIdentity": holder,
            "leaseDurationSeconds": length.as_secs(),
            "acquireTime": time,
            "renewTime": time,
            "leaseTransitions": transitions,
        }))
    }

    /// The same, in nobody's hands.
    pub(super) fn released(&self, time: &str) -> Value {
        self.with(&json!({"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": time}))
    }

    fn with(&self, fields: &Value) -> Value {
        let mut object = self.0.clone();
        if !object.is_object() {
            object = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"});
        }
        let mut spec = match object.get("spec") {
            Some(Value::Object(spec)) => spec.clone(),
            _ => Map::new(),
        };
        spec.extend(fields.as_object().cloned().unwrap_or_default());
        if let Some(object) = object.as_object_mut() {
            object.insert("spec".to_owned(), Value::Object(spec));
        }
        object
    }
}

/// The `resourceVersion` of an object.
pub(super) fn version(object: &Value) -> String {
    let version = object
        .pointer("/metadata/resourceVersion")
        .and_then(Value::as_str);
    version.unwrap_or_default().to_owned()
}
