//! The table of the node: policies of the cluster network.

use std::sync::Arc;
use std::time::{Duration, Instant};

use picket_dataplane::demand::Demands;
use picket_engine::Program;
use picket_linux::{NetworkNamespace, Port};
use picket_nftables::client::{Client, Observed, Report, SyncError, Watch};
use picket_nftables::model::Table;
use picket_nftables::render::indexed::{self, IndexedError, Options};
use picket_nftables::verify::{self, VerifyError, verify};

use crate::AgentError;
use crate::error::HostError;

/// The most packets that a failed proof names.
const EXAMPLES: usize = 3;

/// The table of the node that the agent runs on.
pub(crate) struct Host {
    node: String,
    namespace: NetworkNamespace,
    client: Client,
    /// What the table has besides what decides.
    options: Options,
    /// The last table that the kernel took.
    table: Option<Arc<Table>>,
}

/// What making the table as it should be has done.
pub(crate) struct Made {
    pub(crate) report: Report,
    /// How long working the table out took.
    pub(crate) rendering: Duration,
    /// How long reading and writing it took.
    pub(crate) writing: Duration,
}

/// What the kernel's table means, compared with what the policies say.
pub(crate) struct Proof {
    pub(crate) outcome: Result<verify::Report, VerifyError>,
    pub(crate) took: Duration,
}

impl Host {
    /// Opens the rulesets of the network namespace that this thread is in.
    /// While it lives it `holds` the table against others, if wanted and if the kernel can.
    pub(crate) fn open(node: &str, holds: bool) -> picket_linux::Result<Self> {
        let namespace = NetworkNamespace::current()?;
        let client = Client::open(&namespace)?;
        Ok(Self {
            node: node.to_owned(),
            client: if holds { client.holding() } else { client },
            namespace,
            options: Options::default(),
            table: None,
        })
    }

    /// From now on its rules log denied packets to this group.
    pub(crate) fn log_denied(&mut self, group: u16) {
        self.options.log_denied = Some(group);
    }

    /// The name of the node.
    pub(crate) fn node(&self) -> &str {
        &self.node
    }

    /// Listens to what others do to the table.
    pub(crate) fn watch(&self) -> picket_linux::Result<Watch> {
        Watch::open(&self.namespace, &indexed::table_name())
    }

    /// By what changes of this host are known to whom listens.
    pub(crate) fn port(&self) -> Port {
        self.client.port()
    }

    /// The table in force, as far as the agent knows.
    pub(crate) fn table(&self) -> Option<&Arc<Table>> {
        self.table.as_ref()
    }

    /// The network namespace of the node.
    pub(crate) fn namespace(&self) -> &NetworkNamespace {
        &self.namespace
    }

    fn render(&self, program: &Program) -> Result<Table, IndexedError> {
        indexed::render_with(program, Some(&self.node), self.options)
    }

    /// Makes the table what the policies say.
    ///
    /// # Errors
    /// When it cannot; the rules that were in force still are.
    pub(crate) fn make(&mut self, program: &Program) -> Result<Made, HostError> {
        let began = Instant::now();
        let table = Arc::new(self.render(program)?);
        let rendering = began.elapsed();
        let report = self.client.sync(&table)?;
        self.table = Some(table);
        let writing = began.elapsed().saturating_sub(rendering);
        Ok(Made {
            report,
            rendering,
            writing,
        })
    }

    /// Forwards nothing new until there are policies, unless there is a table from before. Whether there was none.
    ///
    /// # Errors
    /// When the table cannot be read or written.
    pub(crate) fn close(&mut self) -> Result<bool, HostError> {
        // Whoever wrote it.
        let is_there = self.client.exists(&indexed::table_name());
        if is_there.map_err(SyncError::Read)? {
            return Ok(false);
        }
        let table = Arc::new(indexed::closed().map_err(IndexedError::from)?);
        self.client.sync(&table)?;
        self.table = Some(table);
        Ok(true)
    }

    /// Makes the table again what it last was.
    ///
    /// # Errors
    /// When it cannot be read or written.
    pub(crate) fn repair(&mut self) -> Result<Report, SyncError> {
        match &self.table {
            Some(table) => self.client.sync(table),
            None => Ok(Report::default()),
        }
    }

    /// Reads the table from the kernel and proves that it means what the policies say.
    ///
    /// # Errors
    /// When the kernel does not say what it has.
    pub(crate) fn prove(&mut self, program: &Program) -> picket_linux::Result<Proof> {
        let began = Instant::now();
        let (_, observed) = self.client.read(&indexed::table_name())?;
        let outcome = match &observed {
            Observed::Table(table) => {
                let demands = Demands::on_node(program, Some(&self.node));
                verify(table, &demands, "", EXAMPLES)
            }
            // What others have put there is no table of ours, whatever it means.
            Observed::Absent | Observed::Altered(_) => Ok(verify::Report {
                stopped: true,
                ..verify::Report::default()
            }),
        };
        Ok(Proof {
            outcome,
            took: began.elapsed(),
        })
    }

    /// What making the table would do, as nft commands; nothing when it is as it should be.
    ///
    /// # Errors
    /// When it cannot be worked out or the kernel does not say what it has.
    pub(crate) fn plan(&mut self, program: &Program) -> Result<String, HostError> {
        let table = self.render(program)?;
        let plan = self.client.plan(&table).map_err(SyncError::Read)?;
        Ok(picket_nftables::print::commands(table.name(), &plan))
    }
}

/// What removing everything of picket's has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CleanUp {
    /// There was nothing.
    Nothing,
    /// The table of the node is gone.
    Removed,
}

/// Removes what agents have put into the network namespace that this thread is in, and nothing else.
///
/// # Errors
/// When the kernel refuses.
pub fn clean_up() -> Result<CleanUp, AgentError> {
    let mut client = Client::open(&NetworkNamespace::current()?)?;
    let removed = client.remove(&indexed::table_name());
    Ok(match removed.map_err(HostError::Sync)? {
        true => CleanUp::Removed,
        false => CleanUp::Nothing,
    })
}
