//! Expressions as the rule that they are.
//!
//! Several rules may have the same expressions: `ip saddr 10.0.0.1` and the same after `meta nfproto ipv4`. The one without
//! what the others say besides is read.

use std::collections::BTreeSet;

use picket_dataplane::State;

use super::super::attributes::Oddity;
use super::super::bytes::{ByteOrder, read_number, value, width};
use super::super::context::{Context, Known};
use super::super::expression::{
    AT_LEAST, AT_MOST, CT_STATE, EQUAL, Expression, FIRST, Into, LOCAL, META_L4PROTO, META_NFPROTO,
    NOT_EQUAL, Reference, Source, TCP_FLAGS, source,
};
use super::super::rule::{Compiled, compile, slot_source, state_bit};
use crate::model::{Assigned, Datatype, End, Field, Match, Name, Relation, Rule, Slot, Statement, Transport};

/// The rule that `compiled` is, given which sets and maps hold intervals. Compiled again it is the same.
pub(super) fn decompile(compiled: &Compiled, is_interval: &dyn Fn(&Name) -> bool) -> Result<Rule, Oddity> {
    let mut reader = Reader {
        rest: &compiled.expressions,
        compiled,
        context: Context::default(),
        pending: Vec::new(),
        statements: Vec::new(),
    };
    let end = reader.statements()?;
    let rule = Rule::of(reader.statements, end);
    if compile(&rule, is_interval) == *compiled {
        Ok(rule)
    } else {
        Err(Oddity::Sequence)
    }
}

struct Reader<'c> {
    rest: &'c [Expression],
    compiled: &'c Compiled,
    /// What the statements so far say about the packet.
    context: Context,
    /// The last comparisons that may be there only because the next field needs them.
    pending: Vec<Known>,
    statements: Vec<Statement>,
}

impl<'c> Reader<'c> {
    /// Reads everything.
    fn statements(&mut self) -> Result<End, Oddity> {
        while let Some(next) = self.take() {
            let end = match next {
                Expression::Verdict(verdict) => End::Verdict(verdict.clone()),
                Expression::Reject => End::Reject,
                Expression::Load(source, FIRST) => match self.loaded(*source)? {
                    Some(end) => end,
                    None => continue,
                },
                other => {
                    let statement = self.simple(other)?;
                    self.settle(&[])?;
                    self.statements.push(statement);
                    continue;
                }
            };
            self.settle(&[])?;
            return if self.rest.is_empty() {
                Ok(end)
            } else {
                Err(Oddity::Sequence)
            };
        }
        self.settle(&[])?;
        Ok(End::Next)
    }

    fn take(&mut self) -> Option<&'c Expression> {
        let (next, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(next)
    }

    /// A statement that loads no field.
    fn simple(&mut self, first: &Expression) -> Result<Statement, Oddity> {
        match first {
            Expression::Count(counter) => Ok(Statement::Count(counter.clone())),
            Expression::Log(log) => Ok(Statement::Log(log.clone())),
            Expression::Limit(limit) => Ok(Statement::Limit(*limit)),
            Expression::Constant(bytes) => {
                let number = bytes.as_slice().try_into().map_err(|_| Oddity::Sequence)?;
                let slot = self.slot()?;
                Ok(Statement::Set(
                    slot,
                    Assigned::Constant(u32::from_ne_bytes(number)),
                ))
            }
            Expression::ReversePath => match self.take() {
                Some(Expression::Compare(EQUAL, _)) => Ok(Match::NoReversePath.into()),
                _ => Err(Oddity::Sequence),
            },
            Expression::SourceType => match self.take() {
                Some(Expression::Compare(EQUAL, bytes)) if *bytes == LOCAL.to_ne_bytes() => {
                    Ok(Match::LocalSource.into())
                }
                _ => Err(Oddity::Sequence),
            },
            _ => Err(Oddity::Sequence),
        }
    }

    /// What is written next from the first register.
    fn slot(&mut self) -> Result<Slot, Oddity> {
        let slots = [Slot::Priority, Slot::Mark, Slot::ConnectionMark];
        match self.take() {
            Some(Expression::Store(source)) => slots
                .into_iter()
                .find(|slot| slot_source(*slot) == *source)
                .ok_or(Oddity::Value("field that is written")),
            _ => Err(Oddity::Sequence),
        }
    }

    /// Reads on from the load of a first field; an end if it was one.
    fn loaded(&mut self, first: Source) -> Result<Option<End>, Oddity> {
        let sources = self.sources(first);
        let statement = match (sources.as_slice(), self.rest) {
            (
                &[Source::Meta(key @ (META_NFPROTO | META_L4PROTO))],
                [Expression::Compare(EQUAL, bytes), ..],
            ) if bytes.len() == 1 => {
                self.take();
                self.pending.extend(bytes.first().map(|byte| (key, *byte)));
                return Ok(None);
            }
            (_, [Expression::LookUp(set, into), ..]) => {
                self.take();
                return self.looked_up(&sources, set, *into);
            }
            (&[source], [Expression::Store(_), ..]) => {
                let field = self.field(source)?;
                Statement::Set(self.slot()?, Assigned::Field(field))
            }
            (&[source], [Expression::Mask(mask), Expression::Compare(operator, bytes), ..]) => {
                self.skip(2);
                self.masked(source, mask, *operator, bytes)?.into()
            }
            (&[source], _) => self.compared(source)?.into(),
            _ => return Err(Oddity::Sequence),
        };
        self.statements.push(statement);
        Ok(None)
    }

    /// What is loaded into registers one after the other. Whether bytes are turned round follows from the rest.
    fn sources(&mut self, first: Source) -> Vec<Source> {
        let mut sources = vec![first];
        loop {
            match self.rest.first() {
                Some(Expression::Turn(_)) => {}
                Some(Expression::Load(source, _)) => sources.push(*source),
                _ => return sources,
            }
            self.take();
        }
    }

    fn skip(&mut self, count: usize) {
        self.rest = self.rest.get(count..).unwrap_or_default();
    }

    /// The field that is loaded. It is settled that the packet has it.
    fn field(&mut self, source: Source) -> Result<Field, Oddity> {
        self.fields(&[source])?.pop().ok_or(Oddity::Sequence)
    }

    fn fields(&mut self, sources: &[Source]) -> Result<Vec<Field>, Oddity> {
        let context = self.known();
        let field = |wanted: &Source| {
            let mut fields = FIELDS.into_iter();
            fields.find(|field| source(*field) == *wanted && context.has(*field))
        };
        let fields: Option<Vec<Field>> = sources.iter().map(field).collect();
        let fields = fields.ok_or(Oddity::Value("field"))?;
        self.settle(&fields)?;
        Ok(fields)
    }

    /// What is known of the packet here.
    fn known(&self) -> Context {
        let mut context = self.context;
        self.pending.iter().for_each(|known| context.note(*known));
        context
    }

    /// Makes statements of the pending comparisons but for the last that are there because `next` needs them.
    fn settle(&mut self, next: &[Field]) -> Result<(), Oddity> {
        for kept in 0..=self.pending.len() {
            let (stated, implied) = self.pending.split_at(kept);
            let mut context = self.context;
            stated.iter().for_each(|known| context.note(*known));
            let needed: Vec<Known> = next.iter().flat_map(|field| context.require(*field)).collect();
            if needed == implied {
                let stated = stated.iter().map(|known| stated_match(*known));
                let stated = stated.collect::<Result<Vec<_>, _>>()?;
                self.statements.extend(stated.into_iter().map(Statement::Match));
                self.pending.clear();
                self.context = context;
                return Ok(());
            }
        }
        Err(Oddity::Sequence)
    }

    fn looked_up(&mut self, sources: &[Source], set: &Reference, into: Into) -> Result<Option<End>, Oddity> {
        let key = self.fields(sources)?;
        let statement = match (set, into) {
            (Reference::Own(index), Into::IsIn) => {
                let own = self.compiled.own.get(*index).ok_or(Oddity::Sequence)?;
                let field = *key.first().ok_or(Oddity::Sequence)?;
                let values = own.values.clone();
                Match::AnyOf { field, values }.into()
            }
            (Reference::Own(_), _) => return Err(Oddity::Sequence),
            (Reference::Named(set), Into::IsIn | Into::IsNotIn) => {
                let relation = if into == Into::IsIn {
                    Relation::Is
                } else {
                    Relation::IsNot
                };
                let set = set.clone();
                Match::Lookup { key, relation, set }.into()
            }
            (Reference::Named(map), Into::Register) => {
                let map = map.clone();
                Statement::Set(self.slot()?, Assigned::Map { key, map })
            }
            (Reference::Named(map), Into::Verdict) => {
                let map = map.clone();
                return Ok(Some(End::VerdictMap { key, map }));
            }
        };
        self.statements.push(statement);
        Ok(None)
    }

    /// A comparison of some bits.
    fn masked(&mut self, source: Source, mask: &[u8], operator: u32, bytes: &[u8]) -> Result<Match, Oddity> {
        if source == Source::Connection(CT_STATE) {
            self.settle(&[])?;
            return states(mask).map(Match::State);
        }
        if source == TCP_FLAGS {
            self.settle(&[Field::DestinationPort(Transport::Tcp)])?;
            let (&[mask], &[value]) = (mask, bytes) else {
                return Err(Oddity::Sequence);
            };
            let relation = relation(operator)?;
            return Ok(Match::TcpFlags {
                mask,
                relation,
                value,
            });
        }
        let field = self.field(source)?;
        let number = |bytes| read_number(bytes, field.datatype(), ByteOrder::Network);
        let (Some(mask), Some(first)) = (number(mask), number(bytes)) else {
            return Err(Oddity::Sequence);
        };
        prefix(field, operator, first, mask)
    }

    /// A comparison of a whole field, of the first bytes of an address, or with the ends of an interval.
    fn compared(&mut self, source: Source) -> Result<Match, Oddity> {
        let field = match self.address_beginning(source) {
            Some(address) => {
                self.settle(&[address])?;
                address
            }
            None => self.field(source)?,
        };
        let number =
            |bytes: &[u8], order| read_number(bytes, field.datatype(), order).ok_or(Oddity::Sequence);
        match self.rest {
            [
                Expression::Compare(AT_LEAST, first),
                Expression::Compare(AT_MOST, last),
                ..,
            ] => {
                self.skip(2);
                let [first, last] = [first, last].map(|bytes| number(bytes, ByteOrder::Network));
                comparison(field, EQUAL, first?, last?)
            }
            [Expression::Outside(first, last), ..] => {
                self.skip(1);
                let [first, last] = [first, last].map(|bytes| number(bytes, ByteOrder::Network));
                comparison(field, NOT_EQUAL, first?, last?)
            }
            [Expression::Compare(operator, bytes), ..] if bytes.len() == width(field.datatype()) => {
                self.skip(1);
                let number = number(bytes, ByteOrder::Host)?;
                comparison(field, *operator, number, number)
            }
            [Expression::Compare(operator, bytes), ..] if bytes.len() < width(field.datatype()) => {
                self.skip(1);
                let mut whole = bytes.clone();
                whole.resize(width(field.datatype()), 0);
                let first = number(&whole, ByteOrder::Network)?;
                let bits = u32::try_from(8 * (whole.len() - bytes.len())).unwrap_or(u32::MAX);
                prefix(field, *operator, first, u128::MAX.checked_shl(bits).unwrap_or(0))
            }
            _ => Err(Oddity::Sequence),
        }
    }

    /// The address of which only the first bytes are loaded.
    fn address_beginning(&self, wanted: Source) -> Option<Field> {
        let Source::Payload(header, offset, length) = wanted else {
            return None;
        };
        let begins = |field: &Field| match source(*field) {
            Source::Payload(own_header, own_offset, own_length) => {
                (own_header, own_offset) == (header, offset) && own_length > length
            }
            Source::Meta(_) | Source::Connection(_) => false,
        };
        let context = self.known();
        FIELDS
            .into_iter()
            .find(|field| begins(field) && context.has(*field))
    }
}

/// Every field; that of any transport after those of one.
const FIELDS: [Field; 17] = [
    Field::InputInterface,
    Field::OutputInterface,
    Field::Ipv4Source,
    Field::Ipv4Destination,
    Field::Ipv6Source,
    Field::Ipv6Destination,
    Field::Family,
    Field::Protocol,
    Field::DestinationPort(Transport::Tcp),
    Field::DestinationPort(Transport::Udp),
    Field::DestinationPort(Transport::Sctp),
    Field::DestinationPort(Transport::Any),
    Field::IcmpType,
    Field::Icmpv6Type,
    Field::Priority,
    Field::Mark,
    Field::ConnectionMark,
];

/// A comparison that stands for itself.
fn stated_match((key, byte): Known) -> Result<Match, Oddity> {
    let field = if key == META_NFPROTO {
        Field::Family
    } else {
        Field::Protocol
    };
    comparison(field, EQUAL, byte.into(), byte.into())
}

fn comparison(field: Field, operator: u32, first: u128, last: u128) -> Result<Match, Oddity> {
    let value = value(field.datatype(), first, last).ok_or(Oddity::Value("value in a comparison"))?;
    let relation = relation(operator)?;
    Ok(Match::Compare {
        field,
        relation,
        value,
    })
}

/// A comparison of the bits of an address that `mask` has.
fn prefix(field: Field, operator: u32, first: u128, mask: u128) -> Result<Match, Oddity> {
    let bits = match field.datatype() {
        Datatype::Ipv4Address => u128::from(u32::MAX),
        Datatype::Ipv6Address => u128::MAX,
        _ => return Err(Oddity::Sequence),
    };
    comparison(field, operator, first, first | !mask & bits)
}

fn relation(operator: u32) -> Result<Relation, Oddity> {
    match operator {
        EQUAL => Ok(Relation::Is),
        NOT_EQUAL => Ok(Relation::IsNot),
        _ => Err(Oddity::Value("operator of a comparison")),
    }
}

fn states(mask: &[u8]) -> Result<BTreeSet<State>, Oddity> {
    let bits = u32::from_ne_bytes(mask.try_into().map_err(|_| Oddity::Sequence)?);
    let all = [
        State::New,
        State::Established,
        State::Related,
        State::Invalid,
        State::Untracked,
    ];
    Ok(all
        .into_iter()
        .filter(|state| bits & state_bit(*state) != 0)
        .collect())
}
