//! libnftables JSON (`libnftables-json(5)`, schema version 1).

use std::net::{Ipv4Addr, Ipv6Addr};

use picket_net::{AddressRange, Bound, Family, Interval};
use serde_json::{Map as Object, Value as Json, json};

use super::text::{STATES, class, flags, protocol, state};
use crate::model::{
    Assigned, Chain, Comment, Datatype, Datum, End, Field, Key, Map, Match, Relation, Rule, Set, Slot,
    Statement, Table, Transport, Value, Verdict,
};

/// One transaction that creates or replaces the table. nft 1.0.6 ignores the comments of tables and chains in it.
pub fn json(table: &Table) -> String {
    let mut text = value(table).to_string();
    text.push('\n');
    text
}

/// The same as a value.
pub fn value(table: &Table) -> Json {
    let name = table.name().as_str();
    let mut commands = vec![
        json!({"metainfo": {"json_schema_version": 1}}),
        json!({"add": {"table": {"family": "inet", "name": name}}}),
        json!({"delete": {"table": {"family": "inet", "name": name}}}),
        add(
            "table",
            commented(json!({"family": "inet", "name": name}), table.comment()),
        ),
    ];
    for counter in table.counters() {
        let object = json!({"family": "inet", "table": name, "name": counter.name.as_str()});
        commands.push(add("counter", commented(object, counter.comment.as_ref())));
    }
    // Chains come before the maps that jump to them, rules last.
    commands.extend(
        table
            .chains()
            .iter()
            .map(|chain| add("chain", chain_object(name, chain))),
    );
    commands.extend(table.sets().iter().map(|set| add("set", set_object(name, set))));
    commands.extend(table.maps().iter().map(|map| add("map", map_object(name, map))));
    for chain in table.chains() {
        commands.extend(
            chain
                .rules
                .iter()
                .map(|rule| add("rule", rule_object(name, chain, rule))),
        );
    }
    json!({ "nftables": commands })
}

fn add(kind: &str, object: Json) -> Json {
    json!({"add": {kind: object}})
}

fn commented(mut object: Json, comment: Option<&Comment>) -> Json {
    if let (Some(comment), Some(fields)) = (comment, object.as_object_mut()) {
        fields.insert("comment".to_owned(), comment.as_str().into());
    }
    object
}

fn chain_object(table: &str, chain: &Chain) -> Json {
    let mut object = json!({"family": "inet", "table": table, "name": chain.name.as_str()});
    if let (Some(base), Some(fields)) = (chain.base, object.as_object_mut()) {
        fields.insert("type".to_owned(), "filter".into());
        fields.insert("hook".to_owned(), base.hook.keyword().into());
        fields.insert("prio".to_owned(), base.priority.into());
        fields.insert("policy".to_owned(), base.policy.keyword().into());
    }
    commented(object, chain.comment.as_ref())
}

fn types(key: &[Datatype]) -> Json {
    match key {
        [one] => one.keyword().into(),
        several => several.iter().map(|one| one.keyword()).collect(),
    }
}

fn set_object(table: &str, set: &Set) -> Json {
    let object =
        json!({"family": "inet", "table": table, "name": set.name().as_str(), "type": types(set.key())});
    let elements: Vec<Json> = set.elements().iter().map(key_value).collect();
    commented(filled(object, set.interval(), elements), set.comment())
}

fn map_object(table: &str, map: &Map) -> Json {
    let object = json!({
        "family": "inet", "table": table, "name": map.name().as_str(), "type": types(map.key()),
        "map": map.gives().keyword(),
    });
    let elements = map
        .elements()
        .iter()
        .map(|(key, datum)| json!([key_value(key), datum_value(datum)]))
        .collect();
    commented(filled(object, map.interval(), elements), map.comment())
}

fn filled(mut object: Json, interval: bool, elements: Vec<Json>) -> Json {
    if let Some(fields) = object.as_object_mut() {
        if interval {
            fields.insert("flags".to_owned(), json!(["interval"]));
        }
        if !elements.is_empty() {
            fields.insert("elem".to_owned(), Json::Array(elements));
        }
    }
    object
}

fn key_value(key: &Key) -> Json {
    match key.values() {
        [one] => operand(one),
        several => json!({"concat": several.iter().map(operand).collect::<Vec<_>>()}),
    }
}

fn datum_value(datum: &Datum) -> Json {
    match datum {
        Datum::Verdict(one) => verdict(one),
        Datum::Mark(mark) => (*mark).into(),
        Datum::Priority(priority) => class(*priority).into(),
    }
}

fn verdict(verdict: &Verdict) -> Json {
    match verdict {
        Verdict::Accept => json!({"accept": null}),
        Verdict::Drop => json!({"drop": null}),
        Verdict::Return => json!({"return": null}),
        Verdict::Jump(chain) => json!({"jump": {"target": chain.as_str()}}),
        Verdict::Goto(chain) => json!({"goto": {"target": chain.as_str()}}),
    }
}

fn operand(value: &Value) -> Json {
    fn ends<T: Bound>(interval: &Interval<T>, show: impl Fn(T) -> Json) -> Json {
        if interval.first() == interval.last() {
            show(interval.first())
        } else {
            json!({"range": [show(interval.first()), show(interval.last())]})
        }
    }
    match value {
        Value::Ipv4(interval) => prefix((*interval).into())
            .unwrap_or_else(|| ends(interval, |bits| Ipv4Addr::from_bits(bits).to_string().into())),
        Value::Ipv6(interval) => prefix((*interval).into())
            .unwrap_or_else(|| ends(interval, |bits| Ipv6Addr::from_bits(bits).to_string().into())),
        Value::Interface(name) => name.as_str().into(),
        Value::Mark(interval) => ends(interval, Json::from),
        Value::Priority(interval) => ends(interval, |priority| class(priority).into()),
        Value::Protocol(interval) => ends(interval, |number| protocol(number).into()),
        Value::Port(interval) => ends(interval, Json::from),
        Value::IcmpType(interval) | Value::Icmpv6Type(interval) => ends(interval, Json::from),
        Value::Family(Family::Ipv4) => "ipv4".into(),
        Value::Family(Family::Ipv6) => "ipv6".into(),
    }
}

fn prefix(range: AddressRange) -> Option<Json> {
    if range.first() == range.last() {
        return None;
    }
    match range.prefixes().as_slice() {
        [prefix] => {
            let address = prefix.first().to_string();
            Some(json!({"prefix": {"addr": address, "len": prefix.length()}}))
        }
        _ => None,
    }
}

fn field(field: Field) -> Json {
    let payload = |protocol: &str, field: &str| json!({"payload": {"protocol": protocol, "field": field}});
    let meta = |key: &str| json!({"meta": {"key": key}});
    match field {
        Field::InputInterface => meta("iifname"),
        Field::OutputInterface => meta("oifname"),
        Field::Ipv4Source => payload("ip", "saddr"),
        Field::Ipv4Destination => payload("ip", "daddr"),
        Field::Ipv6Source => payload("ip6", "saddr"),
        Field::Ipv6Destination => payload("ip6", "daddr"),
        Field::Family => meta("nfproto"),
        Field::Protocol => meta("l4proto"),
        Field::DestinationPort(Transport::Any) => payload("th", "dport"),
        Field::DestinationPort(Transport::Tcp) => payload("tcp", "dport"),
        Field::DestinationPort(Transport::Udp) => payload("udp", "dport"),
        Field::DestinationPort(Transport::Sctp) => payload("sctp", "dport"),
        Field::IcmpType => payload("icmp", "type"),
        Field::Icmpv6Type => payload("icmpv6", "type"),
        Field::Priority => meta("priority"),
        Field::Mark => meta("mark"),
        Field::ConnectionMark => json!({"ct": {"key": "mark"}}),
    }
}

fn fields(key: &[Field]) -> Json {
    match key {
        [one] => field(*one),
        several => json!({"concat": several.iter().map(|&one| field(one)).collect::<Vec<_>>()}),
    }
}

fn rule_object(table: &str, chain: &Chain, rule: &Rule) -> Json {
    let mut steps: Vec<Json> = rule.statements.iter().map(statement).collect();
    match &rule.end {
        End::Next => {}
        End::Verdict(one) => steps.push(verdict(one)),
        End::Reject => steps.push(json!({"reject": {"type": "icmpx", "expr": "port-unreachable"}})),
        End::VerdictMap { key, map } => {
            steps.push(json!({"vmap": {"key": fields(key), "data": format!("@{map}")}}));
        }
    }
    let object = json!({"family": "inet", "table": table, "chain": chain.name.as_str(), "expr": steps});
    commented(object, rule.comment.as_ref())
}

fn statement(statement: &Statement) -> Json {
    match statement {
        Statement::Match(condition) => json!({"match": matched(condition)}),
        Statement::Set(slot, assigned) => {
            let value = match assigned {
                Assigned::Constant(value) if *slot == Slot::Priority => class(*value).into(),
                Assigned::Constant(value) => (*value).into(),
                Assigned::Field(one) => field(*one),
                Assigned::Map { key, map } => json!({"map": {"key": fields(key), "data": format!("@{map}")}}),
            };
            json!({"mangle": {"key": field(slot.field()), "value": value}})
        }
        Statement::Count(counter) => json!({"counter": counter.as_str()}),
        Statement::Log(log) => {
            let mut object = Object::new();
            object.insert("prefix".to_owned(), log.prefix.as_str().into());
            if let Some(group) = log.group {
                object.insert("group".to_owned(), group.into());
            }
            json!({"log": object})
        }
        Statement::Limit(limit) => json!({"limit": {
            "rate": limit.per_second, "burst": limit.burst, "per": "second",
        }}),
    }
}

fn matched(condition: &Match) -> Json {
    let operator = |relation: &Relation| match relation {
        Relation::Is => "==",
        Relation::IsNot => "!=",
    };
    match condition {
        Match::Compare {
            field: one,
            relation,
            value,
        } => {
            json!({"op": operator(relation), "left": field(*one), "right": operand(value)})
        }
        Match::AnyOf { field: one, values } => {
            let values: Vec<Json> = values.iter().map(operand).collect();
            json!({"op": "==", "left": field(*one), "right": {"set": values}})
        }
        Match::Lookup { key, relation, set } => {
            json!({"op": operator(relation), "left": fields(key), "right": format!("@{set}")})
        }
        Match::State(states) => {
            let shown: Vec<_> = STATES
                .iter()
                .filter(|one| states.contains(one))
                .map(|&one| state(one))
                .collect();
            json!({"op": "in", "left": {"ct": {"key": "state"}}, "right": shown})
        }
        Match::TcpFlags {
            mask,
            relation,
            value,
        } => {
            let left = json!({"&": [{"payload": {"protocol": "tcp", "field": "flags"}}, either(*mask)]});
            json!({"op": operator(relation), "left": left, "right": either(*value)})
        }
        Match::NoReversePath => {
            let left = json!({"fib": {"result": "oif", "flags": ["saddr", "iif"]}});
            json!({"op": "==", "left": left, "right": false})
        }
        Match::LocalSource => {
            let left = json!({"fib": {"result": "type", "flags": ["saddr"]}});
            json!({"op": "==", "left": left, "right": "local"})
        }
    }
}

/// Flags joined by or, two by two as nft 1.0.6 reads it; no flag is 0.
fn either(bits: u8) -> Json {
    let joined = flags(bits)
        .into_iter()
        .map(Json::from)
        .reduce(|some, flag| json!({"|": [some, flag]}));
    joined.unwrap_or_else(|| 0.into())
}
