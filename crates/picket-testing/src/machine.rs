//! The virtual machine with the kernel of Debian, in which `cargo xtask test` runs what needs more of a kernel.

use std::env;

/// What the machine has in its environment, and nothing else.
pub const VARIABLE: &str = "PICKET_TEST_MACHINE";

/// Whether this is it: what is left in its kernel goes with it.
#[must_use]
pub fn is_here() -> bool {
    env::var_os(VARIABLE).is_some()
}
