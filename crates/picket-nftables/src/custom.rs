//! Custom-rule files of the documented layout: rules for every isolated pod, in a small part of nft's grammar.
//!
//! A file belongs to one direction and one family, as the flag says that names it
//! (`--custom-v4-ingress-rule-file` and so on). One line is one rule; empty lines and lines that begin with `#` say
//! nothing. `docs/nftables.md` has the grammar. Every rule is read into a typed one: no text of a file reaches nft.

mod line;
mod token;

use std::sync::Arc;

use picket_net::{Family, PortRange, Protocol};
use picket_policy::{
    Action, Block, Diagnostic, Direction, List, NamespaceScope, Networks, ObjectRef, Peer, PodSelector,
    Policy, PortMatch, Position, Selector, Severity, Side, Source, Tier,
};

use crate::model::{Comment, Match, Rule, Statement, Verdict};

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

/// One rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CustomRule {
    /// The line that it stands in, from 1.
    pub line: u32,
    /// What it does.
    pub action: Action,
    /// What it looks at, in the order written; the family first where nothing else says it.
    pub matches: Vec<Match>,
    /// The other ends that it is about.
    peers: Vec<Block>,
    /// The traffic that it is about; none when it is about no new connection.
    ports: List<PortMatch>,
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
                match line::read(line, direction, family) {
                    Ok(parts) => rules.push(parts.rule(number)),
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
            let verdict = match rule.action {
                Action::Accept => Verdict::Accept,
                Action::Deny | Action::Pass => Verdict::Drop,
            };
            let statements = rule.matches.iter().cloned().map(Statement::Match);
            Rule {
                statements: statements.collect(),
                ..Rule::when([], verdict)
            }
            .commented(Comment::of("Custom Rule"))
        })
    }

    /// Whether a rule may deny a protocol.
    pub fn may_deny(&self, protocol: Protocol) -> bool {
        self.rules.iter().any(|rule| {
            rule.action != Action::Accept
                && match &rule.ports {
                    List::Absent => true,
                    List::Items(items) => items.contains(&PortMatch::Protocol(protocol)),
                }
        })
    }

    /// The rules as a policy of the tier that is judged first.
    pub fn policy(&self) -> Policy {
        let rules = self
            .rules
            .iter()
            .zip(0..)
            .map(|(rule, index)| picket_policy::Rule {
                index,
                position: Position {
                    file: Arc::clone(&self.file),
                    line: rule.line,
                },
                action: rule.action,
                peers: List::Items(rule.peers.iter().cloned().map(Peer::Block).collect()),
                ports: rule.ports.clone(),
            });
        let side = Side {
            isolates: false,
            rules: rules.collect(),
        };
        let (ingress, egress) = match self.direction {
            Direction::Ingress => (side, Side::default()),
            Direction::Egress => (Side::default(), side),
        };
        let name = format!("{} {}", self.file, self.family);
        Policy {
            object: ObjectRef::new(KIND, "", &name),
            position: Position {
                file: Arc::clone(&self.file),
                line: 1,
            },
            tier: Tier::Custom,
            priority: u16::from(self.family == Family::Ipv6),
            networks: Networks::Cluster,
            subject: PodSelector {
                namespaces: NamespaceScope::Matching(Selector::everything()),
                pods: Selector::everything(),
            },
            ingress,
            egress,
        }
    }
}

/// What was read of a line.
#[derive(Clone, Debug, Default)]
struct Parts {
    matches: Vec<Match>,
    peers: Vec<Block>,
    protocols: Option<Vec<Protocol>>,
    ports: Option<(Option<Protocol>, Vec<PortRange>)>,
    /// Whether it is about packets that open a connection.
    new: bool,
    deny: bool,
}

impl Parts {
    fn rule(self, line: u32) -> CustomRule {
        let ports = match (self.protocols, self.ports) {
            _ if !self.new => List::Items(Vec::new()),
            (None, None) => List::Absent,
            (Some(protocols), None) => List::Items(protocols.into_iter().map(PortMatch::Protocol).collect()),
            (protocols, Some((transport, ranges))) => {
                let with_ports = Protocol::WITH_PORTS.into_iter().filter(|protocol| {
                    transport.is_none_or(|transport| transport == *protocol)
                        && protocols
                            .as_ref()
                            .is_none_or(|protocols| protocols.contains(protocol))
                });
                let items = with_ports
                    .flat_map(|protocol| ranges.iter().map(move |&range| PortMatch::Range(protocol, range)));
                List::Items(items.collect())
            }
        };
        CustomRule {
            line,
            action: if self.deny { Action::Deny } else { Action::Accept },
            matches: self.matches,
            peers: self.peers,
            ports,
        }
    }
}

#[cfg(test)]
mod tests;
