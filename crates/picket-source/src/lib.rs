//! Where objects come from: files, directories and standard input.

mod files;

pub use files::{EXTENSIONS, SourceError, Text, read};
