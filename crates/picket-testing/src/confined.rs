//! Where the kernel refuses what is large: to a process that is root of a user namespace alone.

use std::env;
use std::process::Command;

use picket_net::Family;

/// Says that a test runs where it is to be.
const INSIDE: &str = "PICKET_TEST_INSIDE";

/// Runs a test, by its path with that of its crate, in a process of its own that is root of a user namespace alone, in a new network
/// namespace of it. There nobody may give a socket more room than everybody has, so that the kernel refuses every transaction above some
/// 200 kB (`EMSGSIZE`).
pub fn where_sockets_are_small(test: &str, body: impl FnOnce()) {
    if env::var_os(INSIDE).is_some() {
        return body();
    }
    let (_, name) = test.split_once("::").unwrap();
    let mut process = Command::new("unshare");
    process.args(["--user", "--map-root-user", "--net", "--mount"]);
    process.args(["sh", "-c", "ip link set lo up && exec \"$0\" \"$@\""]);
    process.arg(env::current_exe().unwrap()).args(["--exact", name]);
    let ran = process.env(INSIDE, "yes").output().unwrap();
    let told = String::from_utf8_lossy(&ran.stdout);
    let failed = String::from_utf8_lossy(&ran.stderr);
    assert!(
        ran.status.success() && told.contains("1 passed"),
        "{told}\n{failed}"
    );
}

/// A block of addresses, and blocks in it: a rule with the first but for the others is more than [such a
/// socket](where_sockets_are_small) takes.
pub fn many_blocks() -> (&'static str, Vec<String>) {
    many_blocks_of(Family::Ipv4)
}

/// The same of a family.
pub fn many_blocks_of(family: Family) -> (&'static str, Vec<String>) {
    let numbers = 0..7_000;
    match family {
        Family::Ipv4 => {
            let block = |number: usize| format!("30.{}.{}.0/25", number / 256, number % 256);
            ("30.0.0.0/8", numbers.map(block).collect())
        }
        Family::Ipv6 => {
            let block = |number: usize| format!("fd30:{:x}::/49", number + 1);
            ("fd30::/16", numbers.map(block).collect())
        }
    }
}
