//! Rules of VPP's session layer, for pods whose sockets are VPP's own.

mod change;
pub mod meaning;
mod model;
mod node;
pub mod plan;
mod print;
mod render;
mod renderer;
mod table;
mod tables;
pub mod verify;

pub use change::{Change, Turn};
pub use model::{Action, SessionRule, SessionRules, Tag, Transport};
pub use node::NodeRules;
pub use print::{json, text};
pub use render::{Options, TooMany, render, render_lists, shortfalls};
pub use renderer::Renderer;
pub use tables::Tables;
