//! What is wanted of VPP, worked out of the program: the one place where something is rendered for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use picket_engine::{Delta, Program};
use picket_policy::ObjectRef;
use picket_vpp::acl::{self, Acls};
use picket_vpp::session::{self, Tables};
use smol_str::SmolStr;

use super::place::id;
use super::{VppSettings, VppTarget};
use crate::enforcer::in_force;
use crate::status::{Finding, Pods};

/// Up to which `resourceVersion` of each kind of objects something is known.
pub(crate) type Versions = BTreeMap<SmolStr, SmolStr>;

/// What VPP is to have: for one target by pods, as nobody knows here which interfaces there are.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    /// The lists of each pod, and of all that leads out of the node.
    pub(crate) acls: Arc<Acls>,
    /// The session rules of each pod's namespace, and of what arrives over the network.
    pub(crate) rules: Arc<Tables>,
    /// Of which pods those allow less than the policies, as there may be no more rules.
    pub(crate) narrower: Vec<String>,
    /// How many pods of the node policies restrict.
    pub(crate) pods: Pods,
    /// The policies because of which packets of the node's pods can be dropped.
    pub(crate) policies: Vec<String>,
    /// What is known of the cluster.
    pub(crate) versions: Versions,
    /// When the first change was heard of that is new in this.
    pub(crate) heard: Option<Instant>,
    /// The policies that have changed.
    pub(crate) changed: BTreeSet<ObjectRef>,
}

/// Works out what is wanted.
pub(crate) struct Renderer {
    node: SmolStr,
    targets: BTreeSet<VppTarget>,
    acls: Arc<Acls>,
    /// Follows the program, where session rules are wanted.
    sessions: session::Renderer,
    rules: Arc<Tables>,
    narrower: Vec<String>,
    findings: Vec<Finding>,
    /// Whether what was rendered is still what the program says.
    is_current: bool,
    heard: Option<Instant>,
    changed: BTreeSet<ObjectRef>,
}

impl Renderer {
    pub(crate) fn new(node: &SmolStr, settings: &VppSettings) -> Self {
        Self {
            node: node.clone(),
            targets: settings.targets.clone(),
            acls: Arc::default(),
            sessions: session::Renderer::new(
                Some(node),
                session::Options {
                    most_rules: settings.most_session_rules,
                },
            ),
            rules: Arc::default(),
            narrower: Vec::new(),
            findings: Vec::new(),
            is_current: false,
            heard: None,
            changed: BTreeSet::new(),
        }
    }

    /// Learns what changed in the program.
    pub(crate) fn note(&mut self, delta: &Delta) {
        self.is_current &= delta.is_empty();
        self.sessions.note(delta);
    }

    /// Lets the next be worked out from nothing.
    pub(crate) fn forget(&mut self) {
        self.is_current = false;
        self.sessions.forget();
        self.rules = Arc::default();
    }

    /// Something changed, and was heard of then.
    pub(crate) fn heard(&mut self, at: Instant, policies: &[ObjectRef]) {
        self.heard.get_or_insert(at);
        self.changed.extend(policies.iter().cloned());
    }

    /// What the program wants. All changes of it since the last time must have been noted.
    pub(crate) fn render(&mut self, program: &Program, versions: &Versions) -> Arc<Wanted> {
        if !self.is_current {
            if self.targets.contains(&VppTarget::Acl) {
                self.acls = Arc::new(acl::render(program, Some(&self.node), &acl::Options::default()));
            }
            if self.targets.contains(&VppTarget::Session) {
                self.render_rules(program);
            }
            self.is_current = true;
        }
        let (pods, policies) = in_force(program, &self.node);
        Arc::new(Wanted {
            acls: Arc::clone(&self.acls),
            rules: Arc::clone(&self.rules),
            narrower: self.narrower.clone(),
            pods,
            policies: policies.iter().map(ObjectRef::to_string).collect(),
            versions: versions.clone(),
            heard: self.heard.take(),
            changed: std::mem::take(&mut self.changed),
        })
    }

    fn render_rules(&mut self, program: &Program) {
        if !self.sessions.advance(program).is_empty() {
            self.rules = Arc::new(self.sessions.tables());
        }
        let missing = self.sessions.missing();
        let said = missing.iter().map(|missing| {
            format!(
                "{} ({}): its table has no room for {} rules, and what they would allow is denied",
                id(&missing.pod),
                missing.direction,
                missing.missing
            )
        });
        self.narrower = said.collect();
        let shortfalls = session::shortfalls(program, &missing);
        let findings = shortfalls.iter();
        self.findings = findings
            .map(|shortfall| Finding::new(&shortfall.policy, &shortfall.diagnostic()))
            .collect();
    }

    /// What of the policies cannot be enforced.
    pub(crate) fn findings(&self) -> &[Finding] {
        &self.findings
    }
}
