//! Tables that nobody else may change while their keeper lives, and that outlive it: the flags `owner` and `persist` of the
//! kernel (6.9).
//!
//! A table with an owner is changed through the owner's socket only, and flushing the ruleset passes it over. When the
//! socket closes, the table stays and belongs to nobody; the next keeper takes it.

use picket_linux::{Port, Reply};

use super::attributes::Fields;
use super::uapi::{message, table};

/// The flags of a held table.
pub(super) const HELD: u32 = table::OWNER_FLAG | table::PERSIST_FLAG;

/// What a transaction does about who may change the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hold {
    /// Nothing: everybody may, and a table that is made anew is so too.
    Leave,
    /// The table is held already, and so is what is made anew.
    Keep,
    /// It belongs to nobody, and is taken.
    Take,
    /// What is made anew is held, and goes with the socket.
    Briefly,
}

impl Hold {
    /// The flags of a table that is made anew or taken, where those of one that is held are `held`.
    pub(super) fn flags(self, held: u32) -> u32 {
        match self {
            Self::Leave => 0,
            Self::Keep | Self::Take => held,
            Self::Briefly => table::OWNER_FLAG,
        }
    }

    /// The same in the transactions that follow.
    pub(super) fn kept(self) -> Self {
        match self {
            Self::Take => Self::Keep,
            _ => self,
        }
    }
}

/// Whose a table is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Holder {
    /// Everybody's.
    All,
    /// Nobody's: its owner has gone.
    Nobody,
    /// That of the socket with this number.
    Socket(u32),
}

impl Holder {
    /// Whose the table is that these objects make.
    pub(super) fn of<'r>(objects: impl IntoIterator<Item = &'r Reply>) -> Self {
        let table = objects
            .into_iter()
            .find(|object| object.kind == message::NEWTABLE);
        let Some(table) = table else {
            return Self::All;
        };
        let mut fields = Fields::of(table.attributes().rest());
        let flags = fields.number_or_zero(table::FLAGS).unwrap_or_default();
        let owner = fields.number_or_zero(table::OWNER).unwrap_or_default();
        match flags & HELD {
            HELD | table::OWNER_FLAG => Self::Socket(owner),
            table::PERSIST_FLAG => Self::Nobody,
            _ => Self::All,
        }
    }

    /// Whether it is that of another socket than `own`.
    pub(super) fn is_another(self, own: Port) -> bool {
        matches!(self, Self::Socket(socket) if socket != own.0)
    }
}
