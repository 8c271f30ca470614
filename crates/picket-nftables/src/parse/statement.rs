//! Rules.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use picket_dataplane::State;
use serde_json::{Value as Json, json};

use super::{ParseError, Result, array, comment, named, text, value};
use crate::model::{
    Assigned, End, Field, Limit, Log, LogPrefix, Match, Name, Relation, Rule, Slot, Statement, Transport,
};

/// One rule.
pub(super) fn rule(object: &Json) -> Result<Rule> {
    let mut rule = Rule::of([], End::Next);
    rule.comment = comment(object)?;
    for step in array(object.get("expr").unwrap_or(&Json::Null), "list of statements")? {
        if rule.end != End::Next {
            return Err(ParseError::unknown("rule that ends in its verdict", object));
        }
        let (kind, body) = step
            .as_object()
            .and_then(|fields| fields.iter().next())
            .ok_or_else(|| ParseError::unknown("statement", step))?;
        match kind.as_str() {
            "match" => rule.statements.push(Statement::Match(matched(body)?)),
            "mangle" => rule.statements.push(assignment(body)?),
            "counter" => {
                let name = body
                    .as_str()
                    .ok_or_else(|| ParseError::unknown("named counter", step))?;
                rule.statements.push(Statement::Count(named(name)?));
            }
            "log" => rule.statements.push(log(body)?),
            "limit" => rule.statements.push(limit(body)?),
            "vmap" => {
                let (key, map) = lookup(body)?;
                rule.end = End::VerdictMap { key, map };
            }
            // With `-n` nft lists the number of the code.
            "reject"
                if [json!("port-unreachable"), json!(1)]
                    .iter()
                    .any(|code| *body == json!({"type": "icmpx", "expr": code})) =>
            {
                rule.end = End::Reject;
            }
            _ => rule.end = End::Verdict(value::verdict(step)?),
        }
    }
    Ok(rule)
}

fn log(body: &Json) -> Result<Statement> {
    let written = text(body, "prefix")?;
    let prefix = LogPrefix::new(written);
    if prefix.as_str() != written {
        return Err(ParseError::unknown("log prefix", body));
    }
    let group = body.get("group").map(value::integer).transpose()?;
    Ok(Statement::Log(Log { prefix, group }))
}

fn limit(body: &Json) -> Result<Statement> {
    let number = |name: &str| {
        let number = body.get(name).map(value::integer::<u32>).transpose()?;
        let number = number.and_then(NonZeroU32::new);
        number.ok_or_else(|| ParseError::unknown("limit", body))
    };
    let limit = Limit {
        per_second: number("rate")?,
        burst: number("burst")?,
    };
    if *body != json!({"rate": limit.per_second, "burst": limit.burst, "per": "second"}) {
        return Err(ParseError::unknown("limit", body));
    }
    Ok(Statement::Limit(limit))
}

fn assignment(body: &Json) -> Result<Statement> {
    let slot = match field(body.get("key").unwrap_or(&Json::Null))? {
        Field::Priority => Slot::Priority,
        Field::Mark => Slot::Mark,
        Field::ConnectionMark => Slot::ConnectionMark,
        _ => return Err(ParseError::unknown("field that can be written", body)),
    };
    let source = body.get("value").unwrap_or(&Json::Null);
    let assigned = if let Some(map) = source.get("map") {
        let (key, map) = lookup(map)?;
        Assigned::Map { key, map }
    } else if source.is_object() {
        Assigned::Field(field(source)?)
    } else if slot == Slot::Priority {
        Assigned::Constant(value::class(source)?)
    } else {
        Assigned::Constant(value::integer(source)?)
    };
    Ok(Statement::Set(slot, assigned))
}

/// The key and the name of the map of a lookup.
fn lookup(body: &Json) -> Result<(Vec<Field>, Name)> {
    let key = fields(body.get("key").unwrap_or(&Json::Null))?;
    Ok((key, reference(body.get("data").unwrap_or(&Json::Null))?))
}

/// A set or map as `@name`.
fn reference(json: &Json) -> Result<Name> {
    let name = json.as_str().and_then(|text| text.strip_prefix('@'));
    named(name.ok_or_else(|| ParseError::unknown("named set", json))?)
}

fn fields(json: &Json) -> Result<Vec<Field>> {
    match json.get("concat") {
        Some(several) => array(several, "concatenation")?.iter().map(field).collect(),
        None => Ok(vec![field(json)?]),
    }
}

fn field(json: &Json) -> Result<Field> {
    let part = |outer: &str, inner: &str| {
        json.get(outer)
            .and_then(|body| body.get(inner))
            .and_then(Json::as_str)
    };
    let found = match (
        part("meta", "key"),
        part("ct", "key"),
        part("payload", "protocol"),
        part("payload", "field"),
    ) {
        (Some("iifname"), ..) => Some(Field::InputInterface),
        (Some("oifname"), ..) => Some(Field::OutputInterface),
        (Some("nfproto"), ..) => Some(Field::Family),
        (Some("l4proto"), ..) => Some(Field::Protocol),
        (Some("priority"), ..) => Some(Field::Priority),
        (Some("mark"), ..) => Some(Field::Mark),
        (_, Some("mark"), ..) => Some(Field::ConnectionMark),
        (_, _, Some("ip"), Some("saddr")) => Some(Field::Ipv4Source),
        (_, _, Some("ip"), Some("daddr")) => Some(Field::Ipv4Destination),
        (_, _, Some("ip6"), Some("saddr")) => Some(Field::Ipv6Source),
        (_, _, Some("ip6"), Some("daddr")) => Some(Field::Ipv6Destination),
        (_, _, Some("th"), Some("dport")) => Some(Field::DestinationPort(Transport::Any)),
        (_, _, Some("tcp"), Some("dport")) => Some(Field::DestinationPort(Transport::Tcp)),
        (_, _, Some("udp"), Some("dport")) => Some(Field::DestinationPort(Transport::Udp)),
        (_, _, Some("sctp"), Some("dport")) => Some(Field::DestinationPort(Transport::Sctp)),
        (_, _, Some("icmp"), Some("type")) => Some(Field::IcmpType),
        (_, _, Some("icmpv6"), Some("type")) => Some(Field::Icmpv6Type),
        _ => None,
    };
    found.ok_or_else(|| ParseError::unknown("field", json))
}

fn matched(body: &Json) -> Result<Match> {
    let (left, right) = (
        body.get("left").unwrap_or(&Json::Null),
        body.get("right").unwrap_or(&Json::Null),
    );
    let operator = text(body, "op")?;
    if let Some(found) = tcp_flags(operator, left, right)? {
        return Ok(found);
    }
    if left.get("ct").and_then(|ct| ct.get("key")).and_then(Json::as_str) == Some("state") && operator == "in"
    {
        return Ok(Match::State(states(right)?));
    }
    if left.get("fib").is_some() {
        return route(operator, left, right).ok_or_else(|| ParseError::unknown("match", body));
    }
    let relation = match operator {
        "==" => Relation::Is,
        "!=" => Relation::IsNot,
        _ => return Err(ParseError::unknown("match", body)),
    };
    let key = fields(left)?;
    if right.as_str().is_some_and(|text| text.starts_with('@')) {
        return Ok(Match::Lookup {
            key,
            relation,
            set: reference(right)?,
        });
    }
    let [field] = key.as_slice() else {
        return Err(ParseError::unknown("match", body));
    };
    if let Some(values) = right.get("set") {
        if relation == Relation::IsNot {
            return Err(ParseError::unknown("match", body));
        }
        let values = array(values, "anonymous set")?
            .iter()
            .map(|one| value::value(one, field.datatype()));
        return Ok(Match::AnyOf {
            field: *field,
            values: values.collect::<Result<BTreeSet<_>>>()?,
        });
    }
    Ok(Match::Compare {
        field: *field,
        relation,
        value: value::value(right, field.datatype())?,
    })
}

/// The kernel's `RTN_LOCAL`.
const LOCAL: u64 = 2;

/// What the table of routes says of the source.
fn route(operator: &str, left: &Json, right: &Json) -> Option<Match> {
    let fib = left.get("fib")?;
    let flags: BTreeSet<&str> = fib
        .get("flags")?
        .as_array()?
        .iter()
        .filter_map(Json::as_str)
        .collect();
    if operator != "==" {
        return None;
    }
    let result = fib.get("result")?.as_str()?;
    // nft 1.0.6 lists the kernel's number of the kind.
    let is_local = right.as_str() == Some("local") || right.as_u64() == Some(LOCAL);
    if result == "type" && is_local {
        return (flags == BTreeSet::from(["saddr"])).then_some(Match::LocalSource);
    }
    let missing = result == "oif" && right.as_bool() == Some(false);
    (missing && flags == BTreeSet::from(["saddr", "iif"])).then_some(Match::NoReversePath)
}

fn states(json: &Json) -> Result<BTreeSet<State>> {
    let state = |json: &Json| match (json.as_str(), json.as_u64()) {
        (Some("invalid"), _) | (_, Some(1)) => Ok(State::Invalid),
        (Some("established"), _) | (_, Some(2)) => Ok(State::Established),
        (Some("related"), _) | (_, Some(4)) => Ok(State::Related),
        (Some("new"), _) | (_, Some(8)) => Ok(State::New),
        (Some("untracked"), _) | (_, Some(64)) => Ok(State::Untracked),
        _ => Err(ParseError::unknown("connection state", json)),
    };
    match json {
        Json::Array(several) => several.iter().map(state).collect(),
        one => Ok(BTreeSet::from([state(one)?])),
    }
}

/// A match of TCP flags, in the spellings that nft has for one meaning: no flag of a mask is `!`, any of them `in`.
fn tcp_flags(operator: &str, left: &Json, right: &Json) -> Result<Option<Match>> {
    let is_flags = |json: &Json| {
        json.get("payload")
            .is_some_and(|payload| payload.get("protocol").and_then(Json::as_str) == Some("tcp"))
            && json
                .get("payload")
                .and_then(|payload| payload.get("field"))
                .and_then(Json::as_str)
                == Some("flags")
    };
    let (mask, relation, value) = if is_flags(left) {
        match operator {
            "!" => (flags(right)?, Relation::Is, 0),
            "in" => (flags(right)?, Relation::IsNot, 0),
            "==" => (0x3f, Relation::Is, flags(right)?),
            "!=" => (0x3f, Relation::IsNot, flags(right)?),
            _ => return Err(ParseError::unknown("match of TCP flags", right)),
        }
    } else if let Some([masked, mask]) = left.get("&").and_then(Json::as_array).map(Vec::as_slice)
        && is_flags(masked)
    {
        match operator {
            "==" => (flags(mask)?, Relation::Is, flags(right)?),
            "!=" => (flags(mask)?, Relation::IsNot, flags(right)?),
            _ => return Err(ParseError::unknown("match of TCP flags", left)),
        }
    } else {
        return Ok(None);
    };
    Ok(Some(Match::TcpFlags {
        mask,
        relation,
        value,
    }))
}

/// The bits of one flag, of a list of flags, or of flags joined by or.
fn flags(json: &Json) -> Result<u8> {
    if let Some(parts) = json.as_array().or_else(|| json.get("|").and_then(Json::as_array)) {
        return parts.iter().try_fold(0, |bits, part| Ok(bits | flags(part)?));
    }
    let named = json
        .as_str()
        .and_then(|text| crate::print::FLAGS.iter().position(|flag| *flag == text));
    match named {
        Some(bit) => Ok(1 << bit),
        None => value::integer(json),
    }
}
