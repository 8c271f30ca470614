//! What nft and the kernel make of a printed table.

use std::io::Write;
use std::process::{Command, Stdio};

use picket_nftables::print;

use crate::sample;

/// Runs `script` with a shell in a network namespace of its own, `input` on its standard input; what it prints.
pub(crate) fn in_namespace(script: &str, input: &str) -> String {
    let mut child = Command::new("unshare")
        .args(["--net", "sh", "-ec", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("unshare runs as root");
    child
        .stdin
        .take()
        .expect("a pipe")
        .write_all(input.as_bytes())
        .expect("the shell reads");
    let output = child.wait_with_output().expect("the shell ends");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}\nwith this input:\n{input}");
    String::from_utf8(output.stdout).expect("nft prints UTF-8")
}

#[test]
fn text_and_json_load_and_mean_the_same() {
    let table = sample::table();
    let from_text = in_namespace(
        "nft -f -; nft list table inet picket-sample",
        &print::text(&table),
    );
    let from_json = in_namespace(
        "nft -j -f -; nft list table inet picket-sample",
        &print::json(&table),
    );
    // nft 1.0.6 reads no comments of tables and chains from JSON.
    let without_comments = |text: &str| -> String {
        let lines = text
            .lines()
            .filter(|line| !line.trim_start().starts_with("comment "));
        lines.map(|line| format!("{line}\n")).collect()
    };
    assert_eq!(without_comments(&from_json), without_comments(&from_text));
}

#[test]
fn loading_twice_replaces_the_table() {
    let text = print::text(&sample::table());
    let once = in_namespace("nft -f -; nft list table inet picket-sample", &text);
    let twice = in_namespace(
        "table=$(cat); printf '%s' \"$table\" | nft -f -; printf '%s' \"$table\" | nft -f -; \
         nft list table inet picket-sample",
        &text,
    );
    assert_eq!(once, twice);
}
