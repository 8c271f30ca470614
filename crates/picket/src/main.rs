//! The `picket` command.

fn main() {}
