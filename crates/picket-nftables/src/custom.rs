//! Custom-rule files of the documented layout: rules for every isolated pod, in a small part of nft's grammar.
//!
//! A file belongs to one direction and one family, as the flag says that names it
//! (`--custom-v4-ingress-rule-file` and so on). One line is one rule; empty lines and lines that begin with `#` say
//! nothing. `docs/nftables.md` has the grammar. Every rule is read into a typed one: no text of a file reaches nft.

mod judged;
mod line;
mod policy;
mod token;
mod value;

use std::collections::BTreeSet;
use std::sync::Arc;

use picket_net::{AddressSet, Family, Protocol};
use picket_policy::{Action, Block, Diagnostic, Direction, List, PortMatch, Severity, Source};

use crate::model::{Comment, Counter, End, InterfaceName, Relation, Rule, Statement, Verdict};

pub use judged::{Unjudged, check};
pub use policy::add;

/// What objects of custom-rule files are called as the cause of a verdict.
pub const KIND: &str = "CustomRules";

/// The rules of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomRules {
    /// The direction that they are for.
    pub direction: Direction,
    /// The family that they are for.
    pub family: Family,
    /// The file, as given.
    pub file: Arc<str>,
    /// The rules, in the order written.
    pub rules: Vec<CustomRule>,
}

/// The directions, ingress first, in which rules look at the addresses of the pod itself.
pub fn own_addresses(files: &[CustomRules]) -> [bool; 2] {
    Direction::BOTH.map(|direction| {
        let mut files = files.iter().filter(|file| file.direction == direction);
        files.any(|file| file.rules.iter().any(|rule| rule.own.addresses.is_some()))
    })
}

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomRule {
    /// The line that it stands in, from 1.
    pub line: u32,
    /// What becomes of packets that match.
    pub end: End,
    /// What it looks at and counts, in the order written; the family first where nothing else says it.
    pub statements: Vec<Statement>,
    /// The interfaces and addresses of a pod that it is about.
    own: Own,
    /// The other ends that it is about.
    peers: Vec<Block>,
    /// The traffic that it is about; none when it is about no new connection.
    ports: List<PortMatch>,
}

impl CustomRule {
    fn action(&self) -> Action {
        if self.end == End::Verdict(Verdict::Accept) {
            Action::Accept
        } else {
            Action::Deny
        }
    }
}

/// The own ends that a rule is about: every one, unless it looks at its interface or address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Own {
    interfaces: Option<(Relation, BTreeSet<InterfaceName>)>,
    addresses: Option<AddressSet>,
}

impl CustomRules {
    /// Reads a file.
    ///
    /// # Errors
    /// What is wrong with each line that is no rule: then none of the file counts.
    pub fn read(source: &Source, direction: Direction, family: Family) -> Result<Self, Vec<Diagnostic>> {
        let (mut rules, mut problems) = (Vec::new(), Vec::new());
        let mut start = 0;
        for (line, number) in source.text().split_inclusive('\n').zip(1..) {
            let text = line.trim();
            if !text.is_empty() && !text.starts_with('#') {
                match line::read(line, number, direction, family) {
                    Ok(rule) => rules.push(rule),
                    Err(line::Refusal { range, message }) => {
                        let span = source.span(start + range.start..start + range.end);
                        let problem =
                            Diagnostic::new(picket_dataplane::codes::CUSTOM_RULE, Severity::Error, message);
                        problems.push(problem.mark(span, "").note("no rule of the file is used"));
                    }
                }
            }
            start += line.len();
        }
        if let Some(rule) = rules.get(usize::from(u16::MAX)) {
            let message = format!(
                "a file has at most {} rules, and line {} has one more",
                u16::MAX,
                rule.line
            );
            problems.push(Diagnostic::new(
                picket_dataplane::codes::CUSTOM_RULE,
                Severity::Error,
                message,
            ));
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        Ok(Self {
            direction,
            family,
            file: Arc::clone(source.file()),
            rules,
        })
    }

    /// The rules for the common chain.
    pub fn rendered(&self) -> impl Iterator<Item = Rule> + '_ {
        self.rules.iter().map(|rule| {
            Rule::of(rule.statements.iter().cloned(), rule.end.clone()).commented(Comment::of("Custom Rule"))
        })
    }

    /// The counters of its rules.
    pub fn counters(&self) -> impl Iterator<Item = Counter> + '_ {
        let statements = self.rules.iter().flat_map(|rule| &rule.statements);
        statements.filter_map(|statement| match statement {
            Statement::Count(name) => Some(Counter {
                name: name.clone(),
                comment: Some(Comment::of("Custom Rule")),
            }),
            Statement::Match(_) | Statement::Set(..) | Statement::Log(_) | Statement::Limit(_) => None,
        })
    }

    /// Whether a rule rejects: whoever is denied by it hears so.
    pub fn rejects(&self) -> bool {
        self.rules.iter().any(|rule| rule.end == End::Reject)
    }

    /// Whether a rule may deny a protocol.
    pub fn may_deny(&self, protocol: Protocol) -> bool {
        self.rules.iter().any(|rule| {
            rule.action() != Action::Accept
                && match &rule.ports {
                    List::Absent => true,
                    List::Items(items) => items.contains(&PortMatch::Protocol(protocol)),
                }
        })
    }
}

#[cfg(test)]
mod tests;
