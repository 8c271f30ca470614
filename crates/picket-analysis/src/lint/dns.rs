//! Egress that allows connections, but not to ask for the address to connect to.

use std::collections::BTreeMap;

use picket_net::Protocol;
use picket_policy::{Action, Diagnostic, Direction, List, ObjectRef, Peer, Policy, PortMatch, Rule, Tier};

use super::{Context, Subject, advice, table};

/// The ports that resolvers listen on: 53, and where it is translated from in distributions of Kubernetes.
const RESOLVERS: [u16; 4] = [53, 1053, 5353, 8053];

/// Who may ask DNS.
pub(super) struct Resolvers<'a> {
    /// The groups that policies isolate for egress, allow connections to pods, and do not allow to ask DNS; with the
    /// first of those policies.
    without: BTreeMap<usize, &'a ObjectRef>,
}

impl<'a> Resolvers<'a> {
    pub(super) fn of(context: &Context<'a>) -> Self {
        let mut without = BTreeMap::new();
        for policy in &context.policies {
            if needs_names(policy) {
                for (group, _) in context.cluster.managed(&policy.subject) {
                    without.entry(group).or_insert(&policy.object);
                }
            }
        }
        let all = context.cluster.snapshot.policies.values();
        for policy in all.filter(|policy| policy.networks.are_looked_at()) {
            if policy.tier != Tier::Baseline && policy.egress.rules.iter().any(allows_names) {
                for (group, _) in context.cluster.managed(&policy.subject) {
                    without.remove(&group);
                }
            }
        }
        Self { without }
    }
}

pub(super) fn check(about: &Subject<'_>, names: &Resolvers<'_>, found: &mut Vec<Diagnostic>) {
    if !needs_names(about.policy) {
        return;
    }
    let cluster = about.cluster();
    let mut groups = cluster.managed(&about.policy.subject);
    let first = groups.find(|(at, _)| names.without.get(at) == Some(&&about.policy.object));
    let Some(pod) = first.and_then(|(_, group)| group.pods.first()) else {
        return;
    };
    let place = about.place().field("spec").field("egress");
    let message = format!(
        "{} lets pods open connections, but no policy lets them ask DNS, such as {}",
        about.policy.object, pod.object
    );
    let mut diagnostic = about.warning(table::NO_DNS, &place, message);
    diagnostic.fixes.push(advice(
        "allow UDP and TCP port 53, at least to the pods with `k8s-app=kube-dns` in the namespace `kube-system`",
    ));
    found.push(diagnostic);
}

/// Whether a policy isolates for egress and allows connections that begin with a name. Those to blocks need none.
fn needs_names(policy: &Policy) -> bool {
    let by_name = |rule: &Rule| match &rule.peers {
        List::Absent => true,
        List::Items(peers) => peers.iter().any(|peer| matches!(peer, Peer::Pods(_))),
    };
    let egress = policy.side(Direction::Egress);
    policy.isolates(Direction::Egress) && egress.rules.iter().any(by_name)
}

fn allows_names(rule: &Rule) -> bool {
    let nobody = matches!(&rule.peers, List::Items(peers) if peers.is_empty());
    rule.action == Action::Accept && !nobody && ports_allow_names(&rule.ports)
}

fn ports_allow_names(ports: &List<PortMatch>) -> bool {
    let List::Items(ports) = ports else { return true };
    let is_resolver = |protocol: Protocol| protocol == Protocol::UDP || protocol == Protocol::TCP;
    ports.iter().any(|port| match port {
        PortMatch::Protocol(protocol) => is_resolver(*protocol),
        PortMatch::Range(protocol, range) => {
            let holds = |port: &u16| range.first() <= *port && *port <= range.last();
            is_resolver(*protocol) && RESOLVERS.iter().any(holds)
        }
        PortMatch::Named { name, .. } => name.contains("dns"),
    })
}
