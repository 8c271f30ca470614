//! A table as what nft loads: text for `nft -f`, and libnftables JSON for `nft -j -f`.
//!
//! Both are one transaction that creates or replaces exactly the table: `add` makes sure that there is one to
//! `delete`. Equal tables with equal order print the same bytes.

mod command;
mod json;
mod text;

pub use command::commands;
pub use json::{json, value as json_value};
pub(crate) use text::FLAGS;
pub use text::{block, rule, text};
