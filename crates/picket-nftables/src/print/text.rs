//! nft's own language.

use std::fmt::{self, Display, Formatter, Write};
use std::net::{Ipv4Addr, Ipv6Addr};

use picket_dataplane::State;
use picket_net::{AddressRange, Family, Interval, Protocol};

use crate::model::{
    Assigned, Base, Chain, Comment, Datatype, Datum, End, Field, Key, Limit, Map, Match, Relation, Rule, Set,
    Slot, Statement, Table, Transport, Value, Verdict, priority,
};

/// One transaction that creates or replaces the table.
pub fn text(table: &Table) -> String {
    let name = table.name();
    format!(
        "add table inet {name}\ndelete table inet {name}\n{}",
        block(table)
    )
}

/// The table alone, as `nft list table` would show it.
pub fn block(table: &Table) -> String {
    let mut text = format!("table inet {} {{\n", table.name());
    let mut sections = Vec::new();
    if let Some(comment) = table.comment() {
        sections.push(format!("    comment {}\n", Quoted(comment.as_str())));
    }
    for counter in table.counters() {
        let comment = counter.comment.as_ref().map(comment_line).unwrap_or_default();
        sections.push(format!("    counter {} {{\n{comment}    }}\n", counter.name));
    }
    for set in table.sets() {
        let header = Indented(&set_header(set));
        let elements = elements(set.elements().iter().map(element).collect());
        sections.push(format!("    set {} {{\n{header}{elements}    }}\n", set.name()));
    }
    for map in table.maps() {
        let header = Indented(&map_header(map));
        let elements = elements(
            map.elements()
                .iter()
                .map(|(key, datum)| format!("{} : {}", element(key), Printed(datum)))
                .collect(),
        );
        sections.push(format!("    map {} {{\n{header}{elements}    }}\n", map.name()));
    }
    for chain in table.chains() {
        let mut body = format!("    chain {} {{\n{}", chain.name, Indented(&chain_header(chain)));
        for one in &chain.rules {
            body.push_str("        ");
            body.push_str(&rule(one));
            body.push('\n');
        }
        body.push_str("    }\n");
        sections.push(body);
    }
    text.push_str(&sections.join("\n"));
    text.push_str("}\n");
    text
}

/// Lines within a block, one level deeper.
struct Indented<'a>(&'a [String]);

impl Display for Indented<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|line| writeln!(f, "        {line}"))
    }
}

/// A string in quotation marks.
pub(super) fn quoted(text: &str) -> String {
    Quoted(text).to_string()
}

/// A string in quotation marks. Whoever makes the string keeps `"` out of it.
struct Quoted<'a>(&'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.0)
    }
}

fn comment_line(comment: &Comment) -> String {
    format!("        comment {}\n", Quoted(comment.as_str()))
}

/// The lines that declare a set, without its elements.
pub(super) fn set_header(set: &Set) -> Vec<String> {
    header(
        format!("type {}", types(set.key())),
        set.interval(),
        set.comment(),
    )
}

/// The lines that declare a map, without its elements.
pub(super) fn map_header(map: &Map) -> Vec<String> {
    let types = format!("type {} : {}", types(map.key()), map.gives().keyword());
    header(types, map.interval(), map.comment())
}

fn header(types: String, interval: bool, comment: Option<&Comment>) -> Vec<String> {
    let flags = interval.then(|| "flags interval".to_owned());
    let comment = comment.map(|comment| format!("comment {}", Quoted(comment.as_str())));
    [Some(types), flags, comment].into_iter().flatten().collect()
}

/// The lines that declare a chain, without its rules.
pub(super) fn chain_header(chain: &Chain) -> Vec<String> {
    let base = chain.base.map(|base| Printed(&base).to_string());
    let comment = chain
        .comment
        .as_ref()
        .map(|comment| format!("comment {}", Quoted(comment.as_str())));
    [base, comment].into_iter().flatten().collect()
}

fn types(key: &[Datatype]) -> String {
    joined(key.iter(), " . ")
}

/// Elements in one line where they are few, else one in a line.
fn elements(printed: Vec<String>) -> String {
    const LINE: usize = 90;
    if printed.is_empty() {
        return String::new();
    }
    let one_line = printed.iter().map(|element| element.len() + 2).sum::<usize>() <= LINE;
    if one_line {
        format!("        elements = {{ {} }}\n", printed.join(", "))
    } else {
        format!(
            "        elements = {{\n            {}\n        }}\n",
            printed.join(",\n            ")
        )
    }
}

/// The key of an element.
pub(super) fn element(key: &Key) -> String {
    joined(key.values().iter().map(Printed), " . ")
}

/// One rule in one line.
pub fn rule(rule: &Rule) -> String {
    let mut parts: Vec<String> = rule
        .statements
        .iter()
        .map(|statement| Printed(statement).to_string())
        .collect();
    match &rule.end {
        End::Next => {}
        End::Verdict(verdict) => parts.push(Printed(verdict).to_string()),
        End::Reject => parts.push("reject with icmpx port-unreachable".to_owned()),
        End::VerdictMap { key, map } => parts.push(format!("{} vmap @{map}", fields(key))),
    }
    if let Some(comment) = &rule.comment {
        parts.push(format!("comment {}", Quoted(comment.as_str())));
    }
    parts.join(" ")
}

fn fields(key: &[Field]) -> String {
    joined(key.iter().map(Printed), " . ")
}

pub(super) fn joined<T: Display>(parts: impl Iterator<Item = T>, separator: &str) -> String {
    parts.enumerate().fold(String::new(), |mut text, (index, part)| {
        // INVARIANT: writing to a `String` cannot fail.
        let _ = write!(text, "{}{part}", if index == 0 { "" } else { separator });
        text
    })
}

/// Shows a part of the model in nft's language.
pub(super) struct Printed<T>(pub(super) T);

impl Display for Printed<&Base> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Base {
            hook,
            priority,
            policy,
        } = self.0;
        let order = match *priority {
            priority::RAW => "raw".to_owned(),
            priority::MANGLE => "mangle".to_owned(),
            priority::FILTER => "filter".to_owned(),
            priority::SECURITY => "security".to_owned(),
            other => other.to_string(),
        };
        write!(
            f,
            "type filter hook {} priority {order}; policy {};",
            hook.keyword(),
            policy.keyword()
        )
    }
}

impl Display for Printed<&Datum> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Datum::Verdict(verdict) => Printed(verdict).fmt(f),
            Datum::Mark(mark) => write!(f, "{mark:#x}"),
            Datum::Priority(priority) => f.write_str(&class(*priority)),
        }
    }
}

impl Display for Printed<&Verdict> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Verdict::Accept => f.write_str("accept"),
            Verdict::Drop => f.write_str("drop"),
            Verdict::Return => f.write_str("return"),
            Verdict::Jump(chain) => write!(f, "jump {chain}"),
            Verdict::Goto(chain) => write!(f, "goto {chain}"),
        }
    }
}

impl Display for Printed<&Field> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Field::InputInterface => "iifname",
            Field::OutputInterface => "oifname",
            Field::Ipv4Source => "ip saddr",
            Field::Ipv4Destination => "ip daddr",
            Field::Ipv6Source => "ip6 saddr",
            Field::Ipv6Destination => "ip6 daddr",
            Field::Family => "meta nfproto",
            Field::Protocol => "meta l4proto",
            Field::DestinationPort(Transport::Any) => "th dport",
            Field::DestinationPort(Transport::Tcp) => "tcp dport",
            Field::DestinationPort(Transport::Udp) => "udp dport",
            Field::DestinationPort(Transport::Sctp) => "sctp dport",
            Field::IcmpType => "icmp type",
            Field::Icmpv6Type => "icmpv6 type",
            Field::Priority => "meta priority",
            Field::Mark => "meta mark",
            Field::ConnectionMark => "ct mark",
        })
    }
}

impl Display for Printed<&Value> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        fn ends<T: picket_net::Bound>(interval: &Interval<T>, show: impl Fn(T) -> String) -> String {
            if interval.first() == interval.last() {
                show(interval.first())
            } else {
                format!("{}-{}", show(interval.first()), show(interval.last()))
            }
        }
        let text = match self.0 {
            Value::Ipv4(interval) => match prefix((*interval).into()) {
                Some(prefix) => prefix,
                None => ends(interval, |bits| Ipv4Addr::from_bits(bits).to_string()),
            },
            Value::Ipv6(interval) => match prefix((*interval).into()) {
                Some(prefix) => prefix,
                None => ends(interval, |bits| Ipv6Addr::from_bits(bits).to_string()),
            },
            Value::Interface(name) => Quoted(name.as_str()).to_string(),
            Value::Mark(interval) => ends(interval, |mark| format!("{mark:#x}")),
            Value::Priority(interval) => ends(interval, class),
            Value::Protocol(interval) if interval.first() == interval.last() => protocol(interval.first()),
            // nft reads no names in intervals.
            Value::Protocol(interval) => ends(interval, |number| number.to_string()),
            Value::Port(interval) => ends(interval, |port| port.to_string()),
            Value::IcmpType(interval) | Value::Icmpv6Type(interval) => {
                ends(interval, |kind| kind.to_string())
            }
            Value::Family(Family::Ipv4) => "ipv4".to_owned(),
            Value::Family(Family::Ipv6) => "ipv6".to_owned(),
        };
        f.write_str(&text)
    }
}

/// `address/length` for a range that is one prefix and more than one address.
pub(super) fn prefix(range: AddressRange) -> Option<String> {
    if range.first() == range.last() {
        return None;
    }
    match range.prefixes().as_slice() {
        [prefix] => Some(prefix.to_string()),
        _ => None,
    }
}

/// A queueing priority as `tc` writes a class: `major:minor` in hexadecimal; 0 is `none`, all ones `root`.
pub(super) fn class(priority: u32) -> String {
    match priority {
        0 => "none".to_owned(),
        u32::MAX => "root".to_owned(),
        _ => format!("{:x}:{:x}", priority >> 16, priority & 0xffff),
    }
}

pub(super) fn protocol(number: u8) -> String {
    match Protocol::from_number(number) {
        Protocol::TCP => "tcp".to_owned(),
        Protocol::UDP => "udp".to_owned(),
        Protocol::SCTP => "sctp".to_owned(),
        Protocol::ICMP => "icmp".to_owned(),
        Protocol::ICMPV6 => "icmpv6".to_owned(),
        other => other.number().to_string(),
    }
}

pub(super) fn state(state: State) -> &'static str {
    match state {
        State::New => "new",
        State::Established => "established",
        State::Related => "related",
        State::Invalid => "invalid",
        State::Untracked => "untracked",
    }
}

/// States in the order in which people write them.
pub(super) const STATES: [State; 5] = [
    State::Established,
    State::Related,
    State::New,
    State::Invalid,
    State::Untracked,
];

/// The flags of a TCP header by bit, lowest first.
pub(crate) const FLAGS: [&str; 6] = ["fin", "syn", "rst", "psh", "ack", "urg"];

pub(super) fn flags(bits: u8) -> Vec<&'static str> {
    FLAGS
        .iter()
        .enumerate()
        .filter(|(bit, _)| bits >> bit & 1 == 1)
        .map(|(_, &flag)| flag)
        .collect()
}

impl Display for Relation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Is => "",
            Self::IsNot => "!= ",
        })
    }
}

impl Display for Printed<&Match> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Match::Compare {
                field,
                relation,
                value,
            } => {
                write!(f, "{} {relation}{}", Printed(field), Printed(value))
            }
            Match::AnyOf { field, values } => {
                write!(
                    f,
                    "{} {{ {} }}",
                    Printed(field),
                    joined(values.iter().map(Printed), ", ")
                )
            }
            Match::Lookup { key, relation, set } => write!(f, "{} {relation}@{set}", fields(key)),
            Match::State(states) => {
                let shown = STATES
                    .iter()
                    .filter(|one| states.contains(one))
                    .map(|&one| state(one));
                write!(f, "ct state {}", joined(shown, ","))
            }
            Match::TcpFlags {
                mask,
                relation,
                value,
            } => {
                let operator = match relation {
                    Relation::Is => "==",
                    Relation::IsNot => "!=",
                };
                let value = match flags(*value) {
                    none if none.is_empty() => "0x0".to_owned(),
                    some => some.join("|"),
                };
                write!(f, "tcp flags & ({}) {operator} {value}", flags(*mask).join("|"))
            }
            Match::NoReversePath => f.write_str("fib saddr . iif oif missing"),
            Match::LocalSource => f.write_str("fib saddr type local"),
        }
    }
}

impl Display for Printed<&Statement> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            Statement::Match(condition) => Printed(condition).fmt(f),
            Statement::Set(slot, assigned) => {
                write!(f, "{} set ", Printed(&slot.field()))?;
                match assigned {
                    Assigned::Constant(value) if *slot == Slot::Priority => f.write_str(&class(*value)),
                    Assigned::Constant(value) => write!(f, "{value:#x}"),
                    Assigned::Field(field) => Printed(field).fmt(f),
                    Assigned::Map { key, map } => write!(f, "{} map @{map}", fields(key)),
                }
            }
            Statement::Count(counter) => write!(f, "counter name \"{counter}\""),
            Statement::Log(log) => {
                write!(f, "log prefix {}", Quoted(log.prefix.as_str()))?;
                log.group.map_or(Ok(()), |group| write!(f, " group {group}"))
            }
            Statement::Limit(limit) => {
                write!(f, "limit rate {}/second", limit.per_second)?;
                match limit.burst {
                    Limit::BURST => Ok(()),
                    burst => write!(f, " burst {burst} packets"),
                }
            }
        }
    }
}
