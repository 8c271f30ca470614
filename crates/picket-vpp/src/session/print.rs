//! Rules as people and programs read them.

use std::fmt::Write;

use picket_policy::ObjectRef;
use serde_json::{Value, json};

use super::model::{SessionRule, SessionRules, Transport};
use super::plan::{Operation, between};

/// One table after the other, each rule as VPP's `session rule add` takes it: transport, local prefix and port, remote prefix
/// and port, action.
pub fn text(rules: &SessionRules) -> String {
    let mut out = String::new();
    let mut table = |name: String, rules: &[SessionRule]| {
        // Writing to a string does not fail.
        let _ = writeln!(out, "{name}:");
        for rule in rules {
            let _ = writeln!(out, "  {rule} tag {}", rule.tag().as_str());
        }
    };
    for (pod, rules) in &rules.local {
        table(format!("namespace {}/{}", pod.namespace, pod.name), rules);
    }
    table("global".to_owned(), &rules.global);
    out
}

/// As the API has it, the rules of each table in the order in which they are added to an empty one: see `docs/vpp.md`.
pub fn json(rules: &SessionRules) -> Value {
    let local = rules.local.iter().map(|(pod, rules)| (Some(pod), rules));
    let tables = local.chain([(None, &rules.global)]);
    let each = tables.flat_map(|(pod, rules)| {
        let rules = added(rules).into_iter();
        rules.map(move |rule| rule_json(&rule, pod))
    });
    json!({ "rules": each.collect::<Vec<_>>() })
}

/// The rules of a table in the order in which they are added.
fn added(rules: &[SessionRule]) -> Vec<SessionRule> {
    let operations = between(&[], rules).into_iter().flatten();
    let added = operations.filter_map(|operation| match operation {
        Operation::Add(rule) => Some(rule),
        _ => None,
    });
    added.collect()
}

fn rule_json(rule: &SessionRule, namespace: Option<&ObjectRef>) -> Value {
    json!({
        "transport_proto": match rule.transport {
            Transport::Tcp => "TRANSPORT_PROTO_API_TCP",
            Transport::Udp => "TRANSPORT_PROTO_API_UDP",
        },
        "lcl": rule.local.to_string(),
        "rmt": rule.remote.to_string(),
        "lcl_port": rule.local_port,
        "rmt_port": rule.remote_port,
        "action_index": rule.action.index(),
        "appns": namespace.map(|pod| format!("{}/{}", pod.namespace, pod.name)),
        "scope": match namespace {
            Some(_) => "SESSION_RULE_SCOPE_API_LOCAL",
            None => "SESSION_RULE_SCOPE_API_GLOBAL",
        },
        "tag": rule.tag().as_str(),
    })
}
