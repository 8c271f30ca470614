//! The steps of a rule: a register is loaded, changed and compared. How each stands in attributes is written and read here.

use picket_linux::Batch;

use super::attributes::{Fields, Oddity};
use super::container::{Handle, verdict_data, verdict_of};
use super::limit;
use super::uapi::{data, object};
use crate::model::{Field, Limit, Log, LogPrefix, Name, Verdict};

/// `NFT_REG_VERDICT`, the first register of 16 bytes, and the first of 4 bytes, which is a part of it.
const VERDICT: u32 = 0;
pub(super) const FIRST: u32 = 1;
const FIRST_SMALL: u32 = 8;

/// `NFT_CMP_*`, `NFT_RANGE_NEQ`.
pub(super) const EQUAL: u32 = 0;
pub(super) const NOT_EQUAL: u32 = 1;
pub(super) const AT_MOST: u32 = 3;
pub(super) const AT_LEAST: u32 = 5;

pub(super) const META_PRIORITY: u32 = 2;
pub(super) const META_MARK: u32 = 3;
const META_IIFNAME: u32 = 6;
const META_OIFNAME: u32 = 7;
pub(super) const META_NFPROTO: u32 = 15;
pub(super) const META_L4PROTO: u32 = 16;
pub(super) const CT_STATE: u32 = 0;
pub(super) const CT_MARK: u32 = 3;
const NETWORK_HEADER: u32 = 1;
const TRANSPORT_HEADER: u32 = 2;

/// `NFT_BYTEORDER_HTON` of one number of four bytes.
const TURN: [u32; 3] = [1, 4, 4];
/// `NFT_REJECT_ICMPX_UNREACH` with `NFT_REJECT_ICMPX_PORT_UNREACH`.
const REJECT: (u32, u8) = (2, 1);
/// `NFT_FIB_RESULT_OIF` for the source address and the interface of arrival, as whether there is one.
const REVERSE_PATH: (u32, u32) = (1, 0x1 | 0x8 | 0x20);
/// `NFT_FIB_RESULT_ADDRTYPE` for the source address.
const SOURCE_TYPE: (u32, u32) = (3, 0x1);
/// The kernel's `RTN_LOCAL`.
pub(super) const LOCAL: u32 = 2;
/// The kernel's `LOGLEVEL_WARNING`, which is meant where no level is.
const LOG_LEVEL: u32 = 4;

/// One step. Where no register is named it is the first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Expression {
    /// Loads a register.
    Load(Source, u32),
    /// Writes `meta` or `ct`.
    Store(Source),
    /// Turns the four bytes in a register round, highest first.
    Turn(u32),
    /// Keeps these bits.
    Mask(Vec<u8>),
    /// Goes on when the bytes compare so.
    Compare(u32, Vec<u8>),
    /// Goes on when the bytes are outside an interval.
    Outside(Vec<u8>, Vec<u8>),
    /// Goes on when the bytes are in a set, or are not, or with what a map has for them.
    LookUp(Reference, Into),
    /// Loads a constant.
    Constant(Vec<u8>),
    /// Ends.
    Verdict(Verdict),
    /// Ends, and says so to the sender.
    Reject,
    /// Counts the packet.
    Count(Name),
    /// Logs the packet.
    Log(Log),
    /// Goes on for a part of the packets.
    Limit(Limit),
    /// Loads whether the way back leads through the interface of arrival.
    ReversePath,
    /// Loads what kind of address the source is.
    SourceType,
}

/// Where a field is loaded from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Meta(u32),
    Connection(u32),
    /// Header, offset and length.
    Payload(u32, u32, u32),
}

/// A set as a rule names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reference {
    Named(Name),
    /// One that the rule has for itself: which of them.
    Own(usize),
}

/// What a lookup is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Into {
    IsIn,
    IsNotIn,
    /// The first register gets what the map has.
    Register,
    Verdict,
}

impl Expression {
    /// Writes it; `handle` names sets as the batch does.
    pub(super) fn write<'h>(&'h self, batch: &mut Batch, handle: &impl Fn(&'h Reference) -> Handle<'h>) {
        batch.nest(data::LIST_ELEMENT, |batch| {
            batch.text(1, self.kind());
            batch.nest(2, |batch| self.attributes(batch, handle));
        });
    }

    /// Its name in the kernel.
    fn kind(&self) -> &'static str {
        match self {
            Self::Load(Source::Meta(_), _) | Self::Store(Source::Meta(_)) => "meta",
            Self::Load(Source::Connection(_), _) | Self::Store(Source::Connection(_)) => "ct",
            Self::Load(Source::Payload(..), _) | Self::Store(Source::Payload(..)) => "payload",
            Self::Turn(_) => "byteorder",
            Self::Mask(_) => "bitwise",
            Self::Compare(..) => "cmp",
            Self::Outside(..) => "range",
            Self::LookUp(..) => "lookup",
            Self::Constant(_) | Self::Verdict(_) => "immediate",
            Self::Reject => "reject",
            Self::Count(_) => "objref",
            Self::Log(_) => "log",
            Self::Limit(_) => "limit",
            Self::ReversePath | Self::SourceType => "fib",
        }
    }

    fn attributes<'h>(&'h self, batch: &mut Batch, handle: &impl Fn(&'h Reference) -> Handle<'h>) {
        match self {
            Self::Load(source, register) => load(batch, *source, *register),
            Self::Store(source) => store(batch, *source),
            Self::Turn(register) => numbers(batch, &[&[*register, *register][..], &TURN].concat()),
            Self::Mask(mask) => {
                numbers(batch, &[FIRST, FIRST, length(mask)]);
                value(batch, 4, mask);
                value(batch, 5, &vec![0; mask.len()]);
            }
            Self::Compare(operator, bytes) => {
                numbers(batch, &[FIRST, *operator]);
                value(batch, 3, bytes);
            }
            Self::Outside(first, last) => {
                numbers(batch, &[FIRST, NOT_EQUAL]);
                value(batch, 3, first);
                value(batch, 4, last);
            }
            Self::LookUp(set, into) => look_up(batch, handle(set), *into),
            Self::Constant(bytes) => {
                numbers(batch, &[FIRST]);
                value(batch, 2, bytes);
            }
            Self::Verdict(verdict) => {
                numbers(batch, &[VERDICT]);
                batch.nest(2, |batch| verdict_data(batch, verdict));
            }
            Self::Reject => {
                numbers(batch, &[REJECT.0]);
                batch.attribute(2, &[REJECT.1]);
            }
            Self::Count(counter) => {
                numbers(batch, &[object::COUNTER]);
                batch.text(2, counter.as_str());
            }
            Self::Log(log) => {
                batch.text(2, log.prefix.as_str());
                if let Some(group) = log.group {
                    batch.attribute(1, &group.to_be_bytes());
                }
            }
            Self::Limit(limit) => limit::write(batch, *limit),
            Self::ReversePath => numbers(batch, &[FIRST, REVERSE_PATH.0, REVERSE_PATH.1]),
            Self::SourceType => numbers(batch, &[FIRST, SOURCE_TYPE.0, SOURCE_TYPE.1]),
        }
    }

    /// Reads one as the kernel lists it; `None` for one that does nothing. `named` finds sets by their names.
    pub(super) fn read(
        bytes: &[u8],
        named: &mut impl FnMut(&str) -> Option<Reference>,
    ) -> Result<Option<Self>, Oddity> {
        let mut fields = Fields::of(bytes);
        let kind = fields.text(1)?;
        let mut inside = fields.nested(2)?;
        fields.end()?;
        let read = match kind {
            "meta" | "ct" | "payload" => moved(kind, &mut inside)?,
            "byteorder" => return turned(inside),
            "bitwise" => masked(&mut inside)?,
            "cmp" => {
                inside.expect(1, FIRST)?;
                Self::Compare(inside.number(2)?, inside.value(3)?)
            }
            "range" => {
                inside.expect(1, FIRST)?;
                inside.expect(2, NOT_EQUAL)?;
                Self::Outside(inside.value(3)?, inside.value(4)?)
            }
            "lookup" => looked_up(&mut inside, named)?,
            "immediate" => immediate(&mut inside)?,
            "reject" => {
                inside.expect(1, REJECT.0)?;
                if inside.bytes(2)? != [REJECT.1] {
                    return Err(Oddity::Value("code of a reject"));
                }
                Self::Reject
            }
            "objref" => {
                inside.expect(1, object::COUNTER)?;
                Self::Count(inside.name(2)?)
            }
            "log" => logged(&mut inside)?,
            "limit" => Self::Limit(limit::read(&mut inside)?),
            "fib" => {
                inside.expect(1, FIRST)?;
                match (inside.number(2)?, inside.number(3)?) {
                    REVERSE_PATH => Self::ReversePath,
                    SOURCE_TYPE => Self::SourceType,
                    _ => return Err(Oddity::Value("look at the routes")),
                }
            }
            _ => return Err(Oddity::Expression(kind.to_owned())),
        };
        inside.end()?;
        Ok(Some(read))
    }
}

/// Attributes from 1 on that are numbers.
fn numbers(batch: &mut Batch, numbers: &[u32]) {
    for (kind, number) in (1..).zip(numbers) {
        batch.number(kind, *number);
    }
}

fn value(batch: &mut Batch, kind: u16, bytes: &[u8]) {
    batch.nest(kind, |batch| batch.attribute(data::VALUE, bytes));
}

fn length(bytes: &[u8]) -> u32 {
    // INVARIANT: values have at most 64 bytes.
    u32::try_from(bytes.len()).unwrap_or(u32::MAX)
}

fn load(batch: &mut Batch, source: Source, register: u32) {
    batch.number(1, register);
    match source {
        Source::Meta(key) | Source::Connection(key) => batch.number(2, key),
        Source::Payload(header, offset, length) => {
            for (kind, number) in [(2, header), (3, offset), (4, length)] {
                batch.number(kind, number);
            }
        }
    }
}

fn store(batch: &mut Batch, source: Source) {
    match source {
        Source::Meta(key) => {
            batch.number(2, key);
            batch.number(3, FIRST);
        }
        Source::Connection(key) => {
            batch.number(2, key);
            batch.number(4, FIRST);
        }
        // INVARIANT: no slot of the model lies in a header.
        Source::Payload(..) => {}
    }
}

/// Reads `meta`, `ct` or `payload`.
fn moved(kind: &str, inside: &mut Fields<'_>) -> Result<Expression, Oddity> {
    if kind == "payload" {
        let register = inside.number(1)?;
        let source = Source::Payload(inside.number(2)?, inside.number(3)?, inside.number(4)?);
        return Ok(Expression::Load(source, register));
    }
    let key = inside.number(2)?;
    let (source, from) = match kind {
        "meta" => (Source::Meta(key), 3),
        _ => (Source::Connection(key), 4),
    };
    if inside.has(1) {
        return Ok(Expression::Load(source, inside.number(1)?));
    }
    inside.expect(from, FIRST)?;
    Ok(Expression::Store(source))
}

/// Reads `byteorder`. Of one byte it does nothing: nft turns protocols round so.
fn turned(mut inside: Fields<'_>) -> Result<Option<Expression>, Oddity> {
    let register = inside.number(1)?;
    inside.expect(2, register)?;
    inside.expect(3, TURN[0])?;
    let (length, size) = (inside.number(4)?, inside.number(5)?);
    inside.end()?;
    match [length, size] {
        [1, _] => Ok(None),
        sizes if sizes == TURN[1..] => Ok(Some(Expression::Turn(register))),
        _ => Err(Oddity::Value("length of a byteorder")),
    }
}

fn masked(inside: &mut Fields<'_>) -> Result<Expression, Oddity> {
    const OPERATION: u16 = 6;
    const MASK_AND_XOR: u32 = 0;
    inside.expect(1, FIRST)?;
    inside.expect(2, FIRST)?;
    if inside.number_or_zero(OPERATION)? != MASK_AND_XOR {
        return Err(Oddity::Value("bitwise operation"));
    }
    let mask = inside.value(4)?;
    inside.expect(3, length(&mask))?;
    if inside.value(5)?.iter().any(|&byte| byte != 0) {
        return Err(Oddity::Value("exclusive or"));
    }
    Ok(Expression::Mask(mask))
}

fn look_up(batch: &mut Batch, set: Handle<'_>, into: Into) {
    batch.number(2, FIRST);
    match into {
        Into::IsIn | Into::IsNotIn => {}
        Into::Register => batch.number(3, FIRST),
        Into::Verdict => batch.number(3, VERDICT),
    }
    batch.text(1, set.name);
    if let Some(id) = set.id {
        batch.number(4, id);
    }
    if into == Into::IsNotIn {
        batch.number(5, 1);
    }
}

fn looked_up(
    inside: &mut Fields<'_>,
    named: &mut impl FnMut(&str) -> Option<Reference>,
) -> Result<Expression, Oddity> {
    inside.expect(2, FIRST)?;
    let set = named(inside.text(1)?).ok_or(Oddity::Value("set of a lookup"))?;
    let register = inside.has(3).then(|| inside.number(3)).transpose()?;
    let into = match (register, inside.number_or_zero(5)?) {
        (None, 0) => Into::IsIn,
        (None, 1) => Into::IsNotIn,
        (Some(FIRST), 0) => Into::Register,
        (Some(VERDICT), 0) => Into::Verdict,
        _ => return Err(Oddity::Value("register or flags of a lookup")),
    };
    Ok(Expression::LookUp(set, into))
}

fn immediate(inside: &mut Fields<'_>) -> Result<Expression, Oddity> {
    match inside.number(1)? {
        VERDICT => Ok(Expression::Verdict(verdict_of(inside.nested(2)?)?)),
        FIRST => Ok(Expression::Constant(inside.value(2)?)),
        _ => Err(Oddity::Value("register of a constant")),
    }
}

fn logged(inside: &mut Fields<'_>) -> Result<Expression, Oddity> {
    const LEVEL: u16 = 5;
    let text = inside.text(2)?;
    let prefix = LogPrefix::new(text);
    if prefix.as_str() != text {
        return Err(Oddity::Value("prefix of a log"));
    }
    let group = inside.has(1).then(|| inside.short(1)).transpose()?;
    if inside.has(LEVEL) {
        inside.expect(LEVEL, LOG_LEVEL)?;
    }
    Ok(Expression::Log(Log { prefix, group }))
}

/// TCP's flags.
pub(super) const TCP_FLAGS: Source = Source::Payload(TRANSPORT_HEADER, 13, 1);

pub(super) fn source(field: Field) -> Source {
    match field {
        Field::InputInterface => Source::Meta(META_IIFNAME),
        Field::OutputInterface => Source::Meta(META_OIFNAME),
        Field::Ipv4Source => Source::Payload(NETWORK_HEADER, 12, 4),
        Field::Ipv4Destination => Source::Payload(NETWORK_HEADER, 16, 4),
        Field::Ipv6Source => Source::Payload(NETWORK_HEADER, 8, 16),
        Field::Ipv6Destination => Source::Payload(NETWORK_HEADER, 24, 16),
        Field::Family => Source::Meta(META_NFPROTO),
        Field::Protocol => Source::Meta(META_L4PROTO),
        Field::DestinationPort(_) => Source::Payload(TRANSPORT_HEADER, 2, 2),
        Field::IcmpType | Field::Icmpv6Type => Source::Payload(TRANSPORT_HEADER, 0, 1),
        Field::Priority => Source::Meta(META_PRIORITY),
        Field::Mark => Source::Meta(META_MARK),
        Field::ConnectionMark => Source::Connection(CT_MARK),
    }
}

/// The register at a byte of the key: one of 16 bytes where it begins, else one of 4.
pub(super) fn register(at: usize) -> u32 {
    // INVARIANT: keys have at most 64 bytes.
    let at = u32::try_from(at).unwrap_or(0);
    if at.is_multiple_of(16) {
        FIRST + at / 16
    } else {
        FIRST_SMALL + at / 4
    }
}
