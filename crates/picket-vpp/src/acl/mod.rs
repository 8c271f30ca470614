//! Access control lists of VPP's ACL plugin.

mod change;
mod global;
pub mod hold;
pub mod meaning;
mod model;
mod node;
mod parse;
pub mod plan;
mod print;
mod render;
mod renderer;
mod replace;
mod rules;
mod shortfall;
mod stricter;
pub mod verify;

pub use change::Change;
pub use model::{Acl, AclAction, AclRule, Acls, InterfaceLists, Role, Tag};
pub use node::{NodeAcls, PodLists};
pub use parse::{ParseError, parse};
pub use print::{json, text};
pub use render::{Options, render, render_lists};
pub use renderer::Renderer;
pub use shortfall::{Shortfalls, shortfalls};
