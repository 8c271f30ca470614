//! Custom rules as policies of the tier that is judged first.

use std::sync::Arc;

use picket_cluster::{Pod, Snapshot};
use picket_policy::{
    Direction, Labels, List, Mode, NamespaceScope, Networks, ObjectRef, Peer, PodSelector, Policy, Position,
    Requirement, Selector, Side, Tier,
};

use super::{CustomRule, CustomRules, KIND, Own};
use crate::model::Relation;

/// How the keys of marks begin; no label that Kubernetes takes has a space.
const MARK: &str = "custom rules of ";

/// Adds rules to a cluster as one network sees it: `interface` is every pod's interface there, unless the pod says
/// which it is. What was added before goes.
///
/// A rule that looks at the pod's own interface or address is about some pods only: these are marked with a label
/// that nobody can have written.
pub fn add(rules: &[CustomRules], snapshot: &mut Snapshot, interface: &str) {
    snapshot.policies.retain(|_, policy| policy.tier != Tier::Custom);
    for policy in rules.iter().flat_map(CustomRules::policies) {
        snapshot.policies.insert(policy.object.clone(), Arc::new(policy));
    }
    let groups: Vec<_> = rules
        .iter()
        .flat_map(|file| file.groups().map(move |group| (file, group)))
        .filter(|(_, group)| *group.own != Own::default())
        .collect();
    for pod in snapshot.pods.values_mut() {
        let is_mark = |key: &str| key.starts_with(MARK);
        if groups.is_empty() && !pod.labels.iter().any(|(key, _)| is_mark(key)) {
            continue;
        }
        let written = pod.labels.iter().filter(|(key, _)| !is_mark(key));
        let written = written.map(|(key, value)| (key.clone(), value.clone()));
        let marks = groups
            .iter()
            .filter(|(file, group)| group.own.includes(pod, file, interface))
            .map(|(file, group)| (file.mark(group).into(), "".into()));
        let labels: Labels = written.chain(marks).collect();
        Arc::make_mut(pod).labels = labels;
    }
}

/// Rules that follow each other and are about the same own ends.
struct Group<'a> {
    own: &'a Own,
    rules: &'a [CustomRule],
    line: u32,
}

impl CustomRules {
    fn groups(&self) -> impl Iterator<Item = Group<'_>> {
        let groups = self.rules.chunk_by(|one, other| one.own == other.own);
        groups.filter_map(|rules| {
            let first = rules.first()?;
            Some(Group {
                own: &first.own,
                rules,
                line: first.line,
            })
        })
    }

    fn mark(&self, group: &Group<'_>) -> String {
        format!(
            "{MARK}{} {} {} {}",
            self.file, self.family, self.direction, group.line
        )
    }

    /// The rules as policies, in the order in which they are judged: one for all of them, but for rules that look at
    /// the pod's own end.
    pub fn policies(&self) -> Vec<Policy> {
        let groups: Vec<_> = self.groups().collect();
        let several = groups.len() > 1;
        (0..)
            .zip(groups)
            .map(|(priority, group)| {
                let line = if several {
                    format!(":{}", group.line)
                } else {
                    String::new()
                };
                let name = format!("{}{line} ({} {})", self.file, self.family, self.direction);
                self.policy(&name, priority, &group)
            })
            .collect()
    }

    fn policy(&self, name: &str, priority: u16, group: &Group<'_>) -> Policy {
        let side = Side {
            isolates: false,
            rules: (0..)
                .zip(group.rules)
                .map(|(index, rule)| self.rule(index, rule))
                .collect(),
        };
        let (ingress, egress) = match self.direction {
            Direction::Ingress => (side, Side::default()),
            Direction::Egress => (Side::default(), side),
        };
        let pods = match group.own {
            own if *own == Own::default() => Selector::everything(),
            _ => Selector::from_iter([Requirement::Exists(self.mark(group).into())]),
        };
        Policy {
            object: ObjectRef::new(KIND, "", name),
            position: Position {
                file: Arc::clone(&self.file),
                line: group.line,
            },
            mode: Mode::Enforce,
            tier: Tier::Custom,
            priority,
            networks: Networks::Cluster,
            subject: PodSelector {
                namespaces: NamespaceScope::Matching(Selector::everything()),
                pods,
            },
            ingress,
            egress,
        }
    }

    fn rule(&self, index: u32, rule: &CustomRule) -> picket_policy::Rule {
        picket_policy::Rule {
            index,
            position: Position {
                file: Arc::clone(&self.file),
                line: rule.line,
            },
            action: rule.action(),
            peers: List::Items(rule.peers.iter().cloned().map(Peer::Block).collect()),
            ports: rule.ports.clone(),
        }
    }
}

impl Own {
    fn includes(&self, pod: &Pod, file: &CustomRules, interface: &str) -> bool {
        let interface = pod.interface.as_ref().map_or(interface, |own| own.name.as_str());
        let over = self.interfaces.as_ref().is_none_or(|(relation, names)| {
            names.iter().any(|name| name.as_str() == interface) == (*relation == Relation::Is)
        });
        let at = self.addresses.as_ref().is_none_or(|addresses| {
            let own = pod.addresses.of(file.family);
            own.is_some_and(|own| addresses.contains(own))
        });
        over && at
    }
}
