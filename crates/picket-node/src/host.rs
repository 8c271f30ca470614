//! The table of the node: policies of the cluster network.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use picket_dataplane::Plan;
use picket_dataplane::demand::Demands;
use picket_engine::{Delta, Program};
use picket_linux::{NetworkNamespace, Port};
use picket_nftables::client::{Client, Observed, Report, SyncError, Watch};
use picket_nftables::diff::Operation;
use picket_nftables::model::{InterfaceName, Table};
use picket_nftables::render::indexed::{
    self, Guard, IndexedError, Options, Renderer, Step, closed, until_known, with_uplinks,
};
use picket_nftables::verify::{self, VerifyError, verify_while};

use crate::error::HostError;
use crate::{AgentError, Settings};

/// The most packets that a failed proof names.
const EXAMPLES: usize = 3;

/// The table of the node that the agent runs on.
pub(crate) struct Host {
    node: String,
    namespace: NetworkNamespace,
    client: Client,
    renderer: Renderer,
    guard: Guard,
    /// What is to be there until the policies are known.
    interim: Option<Arc<Table>>,
}

/// What making the table as it should be has done.
pub(crate) struct Made {
    pub(crate) report: Report,
    pub(crate) change: Change,
    /// How long working the table out took.
    pub(crate) rendering: Duration,
    /// How long reading and writing it took.
    pub(crate) writing: Duration,
}

/// What an agent finds when it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// No rules, or none that say which pods they know.
    Nothing,
    /// The rules of another, who knew the pods that there were then.
    Rules,
}

impl Made {
    fn of(report: Report, change: Change, rendering: Duration, began: Instant) -> Self {
        Self {
            report,
            change,
            rendering,
            writing: began.elapsed().saturating_sub(rendering),
        }
    }
}

/// From the table that was in force to the one that is.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    /// All of it.
    Whole(Arc<Table>),
    /// What was changed.
    Next(Arc<Plan<Operation>>),
}

impl Change {
    /// Whether the table is what it was. All of it may be what the kernel had already; connections may be older than that.
    pub(crate) fn is_nothing(&self) -> bool {
        matches!(self, Self::Next(plan) if plan.is_empty())
    }
}

/// What the kernel's table means, compared with what the policies say.
pub(crate) struct Proof {
    pub(crate) outcome: Result<verify::Report, VerifyError>,
    pub(crate) took: Duration,
}

/// What the kernel has, and what it is to be held against besides the policies.
pub(crate) struct Observation {
    began: Instant,
    observed: Observed,
    node: String,
    guard: Guard,
}

impl Observation {
    /// Proves that it means what the policies say, for as long as it is to.
    pub(crate) fn prove(&self, program: &Program, goes_on: &dyn Fn() -> bool) -> Proof {
        let outcome = match &self.observed {
            Observed::Table(table) => {
                let demands = Demands::on_node(program, Some(&self.node));
                let uplinks = self.guard.uplinks.iter().map(|name| name.as_str().into());
                let demands = match self.guard.anti_spoof {
                    true => demands.against_spoofing(uplinks.collect()),
                    false => demands,
                };
                verify_while(table, &demands, "", EXAMPLES, goes_on)
            }
            // What others have put there is no table of ours, whatever it means.
            Observed::Absent | Observed::Altered(_) => Ok(verify::Report {
                stopped: true,
                ..verify::Report::default()
            }),
        };
        Proof {
            outcome,
            took: self.began.elapsed(),
        }
    }
}

impl Host {
    /// Opens the rulesets of the network namespace that this thread is in.
    /// While it lives it holds the table against others, if wanted and if the kernel can.
    pub(crate) fn open(settings: &Settings) -> picket_linux::Result<Self> {
        let namespace = NetworkNamespace::current()?;
        let client = Client::open(&namespace)?
            .in_portions_of(settings.portion)
            .patient();
        let guard = Guard {
            anti_spoof: settings.anti_spoof,
            ..Guard::default()
        };
        Ok(Self {
            node: settings.node.to_string(),
            client: if settings.hold { client.holding() } else { client },
            renderer: Renderer::new(
                Some(&settings.node),
                Options {
                    log_denied: None,
                    guard: Some(guard.clone()),
                },
            ),
            namespace,
            guard,
            interim: None,
        })
    }

    /// From now on its rules log denied packets to this group.
    pub(crate) fn log_denied(&mut self, group: u16) {
        self.renderer.log_denied(group);
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

    /// Whether there is a table now, whoever has made it, or nobody can tell.
    pub(crate) fn exists(&mut self) -> bool {
        self.client.exists(&indexed::table_name()).unwrap_or(true)
    }

    /// The table that is to be there, as far as that is known.
    pub(crate) fn table(&self) -> Option<&Arc<Table>> {
        self.client.table()
    }

    /// Learns what changed in the program.
    pub(crate) fn note(&mut self, delta: &Delta) {
        self.renderer.note(delta);
    }

    /// Lets the next table be worked out from nothing, and what the kernel has be read.
    pub(crate) fn forget(&mut self) {
        self.renderer.forget();
        self.client.forget();
    }

    /// The network namespace of the node.
    pub(crate) fn namespace(&self) -> &NetworkNamespace {
        &self.namespace
    }

    /// Makes the table what the policies say. Every change of the program since the last time must have been noted.
    ///
    /// # Errors
    /// When it cannot; the rules that were in force still are.
    pub(crate) fn make(&mut self, program: &Program) -> Result<Made, HostError> {
        let made = self.step(program);
        match made {
            Ok(_) => self.interim = None,
            // What the kernel has is not what the renderer goes on from.
            Err(_) => self.renderer.forget(),
        }
        made
    }

    fn step(&mut self, program: &Program) -> Result<Made, HostError> {
        let began = Instant::now();
        let (table, rendering) = match self.renderer.step(program)? {
            Step::Whole(table) => (table, began.elapsed()),
            Step::Next(plan) => {
                let rendering = began.elapsed();
                if let Some(report) = self.client.advance(&plan)? {
                    let change = Change::Next(Arc::new(plan));
                    return Ok(Made::of(report, change, rendering, began));
                }
                (self.renderer.whole(program)?, began.elapsed())
            }
        };
        let table = Arc::new(table);
        let report = self.client.sync(&table)?;
        Ok(Made::of(report, Change::Whole(table), rendering, began))
    }

    /// Forwards nothing new from or to pods that the table does not know until there are policies, and where there is no
    /// table that knows any nothing new at all.
    ///
    /// # Errors
    /// When the table cannot be read or written.
    pub(crate) fn close(&mut self) -> Result<Found, HostError> {
        let (_, observed) = self
            .client
            .read(&indexed::table_name())
            .map_err(SyncError::Read)?;
        let from_before = match &observed {
            Observed::Table(table) => until_known(table, &self.guard).map_err(IndexedError::from)?,
            Observed::Absent | Observed::Altered(_) => None,
        };
        let (found, table) = match from_before {
            Some(table) => (Found::Rules, table),
            None => (Found::Nothing, closed(&self.guard).map_err(IndexedError::from)?),
        };
        let table = self.interim.insert(Arc::new(table));
        let report = self.client.sync(table)?;
        for foreign in &report.foreign {
            tracing::warn!(%foreign, "others had put something into the table, which is gone");
        }
        Ok(found)
    }

    /// From now on these interfaces lead to others than pods of this node.
    ///
    /// # Errors
    /// When the kernel cannot be told.
    pub(crate) fn reroute(&mut self, uplinks: BTreeSet<InterfaceName>) -> Result<(), HostError> {
        self.guard.uplinks.clone_from(&uplinks);
        self.renderer.reroute(uplinks);
        let Some(table) = self.client.table().or(self.interim.as_ref()) else {
            return Ok(());
        };
        let table = Arc::new(with_uplinks(table, &self.guard).map_err(IndexedError::from)?);
        if let Some(interim) = &mut self.interim {
            interim.clone_from(&table);
        }
        let synced = self.client.sync(&table);
        if synced.is_err() {
            // What the kernel has is not what the renderer goes on from.
            self.renderer.forget();
        }
        synced?;
        Ok(())
    }

    /// Makes the table again what it last was.
    ///
    /// # Errors
    /// When it cannot be read or written.
    pub(crate) fn repair(&mut self) -> Result<Report, SyncError> {
        match (self.client.advance(&Plan::from_iter([]))?, &self.interim) {
            (Some(report), _) => Ok(report),
            (None, Some(table)) => self.client.sync(table),
            (None, None) => Ok(Report::default()),
        }
    }

    /// The change since which there is something for [`Host::calm`] to do ([`Client::changing`]).
    pub(crate) fn changing(&self) -> Option<u64> {
        self.client.changing()
    }

    /// Ends what keeps packets from being judged by two tables, when none is on its way any more ([`Client::calm`]).
    ///
    /// # Errors
    /// When the table cannot be written.
    pub(crate) fn calm(&mut self) -> Result<Report, SyncError> {
        self.client.calm()
    }

    /// Reads the table from the kernel, to prove that it means what the policies say.
    ///
    /// # Errors
    /// When the kernel does not say what it has.
    pub(crate) fn observe(&mut self) -> picket_linux::Result<Observation> {
        let began = Instant::now();
        let (_, observed) = self.client.read(&indexed::table_name())?;
        Ok(Observation {
            began,
            observed,
            node: self.node.clone(),
            guard: self.guard.clone(),
        })
    }

    /// What making the table would do, as nft commands; nothing when it is as it should be.
    ///
    /// # Errors
    /// When it cannot be worked out or the kernel does not say what it has.
    pub(crate) fn plan(&mut self, program: &Program) -> Result<String, HostError> {
        let table = self.renderer.whole(program)?;
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
