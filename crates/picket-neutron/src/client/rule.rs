//! Rules as Neutron writes them, read so that rules that mean the same are equal.

use picket_net::{Family, PortRange, Prefix, Protocol, parse_address};
use picket_policy::Direction;
use serde::Deserialize;
use serde_json::{Value, json};
use smol_str::SmolStr;

use crate::model::{Remote, SecurityGroupRule};
use crate::print::{ethertype, protocol};

/// A rule of a security group, as Neutron has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// By which it is deleted.
    pub id: SmolStr,
    /// What it allows; names in it are ids. `None` where no rule of picket's can say that: a type of ICMP, ports of DCCP, a
    /// protocol that nobody knows.
    pub rule: Option<SecurityGroupRule>,
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
        Rule {
            rule: self.meaning(),
            description: self.description.unwrap_or_default(),
            id: self.id,
        }
    }

    fn meaning(&self) -> Option<SecurityGroupRule> {
        let direction = match self.direction.as_deref()?.to_ascii_lowercase().as_str() {
            "ingress" => Direction::Ingress,
            "egress" => Direction::Egress,
            _ => return None,
        };
        let family = match self.ethertype.as_deref()?.to_ascii_lowercase().as_str() {
            "ipv4" => Family::Ipv4,
            "ipv6" => Family::Ipv6,
            _ => return None,
        };
        let protocol = match &self.protocol {
            None | Some(Value::Null) => None,
            Some(Value::String(name)) => read_protocol(name, family)?,
            Some(number) => read_protocol(&number.to_string(), family)?,
        };
        Some(SecurityGroupRule {
            direction,
            ethertype: family,
            protocol,
            ports: self.ports(protocol)?,
            remote: self.remote(family)?,
        })
    }

    /// The outer `None` is what cannot be said.
    fn ports(&self, protocol: Option<Protocol>) -> Option<Option<PortRange>> {
        match (self.port_range_min, self.port_range_max) {
            (None, None) => Some(None),
            (Some(first), Some(last)) if protocol.is_some_and(Protocol::has_ports) => {
                let range = PortRange::new(u16::try_from(first).ok()?, u16::try_from(last).ok()?)?;
                // Neutron keeps no range where it is all ports.
                Some((range != PortRange::ALL).then_some(range))
            }
            _ => None,
        }
    }

    fn remote(&self, family: Family) -> Option<Remote> {
        match (
            self.remote_ip_prefix.as_deref(),
            &self.remote_group_id,
            &self.remote_address_group_id,
        ) {
            (None, None, None) => Some(Remote::Anyone),
            (Some(text), None, None) => {
                let prefix = read_prefix(text).filter(|prefix| prefix.family() == family)?;
                // To Neutron these are the same.
                Some(match prefix.length() {
                    0 => Remote::Anyone,
                    _ => Remote::Prefix(prefix),
                })
            }
            (None, Some(group), None) => Some(Remote::Group(group.clone())),
            (None, None, Some(group)) => Some(Remote::AddressGroup(group.clone())),
            _ => None,
        }
    }
}

/// A prefix, or an address alone. Bits of hosts do not count.
pub(super) fn read_prefix(text: &str) -> Option<Prefix> {
    match text.contains('/') {
        true => Prefix::parse(text).ok().map(|(prefix, _)| prefix),
        false => parse_address(text).map(Prefix::host),
    }
}

/// A protocol by a name of Neutron's or its number; the inner `None` is any.
fn read_protocol(name: &str, family: Family) -> Option<Option<Protocol>> {
    let name = name.to_ascii_lowercase();
    let number = match name.as_str() {
        "any" => return Some(None),
        "ah" => 51,
        "dccp" => 33,
        "egp" => 8,
        "esp" => 50,
        "gre" => 47,
        "hopopt" | "ip" => 0,
        "icmp" => 1,
        "icmpv6" | "icmp6" | "ipv6-icmp" => 58,
        "igmp" => 2,
        "ipip" => 4,
        "ipv6-encap" => 41,
        "ipv6-frag" => 44,
        "ipv6-nonxt" => 59,
        "ipv6-opts" => 60,
        "ipv6-route" => 43,
        "ospf" => 89,
        "pgm" => 113,
        "rsvp" => 46,
        "sctp" => 132,
        "tcp" => 6,
        "udp" => 17,
        "udplite" => 136,
        "vrrp" => 112,
        number => number.parse().ok()?,
    };
    let protocol = match (Protocol::from_number(number), family) {
        // Of IPv6 there is no other, whatever it is called.
        (Protocol::ICMP, Family::Ipv6) => Protocol::ICMPV6,
        (protocol, _) => protocol,
    };
    Some(Some(protocol))
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
    use super::*;

    fn read(fields: &str) -> Option<SecurityGroupRule> {
        let text = format!(r#"{{"id": "r", "direction": "ingress", {fields}}}"#);
        serde_json::from_str::<RawRule>(&text).unwrap().read().rule
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
            assert_eq!(read.rule, Some(normalised(&rule)));
            assert_eq!(read.description, "why");
        }
    }
}
