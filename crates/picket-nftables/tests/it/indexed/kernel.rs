//! The layout in the kernel: loaded, listed, and with real packets.

mod cut;
mod guard;
pub(crate) mod hosts;
mod in_transit;
mod load;
mod mid_stream;
mod relay;
mod wire;
