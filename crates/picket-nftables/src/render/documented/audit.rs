//! What passes over interfaces that only audited policies would isolate.
//!
//! There packets take the way of those that are judged, and what would be dropped at its end is counted and accepted.

use std::collections::BTreeSet;

use picket_policy::Direction;

use super::skeleton::interface_of;
use super::{Hashes, Options, Plan, PodView, PolicyOnPod, hash_of, log, name, title};
use crate::model::{
    Chain, Comment, Counter, End, InterfaceName, Match, Name, Rule, Statement, Value, Verdict,
};
use crate::render::drops;

/// The interfaces of a pod over which something is audited in one direction, and nothing isolates.
pub(super) struct Audited<'a> {
    view: &'a PodView,
    direction: Direction,
    interfaces: BTreeSet<&'a InterfaceName>,
}

fn chain_name(direction: Direction) -> Name {
    name(match direction {
        Direction::Ingress => "audit-ingress",
        Direction::Egress => "audit-egress",
    })
}

/// To where what would be denied is counted.
pub(super) fn goto(direction: Direction) -> End {
    End::Verdict(Verdict::Goto(chain_name(direction)))
}

impl<'a> Audited<'a> {
    pub(super) fn of(view: &'a PodView, direction: Direction, plan: Plan) -> Self {
        let over = |counts: &dyn Fn(&PolicyOnPod) -> bool| -> BTreeSet<&InterfaceName> {
            let policies = view.policies.iter().filter(|policy| counts(policy));
            policies.flat_map(|policy| &policy.interfaces).collect()
        };
        let isolated = over(&|policy| policy.isolates(direction));
        let mut interfaces = over(&|policy| policy.audits(direction));
        interfaces.retain(|interface| !isolated.contains(interface));
        if matches!(plan, Plan::Closed { .. }) {
            let clusters = view.interfaces.iter().filter(|interface| interface.cluster);
            for cluster in clusters {
                interfaces.remove(&cluster.name);
            }
        }
        Self {
            view,
            direction,
            interfaces,
        }
    }

    /// For packets over each of the interfaces.
    pub(super) fn rules(&self, end: End) -> Vec<Rule> {
        let rules = self
            .interfaces
            .iter()
            .map(|interface| Rule::of([self.over(interface)], end.clone()).commented(Comment::of("Audited")));
        rules.collect()
    }

    /// What comes before a rule that would deny.
    pub(super) fn instead_of(&self, rule: &Rule) -> Vec<Rule> {
        if !matches!(rule.end, End::Verdict(Verdict::Drop) | End::Reject) {
            return Vec::new();
        }
        let rules = self.interfaces.iter().map(|interface| {
            let statements = [self.over(interface)]
                .into_iter()
                .chain(rule.statements.iter().cloned());
            Rule::of(statements, goto(self.direction)).commented(Comment::of("Audited"))
        });
        rules.collect()
    }

    /// The chain that counts and accepts, with its counters; `None` where nothing is audited.
    pub(super) fn chain(&self, hashes: &Hashes<'_>, options: &Options) -> Option<(Vec<Counter>, Chain)> {
        if self.interfaces.is_empty() {
            return None;
        }
        let policies = self.view.policies.iter();
        let policies = policies.filter(|policy| options.count_drops && policy.audits(self.direction));
        let (mut counters, mut rules) = (Vec::new(), Vec::new());
        for policy in policies {
            let counter = drops::of_audited(&policy.object, self.direction);
            let own = policy
                .interfaces
                .iter()
                .filter(|own| self.interfaces.contains(own));
            rules.extend(own.map(|interface| {
                let count = Statement::Count(counter.name.clone());
                let comment = Comment::new(&title(&policy.object), hash_of(hashes, policy));
                Rule::of([self.over(interface), count], End::Next).commented(comment)
            }));
            counters.push(counter);
        }
        let logged = self.interfaces.iter().zip(options.log_denied.into_iter().cycle());
        rules.extend(logged.map(|(interface, group)| log::rule(self.direction, interface, group, true)));
        rules.push(Rule::when([], Verdict::Accept).commented(Comment::of("Audited")));
        let chain = Chain::regular(chain_name(self.direction))
            .commented(Comment::of("What audited policies would deny"))
            .with_rules(rules);
        Some((counters, chain))
    }

    fn over(&self, interface: &InterfaceName) -> Statement {
        let field = interface_of(self.direction);
        Match::is(field, Value::Interface(interface.clone())).into()
    }
}
