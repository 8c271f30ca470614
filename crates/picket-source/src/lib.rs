//! Where objects come from: files, directories and standard input.

mod dns;
mod files;
mod load;
mod origin;
mod parallel;

pub use dns::read_hosts;
pub use files::{EXTENSIONS, SourceError, Text, read};
pub use load::{Loaded, load, load_texts};
pub use origin::{Files, Origin};
pub use picket_policy::Options;
