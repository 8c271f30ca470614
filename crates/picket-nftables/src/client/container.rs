//! Sets and maps, and their elements.

use picket_linux::Batch;

use super::attributes::{Fields, Oddity};
use super::bytes::{
    ByteOrder, End, byte_order_number, data_type, key_type, number, width, write, write_number,
    write_userdata,
};
use super::uapi::{NFPROTO_INET, data, element, message, set, userdata};
use crate::model::{Comment, Datatype, Datum, Key, MapType, Name, Value, Verdict};

/// Bytes of elements in one message at most, but for the last of them: an attribute may have 65,535.
const CHUNK: usize = 60_000;

/// What of a set or map decides how it is written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape<'a> {
    pub(super) key: &'a [Datatype],
    pub(super) gives: Option<MapType>,
    pub(super) interval: bool,
}

impl Shape<'_> {
    pub(super) fn is_concatenation(&self) -> bool {
        self.key.len() > 1
    }

    /// The flags of a set of this shape (`NFT_SET_*`), but for those of one without a name.
    pub(super) fn flags(&self) -> u32 {
        let flag = |holds: bool, flags: u32| if holds { flags } else { 0 };
        flag(self.interval, set::INTERVAL)
            | flag(self.gives.is_some(), set::MAP)
            | flag(self.describes_fields(), set::CONCATENATED)
    }

    /// Whether the kernel must know where each field of a key ends.
    pub(super) fn describes_fields(&self) -> bool {
        self.interval && self.is_concatenation()
    }

    /// Bytes of a key: each field of a concatenation fills registers of four bytes.
    pub(super) fn key_length(&self) -> usize {
        if self.is_concatenation() {
            self.key
                .iter()
                .map(|&field| width(field).next_multiple_of(4))
                .sum()
        } else {
            self.key.iter().map(|&field| width(field)).sum()
        }
    }
}

/// How a message names a set: by its name, and one made in the same batch also by a number.
#[derive(Clone, Copy, Debug)]
pub(super) struct Handle<'a> {
    pub(super) name: &'a str,
    pub(super) id: Option<u32>,
}

/// What a set is made with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header<'a> {
    pub(super) shape: Shape<'a>,
    pub(super) comment: Option<&'a Comment>,
    /// Elements of an anonymous set, which never changes.
    pub(super) constant: Option<usize>,
}

/// Creates a set or map without elements.
pub(super) fn create(batch: &mut Batch, table: &Name, handle: Handle<'_>, header: &Header<'_>) {
    let Header {
        shape,
        comment,
        constant,
    } = header;
    let anonymous = if constant.is_some() {
        set::ANONYMOUS_CONSTANT
    } else {
        0
    };
    batch.message(message::NEWSET, Batch::CREATE, NFPROTO_INET);
    batch.text(set::TABLE, table.as_str());
    batch.text(set::NAME, handle.name);
    batch.number(set::FLAGS, shape.flags() | anonymous);
    batch.number(set::KEY_TYPE, key_type(shape.key));
    batch.number(set::KEY_LENGTH, length(shape.key_length()));
    if let Some(gives) = shape.gives {
        let (number, length) = data_type(gives);
        batch.number(set::DATA_TYPE, number);
        batch.number(set::DATA_LENGTH, length);
    }
    if let Some(id) = handle.id {
        batch.number(set::ID, id);
    }
    if shape.describes_fields() || constant.is_some() {
        batch.nest(set::DESCRIPTION, |batch| {
            if let Some(size) = constant {
                batch.number(set::SIZE, length(*size));
            }
            if shape.describes_fields() {
                batch.nest(set::CONCATENATION, |batch| {
                    for &field in shape.key {
                        batch.nest(data::LIST_ELEMENT, |batch| {
                            batch.number(set::FIELD_LENGTH, length(width(field)));
                        });
                    }
                });
            }
        });
    }
    batch.attribute(set::USERDATA, &about(shape, *comment));
}

pub(super) fn length(bytes: usize) -> u32 {
    // INVARIANT: lengths of keys, and numbers of elements that a rule names.
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// What nft wants to know when it lists the set.
fn about(shape: &Shape<'_>, comment: Option<&Comment>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let order = match shape.key {
        [field] => byte_order_number(*field),
        _ => 0,
    };
    write_userdata(&mut bytes, userdata::SET_KEY_BYTE_ORDER, &order.to_ne_bytes());
    if let Some(gives) = shape.gives {
        let order = u32::from(gives != MapType::Verdict);
        write_userdata(&mut bytes, userdata::SET_DATA_BYTE_ORDER, &order.to_ne_bytes());
    }
    if let Some(comment) = comment {
        bytes.extend(super::bytes::comment(userdata::SET_COMMENT, comment.as_str()));
    }
    bytes
}

/// Adds or removes elements, in as many messages as they need.
pub(super) fn elements<'a>(
    batch: &mut Batch,
    kind: u8,
    table: &Name,
    handle: Handle<'_>,
    shape: &Shape<'_>,
    elements: impl Iterator<Item = (&'a Key, Option<&'a Datum>)>,
) {
    let flags = if kind == message::NEWSETELEM {
        Batch::CREATE
    } else {
        0
    };
    let mut elements = elements.peekable();
    while elements.peek().is_some() {
        batch.message(kind, flags, NFPROTO_INET);
        batch.text(element::TABLE, table.as_str());
        batch.text(element::SET, handle.name);
        if let Some(id) = handle.id {
            batch.number(element::SET_ID, id);
        }
        batch.nest(element::ELEMENTS, |batch| {
            let start = batch.length();
            while batch.length() - start < CHUNK
                && let Some((key, datum)) = elements.next()
            {
                one(batch, shape, key, datum);
            }
        });
    }
}

fn one(batch: &mut Batch, shape: &Shape<'_>, key: &Key, datum: Option<&Datum>) {
    match (key.values(), shape.interval) {
        ([value], true) => {
            let ends = (number(value, End::First), number(value, End::Last));
            interval(batch, value.datatype(), ends, datum);
        }
        (values, interval) => {
            let order = ByteOrder::of(interval);
            batch.nest(data::LIST_ELEMENT, |batch| {
                batch.nest(element::KEY, |batch| fields(batch, values, End::First, order));
                if interval {
                    batch.nest(element::KEY_END, |batch| fields(batch, values, End::Last, order));
                }
                given(batch, datum);
            });
        }
    }
}

/// An interval of one field is two elements: its first value, and the first value after it, of which there is none
/// after the highest.
fn interval(batch: &mut Batch, datatype: Datatype, (first, last): (u128, u128), datum: Option<&Datum>) {
    let highest = u128::MAX >> (128 - 8 * width(datatype));
    let key = |batch: &mut Batch, number| {
        batch.nest(element::KEY, |batch| {
            batch.payload(data::VALUE, |bytes| {
                write_number(bytes, number, datatype, ByteOrder::Network);
            });
        });
    };
    batch.nest(data::LIST_ELEMENT, |batch| {
        key(batch, first);
        given(batch, datum);
        if last == highest {
            batch.payload(element::USERDATA, |bytes| {
                write_userdata(
                    bytes,
                    userdata::ELEMENT_FLAGS,
                    &userdata::INTERVAL_OPEN.to_ne_bytes(),
                );
            });
        }
    });
    if last < highest {
        batch.nest(data::LIST_ELEMENT, |batch| {
            batch.number(element::FLAGS, element::INTERVAL_END);
            key(batch, last + 1);
        });
    }
}

/// The values of a key, each filled up to four bytes in a concatenation.
fn fields(batch: &mut Batch, values: &[Value], end: End, order: ByteOrder) {
    batch.payload(data::VALUE, |bytes| {
        let start = bytes.len();
        for value in values {
            bytes.resize(start + (bytes.len() - start).next_multiple_of(4), 0);
            write(bytes, value, end, order);
        }
        if values.len() > 1 {
            bytes.resize(start + (bytes.len() - start).next_multiple_of(4), 0);
        }
    });
}

/// What an element of a map gives.
fn given(batch: &mut Batch, datum: Option<&Datum>) {
    match datum {
        None => {}
        Some(Datum::Verdict(verdict)) => batch.nest(element::DATA, |batch| verdict_data(batch, verdict)),
        Some(Datum::Mark(number) | Datum::Priority(number)) => {
            batch.nest(element::DATA, |batch| {
                batch.attribute(data::VALUE, &number.to_ne_bytes());
            });
        }
    }
}

/// `NF_DROP`, `NF_ACCEPT`, `NFT_JUMP`, `NFT_GOTO`, `NFT_RETURN`.
const DROP: i32 = 0;
const ACCEPT: i32 = 1;
const JUMP: i32 = -3;
const GOTO: i32 = -4;
const RETURN: i32 = -5;

/// A verdict as data.
pub(super) fn verdict_data(batch: &mut Batch, verdict: &Verdict) {
    let code = match verdict {
        Verdict::Drop => DROP,
        Verdict::Accept => ACCEPT,
        Verdict::Jump(_) => JUMP,
        Verdict::Goto(_) => GOTO,
        Verdict::Return => RETURN,
    };
    batch.nest(data::VERDICT, |batch| {
        batch.number(data::VERDICT_CODE, code.cast_unsigned());
        if let Some(chain) = verdict.target() {
            batch.text(data::VERDICT_CHAIN, chain.as_str());
        }
    });
}

/// The verdict that data are.
pub(super) fn verdict_of(mut fields: Fields<'_>) -> Result<Verdict, Oddity> {
    let mut inside = fields.nested(data::VERDICT)?;
    fields.end()?;
    let verdict = match inside.number(data::VERDICT_CODE)?.cast_signed() {
        DROP => Verdict::Drop,
        ACCEPT => Verdict::Accept,
        JUMP => Verdict::Jump(inside.name(data::VERDICT_CHAIN)?),
        GOTO => Verdict::Goto(inside.name(data::VERDICT_CHAIN)?),
        RETURN => Verdict::Return,
        _ => return Err(Oddity::Value("verdict")),
    };
    inside.end()?;
    Ok(verdict)
}
