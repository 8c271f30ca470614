//! One step: what VPP is told, and how long it took to find out.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use picket_vpp::acl::hold::Held;
use picket_vpp::acl::plan::{Installed, Operation, Plan, plan};
use picket_vpp::acl::{Acls, Change};
use picket_vpp::session;

/// A VPP that carries out every plan at once.
pub(crate) struct Vpp {
    held: Held,
    next: u32,
}

impl Vpp {
    /// One that has these lists.
    pub(crate) fn with(acls: &Acls) -> Self {
        let mut vpp = Self {
            held: Held::new(Installed::default()),
            next: 0,
        };
        vpp.add_interfaces(acls);
        let all = plan(vpp.held.installed(), acls);
        vpp.carry_out(&all);
        vpp
    }

    /// Whether it has an interface.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.held.installed().interfaces.contains_key(name)
    }

    /// Gives it the interfaces of these lists.
    pub(crate) fn add_interfaces(&mut self, acls: &Acls) {
        let mut installed = self.held.installed().clone();
        for name in acls.interfaces.keys() {
            installed.interfaces.entry(name.clone()).or_default();
        }
        self.held = Held::new(installed);
    }

    fn carry_out(&mut self, plan: &Plan) {
        let mut created = BTreeMap::new();
        for operation in plan.operations() {
            if let Operation::Create(acl) = operation {
                self.next += 1;
                created.insert(acl.tag.clone(), self.next);
            }
        }
        self.held.advance(plan, &created);
    }

    /// What the lists became by a change, for those interfaces that there are.
    pub(crate) fn follow(&mut self, acls: &Acls, change: &Change) -> Cost {
        let start = Instant::now();
        let plan = self.held.plan(acls, change.interfaces.keys());
        let took = start.elapsed();
        self.carry_out(&plan);
        (Sent::of(&plan), took)
    }
}

/// What goes over the socket.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sent {
    /// The rules of new lists.
    pub(crate) rules: usize,
    /// Messages, each of which has all workers wait.
    calls: usize,
    bytes: usize,
}

impl Sent {
    fn of(plan: &Plan) -> Self {
        let mut sent = Self::default();
        for operation in plan.operations() {
            sent.calls += 1;
            // A header for each, and what the API has.
            sent.bytes += 16
                + match operation {
                    Operation::Create(acl) | Operation::Replace { acl, .. } => {
                        sent.rules += acl.rules.len();
                        82 + 48 * acl.rules.len()
                    }
                    Operation::Set { input, output, .. } => 16 + 4 * (input.len() + output.len()),
                    Operation::Delete(_) => 14,
                };
        }
        sent
    }
}

/// What VPP is told so that it has the session rules after a change, each of which is a message, and how long that took to find
/// out.
pub(crate) fn follow_rules(change: &session::Change) -> Cost {
    let turns: Vec<_> = change.local.values().chain(change.global.values()).collect();
    let start = Instant::now();
    let plans: Vec<_> = turns.iter().map(|turn| turn.plan()).collect();
    let took = start.elapsed();
    let calls = plans.iter().flatten().map(Vec::len).sum();
    let sent = Sent {
        rules: calls,
        calls,
        bytes: calls * (16 + 128),
    };
    (sent, took)
}

/// What a step cost: what goes over the socket, and how long it took to find out.
pub(crate) type Cost = (Sent, Duration);

/// Prints the times of steps of lists, and of the same as session rules.
pub(crate) fn lines(what: &str, lists: &[Cost], rules: &[Cost]) {
    line(what, lists);
    line("  as session rules", rules);
}

/// Prints the times of steps that all send about the same.
fn line(what: &str, steps: &[Cost]) {
    let mut times: Vec<_> = steps.iter().map(|(_, took)| *took).collect();
    times.sort_unstable();
    let at = |percent: usize| times[(times.len() - 1) * percent / 100];
    let most = steps.iter().map(|(sent, _)| *sent).max_by_key(|sent| sent.rules);
    let sent = most.unwrap_or_default();
    let per_rule = match sent.rules {
        0 => String::new(),
        rules => {
            let rules = u32::try_from(rules).expect("not so many");
            format!(", {:.2?} each", at(50) / rules)
        }
    };
    println!(
        "  {what:<44} best {:>9.1?}  p50 {:>9.1?}  p99 {:>9.1?}  {:>6} rules{per_rule}; {} calls, {} bytes",
        at(0),
        at(50),
        at(99),
        sent.rules,
        sent.calls,
        sent.bytes
    );
}
