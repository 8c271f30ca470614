//! Lists as people and programs read them.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};

use super::model::{Acl, AclRule, Acls, InterfaceLists, Tag};

/// As VPP's `show acl-plugin acl` and `show acl-plugin interface` show them.
pub fn text(acls: &Acls) -> String {
    let mut out = String::new();
    let indices: BTreeMap<_, _> = acls.acls.keys().zip(0_usize..).collect();
    let index = |tag: &Tag| match indices.get(tag) {
        Some(index) => index.to_string(),
        None => tag.to_string(),
    };
    for (index, acl) in acls.acls.values().enumerate() {
        // Writing to a string does not fail.
        let _ = writeln!(
            out,
            "acl-index {index} count {} tag {{{}}}",
            acl.rules.len(),
            acl.tag
        );
        for (number, rule) in acl.rules.iter().enumerate() {
            let _ = writeln!(out, "  {number:>9}: {rule}");
        }
    }
    for (name, lists) in &acls.interfaces {
        let _ = writeln!(out, "interface {name}:");
        for (label, tags) in [(" input acl(s)", &lists.input), ("output acl(s)", &lists.output)] {
            let indices: Vec<_> = tags.iter().map(index).collect();
            let _ = writeln!(out, "  {label}: {}", indices.join(", "));
        }
    }
    out
}

/// As the API has it: see `docs/vpp.md`.
pub fn json(acls: &Acls) -> Value {
    json!({
        "acls": acls.acls.values().map(|acl| acl_json(acl)).collect::<Vec<_>>(),
        "interfaces": acls
            .interfaces
            .iter()
            .map(|(name, lists)| interface_json(name, lists))
            .collect::<Vec<_>>(),
    })
}

fn acl_json(acl: &Acl) -> Value {
    json!({
        "tag": acl.tag.as_str(),
        "r": acl.rules.iter().map(rule_json).collect::<Vec<_>>(),
    })
}

fn rule_json(rule: &AclRule) -> Value {
    json!({
        "is_permit": rule.action as u8,
        "src_prefix": rule.source.to_string(),
        "dst_prefix": rule.destination.to_string(),
        "proto": rule.protocol,
        "srcport_or_icmptype_first": rule.first.0,
        "srcport_or_icmptype_last": rule.first.1,
        "dstport_or_icmpcode_first": rule.second.0,
        "dstport_or_icmpcode_last": rule.second.1,
    })
}

fn interface_json(name: &str, lists: &InterfaceLists) -> Value {
    let tags = |tags: &[Tag]| tags.iter().map(Tag::as_str).map(Value::from).collect::<Vec<_>>();
    json!({
        "interface": name,
        "pod": lists.pod.as_ref().map(|pod| format!("{}/{}", pod.namespace, pod.name)),
        "input": tags(&lists.input),
        "output": tags(&lists.output),
    })
}
