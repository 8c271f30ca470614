//! The ruleset model against the kernel: needs root and `nft`.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "functions that tests share; a failure there is a failure of the test"
)]

mod arbitrary;
mod cases;
mod custom;
mod difference;
mod in_pods;
mod indexed;
mod kernel;
mod let_go;
mod mixture;
mod networks;
mod overtaken;
mod reference;
mod sample;
mod verify;
