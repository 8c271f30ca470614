//! VPP's lists and rules against the reference, and against what others made of the same.

mod acl;
mod cases;
mod journey;
mod session;
