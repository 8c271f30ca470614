//! The page of `picket matrix -o html` as people meet it: in a real Chromium, which these tests need (Debian package
//! `chromium`; `cargo xtask test` installs it).

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a test that cannot set itself up fails, as does one whose page lacks what it looks for"
)]

mod browser;
mod chromium;
