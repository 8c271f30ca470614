//! The ruleset model against the kernel: needs root and `nft`.

mod kernel;
mod sample;
