//! Rules as Neutron writes them, read so that rules that mean the same are equal.

use picket_net::{Family, PortRange, Protocol};
use serde::Deserialize;
use serde_json::{Value, json};
use smol_str::SmolStr;

use crate::model::{Remote, SecurityGroupRule};
use crate::plan::{InstalledRule, RuleFields};
use crate::print::{ethertype, protocol};

/// A rule of a security group, as Neutron has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// By which it is deleted.
    pub id: SmolStr,
    /// What it allows.
    pub rule: InstalledRule,
    /// For people.
    pub description: String,
}

/// A rule in JSON. Everything may be null or absent.
#[derive(Deserialize)]
pub(super) struct RawRule {
    pub(super) id: SmolStr,
    direction: Option<SmolStr>,
    ethertype: Option<SmolStr>,
    protocol: Option<Value>,
    port_range_min: Option<i64>,
    port_range_max: Option<i64>,
    remote_ip_prefix: Option<String>,
    remote_group_id: Option<SmolStr>,
    remote_address_group_id: Option<SmolStr>,
    description: Option<String>,
}

impl RawRule {
    pub(super) fn read(self) -> Rule {
        let protocol = match &self.protocol {
            None | Some(Value::Null) => None,
            Some(Value::String(name)) => Some(name.clone()),
            Some(number) => Some(number.to_string()),
        };
        let fields = RuleFields {
            direction: self.direction.as_deref().unwrap_or_default(),
            ethertype: self.ethertype.as_deref().unwrap_or_default(),
            protocol: protocol.as_deref(),
            port_range_min: self.port_range_min,
            port_range_max: self.port_range_max,
            remote_ip_prefix: self.remote_ip_prefix.as_deref(),
            remote_group_id: self.remote_group_id.as_deref(),
            remote_address_group_id: self.remote_address_group_id.as_deref(),
        };
        Rule {
            rule: InstalledRule::read(&fields),
            description: self.description.unwrap_or_default(),
            id: self.id,
        }
    }
}

/// A rule as Neutron is asked for it.
pub(super) fn body(group: &str, rule: &SecurityGroupRule, description: &str) -> Value {
    let mut body = json!({
        "security_group_id": group,
        "direction": rule.direction.to_string(),
        "ethertype": ethertype(rule.ethertype),
        "description": description,
    });
    let mut set = |key: &str, value: Value| {
        if let Some(body) = body.as_object_mut() {
            body.insert(key.to_owned(), value);
        }
    };
    if let Some(one) = rule.protocol {
        set("protocol", protocol(one).into());
    }
    if let Some(ports) = rule.ports {
        set("port_range_min", ports.first().into());
        set("port_range_max", ports.last().into());
    }
    match &rule.remote {
        Remote::Anyone => {}
        Remote::Prefix(prefix) => set("remote_ip_prefix", prefix.to_string().into()),
        Remote::Group(id) => set("remote_group_id", id.as_str().into()),
        Remote::AddressGroup(id) => set("remote_address_group_id", id.as_str().into()),
    }
    body
}

/// The rule as it is when it is read back from Neutron.
pub fn normalised(rule: &SecurityGroupRule) -> SecurityGroupRule {
    let mut rule = rule.clone();
    rule.ports = rule.ports.filter(|ports| *ports != PortRange::ALL);
    if let Remote::Prefix(prefix) = rule.remote
        && prefix.length() == 0
    {
        rule.remote = Remote::Anyone;
    }
    if rule.ethertype == Family::Ipv6 && rule.protocol == Some(Protocol::ICMP) {
        rule.protocol = Some(Protocol::ICMPV6);
    }
    rule
}

#[cfg(test)]
mod tests {
    use picket_policy::Direction;

    use super::*;

    fn read(fields: &str) -> Option<SecurityGroupRule> {
        let text = format!(r#"{{"id": "r", "direction": "ingress", {fields}}}"#);
        serde_json::from_str::<RawRule>(&text)
            .unwrap()
            .read()
            .rule
            .known()
            .cloned()
    }

    #[test]
    fn rules_that_mean_the_same_are_equal() {
        let v4 = r#""ethertype": "IPv4""#;
        let v6 = r#""ethertype": "IPv6""#;
        for (family, a, b) in [
            (v4, r#""protocol": "tcp""#, r#""protocol": 6"#),
            (v4, r#""protocol": "TCP""#, r#""protocol": "6""#),
            (v4, r#""protocol": "any""#, r#""protocol": null"#),
            (v4, r#""protocol": null"#, r#""description": "x""#),
            (v4, r#""protocol": "sctp""#, r#""protocol": "132""#),
            (v6, r#""protocol": "icmpv6""#, r#""protocol": "ipv6-icmp""#),
            (v6, r#""protocol": "icmp""#, r#""protocol": "58""#),
            (v6, r#""protocol": "1""#, r#""protocol": 58"#),
            (
                v4,
                r#""protocol": "tcp", "port_range_min": 1, "port_range_max": 65535"#,
                r#""protocol": "tcp", "port_range_min": null, "port_range_max": null"#,
            ),
            (
                v4,
                r#""remote_ip_prefix": "10.0.0.9""#,
                r#""remote_ip_prefix": "10.0.0.9/32""#,
            ),
            (
                v4,
                r#""remote_ip_prefix": "10.0.2.7/23""#,
                r#""remote_ip_prefix": "10.0.2.0/23""#,
            ),
            (
                v4,
                r#""remote_ip_prefix": "0.0.0.0/0""#,
                r#""remote_ip_prefix": null"#,
            ),
            (v6, r#""remote_ip_prefix": "::/0""#, r#""remote_group_id": null"#),
            (
                v6,
                r#""remote_ip_prefix": "FD00:0::1""#,
                r#""remote_ip_prefix": "fd00::1/128""#,
            ),
        ] {
            let (a, b) = (format!("{family}, {a}"), format!("{family}, {b}"));
            let read_a = read(&a);
            assert!(read_a.is_some(), "{a}");
            assert_eq!(read_a, read(&b), "{a} and {b}");
        }
    }

    #[test]
    fn what_picket_cannot_say_is_no_rule_of_its() {
        for fields in [
            r#""ethertype": "IPv4", "protocol": "icmp", "port_range_min": 8"#,
            r#""ethertype": "IPv4", "protocol": "dccp", "port_range_min": 8, "port_range_max": 8"#,
            r#""ethertype": "IPv4", "protocol": "telepathy""#,
            r#""ethertype": "IPv4", "protocol": 256"#,
            r#""ethertype": "IPv4", "protocol": ["tcp"]"#,
            r#""ethertype": "IPv4", "port_range_min": 8, "port_range_max": 8"#,
            r#""ethertype": "IPv4", "protocol": "tcp", "port_range_min": 0, "port_range_max": 8"#,
            r#""ethertype": "IPv4", "protocol": "tcp", "port_range_min": 9, "port_range_max": 8"#,
            r#""ethertype": "IPv4", "protocol": "tcp", "port_range_min": 9"#,
            r#""ethertype": "IPv4", "protocol": "tcp", "port_range_min": 9, "port_range_max": 70000"#,
            r#""ethertype": "IPv4", "remote_ip_prefix": "fd00::/8""#,
            r#""ethertype": "IPv4", "remote_ip_prefix": "somewhere""#,
            r#""ethertype": "IPv4", "remote_ip_prefix": "10.0.0.0/8", "remote_group_id": "x""#,
            r#""ethertype": "ARP""#,
            r#""ethertype": null"#,
        ] {
            assert_eq!(read(fields), None, "{fields}");
        }
    }

    #[test]
    fn what_is_asked_for_is_what_is_read() {
        let prefix = |text: &str| Remote::Prefix(text.parse().unwrap());
        let rule = |ethertype, protocol, ports, remote| SecurityGroupRule {
            direction: Direction::Egress,
            ethertype,
            protocol,
            ports,
            remote,
        };
        for rule in [
            rule(Family::Ipv4, None, None, Remote::Anyone),
            rule(
                Family::Ipv4,
                Some(Protocol::TCP),
                PortRange::new(1, 65535),
                prefix("0.0.0.0/0"),
            ),
            rule(Family::Ipv6, Some(Protocol::ICMP), None, prefix("fd00::/8")),
            rule(
                Family::Ipv6,
                Some(Protocol::SCTP),
                PortRange::single(9),
                Remote::Group("g".into()),
            ),
            rule(
                Family::Ipv4,
                Some(Protocol::from_number(47)),
                None,
                Remote::AddressGroup("a".into()),
            ),
        ] {
            let mut body = body("x", &rule, "why");
            body["id"] = "r".into();
            let read = serde_json::from_value::<RawRule>(body).unwrap().read();
            assert_eq!(read.rule, InstalledRule::Known(normalised(&rule)));
            assert_eq!(read.description, "why");
        }
    }
}
