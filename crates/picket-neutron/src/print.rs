//! Groups and ports as people and programs read them.

use std::collections::BTreeSet;
use std::fmt::Write;

use picket_net::{Family, Prefix, Protocol};
use picket_policy::ObjectRef;
use serde_json::{Value, json};
use smol_str::SmolStr;

use crate::model::{Objects, Port, Remote, SecurityGroup, SecurityGroupRule};

/// With the names of Neutron's API, in which names of groups stand for ids: see `docs/neutron.md`.
pub fn json(objects: &Objects) -> Value {
    let groups = objects.security_groups.iter();
    let address_groups = objects.address_groups.iter();
    let ports = objects.ports.iter();
    json!({
        "security_groups": groups.map(|(name, group)| group_json(name, group)).collect::<Vec<_>>(),
        "address_groups": address_groups
            .map(|(name, group)| json!({"name": name, "addresses": texts(&group.addresses)}))
            .collect::<Vec<_>>(),
        "ports": ports.map(|(pod, port)| port_json(pod, port)).collect::<Vec<_>>(),
    })
}

/// [`json()`] as YAML, with text in quotes.
pub fn yaml(objects: &Objects) -> String {
    yaml_of(&json(objects))
}

/// A value of JSON as YAML, with text in quotes.
pub fn yaml_of(value: &Value) -> String {
    let mut out = String::new();
    write_block(value, 0, &mut out);
    out
}

/// Writes a list or an object, one line for each of its parts. The first line goes on where `out` ends.
fn write_block(value: &Value, indent: usize, out: &mut String) {
    let mut parts: Vec<(String, &Value)> = Vec::new();
    match value {
        Value::Array(items) => parts.extend(items.iter().map(|item| ("-".to_owned(), item))),
        Value::Object(fields) => parts.extend(
            fields
                .iter()
                .map(|(key, field)| (format!("{}:", yaml_key(key)), field)),
        ),
        scalar => *out += &scalar.to_string(),
    }
    for (number, (key, part)) in parts.into_iter().enumerate() {
        if number > 0 {
            *out += &" ".repeat(indent);
        }
        *out += &key;
        let is_empty = match part {
            Value::Array(items) => items.is_empty(),
            Value::Object(fields) => fields.is_empty(),
            _ => true,
        };
        match part {
            // An empty list or object, or a scalar, is the same as in JSON.
            _ if is_empty => *out += &format!(" {part}\n"),
            Value::Object(_) if key == "-" => {
                *out += " ";
                write_block(part, indent + 2, out);
            }
            _ => {
                *out += &format!("\n{}", " ".repeat(indent + 2));
                write_block(part, indent + 2, out);
            }
        }
    }
}

/// A key: in quotes unless it is one word.
fn yaml_key(key: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'/');
    let is_word = key.starts_with(|first: char| first.is_ascii_alphabetic()) && key.bytes().all(is_plain);
    match is_word {
        true => key.to_owned(),
        false => Value::from(key).to_string(),
    }
}

fn group_json(name: &SmolStr, group: &SecurityGroup) -> Value {
    json!({
        "name": name,
        "description": group.description,
        "tags": group.tags,
        "security_group_rules": group.rules.iter().map(rule_json).collect::<Vec<_>>(),
    })
}

fn rule_json(rule: &SecurityGroupRule) -> Value {
    let (mut prefix, mut group, mut addresses) = (None, None, None);
    match &rule.remote {
        Remote::Anyone => {}
        Remote::Prefix(remote) => prefix = Some(remote.to_string()),
        Remote::Group(remote) => group = Some(remote),
        Remote::AddressGroup(remote) => addresses = Some(remote),
    }
    json!({
        "direction": rule.direction.to_string(),
        "ethertype": ethertype(rule.ethertype),
        "protocol": rule.protocol.map(protocol),
        "port_range_min": rule.ports.map(|ports| ports.first()),
        "port_range_max": rule.ports.map(|ports| ports.last()),
        "remote_ip_prefix": prefix,
        "remote_group_id": group,
        "remote_address_group_id": addresses,
    })
}

fn port_json(pod: &ObjectRef, port: &Port) -> Value {
    let addresses = port.fixed_ips.iter();
    json!({
        "pod": id(pod),
        "fixed_ips": addresses.map(|address| json!({"ip_address": address.to_string()})).collect::<Vec<_>>(),
        "security_groups": port.security_groups,
    })
}

fn texts(prefixes: &BTreeSet<Prefix>) -> Vec<String> {
    prefixes.iter().map(Prefix::to_string).collect()
}

/// As Neutron calls a family.
pub(crate) fn ethertype(family: Family) -> &'static str {
    match family {
        Family::Ipv4 => "IPv4",
        Family::Ipv6 => "IPv6",
    }
}

/// As Neutron calls a protocol, or its number.
pub(crate) fn protocol(protocol: Protocol) -> String {
    match protocol {
        Protocol::TCP => "tcp".to_owned(),
        Protocol::UDP => "udp".to_owned(),
        Protocol::SCTP => "sctp".to_owned(),
        Protocol::ICMP => "icmp".to_owned(),
        Protocol::ICMPV6 => "ipv6-icmp".to_owned(),
        other => other.number().to_string(),
    }
}

/// `namespace/name`, or `namespace/Kind/name` for a workload.
fn id(pod: &ObjectRef) -> String {
    match pod.kind.as_str() {
        "Pod" => format!("{}/{}", pod.namespace, pod.name),
        kind => format!("{}/{kind}/{}", pod.namespace, pod.name),
    }
}

/// For people: each group with its rules, then each port with its groups.
pub fn table(objects: &Objects) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    for (name, group) in &objects.security_groups {
        let _ = writeln!(out, "security group {name}: {}", group.description);
        for rule in &group.rules {
            let _ = writeln!(out, "  {}", shown(rule));
        }
    }
    for (name, group) in &objects.address_groups {
        let _ = writeln!(
            out,
            "address group {name}: {}",
            texts(&group.addresses).join(", ")
        );
    }
    for (pod, port) in &objects.ports {
        let addresses: Vec<_> = port.fixed_ips.iter().map(ToString::to_string).collect();
        let _ = writeln!(out, "port of {} ({})", id(pod), addresses.join(", "));
        for group in &port.security_groups {
            let _ = writeln!(out, "  {group}");
        }
    }
    out
}

pub(crate) fn shown(rule: &SecurityGroupRule) -> String {
    let with = match &rule.remote {
        Remote::Anyone => "anyone".to_owned(),
        Remote::Prefix(prefix) => prefix.to_string(),
        Remote::Group(group) => format!("ports with {group}"),
        Remote::AddressGroup(group) => format!("addresses of {group}"),
    };
    let what = match (rule.protocol, rule.ports) {
        (None, _) => "everything".to_owned(),
        (Some(one), None) => protocol(one),
        (Some(one), Some(ports)) => format!("{} {ports}", protocol(one)),
    };
    let side = match rule.direction {
        picket_policy::Direction::Ingress => "from",
        picket_policy::Direction::Egress => "to",
    };
    format!(
        "{} {}: {what} {side} {with}",
        rule.direction,
        ethertype(rule.ethertype)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::AddressGroup;

    #[test]
    fn yaml_is_json_in_lines() {
        let mut objects = Objects::default();
        let addresses = ["10.0.0.0/8", "fd00::/8"].map(|prefix| prefix.parse().unwrap());
        let group = AddressGroup {
            addresses: addresses.into(),
        };
        objects.address_groups.insert("a: \"b\"".into(), group);
        let port = Port {
            fixed_ips: ["10.0.0.1".parse().unwrap()].into(),
            security_groups: ["x".into()].into(),
        };
        objects.ports.insert(ObjectRef::new("Pod", "x", "web"), port);
        let expected = "\
security_groups: []
address_groups:
  - name: \"a: \\\"b\\\"\"
    addresses:
      - \"10.0.0.0/8\"
      - \"fd00::/8\"
ports:
  - pod: \"x/web\"
    fixed_ips:
      - ip_address: \"10.0.0.1\"
    security_groups:
      - \"x\"
";
        assert_eq!(yaml(&objects), expected);
    }
}
