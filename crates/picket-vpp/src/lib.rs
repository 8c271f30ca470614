//! VPP as a target: what the policies mean, as access control lists of its ACL plugin and as rules of its session layer.

#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "fake")]
pub mod fake;
