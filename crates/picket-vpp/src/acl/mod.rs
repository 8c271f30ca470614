//! Access control lists of VPP's ACL plugin.

pub mod meaning;
mod model;
mod parse;
pub mod plan;
mod print;
mod render;
pub mod verify;

pub use model::{Acl, AclAction, AclRule, Acls, InterfaceLists, Role, Tag};
pub use parse::{ParseError, parse};
pub use print::{json, text};
pub use render::{Options, render, render_lists};
