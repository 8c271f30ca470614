//! Security groups mean what the specification says, whoever works it out.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "functions that tests share; a failure there is a failure of the test"
)]

mod cases;
mod defects;
mod plan;
mod property;
