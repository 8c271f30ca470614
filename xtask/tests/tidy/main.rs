//! What holds the architecture: rules about the code as text, which no compiler checks.
//!
//! Every rule collects all its findings before it fails, and says what to do about them.

#![expect(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot read the tree fails at once"
)]

mod dependencies;
mod generated;
mod layout;
mod licences;
mod markdown;
mod modules;
mod places;
mod purity;
mod safety;
mod timing;
mod tree;
mod waivers;

/// Fails with all findings, one a line, under the rule they break.
#[track_caller]
fn assert_none(rule: &str, findings: &[String]) {
    assert!(findings.is_empty(), "{rule}\n  {}\n", findings.join("\n  "));
}
