//! The steps of a rule: a register is loaded, changed and compared.

use picket_linux::Batch;

use super::bytes::{ByteOrder, End, is_of_host, write};
use super::container::Handle;
use super::uapi::data;
use crate::model::{Field, Relation, Value};

/// `NFT_REG_VERDICT`, the first register of 16 bytes, and the first of 4 bytes, which is a part of it.
pub(super) const VERDICT: u32 = 0;
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
pub(super) const TRANSPORT_HEADER: u32 = 2;

/// Where the steps of one rule are written.
pub(super) struct Expressions<'b>(pub(super) &'b mut Batch);

impl Expressions<'_> {
    /// A step by its name in the kernel.
    pub(super) fn expression(&mut self, name: &str, attributes: impl FnOnce(&mut Batch)) {
        self.0.nest(data::LIST_ELEMENT, |batch| {
            batch.text(1, name);
            batch.nest(2, attributes);
        });
    }

    /// Goes on when what was loaded is in a set, or gives what a map has for it.
    pub(super) fn look_up(&mut self, set: Handle<'_>, into: Option<u32>, relation: Relation) {
        self.expression("lookup", |batch| {
            batch.number(2, FIRST);
            if let Some(register) = into {
                batch.number(3, register);
            }
            batch.text(1, set.name);
            if let Some(id) = set.id {
                batch.number(4, id);
            }
            if relation == Relation::IsNot {
                batch.number(5, 1);
            }
        });
    }

    /// Loads a field; what is compared by size gets its highest byte first.
    pub(super) fn load(&mut self, field: Field, register: u32, order: ByteOrder) {
        match source(field) {
            Source::Meta(key) => self.load_meta(key, register),
            Source::ConnectionMark => self.expression("ct", |batch| {
                batch.number(2, CT_MARK);
                batch.number(1, register);
            }),
            Source::Payload(header, offset, length) => self.load_payload(header, offset, length, register),
        }
        if order == ByteOrder::Network && is_of_host(field.datatype()) {
            // `NFT_BYTEORDER_HTON`
            self.expression("byteorder", |batch| {
                batch.number(1, register);
                batch.number(2, register);
                batch.number(3, 1);
                batch.number(4, 4);
                batch.number(5, 4);
            });
        }
    }

    pub(super) fn load_meta(&mut self, key: u32, register: u32) {
        self.expression("meta", |batch| {
            batch.number(2, key);
            batch.number(1, register);
        });
    }

    pub(super) fn load_payload(&mut self, header: u32, offset: u32, length: usize, register: u32) {
        self.expression("payload", |batch| {
            batch.number(1, register);
            batch.number(2, header);
            batch.number(3, offset);
            batch.number(4, u32::try_from(length).unwrap_or(0));
        });
    }

    pub(super) fn compare_value(&mut self, operator: u32, value: &Value, bound: End, order: ByteOrder) {
        self.compare_bytes(operator, |bytes| write(bytes, value, bound, order));
    }

    pub(super) fn compare_bytes(&mut self, operator: u32, value: impl FnOnce(&mut Vec<u8>)) {
        self.expression("cmp", |batch| {
            batch.number(1, FIRST);
            batch.number(2, operator);
            batch.nest(3, |batch| batch.payload(data::VALUE, value));
        });
    }

    /// Keeps the bits of `mask` of what was loaded.
    pub(super) fn mask(&mut self, mask: &[u8]) {
        self.expression("bitwise", |batch| {
            batch.number(1, FIRST);
            batch.number(2, FIRST);
            batch.number(3, u32::try_from(mask.len()).unwrap_or(0));
            batch.nest(4, |batch| batch.attribute(data::VALUE, mask));
            batch.nest(5, |batch| {
                batch.payload(data::VALUE, |bytes| bytes.extend(mask.iter().map(|_| 0)));
            });
        });
    }
}

/// Where a field is loaded from.
pub(super) enum Source {
    Meta(u32),
    ConnectionMark,
    /// Header, offset and length.
    Payload(u32, u32, usize),
}

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
        Field::ConnectionMark => Source::ConnectionMark,
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
