//! From policies to a [`Table`](crate::model::Table): one module per layout.

pub mod documented;
pub mod indexed;
