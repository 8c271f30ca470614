//! What the kernel has of a table, in its own bytes: what nft's listing leaves out is there too.

use std::collections::BTreeMap;

use picket_linux::{Attributes, NetworkNamespace, Nfnetlink, Reply};

const GETRULE: u8 = 7;
const GETSET: u8 = 10;
const GETSETELEM: u8 = 13;
const INET: u8 = 1;
const TABLE: u16 = 1;
const SET: u16 = 2;

/// Attributes, each in its bytes.
type Parts = Vec<Vec<u8>>;

/// Rules in order and, by set, its settings and its elements in any order.
#[derive(Debug, PartialEq)]
pub(super) struct Contents {
    rules: Vec<(String, Parts)>,
    sets: BTreeMap<String, (Parts, Parts)>,
}

impl Contents {
    pub(super) fn of(namespace: &NetworkNamespace, table: &str) -> Self {
        let mut netlink = Nfnetlink::open(namespace).expect("a socket");
        let table = format!("{table}\0");
        let mut dump = |kind, more: &[(u16, &[u8])]| {
            let attributes = [&[(TABLE, table.as_bytes())], more].concat();
            netlink.dump(kind, INET, &attributes, "list").expect("a dump")
        };
        let rules = dump(GETRULE, &[]).iter().map(rule).collect();
        let mut sets = BTreeMap::new();
        for set in dump(GETSET, &[]) {
            let name = set.attributes().find(SET).expect("a name");
            let replies = dump(GETSETELEM, &[(SET, name)]);
            let mut elements: Vec<_> = replies.iter().flat_map(elements).collect();
            elements.sort();
            sets.insert(text(name), (settings(&set), elements));
        }
        Self { rules, sets }
    }
}

fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).trim_end_matches('\0').to_owned()
}

fn number(attributes: &Attributes<'_>, kind: u16) -> Option<u32> {
    let bytes = attributes.clone().find(kind)?;
    Some(u32::from_be_bytes(bytes.try_into().ok()?))
}

/// The chain and the expressions of a rule, without those that do nothing: nft turns the one byte of a protocol round.
fn rule(reply: &Reply) -> (String, Parts) {
    const CHAIN: u16 = 2;
    const EXPRESSIONS: u16 = 4;
    const BYTEORDER_LENGTH: u16 = 4;
    let chain = reply.attributes().find(CHAIN).expect("a chain");
    let expressions = reply.attributes().find(EXPRESSIONS).unwrap_or_default();
    let expressions = Attributes::of(expressions).filter(|(_, bytes)| {
        let expression = Attributes::of(bytes);
        let is_byteorder = expression.clone().find(1) == Some(b"byteorder\0");
        let body = Attributes::of(expression.find(2).unwrap_or_default());
        !(is_byteorder && number(&body, BYTEORDER_LENGTH) == Some(1))
    });
    (
        text(chain),
        expressions.map(|(_, bytes)| bytes.to_vec()).collect(),
    )
}

/// Flags, types and lengths of a set.
fn settings(reply: &Reply) -> Parts {
    let about = reply.attributes().filter(|(kind, _)| (3..=7).contains(kind));
    about.map(|(_, bytes)| bytes.to_vec()).collect()
}

/// The elements of a set, without the end of an interval at zero, which nft writes into a new set and which means nothing.
fn elements(reply: &Reply) -> Parts {
    const ELEMENTS: u16 = 3;
    const KEY: u16 = 1;
    const FLAGS: u16 = 3;
    let elements = Attributes::of(reply.attributes().find(ELEMENTS).unwrap_or_default());
    let elements = elements.filter(|(_, bytes)| {
        let element = Attributes::of(bytes);
        let key = Attributes::of(element.clone().find(KEY).unwrap_or_default());
        let zero = key.find(1).is_some_and(|key| key.iter().all(|&byte| byte == 0));
        !(zero && number(&element, FLAGS) == Some(1))
    });
    elements.map(|(_, bytes)| bytes.to_vec()).collect()
}
