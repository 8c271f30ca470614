//! Rules as the expressions that nft 1.0.6 makes of them: what it lists is then what its own text would have made.

use std::collections::BTreeSet;

use picket_dataplane::State;
use picket_linux::Batch;

use super::bytes::{ByteOrder, End as Bound, comment, is_of_host, width, write, write_number};
use super::container::{Handle, Header, Shape, create, elements};
use super::context::Context;
use super::expression::{
    AT_LEAST, AT_MOST, CT_MARK, CT_STATE, EQUAL, Expression, FIRST, Into, LOCAL, META_MARK, META_PRIORITY,
    NOT_EQUAL, Reference, Source, TCP_FLAGS, register, source,
};
use super::scope::Scope;
use super::uapi::{NFPROTO_INET, message, rule, userdata};
use crate::model::{
    Assigned, Datatype, End, Field, Key, Match, Name, Relation, Rule, Slot, Statement, Transport, Value,
};

/// The kernel gives such a set a name of its own.
const ANONYMOUS: &str = "__set%d";

/// What a rule is in the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Compiled {
    pub(super) expressions: Vec<Expression>,
    /// The sets that it has for itself.
    pub(super) own: Vec<OwnSet>,
}

/// A set without a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OwnSet {
    pub(super) datatype: Datatype,
    pub(super) interval: bool,
    pub(super) values: BTreeSet<Value>,
}

impl OwnSet {
    /// Values as nft has them in sets without a name: where one interval begins behind the last, both are one.
    fn of(field: Field, values: &BTreeSet<Value>) -> Self {
        let (datatype, interval) = (field.datatype(), values.iter().any(|value| !value.is_single()));
        let values = if interval {
            let merged = merged(values).into_iter();
            merged
                .filter_map(|(first, last)| super::bytes::value(datatype, first, last))
                .collect()
        } else {
            values.clone()
        };
        Self {
            datatype,
            interval,
            values,
        }
    }

    fn create(&self, batch: &mut Batch, table: &Name, id: u32) {
        let handle = Handle {
            name: ANONYMOUS,
            id: Some(id),
        };
        let header = Header {
            shape: Shape {
                key: &[self.datatype],
                gives: None,
                interval: self.interval,
            },
            comment: None,
            // An interval is two elements.
            constant: Some(if self.interval { 2 } else { 1 } * self.values.len()),
        };
        create(batch, table, handle, &header);
        let keys: Vec<Key> = self.values.iter().cloned().map(Key::from).collect();
        let keys = keys.iter().map(|key| (key, None));
        elements(batch, message::NEWSETELEM, table, handle, &header.shape, keys);
    }
}

/// The ends of intervals, as one where the next begins behind the last.
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

/// Adds a rule at the end of a chain, and before it the sets that it has for itself.
pub(super) fn add(batch: &mut Batch, scope: &mut Scope<'_>, table: &Name, chain: &Name, added: &Rule) {
    let is_interval = |name: &Name| scope.container(name).is_some_and(|known| known.shape.interval);
    let compiled = compile(added, &is_interval);
    let mut ids = Vec::new();
    for set in &compiled.own {
        let id = scope.take_id();
        set.create(batch, table, id);
        ids.push(id);
    }
    batch.message(message::NEWRULE, Batch::CREATE | Batch::APPEND, NFPROTO_INET);
    batch.text(rule::TABLE, table.as_str());
    batch.text(rule::CHAIN, chain.as_str());
    batch.nest(rule::EXPRESSIONS, |batch| {
        for expression in &compiled.expressions {
            expression.write(batch, &|set| match set {
                Reference::Named(name) => Handle {
                    name: name.as_str(),
                    id: scope.container(name).and_then(|known| known.id),
                },
                Reference::Own(index) => Handle {
                    name: ANONYMOUS,
                    id: ids.get(*index).copied(),
                },
            });
        }
    });
    if let Some(text) = &added.comment {
        batch.attribute(rule::USERDATA, &comment(userdata::COMMENT, text.as_str()));
    }
}

/// What a rule is in the kernel, given which sets and maps hold intervals.
pub(super) fn compile(rule: &Rule, is_interval: &dyn Fn(&Name) -> bool) -> Compiled {
    let mut compiler = Compiler {
        compiled: Compiled::default(),
        is_interval,
        context: Context::default(),
    };
    for statement in &rule.statements {
        compiler.statement(statement);
    }
    compiler.end(&rule.end);
    compiler.compiled
}

struct Compiler<'s> {
    compiled: Compiled,
    is_interval: &'s dyn Fn(&Name) -> bool,
    context: Context,
}

impl Compiler<'_> {
    fn push(&mut self, expression: Expression) {
        self.compiled.expressions.push(expression);
    }

    fn statement(&mut self, statement: &Statement) {
        match statement {
            Statement::Match(condition) => self.condition(condition),
            Statement::Set(slot, assigned) => self.assign(*slot, assigned),
            Statement::Count(counter) => self.push(Expression::Count(counter.clone())),
            Statement::Log(log) => self.push(Expression::Log(log.clone())),
            Statement::Limit(limit) => self.push(Expression::Limit(*limit)),
        }
    }

    fn end(&mut self, end: &End) {
        match end {
            End::Next => {}
            End::Verdict(verdict) => self.push(Expression::Verdict(verdict.clone())),
            End::Reject => self.push(Expression::Reject),
            End::VerdictMap { key, map } => self.look_up(key, map, Into::Verdict),
        }
    }

    fn condition(&mut self, condition: &Match) {
        match condition {
            Match::Compare {
                field,
                relation,
                value,
            } => self.compare(*field, *relation, value),
            Match::AnyOf { field, values } => {
                let set = OwnSet::of(*field, values);
                self.require(*field);
                self.load(*field, FIRST, ByteOrder::of(set.interval));
                let reference = Reference::Own(self.compiled.own.len());
                self.push(Expression::LookUp(reference, Into::IsIn));
                self.compiled.own.push(set);
            }
            Match::Lookup { key, relation, set } => {
                let into = match relation {
                    Relation::Is => Into::IsIn,
                    Relation::IsNot => Into::IsNotIn,
                };
                self.look_up(key, set, into);
            }
            Match::State(states) => {
                let bits = states.iter().fold(0, |bits, state| bits | state_bit(*state));
                self.push(Expression::Load(Source::Connection(CT_STATE), FIRST));
                self.push(Expression::Mask(bits.to_ne_bytes().into()));
                self.push(Expression::Compare(NOT_EQUAL, vec![0; 4]));
            }
            Match::TcpFlags {
                mask,
                relation,
                value,
            } => {
                self.require(Field::DestinationPort(Transport::Tcp));
                self.push(Expression::Load(TCP_FLAGS, FIRST));
                self.push(Expression::Mask(vec![*mask]));
                self.push(Expression::Compare(operator(*relation), vec![*value]));
            }
            Match::NoReversePath => {
                self.push(Expression::ReversePath);
                self.push(Expression::Compare(EQUAL, vec![0; 4]));
            }
            Match::LocalSource => {
                self.push(Expression::SourceType);
                self.push(Expression::Compare(EQUAL, LOCAL.to_ne_bytes().into()));
            }
        }
    }

    fn assign(&mut self, slot: Slot, assigned: &Assigned) {
        match assigned {
            Assigned::Constant(value) => self.push(Expression::Constant(value.to_ne_bytes().into())),
            Assigned::Field(field) => {
                self.require(*field);
                self.load(*field, FIRST, ByteOrder::Host);
            }
            Assigned::Map { key, map } => self.look_up(key, map, Into::Register),
        }
        self.push(Expression::Store(slot_source(slot)));
    }

    /// Compares a field with a value, with a prefix of addresses, or with the ends of another interval.
    fn compare(&mut self, field: Field, relation: Relation, value: &Value) {
        self.require(field);
        if value.is_single() {
            self.load(field, FIRST, ByteOrder::Host);
            let bytes = bytes(value, Bound::First, ByteOrder::Host);
            if let (Source::Meta(key), Relation::Is, [byte]) = (source(field), relation, bytes.as_slice()) {
                self.context.note((key, *byte));
            }
            self.push(Expression::Compare(operator(relation), bytes));
        } else if let Some(length) = prefix_length(value) {
            self.compare_prefix(field, relation, value, length);
        } else {
            self.load(field, FIRST, ByteOrder::Network);
            let [first, last] = [Bound::First, Bound::Last].map(|end| bytes(value, end, ByteOrder::Network));
            match relation {
                Relation::Is => {
                    self.push(Expression::Compare(AT_LEAST, first));
                    self.push(Expression::Compare(AT_MOST, last));
                }
                Relation::IsNot => self.push(Expression::Outside(first, last)),
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
            let length = u32::try_from(whole).unwrap_or(0);
            self.push(Expression::Load(Source::Payload(header, offset, length), FIRST));
        }
        if whole == width {
            let mut mask = Vec::new();
            let rest = u32::try_from(8 * width - length).unwrap_or(u32::MAX);
            let bits = u128::MAX.checked_shl(rest).unwrap_or(0);
            write_number(&mut mask, bits, value.datatype(), ByteOrder::Network);
            self.push(Expression::Mask(mask));
        }
        let mut bytes = bytes(value, Bound::First, ByteOrder::Network);
        bytes.truncate(whole);
        self.push(Expression::Compare(operator(relation), bytes));
    }

    /// Makes sure that the packet has a field.
    fn require(&mut self, field: Field) {
        for (key, byte) in self.context.require(field) {
            self.push(Expression::Load(Source::Meta(key), FIRST));
            self.push(Expression::Compare(EQUAL, vec![byte]));
        }
    }

    /// Loads a field; what is compared by size gets its highest byte first.
    fn load(&mut self, field: Field, register: u32, order: ByteOrder) {
        self.push(Expression::Load(source(field), register));
        if order == ByteOrder::Network && is_of_host(field.datatype()) {
            self.push(Expression::Turn(register));
        }
    }

    /// Loads the fields of a key and looks it up in a named set or map.
    fn look_up(&mut self, key: &[Field], name: &Name, into: Into) {
        for &field in key {
            self.require(field);
        }
        let order = ByteOrder::of((self.is_interval)(name));
        let mut at = 0;
        for &field in key {
            self.load(field, register(at), order);
            at += width(field.datatype()).next_multiple_of(4);
        }
        self.push(Expression::LookUp(Reference::Named(name.clone()), into));
    }
}

/// Where a slot is written.
pub(super) fn slot_source(slot: Slot) -> Source {
    match slot {
        Slot::Priority => Source::Meta(META_PRIORITY),
        Slot::Mark => Source::Meta(META_MARK),
        Slot::ConnectionMark => Source::Connection(CT_MARK),
    }
}

/// The bit of a state of connections.
pub(super) fn state_bit(state: State) -> u32 {
    match state {
        State::Invalid => 1,
        State::Established => 2,
        State::Related => 4,
        State::New => 8,
        State::Untracked => 64,
    }
}

fn operator(relation: Relation) -> u32 {
    match relation {
        Relation::Is => EQUAL,
        Relation::IsNot => NOT_EQUAL,
    }
}

fn bytes(value: &Value, bound: Bound, order: ByteOrder) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(&mut bytes, value, bound, order);
    bytes
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
