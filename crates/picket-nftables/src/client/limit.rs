//! A limit in attributes (`NFTA_LIMIT_*`).

use std::num::NonZeroU32;

use picket_linux::Batch;

use super::attributes::{Fields, Oddity};
use crate::model::Limit;

const RATE: u16 = 1;
/// The seconds in which the rate is.
const UNIT: u16 = 2;
const BURST: u16 = 3;
/// `NFT_LIMIT_PKTS`, and no `NFT_LIMIT_F_INV`.
const TYPE: (u16, u32) = (4, 0);
const FLAGS: (u16, u32) = (5, 0);
const PADDING: u16 = 6;

pub(super) fn write(batch: &mut Batch, limit: Limit) {
    batch.attribute(RATE, &u64::from(limit.per_second.get()).to_be_bytes());
    batch.attribute(UNIT, &1u64.to_be_bytes());
    batch.number(BURST, limit.burst.get());
    for (kind, number) in [TYPE, FLAGS] {
        batch.number(kind, number);
    }
}

pub(super) fn read(inside: &mut Fields<'_>) -> Result<Limit, Oddity> {
    let odd = Oddity::Value("limit");
    let rate = u32::try_from(inside.long(RATE)?).ok().and_then(NonZeroU32::new);
    let burst = NonZeroU32::new(inside.number(BURST)?);
    inside.pass(&[PADDING]);
    for (kind, number) in [TYPE, FLAGS] {
        inside.expect(kind, number)?;
    }
    match (rate, inside.long(UNIT)?, burst) {
        (Some(per_second), 1, Some(burst)) => Ok(Limit { per_second, burst }),
        _ => Err(odd),
    }
}
