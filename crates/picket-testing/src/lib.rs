//! Builders, generators and readable cases shared by the tests of every crate.
