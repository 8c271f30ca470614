//! From policies to a [`Table`](crate::model::Table): one module per layout.

pub mod documented;
pub mod drops;
pub mod indexed;
mod log;

use picket_dataplane::{BEGINNING, BEGINNING_MASK, State};

use crate::model::{Match, Relation};

/// TCP with flags with which no connection begins, and which belongs to none that is known. Connection tracking takes it for
/// the first packet of a new one, opened by whoever happened to send it.
fn mid_stream() -> [Match; 2] {
    let no_beginning = Match::TcpFlags {
        mask: BEGINNING_MASK,
        relation: Relation::IsNot,
        value: BEGINNING,
    };
    [no_beginning, Match::state([State::New])]
}
