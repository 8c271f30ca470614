//! One line: conditions, then a verdict.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::Range;

use picket_dataplane::State;
use picket_net::{AddressRange, AddressSet, Family, PortRange, Prefix, Protocol, parse_address};
use picket_policy::{Block, Direction};

use super::Parts;
use super::token::{Token, tokens};
use crate::model::{Field, Match, Relation, Transport, Value};

/// Why a line is no rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// The bytes of the line that are at fault.
    pub(super) range: Range<usize>,
    pub(super) message: String,
}

type Read<T> = Result<T, Refusal>;

/// Reads a line of a file for one direction and family.
pub(super) fn read(line: &str, direction: Direction, family: Family) -> Read<Parts> {
    let tokens = tokens(line).map_err(|range| Refusal {
        range,
        message: "a quoted text has no end".to_owned(),
    })?;
    let end = line.trim_end().len();
    let mut reader = Line {
        tokens: tokens.into_iter().peekable(),
        end: end.saturating_sub(1)..end,
        direction,
        family,
        parts: Parts::default(),
        states: None,
        addressed: false,
    };
    reader.conditions()?;
    Ok(reader.finish())
}

struct Line<'a> {
    tokens: std::iter::Peekable<std::vec::IntoIter<Token<'a>>>,
    /// The place of what is missing at the end.
    end: Range<usize>,
    direction: Direction,
    family: Family,
    parts: Parts,
    states: Option<BTreeSet<State>>,
    /// Whether an address or the family itself is looked at.
    addressed: bool,
}

fn refuse<T>(range: Range<usize>, message: impl Into<String>) -> Read<T> {
    Err(Refusal {
        range,
        message: message.into(),
    })
}

impl<'a> Line<'a> {
    fn next(&mut self, expected: &str) -> Read<Token<'a>> {
        match self.tokens.next() {
            Some(token) => Ok(token),
            None => refuse(
                self.end.clone(),
                format!("the rule ends where {expected} is expected"),
            ),
        }
    }

    fn conditions(&mut self) -> Read<()> {
        loop {
            let token = self.next("`accept` or `drop`")?;
            match token.text {
                _ if token.quoted => {
                    return refuse(token.range, "a quoted text stands behind `comment` only");
                }
                "ip" => self.address(&token, Family::Ipv4)?,
                "ip6" => self.address(&token, Family::Ipv6)?,
                "tcp" => self.port(&token, Some((Protocol::TCP, Transport::Tcp)))?,
                "udp" => self.port(&token, Some((Protocol::UDP, Transport::Udp)))?,
                "sctp" => self.port(&token, Some((Protocol::SCTP, Transport::Sctp)))?,
                "th" => self.port(&token, None)?,
                "meta" => self.meta()?,
                "ct" => self.state()?,
                "accept" => return self.trailer(),
                "drop" => {
                    self.parts.deny = true;
                    return self.trailer();
                }
                "reject" => {
                    return refuse(
                        token.range,
                        "`reject` is not supported: denied packets are dropped, write `drop`",
                    );
                }
                "iifname" | "oifname" | "iif" | "oif" => {
                    return refuse(
                        token.range,
                        "interfaces are not supported: the rules of a file hold for every interface that a policy is about",
                    );
                }
                "counter" | "log" => {
                    return refuse(token.range, format!("`{}` is not supported here", token.text));
                }
                other => {
                    return refuse(
                        token.range,
                        format!(
                            "`{other}` is no part of a custom rule: these are `ip` and `ip6`, `tcp`, `udp`, `sctp` and `th dport`, \
                             `meta l4proto`, `meta nfproto`, `ct state`, `accept`, `drop` and `comment`"
                        ),
                    );
                }
            }
        }
    }

    /// What may stand behind the verdict.
    fn trailer(&mut self) -> Read<()> {
        let Some(token) = self.tokens.next() else {
            return Ok(());
        };
        if token.text != "comment" || token.quoted {
            return refuse(token.range, "only `comment \"…\"` may stand behind the verdict");
        }
        let comment = self.next("a text in quotes")?;
        if !comment.quoted {
            return refuse(comment.range, "a comment stands in quotes");
        }
        match self.tokens.next() {
            Some(token) => refuse(token.range, "nothing may stand behind the comment"),
            None => Ok(()),
        }
    }

    fn address(&mut self, keyword: &Token<'a>, family: Family) -> Read<()> {
        if family != self.family {
            let message = format!(
                "this is the file for {}, which no `{}` is",
                self.family, keyword.text
            );
            return refuse(keyword.range.clone(), message);
        }
        let side = self.next("`saddr` or `daddr`")?;
        let peer = match self.direction {
            Direction::Ingress => "saddr",
            Direction::Egress => "daddr",
        };
        match side.text {
            text if text == peer => {}
            "saddr" | "daddr" => {
                let message = format!(
                    "in the file for {} `{}` is the pod itself: which pods a rule is about is what policies are for",
                    self.direction, side.text
                );
                return refuse(side.range, message);
            }
            _ => return refuse(side.range, format!("expected `{peer}`")),
        }
        if !self.parts.peers.is_empty() {
            return refuse(side.range, "the address is looked at twice");
        }
        let relation = self.relation();
        let values = self.values("an address", |token| range(token, family))?;
        let set: AddressSet = values.iter().map(|(range, _)| *range).collect();
        let ranges: Vec<AddressRange> = set.ranges().collect();
        let field = match (self.direction, family) {
            (Direction::Ingress, Family::Ipv4) => Field::Ipv4Source,
            (Direction::Ingress, Family::Ipv6) => Field::Ipv6Source,
            (Direction::Egress, Family::Ipv4) => Field::Ipv4Destination,
            (Direction::Egress, Family::Ipv6) => Field::Ipv6Destination,
        };
        let prefixes = || ranges.iter().flat_map(AddressRange::prefixes);
        self.parts.peers = match relation {
            Relation::Is => prefixes().map(|prefix| block(prefix, Vec::new())).collect(),
            Relation::IsNot => vec![block(Prefix::all(family), prefixes().collect())],
        };
        let condition = one_or_set(
            field,
            relation,
            ranges.into_iter().map(Value::addresses).collect(),
        );
        let Some(condition) = condition else {
            return refuse(side.range, "`!=` takes one address, prefix or range");
        };
        self.parts.matches.push(condition);
        self.addressed = true;
        Ok(())
    }

    fn port(&mut self, keyword: &Token<'a>, transport: Option<(Protocol, Transport)>) -> Read<()> {
        let side = self.next("`dport`")?;
        match side.text {
            "dport" => {}
            "sport" => {
                return refuse(
                    side.range,
                    "`sport` is not supported: no verdict depends on the port of the sender",
                );
            }
            _ => return refuse(side.range, "expected `dport`"),
        }
        if self.parts.ports.is_some() {
            return refuse(side.range, "the port is looked at twice");
        }
        if transport.is_none() && self.parts.protocols.is_none() {
            let message = "`th` needs `meta l4proto` before it: other protocols have something else in the place of a port";
            return refuse(keyword.range.clone(), message);
        }
        if let Some(token) = self.tokens.peek().filter(|token| token.text == "!=") {
            return refuse(
                token.range.clone(),
                "`!=` is not supported for ports: write the ranges on both sides",
            );
        }
        self.relation();
        let ports = self.values("a port", ports)?;
        let set = ports
            .iter()
            .fold(picket_net::PortSet::empty(), |set, (range, _)| {
                set.union(&(*range).into())
            });
        let ranges: Vec<PortRange> = set.ranges().collect();
        let field = Field::DestinationPort(transport.map_or(Transport::Any, |(_, transport)| transport));
        let values = ranges.iter().copied().map(Value::ports).collect();
        self.parts.matches.extend(one_or_set(field, Relation::Is, values));
        self.parts.ports = Some((transport.map(|(protocol, _)| protocol), ranges));
        Ok(())
    }

    fn meta(&mut self) -> Read<()> {
        let key = self.next("`l4proto` or `nfproto`")?;
        match key.text {
            "l4proto" => self.protocol(&key),
            "nfproto" => {
                self.relation();
                let value = self.next("`ipv4` or `ipv6`")?;
                let family = match value.text {
                    "ipv4" => Family::Ipv4,
                    "ipv6" => Family::Ipv6,
                    _ => return refuse(value.range, "expected `ipv4` or `ipv6`"),
                };
                if family != self.family {
                    return refuse(value.range, format!("this is the file for {}", self.family));
                }
                self.parts
                    .matches
                    .push(Match::is(Field::Family, Value::Family(family)));
                self.addressed = true;
                Ok(())
            }
            _ => refuse(key.range, "expected `l4proto` or `nfproto`"),
        }
    }

    fn protocol(&mut self, key: &Token<'a>) -> Read<()> {
        if self.parts.protocols.is_some() {
            return refuse(key.range.clone(), "the protocol is looked at twice");
        }
        self.relation();
        let found = self.values("a protocol", protocol)?;
        let protocols: BTreeSet<Protocol> = found.into_iter().map(|(protocol, _)| protocol).collect();
        let values = protocols.iter().copied().map(Value::protocol).collect();
        self.parts
            .matches
            .extend(one_or_set(Field::Protocol, Relation::Is, values));
        self.parts.protocols = Some(protocols.into_iter().collect());
        Ok(())
    }

    fn state(&mut self) -> Read<()> {
        let key = self.next("`state`")?;
        if key.text != "state" {
            return refuse(key.range, "expected `state`");
        }
        if self.states.is_some() {
            return refuse(key.range, "the state is looked at twice");
        }
        self.relation();
        let mut states = BTreeSet::new();
        loop {
            let token = self.next("a state")?;
            states.insert(match token.text {
                "new" => State::New,
                "established" => State::Established,
                "related" => State::Related,
                "invalid" => State::Invalid,
                "untracked" => State::Untracked,
                _ => {
                    let message = "expected `new`, `established`, `related`, `invalid` or `untracked`, separated by commas";
                    return refuse(token.range, message);
                }
            });
            if self.tokens.next_if(|token| token.text == ",").is_none() {
                break;
            }
        }
        self.parts.matches.push(Match::State(states.clone()));
        self.states = Some(states);
        Ok(())
    }

    /// `==`, `!=` or nothing.
    fn relation(&mut self) -> Relation {
        if self.tokens.next_if(|token| token.text == "!=").is_some() {
            return Relation::IsNot;
        }
        self.tokens.next_if(|token| token.text == "==");
        Relation::Is
    }

    /// One value, or several in braces.
    fn values<T>(
        &mut self,
        expected: &str,
        read: impl Fn(&Token<'a>) -> Result<T, String>,
    ) -> Read<Vec<(T, Range<usize>)>> {
        let one = |token: Token<'a>| match read(&token) {
            Ok(_) if token.quoted => refuse(token.range, format!("{expected} stands without quotes")),
            Ok(value) => Ok((value, token.range)),
            Err(message) => refuse(token.range, message),
        };
        if self.tokens.next_if(|token| token.text == "{").is_none() {
            return Ok(vec![one(self.next(expected)?)?]);
        }
        let mut values = Vec::new();
        loop {
            values.push(one(self.next(expected)?)?);
            let token = self.next("`,` or `}`")?;
            match token.text {
                "," => {}
                "}" => return Ok(values),
                _ => return refuse(token.range, "expected `,` or `}`"),
            }
        }
    }

    fn finish(self) -> Parts {
        let mut parts = self.parts;
        parts.new = self.states.is_none_or(|states| states.contains(&State::New));
        if parts.peers.is_empty() {
            parts.peers = vec![block(Prefix::all(self.family), Vec::new())];
        }
        if !self.addressed {
            // A file for one family opens nothing to the other.
            let family = Match::is(Field::Family, Value::Family(self.family));
            parts.matches.insert(0, family);
        }
        parts
    }
}

fn block(prefix: Prefix, mut except: Vec<Prefix>) -> Block {
    except.sort_unstable();
    Block { prefix, except }
}

/// A match against one value or an anonymous set; `None` for what nft has no short form of.
fn one_or_set(field: Field, relation: Relation, values: BTreeSet<Value>) -> Option<Match> {
    let mut one = values.iter();
    match (one.next(), one.next()) {
        (Some(value), None) => Some(Match::Compare {
            field,
            relation,
            value: value.clone(),
        }),
        _ if relation == Relation::Is => Some(Match::AnyOf { field, values }),
        _ => None,
    }
}

/// An address, a prefix, or `first-last`.
fn range(token: &Token<'_>, family: Family) -> Result<AddressRange, String> {
    let text = token.text;
    let address = |text: &str| -> Result<IpAddr, String> {
        let address = parse_address(text).ok_or_else(|| format!("`{text}` is no address"))?;
        if Family::of(address) == family {
            Ok(address)
        } else {
            Err(format!("`{text}` is no {family} address"))
        }
    };
    if let Some((first, last)) = text.split_once('-') {
        return AddressRange::new(address(first)?, address(last)?)
            .ok_or_else(|| format!("`{text}` ends before it begins"));
    }
    if !text.contains('/') {
        return Ok(Prefix::host(address(text)?).range());
    }
    let (prefix, notes) = Prefix::parse(text).map_err(|problem| format!("`{text}`: {problem}"))?;
    if !notes.is_empty() {
        return Err(format!("write `{text}` as `{prefix}`"));
    }
    address(&prefix.first().to_string())?;
    Ok(prefix.range())
}

/// A port or `first-last`.
fn ports(token: &Token<'_>) -> Result<PortRange, String> {
    let text = token.text;
    let number = |text: &str| -> Result<u16, String> {
        let number = text.parse().ok().filter(|&port: &u16| port != 0);
        number.ok_or_else(|| format!("`{text}` is no port: a number from 1 to 65535"))
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    PortRange::new(number(first)?, number(last)?).ok_or_else(|| format!("`{text}` ends before it begins"))
}

/// A protocol by its name or number.
fn protocol(token: &Token<'_>) -> Result<Protocol, String> {
    let named = match token.text {
        "tcp" => Some(Protocol::TCP),
        "udp" => Some(Protocol::UDP),
        "sctp" => Some(Protocol::SCTP),
        "icmp" => Some(Protocol::ICMP),
        "icmpv6" | "ipv6-icmp" => Some(Protocol::ICMPV6),
        text => text.parse().ok().map(Protocol::from_number),
    };
    let names = "`tcp`, `udp`, `sctp`, `icmp`, `icmpv6` or a number from 0 to 255";
    named.ok_or_else(|| format!("`{}` is no protocol: {names}", token.text))
}
