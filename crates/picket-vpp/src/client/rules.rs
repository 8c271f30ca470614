//! Which session rules VPP has, and carrying out plans that give its tables others.

use std::collections::{BTreeMap, BTreeSet};

use picket_net::{Family, Prefix};
use smol_str::SmolStr;

use super::value::{Label, SessionAction, SessionRule, SessionScope, Transport};
use super::{Change, Error, Refusal, Vpp};
use crate::session::plan::{InstalledRule, Operation, Plan, part};
use crate::session::{self, Action};

/// A table of session rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RuleTable {
    /// That of the first FIB, for connections that arrive.
    Global,
    /// That of the namespace with this index, for connections that its applications begin.
    Local(u32),
}

/// Whose rules a plan is about: the table, and what they have at this end.
pub type Place = (RuleTable, Prefix);

/// The namespace that there always is, in the first FIB.
const DEFAULT_NAMESPACE: u32 = 0;

/// What was read of the session layer of a VPP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RuleReading {
    /// The rules of each table that there is. Those that give connections to an application are there as if they allowed them:
    /// they are nobody's to deny, and none of ours. Without any table the session layer is off, or keeps no rules.
    pub tables: BTreeMap<RuleTable, Vec<InstalledRule>>,
    /// Rules that give connections to an application, which are not ours whatever VPP says they are called.
    pub redirecting: BTreeMap<RuleTable, BTreeSet<session::SessionRule>>,
    /// Namespaces in other FIBs than the first: what arrives for them another table judges than the global one.
    pub elsewhere: BTreeSet<u32>,
}

impl Vpp {
    /// The rules that decide something, by table.
    ///
    /// # Errors
    /// [`Error`].
    pub fn read_rules(&mut self) -> Result<RuleReading, Error> {
        let mut reading = RuleReading::default();
        // The older list says of each table one of its namespaces alone; that of the first FIB is listed first.
        let mut first: BTreeMap<Family, BTreeSet<u32>> = BTreeMap::new();
        for told in self.session_rules()? {
            let (rule, is_redirecting) = match installed(&told.rule) {
                Some((rule, is_redirecting)) => (Some(rule), is_redirecting),
                None => (None, false),
            };
            let namespaces: BTreeSet<u32> = told.namespaces.iter().copied().collect();
            let tables: Vec<_> = match told.rule.scope {
                SessionScope::Global => {
                    let family = told.rule.remote.family();
                    let first = first.entry(family).or_insert_with(|| namespaces.clone());
                    if *first != namespaces {
                        reading.elsewhere.extend(namespaces.difference(first));
                        continue;
                    }
                    vec![RuleTable::Global]
                }
                SessionScope::Local | SessionScope::Both => {
                    namespaces.into_iter().map(RuleTable::Local).collect()
                }
            };
            for table in tables {
                let rules = reading.tables.entry(table).or_default();
                rules.extend(rule.clone());
                let redirecting = rule.iter().filter(|_| is_redirecting);
                let redirecting: Vec<_> = redirecting.map(|rule| rule.rule).collect();
                if !redirecting.is_empty() {
                    reading.redirecting.entry(table).or_default().extend(redirecting);
                }
            }
        }
        Ok(reading)
    }

    /// Carries out plans, step by step. Where VPP refuses something of a [part](session::plan::Part) of a table no later step of that part is
    /// begun, so that it is left no more open than it was or will be; all others go on. What was refused, and where.
    ///
    /// # Errors
    /// [`Error`]. Nobody knows then how far it came; it must be read again.
    pub fn carry_out_rules(
        &mut self,
        plans: &BTreeMap<RuleTable, Plan>,
    ) -> Result<Vec<(Place, Refusal)>, Error> {
        let mut refusals = Vec::new();
        let mut stopped = BTreeSet::new();
        let steps = plans.values().map(Vec::len).max().unwrap_or_default();
        for step in 0..steps {
            let mut asked = Vec::new();
            for (&table, plan) in plans {
                let operations = plan.get(step).into_iter().flatten();
                let each = operations.map(|operation| ((table, part(operation.rule())), operation));
                let each = each.filter(|(part, _)| !stopped.contains(part));
                asked.extend(each.map(|(part, operation)| (part, request(table, operation))));
            }
            let requests = asked
                .iter()
                .map(|((table, _), (change, rule))| (*change, namespace(*table), rule));
            let outcomes = self.change_session_rules(requests)?;
            for ((part, _), outcome) in asked.iter().zip(outcomes) {
                if let Err(refusal) = outcome {
                    stopped.insert(*part);
                    let (table, (_, end)) = *part;
                    refusals.push(((table, end), refusal));
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

/// A rule that decides something, and whether it gives connections to an application.
fn installed(told: &SessionRule) -> Option<(InstalledRule, bool)> {
    let (action, is_redirecting) = match told.action {
        SessionAction::Allow => (Action::Allow, false),
        SessionAction::Deny => (Action::Drop, false),
        SessionAction::Redirect(_) => (Action::Allow, true),
        SessionAction::Defer => return None,
    };
    let rule = InstalledRule::new(
        session::SessionRule {
            transport: match told.transport {
                Transport::Tcp => session::Transport::Tcp,
                Transport::Udp => session::Transport::Udp,
                Transport::Other(_) => return None,
            },
            local: told.local,
            remote: told.remote,
            local_port: told.local_port,
            remote_port: told.remote_port,
            action,
        },
        SmolStr::from(told.tag.to_string()),
    );
    Some((rule, is_redirecting))
}
