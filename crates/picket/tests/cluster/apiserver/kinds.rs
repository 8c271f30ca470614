//! Custom kinds as their projects define them.

use serde_json::{Map, Value, json};

use crate::client::serve;
use crate::objects::{DEFINITIONS, KINDS, define_all};
use crate::picket;

/// Values in which every field is that a schema has, whatever the values mean.
fn samples(schema: &Value) -> Vec<Value> {
    if let Some(values) = schema["enum"].as_array() {
        return values.clone();
    }
    let Some(fields) = schema["properties"].as_object() else {
        return match schema["type"].as_str() {
            Some("array") => vec![samples(&schema["items"]).into()],
            Some("object") => vec![json!({"a": "b"})],
            Some("string") => vec![json!("a")],
            _ => vec![json!(1)],
        };
    };
    let fields: Vec<_> = fields
        .iter()
        .map(|(name, schema)| (name, samples(schema)))
        .collect();
    if schema["maxProperties"] == 1 {
        let alone = |(name, values): (&String, Vec<Value>)| {
            let name = name.clone();
            values
                .into_iter()
                .map(move |value| json!({ name.clone(): value }))
        };
        return fields.into_iter().flat_map(alone).collect();
    }
    let most = fields.iter().map(|(_, values)| values.len()).max().unwrap_or(1);
    let nth = |index: usize| {
        let values = fields
            .iter()
            .map(|(name, values)| ((*name).clone(), values[index % values.len()].clone()));
        values.collect::<Map<_, _>>().into()
    };
    (0..most).map(nth).collect()
}

/// An object of each kind for each of the samples of its schema.
fn objects(definitions: &[Value]) -> Vec<Value> {
    let mut objects = Vec::new();
    for (api_version, kind, _) in &KINDS[12..] {
        let of_kind = definitions
            .iter()
            .find(|definition| definition["spec"]["names"]["kind"] == *kind);
        let versions = of_kind.unwrap()["spec"]["versions"].as_array().unwrap();
        let (_, name) = api_version.split_once('/').unwrap();
        let version = versions.iter().find(|version| version["name"] == name).unwrap();
        assert_eq!(version["served"], true, "{kind} {name}");
        let spec = &version["schema"]["openAPIV3Schema"]["properties"]["spec"];
        for (index, spec) in samples(spec).into_iter().enumerate() {
            let metadata = json!({"name": format!("a-{index}")});
            objects
                .push(json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}));
        }
    }
    objects
}

#[test]
fn every_field_that_the_definitions_have_is_known() {
    let (_server, kubeconfig, api) = serve();
    define_all(&api);
    let mut objects = objects(&api.list(DEFINITIONS));
    assert!(objects.len() > KINDS.len() - 12, "{objects:?}");
    let unknown = |objects: &[Value]| -> Vec<String> {
        let file = kubeconfig.with_file_name("objects.json");
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        std::fs::write(&file, list.to_string()).unwrap();
        let found = picket(
            &kubeconfig,
            &["check", "-o", "json", "-f", file.to_str().unwrap()],
        )
        .json();
        let found = found["diagnostics"].as_array().unwrap().clone();
        assert!(!found.is_empty(), "nothing of it was read");
        let unknown = found.iter().filter(|found| found["code"] == "P013");
        unknown.map(Value::to_string).collect()
    };
    assert_eq!(unknown(&objects), [""; 0]);
    for object in &mut objects {
        object["spec"]["other"] = json!(1);
    }
    assert_eq!(unknown(&objects).len(), objects.len() - 1, "all but the network");
}
