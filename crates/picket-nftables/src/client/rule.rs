//! Rules as the expressions that nft 1.0.6 makes of them: what it lists is then what its own text would have made.

use std::collections::BTreeSet;

use picket_dataplane::State;
use picket_linux::Batch;
use picket_net::Protocol;

use super::bytes::{ByteOrder, End as Bound, comment, number, width, write, write_number};
use super::container::{Handle, Header, Shape, create, elements, intervals, verdict_data};
use super::expression::{
    AT_LEAST, AT_MOST, CT_MARK, CT_STATE, EQUAL, Expressions, FIRST, META_L4PROTO, META_MARK, META_NFPROTO,
    META_PRIORITY, NOT_EQUAL, Source, TRANSPORT_HEADER, VERDICT, register, source,
};
use super::scope::Scope;
use super::uapi::{NFPROTO_INET, NFPROTO_IPV4, NFPROTO_IPV6, data, message, rule, userdata};
use crate::model::{
    Assigned, Datatype, End, Field, Key, Log, Match, Name, Relation, Rule, Slot, Statement, Transport, Value,
};

/// The kernel gives such a set a name of its own.
const ANONYMOUS: &str = "__set%d";

/// Adds a rule at the end of a chain, and before it the sets that it has for itself.
pub(super) fn add(batch: &mut Batch, scope: &mut Scope<'_>, table: &Name, chain: &Name, added: &Rule) {
    let mut own = Vec::new();
    for statement in &added.statements {
        if let Statement::Match(Match::AnyOf { field, values }) = statement {
            own.push(anonymous(batch, scope, table, *field, values));
        }
    }
    batch.message(message::NEWRULE, Batch::CREATE | Batch::APPEND, NFPROTO_INET);
    batch.text(rule::TABLE, table.as_str());
    batch.text(rule::CHAIN, chain.as_str());
    batch.nest(rule::EXPRESSIONS, |batch| {
        let mut writer = Writer {
            out: Expressions(batch),
            scope,
            network: None,
            transport: None,
        };
        let mut own = own.into_iter();
        for statement in &added.statements {
            writer.statement(statement, &mut own);
        }
        writer.end(&added.end);
    });
    if let Some(text) = &added.comment {
        batch.attribute(rule::USERDATA, &comment(userdata::COMMENT, text.as_str()));
    }
}

/// Makes the set that a rule compares with; its number.
fn anonymous(
    batch: &mut Batch,
    scope: &mut Scope<'_>,
    table: &Name,
    field: Field,
    values: &BTreeSet<Value>,
) -> u32 {
    let id = scope.take_id();
    let handle = Handle {
        name: ANONYMOUS,
        id: Some(id),
    };
    let datatype = field.datatype();
    let ranges = has_interval(values).then(|| merged(values));
    let header = Header {
        shape: Shape {
            key: &[datatype],
            gives: None,
            interval: ranges.is_some(),
        },
        comment: None,
        // An interval is two elements.
        constant: Some(ranges.as_ref().map_or(values.len(), |ranges| 2 * ranges.len())),
    };
    create(batch, table, handle, &header);
    match ranges {
        Some(ranges) => intervals(batch, table, handle, datatype, ranges.into_iter()),
        None => {
            let keys: Vec<Key> = values.iter().cloned().map(Key::from).collect();
            let keys = keys.iter().map(|key| (key, None));
            elements(batch, message::NEWSETELEM, table, handle, &header.shape, keys);
        }
    }
    id
}

/// The ends of intervals, as one where the next begins behind the last: so nft has them in sets without a name.
fn merged(values: &BTreeSet<Value>) -> Vec<(u128, u128)> {
    let mut merged: Vec<(u128, u128)> = Vec::new();
    for (first, last) in values.iter().filter_map(Value::ends) {
        match merged.last_mut() {
            Some(before) if before.1.checked_add(1) == Some(first) => before.1 = last,
            _ => merged.push((first, last)),
        }
    }
    merged
}

fn has_interval(values: &BTreeSet<Value>) -> bool {
    values.iter().any(|value| !value.is_single())
}

/// The expressions of one rule, and what those written so far say about the packet.
struct Writer<'b, 's, 'a> {
    out: Expressions<'b>,
    scope: &'s Scope<'a>,
    network: Option<u8>,
    transport: Option<u8>,
}

impl Writer<'_, '_, '_> {
    fn statement(&mut self, statement: &Statement, own: &mut impl Iterator<Item = u32>) {
        match statement {
            Statement::Match(condition) => self.condition(condition, own),
            Statement::Set(slot, assigned) => self.assign(*slot, assigned),
            Statement::Count(counter) => self.out.expression("objref", |batch| {
                batch.number(1, super::uapi::object::COUNTER);
                batch.text(2, counter.as_str());
            }),
            Statement::Log(log) => self.log(log),
        }
    }

    fn log(&mut self, log: &Log) {
        self.out.expression("log", |batch| {
            batch.text(2, log.prefix.as_str());
            if let Some(group) = log.group {
                batch.attribute(1, &group.to_be_bytes());
            }
        });
    }

    fn end(&mut self, end: &End) {
        match end {
            End::Next => {}
            End::Verdict(verdict) => self.out.expression("immediate", |batch| {
                batch.number(1, VERDICT);
                batch.nest(2, |batch| verdict_data(batch, verdict));
            }),
            // `NFT_REJECT_ICMPX_UNREACH` with `NFT_REJECT_ICMPX_PORT_UNREACH`.
            End::Reject => self.out.expression("reject", |batch| {
                batch.number(1, 2);
                batch.attribute(2, &[1]);
            }),
            End::VerdictMap { key, map } => {
                let order = self.load_key(key, map);
                self.out.look_up(order, Some(VERDICT), Relation::Is);
            }
        }
    }

    fn condition(&mut self, condition: &Match, own: &mut impl Iterator<Item = u32>) {
        match condition {
            Match::Compare {
                field,
                relation,
                value,
            } => self.compare(*field, *relation, value),
            Match::AnyOf { field, values } => {
                self.require(*field);
                self.out.load(*field, FIRST, ByteOrder::of(has_interval(values)));
                let set = Handle {
                    name: ANONYMOUS,
                    id: own.next(),
                };
                self.out.look_up(set, None, Relation::Is);
            }
            Match::Lookup { key, relation, set } => {
                let set = self.load_key(key, set);
                self.out.look_up(set, None, *relation);
            }
            Match::State(states) => self.state(states),
            Match::TcpFlags {
                mask,
                relation,
                value,
            } => {
                self.require_transport(Protocol::TCP, None);
                self.out.load_payload(TRANSPORT_HEADER, 13, 1, FIRST);
                self.out.mask(&[*mask]);
                self.out
                    .compare_bytes(operator(*relation), |bytes| bytes.push(*value));
            }
            // `NFT_FIB_RESULT_OIF` for the source address and the interface of arrival, as whether there is one.
            Match::NoReversePath => {
                self.out.expression("fib", |batch| {
                    batch.number(1, FIRST);
                    batch.number(2, 1);
                    batch.number(3, 0x1 | 0x8 | 0x20);
                });
                self.out.compare_bytes(EQUAL, |bytes| bytes.extend([0; 4]));
            }
        }
    }

    fn state(&mut self, states: &BTreeSet<State>) {
        let bit = |state: &State| match state {
            State::Invalid => 1u32,
            State::Established => 2,
            State::Related => 4,
            State::New => 8,
            State::Untracked => 64,
        };
        let bits = states.iter().map(bit).fold(0, |all, bit| all | bit);
        self.out.expression("ct", |batch| {
            batch.number(2, CT_STATE);
            batch.number(1, FIRST);
        });
        self.out.mask(&bits.to_ne_bytes());
        self.out.compare_bytes(NOT_EQUAL, |bytes| bytes.extend([0; 4]));
    }

    fn assign(&mut self, slot: Slot, assigned: &Assigned) {
        match assigned {
            Assigned::Constant(value) => self.out.expression("immediate", |batch| {
                batch.number(1, FIRST);
                batch.nest(2, |batch| batch.attribute(data::VALUE, &value.to_ne_bytes()));
            }),
            Assigned::Field(field) => {
                self.require(*field);
                self.out.load(*field, FIRST, ByteOrder::Host);
            }
            Assigned::Map { key, map } => {
                let map = self.load_key(key, map);
                self.out.look_up(map, Some(FIRST), Relation::Is);
            }
        }
        let (name, key, source) = match slot {
            Slot::Priority => ("meta", META_PRIORITY, 3),
            Slot::Mark => ("meta", META_MARK, 3),
            Slot::ConnectionMark => ("ct", CT_MARK, 4),
        };
        self.out.expression(name, |batch| {
            batch.number(2, key);
            batch.number(source, FIRST);
        });
    }

    /// Compares a field with a value, with a prefix of addresses, or with the ends of another interval.
    fn compare(&mut self, field: Field, relation: Relation, value: &Value) {
        self.require(field);
        if value.is_single() {
            self.out.load(field, FIRST, ByteOrder::Host);
            self.out
                .compare_value(operator(relation), value, Bound::First, ByteOrder::Host);
            self.note(field, relation, value);
        } else if let Some(length) = prefix_length(value) {
            self.compare_prefix(field, relation, value, length);
        } else {
            self.out.load(field, FIRST, ByteOrder::Network);
            match relation {
                Relation::Is => {
                    self.out
                        .compare_value(AT_LEAST, value, Bound::First, ByteOrder::Network);
                    self.out
                        .compare_value(AT_MOST, value, Bound::Last, ByteOrder::Network);
                }
                Relation::IsNot => self.out.expression("range", |batch| {
                    batch.number(1, FIRST);
                    batch.number(2, NOT_EQUAL);
                    for (attribute, bound) in [(3, Bound::First), (4, Bound::Last)] {
                        batch.nest(attribute, |batch| {
                            batch.payload(data::VALUE, |bytes| {
                                write(bytes, value, bound, ByteOrder::Network);
                            });
                        });
                    }
                }),
            }
        }
    }

    /// Compares the first bytes of an address where the prefix ends with a byte, else all of it under a mask.
    fn compare_prefix(&mut self, field: Field, relation: Relation, value: &Value, length: usize) {
        let width = width(value.datatype());
        let whole = if length > 0 && length.is_multiple_of(8) {
            length / 8
        } else {
            width
        };
        if let Source::Payload(header, offset, _) = source(field) {
            self.out.load_payload(header, offset, whole, FIRST);
        }
        if whole == width {
            let mut mask = Vec::new();
            let bits = u128::MAX.checked_shl(length_of_rest(width, length)).unwrap_or(0);
            write_number(&mut mask, bits, value.datatype(), ByteOrder::Network);
            self.out.mask(&mask);
        }
        self.out.compare_bytes(operator(relation), |bytes| {
            let start = bytes.len();
            write(bytes, value, Bound::First, ByteOrder::Network);
            bytes.truncate(start + whole);
        });
    }

    /// Remembers what holds in the rest of the rule.
    fn note(&mut self, field: Field, relation: Relation, value: &Value) {
        let is = u8::try_from(number(value, Bound::First)).ok();
        match (field, relation) {
            (Field::Family, Relation::Is) => self.network = is,
            (Field::Protocol, Relation::Is) => self.transport = is,
            _ => {}
        }
    }

    /// Makes sure that the packet has a field.
    fn require(&mut self, field: Field) {
        match field {
            Field::Ipv4Source | Field::Ipv4Destination => self.require_network(NFPROTO_IPV4),
            Field::Ipv6Source | Field::Ipv6Destination => self.require_network(NFPROTO_IPV6),
            Field::DestinationPort(Transport::Tcp) => self.require_transport(Protocol::TCP, None),
            Field::DestinationPort(Transport::Udp) => self.require_transport(Protocol::UDP, None),
            Field::DestinationPort(Transport::Sctp) => self.require_transport(Protocol::SCTP, None),
            Field::IcmpType => self.require_transport(Protocol::ICMP, Some(NFPROTO_IPV4)),
            Field::Icmpv6Type => self.require_transport(Protocol::ICMPV6, Some(NFPROTO_IPV6)),
            Field::InputInterface
            | Field::OutputInterface
            | Field::Family
            | Field::Protocol
            | Field::DestinationPort(Transport::Any)
            | Field::Priority
            | Field::Mark
            | Field::ConnectionMark => {}
        }
    }

    fn require_network(&mut self, family: u8) {
        if self.network != Some(family) {
            self.out.load_meta(META_NFPROTO, FIRST);
            self.out.compare_bytes(EQUAL, |bytes| bytes.push(family));
            self.network = Some(family);
        }
    }

    fn require_transport(&mut self, protocol: Protocol, family: Option<u8>) {
        let protocol = protocol.number();
        if self.transport != Some(protocol) {
            if let Some(family) = family {
                self.require_network(family);
            }
            self.out.load_meta(META_L4PROTO, FIRST);
            self.out.compare_bytes(EQUAL, |bytes| bytes.push(protocol));
            self.transport = Some(protocol);
        }
    }

    /// Loads the fields of a key for the set or map `name`.
    fn load_key<'n>(&mut self, key: &[Field], name: &'n Name) -> Handle<'n> {
        for &field in key {
            self.require(field);
        }
        let known = self.scope.container(name);
        let order = ByteOrder::of(known.is_some_and(|known| known.shape.interval));
        let mut at = 0;
        for &field in key {
            self.out.load(field, register(at), order);
            at += width(field.datatype()).next_multiple_of(4);
        }
        Handle {
            name: name.as_str(),
            id: known.and_then(|known| known.id),
        }
    }
}

fn operator(relation: Relation) -> u32 {
    match relation {
        Relation::Is => EQUAL,
        Relation::IsNot => NOT_EQUAL,
    }
}

/// The length of the prefix that an interval of addresses is, if it is one.
fn prefix_length(value: &Value) -> Option<usize> {
    let bits = match value.datatype() {
        Datatype::Ipv4Address => 32,
        Datatype::Ipv6Address => 128,
        _ => return None,
    };
    let (first, last) = value.ends()?;
    let different = first ^ last;
    let is_prefix = different & different.wrapping_add(1) == 0 && first & different == 0;
    let free = usize::try_from(128 - different.leading_zeros()).ok()?;
    is_prefix.then(|| bits - free)
}

/// The bits behind a prefix.
fn length_of_rest(width: usize, prefix: usize) -> u32 {
    u32::try_from(8 * width - prefix).unwrap_or(u32::MAX)
}
