//! The contract of an enforcement target: what it says about a [`Packet`] ([`Meaning`]), what it cannot say
//! ([`Capability`]), and how it gets from what it has to what it should have ([`Objects`], [`Plan`]). What the policies
//! demand of any target, packet by packet, is in [`demand`].

mod capability;
pub mod codes;
pub mod demand;
mod packet;
mod plan;

pub use capability::{Capability, Denial, EstablishedConnections, Shortfall};
pub use packet::{BEGINNING, BEGINNING_MASK, Crossing, Meaning, Outcome, Packet, State};
pub use plan::{Objects, Plan};
