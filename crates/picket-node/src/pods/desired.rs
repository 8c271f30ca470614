//! What is to be in force in one pod.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use picket_cluster::Pod;
use picket_dataplane::Shortfall;
use picket_net::AddressSet;
use picket_nftables::custom::CustomRules;
use picket_nftables::model::Table;
use picket_nftables::render::documented::PodView;
use picket_policy::{Direction, NetworkName, ObjectRef};
use picket_source::ObjectVersion;

use super::closing;
use super::compiled::Compiled;
use super::held::{Said, Substitute, Substitutes};
use super::network::{Networks, said};

/// What is to be in force in a pod.
#[derive(Clone, Debug, Default)]
pub(super) struct Desired {
    /// The rules; none where no policy applies.
    pub(super) table: Option<Arc<Table>>,
    /// The policies that apply.
    pub(super) policies: Vec<ObjectRef>,
    /// What they say, or what holds in their place.
    pub(super) said: BTreeMap<ObjectRef, Said>,
    /// In which versions that was read, as far as they have any.
    pub(super) versions: BTreeMap<ObjectRef, ObjectVersion>,
    /// What holds in the place of policies that are held back.
    pub(super) substitutes: Substitutes,
    /// What cannot be enforced.
    pub(super) trouble: Option<String>,
    /// The policies that cannot be said or are refused; what they are about is closed instead.
    pub(super) closed: BTreeSet<ObjectRef>,
    /// The directions, ingress first, in which the rules may let pass less than the policies.
    pub(super) narrower: [bool; 2],
    /// What the rules were made of. Of the same the same is made.
    pub(super) basis: Option<Arc<Basis>>,
}

/// What rules of a pod are made of.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Basis {
    view: PodView,
    /// The policies that allow nothing, whatever they say.
    closed: BTreeSet<ObjectRef>,
    custom: Arc<Vec<CustomRules>>,
    /// What is wrong with the interfaces of the pod.
    troubles: Vec<String>,
}

impl Desired {
    /// The policies which the rules enforce.
    pub(super) fn enforced(&self) -> Vec<ObjectRef> {
        let policies = self.policies.iter();
        let enforced = policies.filter(|policy| !self.closed.contains(policy));
        enforced.cloned().collect()
    }

    /// Whether there are no rules that could be in force, though policies apply.
    pub(super) fn is_unsayable(&self) -> bool {
        self.table.is_none() && !self.policies.is_empty()
    }
}

impl Networks {
    /// What is to be in force in a pod of the node, where for some policies something else holds. What was to be in force there
    /// `before` spares making the same rules again.
    pub(super) fn desired(&self, pod: &Pod, substitutes: &Substitutes, before: Option<&Desired>) -> Desired {
        let networks = self.with(substitutes);
        let basis = self.basis(pod, &networks, substitutes);
        let made = match before {
            Some(before) if before.basis.as_deref() == Some(&basis) => before.clone(),
            _ => self.made_of(basis),
        };
        let networks = networks.iter();
        let networks = networks.map(|(network, compiled)| (*network, compiled.as_ref()));
        let policies = made.policies.iter();
        Desired {
            said: policies
                .map(|policy| (policy.clone(), said(networks.clone(), policy)))
                .collect(),
            versions: self.versions_of(&made.policies, substitutes),
            substitutes: substitutes.clone(),
            ..made
        }
    }

    fn basis(
        &self,
        pod: &Pod,
        networks: &[(&NetworkName, Arc<Compiled>)],
        substitutes: &Substitutes,
    ) -> Basis {
        let mut view = PodView {
            pod: pod.object.clone(),
            interfaces: Vec::new(),
            // No kubelet reaches a pod over a secondary network.
            own_node: AddressSet::empty(),
            policies: Vec::new(),
        };
        let mut troubles = Vec::new();
        for (network, compiled) in networks {
            let attached = view.attach(compiled.program(), compiled.ends(), network);
            troubles.extend(attached.err().into_iter().flatten().map(|name| {
                let name = name.escape_debug();
                format!("no rule can name the interface `{name}` of its annotations: it is not restricted")
            }));
        }
        let policies = view.policies.iter().map(|policy| &policy.object);
        let closed = policies.filter(|policy| matches!(substitutes.get(*policy), Some(Substitute::Closed)));
        Basis {
            closed: closed.cloned().collect(),
            view,
            custom: Arc::clone(self.custom()),
            troubles,
        }
    }

    /// The rules, and what there is to say of them.
    fn made_of(&self, basis: Basis) -> Desired {
        let (view, mut troubles) = (&basis.view, basis.troubles.clone());
        if view.policies.is_empty() {
            return Desired {
                trouble: joined(troubles),
                basis: Some(Arc::new(basis)),
                ..Desired::default()
            };
        }
        let mut closed = basis.closed.clone();
        let rendered = closing::render(view, &self.options(), &mut closed, &mut troubles);
        let (table, shortfalls) = rendered.unzip();
        let shortfalls = shortfalls.unwrap_or_default();
        let narrower = Direction::BOTH
            .map(|side| !closed.is_empty() || shortfalls.iter().any(|one| one.direction == side));
        troubles.extend(shortfalls.iter().map(words));
        Desired {
            table: table.map(Arc::new),
            policies: view.policies.iter().map(|policy| policy.object.clone()).collect(),
            trouble: joined(troubles),
            closed,
            narrower,
            basis: Some(Arc::new(basis)),
            ..Desired::default()
        }
    }
}

/// What rules cannot say, as people read it.
fn words(shortfall: &Shortfall) -> String {
    let Shortfall {
        policy,
        what,
        instead,
        ..
    } = shortfall;
    format!("{policy}: {what}; {instead}")
}

fn joined(troubles: Vec<String>) -> Option<String> {
    (!troubles.is_empty()).then(|| troubles.join("; "))
}

#[cfg(test)]
mod tests {
    use picket_cluster::{Attachment, Semantics, Snapshot};
    use picket_dataplane::EstablishedConnections;
    use picket_net::Protocol;
    use picket_policy::Networks as On;
    use picket_testing::build::{accept, namespace, pod, pods_in, policy};
    use picket_testing::snapshot;

    use super::super::plugin::Plugins;
    use super::super::touched::Touched;
    use super::*;

    fn attached(name: &str, address: &str, role: &str) -> Pod {
        let mut pod = pod(name).on("n").label("role", role).build();
        pod.attachments.push(Attachment {
            network: NetworkName::parse("net", "x").unwrap(),
            interface: "net1".into(),
            addresses: [address.parse().unwrap()].into_iter().collect(),
            synthetic: false,
        });
        pod
    }

    /// Two pods, to each of which others may send that have a role of its own.
    fn cluster() -> Snapshot {
        let mut cluster = snapshot![
            namespace("x"),
            attached("x/one", "2.2.5.1", "one"),
            attached("x/two", "2.2.5.2", "two"),
            attached("x/a", "2.2.5.3", "of-one"),
        ];
        for role in ["one", "two"] {
            let peers = accept().peer(pods_in("x", &format!("role=of-{role}")));
            let rule = peers.port(Protocol::TCP, 80);
            let mut policy = policy(&format!("x/{role}"))
                .selects(&format!("role={role}"))
                .isolates(Direction::Ingress)
                .ingress(rule)
                .build();
            policy.networks = On::Attached(vec![NetworkName::parse("net", "x").unwrap()]);
            cluster.policies.insert(policy.object.clone(), policy.into());
        }
        cluster
    }

    #[test]
    fn only_a_pod_whose_rules_are_made_of_something_else_is_rendered_again() {
        let mut networks = Networks::new(Semantics::default(), EstablishedConnections::Keep, None);
        let mut desired = |cluster: &Snapshot, before: &[Desired]| {
            let pods = ["one", "two"].map(|name| cluster.pod("Pod", "x", name).unwrap());
            networks.update(cluster, &Touched::Anything, &pods, &Plugins::new(&[]), Vec::new());
            let each = pods.iter().zip(0..);
            let each =
                each.map(|(pod, at)| networks.desired(pod, &Substitutes::new(), before.get::<usize>(at)));
            each.collect::<Vec<_>>()
        };
        let mut cluster = cluster();
        let before = desired(&cluster, &[]);
        let peer = Arc::new(attached("x/b", "2.2.5.4", "of-one"));
        cluster.pods.insert(peer.object.clone(), peer);
        let now = desired(&cluster, &before);
        let is_kept = |which: usize| {
            let [before, now] = [&before, &now].map(|all| all[which].table.as_ref().unwrap());
            Arc::ptr_eq(before, now)
        };
        assert!(!is_kept(0), "it has another peer");
        assert!(is_kept(1));
    }
}
