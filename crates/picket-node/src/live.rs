//! What the kernel has, for whoever wants it proved.

use picket_linux::NetworkNamespace;
use picket_nftables::client::{Client, Observed};
use picket_nftables::model::{Name, Table};

/// Why a table in the kernel is not known.
#[derive(Debug, thiserror::Error)]
pub enum LiveError {
    /// The kernel does not say what it has.
    #[error(transparent)]
    Kernel(#[from] picket_linux::Error),
    /// There is none of this name.
    #[error("there is no table `inet {0}` in this network namespace")]
    Absent(Name),
    /// It holds what picket does not write, so nobody can say what it means.
    #[error("others have changed table `inet {table}`: {}", what.join("; "))]
    Altered {
        /// Its name.
        table: Name,
        /// What is there, and where.
        what: Vec<String>,
    },
}

/// The table of this name in the network namespace that this thread is in.
///
/// # Errors
/// [`LiveError`].
pub fn installed_table(name: &Name) -> Result<Table, LiveError> {
    let mut client = Client::open(&NetworkNamespace::current()?)?;
    match client.read(name)?.1 {
        Observed::Table(table) => Ok(table),
        Observed::Absent => Err(LiveError::Absent(name.clone())),
        Observed::Altered(foreign) => Err(LiveError::Altered {
            table: name.clone(),
            what: foreign.iter().map(ToString::to_string).collect(),
        }),
    }
}
