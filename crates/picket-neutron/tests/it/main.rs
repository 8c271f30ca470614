//! Security groups mean what the specification says, whoever works it out.

mod cases;
mod property;
