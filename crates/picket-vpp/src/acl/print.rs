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
    let mut written = json!({
        "is_permit": rule.action as u8,
        "src_prefix": rule.source.to_string(),
        "dst_prefix": rule.destination.to_string(),
        "proto": rule.protocol,
        "srcport_or_icmptype_first": rule.first.0,
        "srcport_or_icmptype_last": rule.first.1,
        "dstport_or_icmpcode_first": rule.second.0,
        "dstport_or_icmpcode_last": rule.second.1,
    });
    // Rules that are rendered look at none.
    if rule.tcp_flags != (0, 0)
        && let Some(written) = written.as_object_mut()
    {
        let (mask, value) = rule.tcp_flags;
        written.insert("tcp_flags_mask".into(), mask.into());
        written.insert("tcp_flags_value".into(), value.into());
    }
    written
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

#[cfg(test)]
mod tests {
    use picket_net::{Family, Interval, Protocol};

    use super::*;
    use crate::acl::AclAction;
    use crate::layer4::Selector;

    #[test]
    fn text_is_what_vpp_shows() {
        let web = Selector::One(Protocol::TCP, Interval::single(80));
        let some = Selector::One(Protocol::UDP, Interval::new(53, 54).unwrap());
        let echo = Selector::One(Protocol::ICMPV6, Interval::new(0x8000, 0x80ff).unwrap());
        let net = |text: &str| text.parse().unwrap();
        let [from, to] = [
            [
                AclRule::of(
                    AclAction::PermitReflect,
                    net("10.0.0.1/32"),
                    net("0.0.0.0/0"),
                    &web,
                ),
                vec![AclRule::everything(AclAction::Deny, Family::Ipv4)],
            ],
            [
                AclRule::of(AclAction::Permit, net("10.0.0.0/8"), net("0.0.0.0/0"), &some),
                AclRule::of(AclAction::Permit, net("fd00::/8"), net("::/0"), &echo),
            ],
        ]
        .map(|rules| rules.concat());
        let mut acls = Acls::default();
        for (name, rules) in [("a", from), ("b", to)] {
            let tag = Tag::installed(name);
            let acl = Acl {
                tag: tag.clone(),
                rules,
            };
            acls.acls.insert(tag, acl.into());
        }
        for (name, input, output) in [("tap0", &["a"][..], &["b"][..]), ("tap1", &["b", "a"], &[])] {
            let tags = |names: &[&str]| names.iter().map(|name| Tag::installed(name)).collect();
            let lists = InterfaceLists {
                pod: None,
                input: tags(input),
                output: tags(output),
            };
            acls.interfaces.insert(name.into(), lists);
        }
        let expected = [
            "acl-index 0 count 2 tag {a}",
            "          0: ipv4 permit+reflect src 10.0.0.1/32 dst 0.0.0.0/0 proto 6 sport 0-65535 dport 80",
            "          1: ipv4 deny src 0.0.0.0/0 dst 0.0.0.0/0 proto 0 sport 0-65535 dport 0-65535",
            "acl-index 1 count 2 tag {b}",
            "          0: ipv4 permit src 10.0.0.0/8 dst 0.0.0.0/0 proto 17 sport 0-65535 dport 53-54",
            "          1: ipv6 permit src fd00::/8 dst ::/0 proto 58 sport 128 dport 0-65535",
            "interface tap0:",
            "   input acl(s): 0",
            "  output acl(s): 1",
            "interface tap1:",
            "   input acl(s): 1, 0",
            "  output acl(s): ",
        ];
        assert_eq!(text(&acls).lines().collect::<Vec<_>>(), expected);
    }
}
