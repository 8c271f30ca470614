//! The ruleset model against the kernel: needs root and `nft`.

#![expect(
    clippy::expect_used,
    reason = "functions that tests share; a failure there is a failure of the test"
)]

mod kernel;
mod sample;
