//! VPP as a target of the agent: lists of its ACL plugin, or rules of its session layer.
//!
//! ```text
//!             ┌──────────────── loop of the agent ────────────────┐
//! Program ──▶ │ Renderer ──▶ Wanted ──▶ Mailbox (all that is new) │
//!             └───────────────────────────────┬───────────────────┘
//!                                             ▼
//!  interfaces, events ──▶ Worker (a thread for each target): place ──▶ plan ──▶ VPP
//!                                             │
//!                                             └──▶ VppStatus, Metrics
//! ```
//!
//! Each target has a thread and a connection of its own, which may wait for VPP as long as they like: whatever happens to
//! one, neither the loop nor another target notices. It is told what has changed of lists and rules, so that neither side looks
//! at all of them. After every connection everything is read back, and what is not as it should be is changed; what others have put
//! there stays.

mod acl;
mod claims;
mod file;
mod findings;
mod held;
mod left;
mod live;
mod loopback;
mod mailbox;
mod namespace;
mod place;
mod places;
mod render;
mod report;
mod restrictions;
mod rule;
mod session;
mod status;
mod told;
mod work;
mod worker;

#[cfg(test)]
mod counted;
#[cfg(test)]
mod faults;
#[cfg(test)]
mod followed;

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use picket_cluster::Event;
use picket_engine::{Delta, Program};
use picket_policy::ObjectRef;
use picket_source::Health;
use smol_str::SmolStr;

use crate::events::Events;
use crate::metrics::Metrics;
use crate::serve::Pulse;
use crate::status::{Finding, Shared};
use crate::{AgentError, UntilSynced};

pub use claims::Claims;
pub use live::{InstalledLists, InstalledRules, installed_lists, installed_rules};
pub use loopback::NatLoopback;
pub use rule::{NamespaceRule, Pattern, PodRule, RuleError, Template};
pub use status::{PendingPod, VppStatus};

use findings::Findings;
use loopback::Loopbacks;
use mailbox::Sender;
pub(crate) use render::{Known, Versions};
use render::{Renderer, Wanted};
use report::Report;
use worker::Worker;

/// What of VPP is enforced with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum VppTarget {
    /// Access control lists, for pods with an interface into VPP.
    Acl,
    /// Rules of the session layer, for pods whose sockets are VPP's own.
    Session,
}

impl VppTarget {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Acl => "vpp-acl",
            Self::Session => "vpp-session",
        }
    }
}

impl fmt::Display for VppTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What is to be enforced with VPP, and how pods are found there.
#[derive(Clone, Debug)]
pub struct VppSettings {
    /// What is enforced with.
    pub targets: BTreeSet<VppTarget>,
    /// The socket of its API.
    pub socket: PathBuf,
    /// Which interfaces are those of pods.
    pub pod_interfaces: PodRule,
    /// Which application namespaces are those of pods, where session rules are a target.
    pub pod_namespaces: Option<NamespaceRule>,
    /// How many session rules a table may have.
    pub most_session_rules: usize,
    /// Which interfaces connect the node with the rest of the world; without any, all that are no pod's.
    pub uplinks: Vec<Pattern>,
    /// The address that VPP gives packets of pods to themselves through a service.
    pub nat_loopback: NatLoopback,
    /// How often to read everything back, whether something has happened or not.
    pub refresh: Duration,
    /// How often to look for what VPP does not tell of.
    pub look: Duration,
}

/// The targets of VPP.
pub(crate) struct Targets {
    renderer: Renderer,
    loopbacks: Loopbacks,
    findings: Findings,
    /// Whether pods claim other interfaces than was enforced.
    has_claims: bool,
    settings: Arc<VppSettings>,
    shared: Shared,
    metrics: Metrics,
    /// Those that run in threads of their own.
    running: Vec<Sender>,
}

impl Targets {
    pub(crate) fn new(
        node: &SmolStr,
        settings: &VppSettings,
        shared: &Shared,
        metrics: &Metrics,
        events: &Events,
    ) -> Self {
        let mut status = shared.lock();
        for target in &settings.targets {
            status.vpp.insert(target.to_string(), VppStatus::default());
        }
        drop(status);
        Self {
            renderer: Renderer::new(node, settings),
            loopbacks: Loopbacks::new(settings.nat_loopback),
            findings: Findings::new(events),
            has_claims: false,
            settings: Arc::new(settings.clone()),
            shared: shared.clone(),
            metrics: metrics.clone(),
            running: Vec::new(),
        }
    }

    /// Has each enforced in a thread of its own, which ends with the process; until the cluster is known pods may do this.
    ///
    /// # Errors
    /// When there is no such thread to be had.
    pub(crate) fn start(&mut self, until_synced: UntilSynced) -> Result<Vec<(SmolStr, Pulse)>, AgentError> {
        let mut pulses = Vec::new();
        for &target in &self.settings.targets {
            let (sender, receiver) = mailbox::channel().map_err(AgentError::Start)?;
            let pulse = Pulse::new();
            let worker = self.worker(target);
            pulses.push((target.name().into(), pulse.clone()));
            let thread = thread::Builder::new().name(format!("picket-{target}"));
            thread
                .spawn(move || worker.run(&receiver, &pulse, until_synced))
                .map_err(AgentError::Start)?;
            self.running.push(sender);
        }
        Ok(pulses)
    }

    fn worker(&self, target: VppTarget) -> Worker {
        let report = Report::new(target, &self.shared, &self.metrics);
        Worker::new(target, &self.settings, report)
    }

    /// Events as these targets need them: nodes have the addresses of their translation.
    pub(crate) fn adapt(&mut self, events: Vec<Event>) -> Vec<Event> {
        self.has_claims |= self.renderer.learn(&events);
        self.loopbacks.adapt(events)
    }

    /// Learns what changed in the program.
    pub(crate) fn note(&mut self, delta: &Delta) {
        self.renderer.note(delta);
    }

    /// Lets what is wanted next be worked out from nothing.
    pub(crate) fn forget(&mut self) {
        self.renderer.forget();
    }

    /// Something changed that has to be enforced, and was heard of then.
    pub(crate) fn heard(&mut self, at: Instant, policies: &[ObjectRef]) {
        self.renderer.heard(at, policies);
    }

    /// Whether something else is to be enforced although the policies have not changed.
    pub(crate) fn is_due(&self) -> bool {
        self.has_claims
    }

    fn render(&mut self, program: &Program, known: &Known) -> Arc<Wanted> {
        self.has_claims = false;
        let wanted = self.renderer.render(program, known);
        self.findings.set(self.renderer.findings());
        wanted
    }

    /// Has the threads enforce the program.
    pub(crate) fn enforce(&mut self, program: &Program, known: &Known) {
        let wanted = self.render(program, known);
        for sender in &self.running {
            sender.send(Arc::clone(&wanted));
        }
    }

    /// Enforces the program here and now, whatever becomes of the other targets.
    ///
    /// # Errors
    /// What became of each that could not.
    pub(crate) fn finish(&mut self, program: &Program, known: &Known) -> Vec<String> {
        let wanted = self.render(program, known);
        let each = self.settings.targets.iter();
        let each = each.filter_map(|&target| {
            let done = self.worker(target).once(Arc::clone(&wanted));
            done.err().map(|why| format!("{target}: {why}"))
        });
        each.collect()
    }

    /// What of the policies these targets cannot enforce, and what of pods they do not believe.
    pub(crate) fn findings(&self) -> &[Finding] {
        self.findings.all()
    }

    /// What would be done to enforce the program, as text; and why that is not known.
    pub(crate) fn plan(&mut self, program: &Program, known: &Known) -> (String, Vec<String>) {
        let wanted = self.render(program, known);
        let (mut plan, mut failed) = (String::new(), Vec::new());
        for &target in &self.settings.targets {
            match self.worker(target).plan(Arc::clone(&wanted)) {
                Ok(text) => plan.push_str(&text),
                Err(why) => failed.push(format!("{target}: {why}")),
            }
        }
        (plan, failed)
    }
}

/// Removes what agents have put into VPP with each target, and nothing else: how many lists or rules that were.
///
/// # Errors
/// For each target why not everything could be removed.
pub fn clean_up_vpp(settings: &VppSettings) -> Vec<(VppTarget, Result<usize, String>)> {
    let shared = Shared::new("", Health::default());
    let metrics = Metrics::default();
    let each = settings.targets.iter();
    each.map(|&target| {
        let worker = Worker::new(target, settings, Report::new(target, &shared, &metrics));
        (target, worker.clean())
    })
    .collect()
}
