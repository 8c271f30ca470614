//! The binary API of VPP over its socket, without anything of VPP's own.
//!
//! What goes over the socket is written down once, in `message`; from there come the structs, their bytes, their names and
//! the CRCs by which VPP and we make sure that we mean the same. What VPP says is not trusted: a length, a count or a number
//! that cannot be is an error that names the message and the field. Every wait has an end.
//!
//! [`Connector::connect`] gives a [`Vpp`]; when it fails, [`Backoff`] says how long to wait before the next attempt, and
//! whoever waits is the caller.

mod apply;
mod backoff;
mod connection;
mod connector;
mod definition;
mod error;
mod field;
mod list;
mod message;
mod refusal;
mod request;
mod rules;
mod stream;
mod table;
#[cfg(test)]
mod tests;
mod value;
mod vpp;
mod wire;

pub use apply::{Interfaces, Reading};
pub use backoff::Backoff;
pub use connector::Connector;
pub use definition::Definition;
pub use error::{Error, Malformed, Problem};
pub use message::MESSAGES;
pub use refusal::{Refusal, Subject};
pub use request::Change;
pub use rules::{Place, RuleReading, RuleTable};
pub use stream::Frame;
pub use table::{Feature, Found, Incompatible};
pub use value::{
    Acl, AclAction, AclRule, Event, InstalledRule, Interface, InterfaceLists, Label, LinkState, Namespace,
    SessionAction, SessionRule, SessionScope, Transport, Version,
};
pub use vpp::{Outcomes, Vpp};
