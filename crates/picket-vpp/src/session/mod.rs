//! Rules of VPP's session layer, for pods whose sockets are VPP's own.

pub mod meaning;
mod model;
mod print;
mod render;
pub mod verify;

pub use model::{Action, SessionRule, SessionRules, Tag, Transport};
pub use print::{json, text};
pub use render::{Options, TooMany, render, render_lists, shortfalls};
