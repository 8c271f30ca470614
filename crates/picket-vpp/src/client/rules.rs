//! Which session rules VPP has, and carrying out plans that give its tables others.

use std::collections::{BTreeMap, BTreeSet};

use picket_net::Prefix;
use smol_str::SmolStr;

use super::value::{Label, SessionAction, SessionRule, SessionScope, Transport};
use super::{Change, Error, Refusal, Vpp};
use crate::session::plan::{InstalledRule, Operation, Plan};
use crate::session::{self, Action};

/// A table of session rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RuleTable {
    /// That of the first FIB, for connections that arrive.
    Global,
    /// That of the namespace with this index, for connections that its applications begin.
    Local(u32),
}

/// The namespace that there always is, in the first FIB.
const DEFAULT_NAMESPACE: u32 = 0;

impl Vpp {
    /// The rules that allow or deny, by table.
    ///
    /// # Errors
    /// [`Error`].
    pub fn read_rules(&mut self) -> Result<BTreeMap<RuleTable, Vec<InstalledRule>>, Error> {
        let mut found: BTreeMap<RuleTable, Vec<InstalledRule>> = BTreeMap::new();
        for told in self.session_rules()? {
            let Some(rule) = installed(&told.rule) else {
                continue;
            };
            match told.rule.scope {
                SessionScope::Global => found.entry(RuleTable::Global).or_default().push(rule),
                SessionScope::Local | SessionScope::Both => {
                    for namespace in told.namespaces {
                        let table = RuleTable::Local(namespace);
                        found.entry(table).or_default().push(rule.clone());
                    }
                }
            }
        }
        Ok(found)
    }

    /// Carries out plans, step by step. Where VPP refuses something of a table no later step of that table is begun, so that it is
    /// left no more open than it was or will be. What was refused, by table.
    ///
    /// # Errors
    /// [`Error`]. Nobody knows then how far it came; it must be read again.
    pub fn carry_out_rules(
        &mut self,
        plans: &BTreeMap<RuleTable, Plan>,
    ) -> Result<Vec<(RuleTable, Refusal)>, Error> {
        let mut refusals: Vec<(RuleTable, Refusal)> = Vec::new();
        let mut stopped = BTreeSet::new();
        let steps = plans.values().map(Vec::len).max().unwrap_or_default();
        for step in 0..steps {
            let mut asked = Vec::new();
            for (&table, plan) in plans.iter().filter(|(table, _)| !stopped.contains(*table)) {
                let operations = plan.get(step).into_iter().flatten();
                asked.extend(operations.map(|operation| (table, operation, request(table, operation))));
            }
            let requests = asked
                .iter()
                .map(|(table, _, (change, rule))| (*change, namespace(*table), rule));
            let outcomes = self.change_session_rules(requests)?;
            for ((table, operation, _), outcome) in asked.iter().zip(outcomes) {
                let is_harmless = matches!(operation, Operation::DeleteIfOwn(_));
                if let Err(refusal) = outcome
                    && !is_harmless
                {
                    stopped.insert(*table);
                    refusals.push((*table, refusal));
                }
            }
        }
        Ok(refusals)
    }
}

/// The namespace by which a table is named.
fn namespace(table: RuleTable) -> u32 {
    match table {
        RuleTable::Global => DEFAULT_NAMESPACE,
        RuleTable::Local(namespace) => namespace,
    }
}

fn request(table: RuleTable, operation: &Operation) -> (Change, SessionRule) {
    let (change, rule) = match operation {
        Operation::Add(rule) => (Change::Add, told(table, rule, rule.tag().as_str())),
        Operation::Delete(rule) => (Change::Delete, told(table, rule, rule.tag().as_str())),
        Operation::DeleteNamed(rule, tag) => (Change::Delete, told(table, rule, tag)),
        Operation::DeleteIfOwn(rule) => {
            let told = told(table, rule, rule.tag().as_str());
            (Change::Delete, of_nobody(told))
        }
    };
    (change, rule)
}

fn told(table: RuleTable, rule: &session::SessionRule, tag: &str) -> SessionRule {
    SessionRule {
        transport: match rule.transport {
            session::Transport::Tcp => Transport::Tcp,
            session::Transport::Udp => Transport::Udp,
        },
        local: rule.local,
        remote: rule.remote,
        local_port: rule.local_port,
        remote_port: rule.remote_port,
        action: match rule.action {
            Action::Allow => SessionAction::Allow,
            Action::Drop => SessionAction::Deny,
        },
        scope: match table {
            RuleTable::Global => SessionScope::Global,
            RuleTable::Local(_) => SessionScope::Local,
        },
        // Names of rules are short and hold no zero.
        tag: Label::new(tag).unwrap_or_default(),
    }
}

/// The same name, and addresses and ports of no rule: where there is no rule of that name VPP looks for those.
fn of_nobody(rule: SessionRule) -> SessionRule {
    let nobody = Prefix::host(Prefix::all(rule.remote.family()).first());
    SessionRule {
        local: nobody,
        remote: nobody,
        local_port: 1,
        remote_port: 1,
        ..rule
    }
}

fn installed(told: &SessionRule) -> Option<InstalledRule> {
    Some(InstalledRule {
        rule: session::SessionRule {
            transport: match told.transport {
                Transport::Tcp => session::Transport::Tcp,
                Transport::Udp => session::Transport::Udp,
                Transport::Other(_) => return None,
            },
            local: told.local,
            remote: told.remote,
            local_port: told.local_port,
            remote_port: told.remote_port,
            action: match told.action {
                SessionAction::Allow => Action::Allow,
                SessionAction::Deny => Action::Drop,
                SessionAction::Defer | SessionAction::Redirect(_) => return None,
            },
        },
        tag: SmolStr::from(told.tag.to_string()),
    })
}
