//! A VPP for tests.
