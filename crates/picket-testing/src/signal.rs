//! Signals for processes that tests have started.

use std::process::Command;

/// Sends a process a signal, by its name as in `STOP`, `CONT` or `TERM`.
pub fn signal(process: u32, name: &str) {
    let sent = Command::new("kill")
        .args(["-s", name, &process.to_string()])
        .status();
    assert!(sent.unwrap().success(), "{name}");
}
