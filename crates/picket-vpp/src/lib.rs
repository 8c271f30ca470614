//! VPP as a target: what the policies mean, as access control lists of its ACL plugin and as rules of its session layer.

pub mod acl;
mod changes;
#[cfg(feature = "client")]
pub mod client;
pub mod combine;
mod digest;
#[cfg(feature = "fake")]
pub mod fake;
mod follow;
pub mod layer4;
pub mod lists;
pub mod loopback;
pub mod peers;
mod place;
pub mod proof;
pub mod rule;
pub mod session;
pub mod value;
mod work;
