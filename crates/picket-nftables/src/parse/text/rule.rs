//! Rules.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use picket_dataplane::State;

use super::object::{comment, name};
use super::token::{Cursor, TextError};
use super::value;
use crate::model::{
    Assigned, End, Field, Limit, Log, LogPrefix, Match, Name, Relation, Rule, Slot, Statement, Transport,
    Verdict,
};
use crate::print::FLAGS;

/// One rule, to the end of its statement.
pub(super) fn rule(cursor: &mut Cursor<'_, '_>) -> Result<Rule, TextError> {
    let mut rule = Rule::of([], End::Next);
    while !cursor.at_end() {
        let word = cursor.word("a statement")?;
        if word == "comment" {
            rule.comment = Some(comment(cursor)?);
            continue;
        }
        if rule.end != End::Next {
            return Err(cursor.error(format!("`{word}` behind the verdict of a rule")));
        }
        match word {
            "counter" => rule.statements.extend(counter(cursor)?),
            "log" => rule.statements.push(log(cursor)?),
            "limit" => rule.statements.push(limit(cursor)?),
            "reject" => {
                // Without more it is `icmpx`; what nft lists as `icmp` has lost its match of the family.
                if cursor.take("with") && !(cursor.take("icmpx") && cursor.take("port-unreachable")) {
                    return Err(cursor.error("picket rejects with `icmpx port-unreachable` only"));
                }
                rule.end = End::Reject;
            }
            "accept" | "drop" | "return" | "jump" | "goto" => {
                rule.end = End::Verdict(verdict(cursor, word)?);
            }
            "fib" => {
                cursor.expect("saddr")?;
                let (rest, found): (&[_], _) = match cursor.take("type") {
                    true => (&["local"], Match::LocalSource),
                    false => (&[".", "iif", "oif", "missing"], Match::NoReversePath),
                };
                for word in rest {
                    cursor.expect(word)?;
                }
                rule.statements.push(found.into());
            }
            "ct" if cursor.take("state") => rule.statements.push(Match::State(states(cursor)?).into()),
            "tcp" if cursor.take("flags") => rule.statements.push(flags(cursor)?.into()),
            _ => fields(cursor, word, &mut rule)?,
        }
    }
    Ok(rule)
}

pub(super) fn verdict(cursor: &mut Cursor<'_, '_>, word: &str) -> Result<Verdict, TextError> {
    Ok(match word {
        "accept" => Verdict::Accept,
        "drop" => Verdict::Drop,
        "return" => Verdict::Return,
        "jump" => Verdict::Jump(name(cursor)?),
        "goto" => Verdict::Goto(name(cursor)?),
        other => return Err(cursor.error(format!("`{other}` is no verdict that picket gives"))),
    })
}

/// A counter without a name is nothing that a verdict hangs on.
fn counter(cursor: &mut Cursor<'_, '_>) -> Result<Option<Statement>, TextError> {
    if cursor.take("name") {
        return Ok(Some(Statement::Count(name(cursor)?)));
    }
    for word in ["packets", "bytes"] {
        if cursor.take(word) {
            cursor.word("a count")?;
        }
    }
    Ok(None)
}

fn log(cursor: &mut Cursor<'_, '_>) -> Result<Statement, TextError> {
    let mut log = Log {
        prefix: LogPrefix::new(""),
        group: None,
    };
    loop {
        if cursor.take("prefix") {
            log.prefix = LogPrefix::new(cursor.text("a prefix")?);
        } else if cursor.take("group") {
            let text = cursor.word("a group")?;
            let group = text.parse().ok();
            log.group = Some(group.ok_or_else(|| cursor.error(format!("`{text}` is no group")))?);
        } else if cursor.take("level") || cursor.take("snaplen") || cursor.take("queue-threshold") {
            cursor.word("a number or level")?;
        } else {
            return Ok(Statement::Log(log));
        }
    }
}

fn limit(cursor: &mut Cursor<'_, '_>) -> Result<Statement, TextError> {
    cursor.expect("rate")?;
    let text = cursor.word("a rate")?;
    let per_second = text.strip_suffix("/second").and_then(|rate| rate.parse().ok());
    let per_second =
        per_second.ok_or_else(|| cursor.error(format!("`{text}` is no number of packets a second")))?;
    let mut burst = Limit::BURST;
    if cursor.take("burst") {
        let text = cursor.word("a burst")?;
        let number: Option<NonZeroU32> = text.parse().ok();
        burst = number.ok_or_else(|| cursor.error(format!("`{text}` is no number of packets")))?;
        cursor.expect("packets")?;
    }
    Ok(Statement::Limit(Limit { per_second, burst }))
}

/// What begins with a field: a match, a lookup, or an assignment.
fn fields(cursor: &mut Cursor<'_, '_>, word: &str, rule: &mut Rule) -> Result<(), TextError> {
    let mut key = vec![field(cursor, word)?];
    while cursor.take(".") {
        let word = cursor.word("a field")?;
        key.push(field(cursor, word)?);
    }
    if cursor.take("vmap") {
        let map = reference(cursor)?;
        rule.end = End::VerdictMap { key, map };
        return Ok(());
    }
    let [first] = key.as_slice() else {
        rule.statements.push(looked_up(cursor, key)?.into());
        return Ok(());
    };
    let first = *first;
    let statement = if cursor.take("set") {
        assignment(cursor, first)?
    } else if starts_reference(cursor) {
        looked_up(cursor, key)?.into()
    } else {
        compared(cursor, first)?.into()
    };
    rule.statements.push(statement);
    Ok(())
}

fn starts_reference(cursor: &Cursor<'_, '_>) -> bool {
    cursor.peek().is_some_and(|word| word.starts_with('@'))
}

/// A set or map as `@name`.
fn reference(cursor: &mut Cursor<'_, '_>) -> Result<Name, TextError> {
    let word = match cursor.peek() {
        Some("{") => return Err(cursor.error("picket looks verdicts up in named maps only")),
        _ => cursor.word("a set or map")?,
    };
    let found = word.strip_prefix('@').and_then(Name::new);
    found.ok_or_else(|| cursor.error(format!("expected the name of a set or map, found `{word}`")))
}

fn relation(cursor: &mut Cursor<'_, '_>) -> Relation {
    if cursor.take("!=") {
        return Relation::IsNot;
    }
    cursor.take("==");
    Relation::Is
}

fn looked_up(cursor: &mut Cursor<'_, '_>, key: Vec<Field>) -> Result<Match, TextError> {
    let relation = relation(cursor);
    Ok(Match::Lookup {
        key,
        relation,
        set: reference(cursor)?,
    })
}

fn compared(cursor: &mut Cursor<'_, '_>, field: Field) -> Result<Match, TextError> {
    let relation = relation(cursor);
    if starts_reference(cursor) {
        return Ok(Match::Lookup {
            key: vec![field],
            relation,
            set: reference(cursor)?,
        });
    }
    if !cursor.take("{") {
        return Ok(Match::Compare {
            field,
            relation,
            value: value::value(cursor, field.datatype())?,
        });
    }
    if relation == Relation::IsNot {
        return Err(cursor.error("picket does not exclude anonymous sets"));
    }
    let mut values = BTreeSet::new();
    while !cursor.closes() {
        values.insert(value::value(cursor, field.datatype())?);
        cursor.take(",");
    }
    match (values.len(), values.first()) {
        (1, Some(only)) => Ok(Match::is(field, only.clone())),
        _ => Ok(Match::AnyOf { field, values }),
    }
}

fn assignment(cursor: &mut Cursor<'_, '_>, field: Field) -> Result<Statement, TextError> {
    let slot = match field {
        Field::Priority => Slot::Priority,
        Field::Mark => Slot::Mark,
        Field::ConnectionMark => Slot::ConnectionMark,
        _ => return Err(cursor.error("picket does not write this field")),
    };
    let is_field = matches!(
        cursor.peek(),
        Some(
            "meta"
                | "ct"
                | "ip"
                | "ip6"
                | "th"
                | "tcp"
                | "udp"
                | "sctp"
                | "iifname"
                | "oifname"
                | "icmp"
                | "icmpv6"
        )
    );
    if !is_field {
        let constant = match slot {
            Slot::Priority => value::class(cursor)?,
            Slot::Mark | Slot::ConnectionMark => value::mark(cursor)?,
        };
        return Ok(Statement::Set(slot, Assigned::Constant(constant)));
    }
    let mut key = Vec::new();
    loop {
        let word = cursor.word("a field")?;
        key.push(self::field(cursor, word)?);
        if !cursor.take(".") {
            break;
        }
    }
    if cursor.take("map") {
        let map = reference(cursor)?;
        return Ok(Statement::Set(slot, Assigned::Map { key, map }));
    }
    match key.as_slice() {
        [field] => Ok(Statement::Set(slot, Assigned::Field(*field))),
        _ => Err(cursor.error("a concatenation cannot be written into a field")),
    }
}

fn field(cursor: &mut Cursor<'_, '_>, word: &str) -> Result<Field, TextError> {
    match word {
        "iifname" => return Ok(Field::InputInterface),
        "oifname" => return Ok(Field::OutputInterface),
        "meta" | "ct" | "ip" | "ip6" | "th" | "tcp" | "udp" | "sctp" | "icmp" | "icmpv6" => {}
        other => return Err(cursor.error(format!("picket writes no `{other}` into rules"))),
    }
    let part = cursor.word("a field")?;
    Ok(match (word, part) {
        ("meta", "iifname") => Field::InputInterface,
        ("meta", "oifname") => Field::OutputInterface,
        ("meta", "nfproto") => Field::Family,
        ("meta", "l4proto") => Field::Protocol,
        ("meta", "priority") => Field::Priority,
        ("meta", "mark") => Field::Mark,
        ("ct", "mark") => Field::ConnectionMark,
        ("ip", "saddr") => Field::Ipv4Source,
        ("ip", "daddr") => Field::Ipv4Destination,
        ("ip6", "saddr") => Field::Ipv6Source,
        ("ip6", "daddr") => Field::Ipv6Destination,
        ("th", "dport") => Field::DestinationPort(Transport::Any),
        ("tcp", "dport") => Field::DestinationPort(Transport::Tcp),
        ("udp", "dport") => Field::DestinationPort(Transport::Udp),
        ("sctp", "dport") => Field::DestinationPort(Transport::Sctp),
        ("icmp", "type") => Field::IcmpType,
        ("icmpv6", "type") => Field::Icmpv6Type,
        _ => return Err(cursor.error(format!("picket writes no `{word} {part}` into rules"))),
    })
}

fn states(cursor: &mut Cursor<'_, '_>) -> Result<BTreeSet<State>, TextError> {
    let braced = cursor.take("{");
    let mut states = BTreeSet::new();
    loop {
        let text = cursor.word("a connection state")?;
        states.insert(match text {
            "invalid" => State::Invalid,
            "established" => State::Established,
            "related" => State::Related,
            "new" => State::New,
            "untracked" => State::Untracked,
            _ => return Err(cursor.error(format!("`{text}` is no connection state that picket knows"))),
        });
        if !cursor.take(",") {
            break;
        }
    }
    if braced {
        cursor.expect("}")?;
    }
    Ok(states)
}

/// A match of TCP flags, in the spellings that nft has for one meaning.
fn flags(cursor: &mut Cursor<'_, '_>) -> Result<Match, TextError> {
    let matched = |mask, relation, value| Match::TcpFlags {
        mask,
        relation,
        value,
    };
    if cursor.take("&") {
        let mask = bits(cursor)?;
        let relation = relation(cursor);
        let value = bits(cursor)?;
        return Ok(matched(mask, relation, value));
    }
    if cursor.take("!") {
        return Ok(matched(bits(cursor)?, Relation::Is, 0));
    }
    let exact = cursor.peek() == Some("==");
    let relation = relation(cursor);
    let value = bits(cursor)?;
    if cursor.take("/") {
        return Ok(matched(bits(cursor)?, relation, value));
    }
    Ok(match (exact, relation) {
        (false, Relation::Is) => matched(value, Relation::IsNot, 0),
        (true, _) | (_, Relation::IsNot) => matched(0x3f, relation, value),
    })
}

/// The bits of flags with `|` or `,` between, in brackets or not, or a number.
fn bits(cursor: &mut Cursor<'_, '_>) -> Result<u8, TextError> {
    let bracketed = cursor.take("(");
    let mut bits = 0;
    loop {
        let text = cursor.word("TCP flags")?;
        let named = FLAGS.iter().position(|flag| *flag == text).map(|bit| 1 << bit);
        let number = || u8::from_str_radix(text.strip_prefix("0x")?, 16).ok();
        bits |= named
            .or_else(number)
            .ok_or_else(|| cursor.error(format!("`{text}` is no TCP flag that picket knows")))?;
        if !cursor.take("|") && !cursor.take(",") {
            break;
        }
    }
    if bracketed {
        cursor.expect(")")?;
    }
    Ok(bits)
}
