//! Assertions as YAML.

use std::collections::BTreeMap;
use std::fmt::Write;

use picket_net::{Family, PortRange, Protocol, TrafficSet};

use super::super::wish::other_protocols;

/// The longest list that is written on one line.
const WIDTH: usize = 100;

/// Lists that are shorter are written out wherever they are used.
const SHORT: usize = 4;

/// One assertion.
pub(super) struct Test {
    pub(super) name: String,
    /// The claim with its fields, as in `allow: every`.
    pub(super) claim: &'static str,
    pub(super) family: Option<Family>,
    /// Lists of ends, of which all are meant.
    pub(super) from: Vec<Vec<String>>,
    pub(super) to: Vec<Vec<String>>,
    /// Empty for everything.
    pub(super) ports: Vec<String>,
}

/// The sets and tests of a file. A longer list that occurs twice becomes a set.
pub(super) fn body(tests: &[Test]) -> String {
    if tests.is_empty() {
        return "tests: []\n".to_owned();
    }
    let mut uses: BTreeMap<&[String], usize> = BTreeMap::new();
    for list in lists(tests) {
        *uses.entry(list).or_default() += 1;
    }
    let mut sets: BTreeMap<&[String], String> = BTreeMap::new();
    let mut text = String::new();
    for list in lists(tests) {
        let is_shared = list.len() >= SHORT && uses.get(list).is_some_and(|&uses| uses > 1);
        if is_shared && !sets.contains_key(list) {
            let name = format!("set-{}", sets.len() + 1);
            if sets.is_empty() {
                text += "sets:\n";
            }
            let _ = writeln!(text, "  {name}:{}", shown(list, "  "));
            sets.insert(list, name);
        }
    }
    text += "tests:\n";
    for test in tests {
        let _ = writeln!(text, "- name: {}\n  {}", quoted(&test.name), test.claim);
        for (field, lists) in [("from", &test.from), ("to", &test.to)] {
            let items = lists.iter().flat_map(|list| match sets.get(list.as_slice()) {
                Some(set) => vec![format!("{{set: {set}}}")],
                None => list.clone(),
            });
            let _ = writeln!(text, "  {field}:{}", shown(&items.collect::<Vec<_>>(), "  "));
        }
        if !test.ports.is_empty() {
            let _ = writeln!(text, "  ports:{}", shown(&test.ports, "  "));
        }
        if let Some(family) = test.family {
            let _ = writeln!(text, "  family: {family}");
        }
    }
    text
}

fn lists(tests: &[Test]) -> impl Iterator<Item = &[String]> {
    tests
        .iter()
        .flat_map(|test| test.from.iter().chain(&test.to).map(Vec::as_slice))
}

/// How many items some lists make, when each longer one is a set.
pub(super) fn length(lists: &[Vec<String>]) -> usize {
    lists
        .iter()
        .map(|list| if list.len() >= SHORT { 1 } else { list.len() })
        .sum()
}

/// A list as the value of a field: on the line, or on lines of its own.
fn shown(list: &[String], indent: &str) -> String {
    if let [only] = list {
        return format!(" {only}");
    }
    let line = format!(" [{}]", list.join(", "));
    if line.len() <= WIDTH {
        return line;
    }
    list.iter()
        .fold(String::new(), |text, item| text + "\n" + indent + "- " + item)
}

/// A name, quoted where it could be read as something else.
pub(super) fn scalar(text: &str) -> String {
    let plain = |character: char| character.is_ascii_alphanumeric() || "-._@/*".contains(character);
    let starts = text.starts_with(|first: char| first.is_ascii_alphanumeric());
    if starts && text.contains('/') && text.chars().all(plain) {
        text.to_owned()
    } else {
        quoted(text)
    }
}

/// A text in double quotes. JSON's are YAML's.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// How packets are written; nothing for everything.
pub(super) fn ports(packets: &TrafficSet) -> Vec<String> {
    if packets.is_all() {
        return Vec::new();
    }
    let mut ports = Vec::new();
    for protocol in Protocol::WITH_PORTS {
        let name = protocol.to_string().to_lowercase();
        match packets.ports(protocol) {
            Some(all) if all.is_all() => ports.push(name),
            some => {
                let ranges = some.into_iter().flat_map(|ports| ports.ranges());
                ports.extend(ranges.map(|range| shown_range(range, protocol, &name)));
            }
        }
    }
    let mut rest = packets.portless;
    for protocol in [Protocol::ICMP, Protocol::ICMPV6] {
        if rest.contains(protocol) {
            ports.push(protocol.to_string().to_lowercase());
        }
        rest = rest.difference(protocol.into());
    }
    if rest == other_protocols() {
        ports.push("other".to_owned());
    } else {
        ports.extend(
            rest.iter()
                .map(|protocol| quoted(&format!("proto:{}", protocol.number()))),
        );
    }
    ports
}

fn shown_range(range: PortRange, protocol: Protocol, name: &str) -> String {
    let (first, last) = (range.first(), range.last());
    let ports = if first == last {
        first.to_string()
    } else {
        format!("{first}-{last}")
    };
    if protocol == Protocol::TCP {
        ports
    } else {
        format!("{ports}/{name}")
    }
}
