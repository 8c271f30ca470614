//! The layout in the kernel: loaded, listed, and with real packets.

mod hosts;
mod load;
mod wire;
