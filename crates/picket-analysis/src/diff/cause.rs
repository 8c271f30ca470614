//! Why a pair changed.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use picket_cluster::{Endpoint, Flow, Pod, Reason};
use picket_engine::SubjectId;
use picket_net::{Family, Protocol, TrafficSet};
use picket_policy::{Direction, ObjectRef};
use rustc_hash::FxHashMap;

use super::pair::{Delta, Joint, JointClass};
use super::policies::named;
use super::summary::Cause;
use super::{Diff, PolicyDifference, Version};
use crate::map::EndpointKind;
use crate::map::class::Pair;

/// For how many pairs the policies are asked about a packet. Of further ones all changed policies that can decide about
/// the end are named.
const JUDGED: usize = 10_000;

/// The causes of changed pairs, and what was found of them before.
pub(super) struct Causes<'d, 'a> {
    diff: &'d Diff<'a>,
    policies: BTreeMap<&'d ObjectRef, &'d PolicyDifference>,
    /// The pods of each endpoint on each side.
    pods: [BTreeMap<String, Vec<&'a Arc<Pod>>>; 2],
    sets: Vec<BTreeSet<Cause>>,
    numbers: BTreeMap<BTreeSet<Cause>, usize>,
    /// By classes, for pairs of which both sides have both ends.
    known: FxHashMap<(JointClass, JointClass, Delta), usize>,
    judged: usize,
}

/// One end of a pair.
struct End {
    direction: Direction,
    subjects: [Option<SubjectId>; 2],
    /// What it allows on the old and on the new side, in one family in which that differs.
    allows: [TrafficSet; 2],
    family: Family,
}

impl<'d, 'a> Causes<'d, 'a> {
    pub(super) fn new(diff: &'d Diff<'a>) -> Self {
        let policies = diff
            .policies
            .iter()
            .map(|policy| (&policy.object, policy))
            .collect();
        Self {
            diff,
            policies,
            pods: diff.versions.map(pods),
            sets: Vec::new(),
            numbers: BTreeMap::new(),
            known: FxHashMap::default(),
            judged: 0,
        }
    }

    /// The causes with a number.
    pub(super) fn get(&self, number: usize) -> Vec<Cause> {
        self.sets.get(number).into_iter().flatten().cloned().collect()
    }

    /// The number of the causes of a changed pair.
    pub(super) fn of(&mut self, from: usize, to: usize, delta: Delta) -> usize {
        let diff = self.diff;
        let (Some(source), Some(destination)) = (diff.endpoints.get(from), diff.endpoints.get(to)) else {
            return self.number(BTreeSet::from([Cause::Unknown]));
        };
        let ends = [source, destination];
        let only = ends.iter().filter_map(|joint| {
            let only = joint.only()?;
            Some(Cause::Endpoint(only, joint.endpoint.id.clone()))
        });
        let only: BTreeSet<_> = only.collect();
        if !only.is_empty() {
            return self.number(only);
        }
        let key = (source.classes(), destination.classes(), delta);
        if let Some(&known) = self.known.get(&key) {
            return known;
        }
        let policies = self.policies_of(ends);
        if !policies.is_empty() {
            let number = self.number(policies);
            self.known.insert(key, number);
            return number;
        }
        // Which object it is, is a matter of the endpoints and not of their classes.
        let mut objects: BTreeSet<_> = ends.iter().flat_map(|joint| self.altered(joint)).collect();
        if objects.is_empty() {
            objects.insert(Cause::Unknown);
        }
        self.number(objects)
    }

    fn number(&mut self, causes: BTreeSet<Cause>) -> usize {
        if let Some(&number) = self.numbers.get(&causes) {
            return number;
        }
        let number = self.sets.len();
        self.sets.push(causes.clone());
        self.numbers.insert(causes, number);
        number
    }

    /// The changed policies that account for what changed at either end.
    fn policies_of(&mut self, ends: [&Joint; 2]) -> BTreeSet<Cause> {
        let mut causes = BTreeSet::new();
        for (direction, allowed, subjects) in self.allowed(ends) {
            let [old, new] = allowed;
            let changed = [(Family::Ipv4, old.v4, new.v4), (Family::Ipv6, old.v6, new.v6)];
            for (family, old, new) in changed {
                let (Some(old), Some(new)) = (old, new) else {
                    continue;
                };
                if old == new {
                    continue;
                }
                let end = End {
                    direction,
                    subjects,
                    allows: [old, new].map(|id| self.diff.traffics.borrow().get(id).clone()),
                    family,
                };
                causes.extend(self.policies_of_end(ends, &end));
            }
        }
        causes
    }

    /// What each end allows on both sides, and the subjects that it is there.
    fn allowed(&self, ends: [&Joint; 2]) -> Vec<(Direction, [Pair; 2], [Option<SubjectId>; 2])> {
        let Some(sides) = &self.diff.sides else {
            return Vec::new();
        };
        let [source, destination] = ends.map(Joint::classes);
        let mut allowed = [[Pair::NONE; 2]; 2];
        let mut subjects = [[None; 2]; 2];
        let [egress, ingress] = &mut allowed;
        let [egress_subjects, ingress_subjects] = &mut subjects;
        for (number, side) in sides.iter().enumerate() {
            let class = |classes: JointClass| classes.get(number).copied().flatten();
            let (Some(from), Some(to)) = (class(source), class(destination)) else {
                continue;
            };
            let (sent, received) = side.classes.ends(from, to, &self.diff.traffics);
            let slots = egress.get_mut(number).zip(ingress.get_mut(number));
            if let Some((egress, ingress)) = slots {
                (*egress, *ingress) = (sent, received);
            }
            let slots = egress_subjects
                .get_mut(number)
                .zip(ingress_subjects.get_mut(number));
            if let Some((egress, ingress)) = slots {
                *egress = side.classes.get(from).and_then(|class| class.egress);
                *ingress = side.classes.get(to).and_then(|class| class.ingress);
            }
        }
        let directions = [Direction::Egress, Direction::Ingress];
        let all = directions.into_iter().zip(allowed).zip(subjects);
        all.map(|((direction, allowed), subjects)| (direction, allowed, subjects))
            .collect()
    }

    fn policies_of_end(&mut self, ends: [&Joint; 2], end: &End) -> BTreeSet<Cause> {
        let deciding: BTreeSet<_> = self
            .diff
            .versions
            .iter()
            .zip(end.subjects)
            .flat_map(|(version, subject)| {
                let policies = subject.map(|subject| version.program.deciding_policies(subject));
                policies.into_iter().flatten().map(|policy| named(&policy.object))
            })
            .filter_map(|object| self.policies.get(&object).copied())
            .collect();
        if deciding.is_empty() {
            return BTreeSet::new();
        }
        let cause = |policy: &PolicyDifference| Cause::Policy(policy.clone());
        if self.judged < JUDGED {
            self.judged += 1;
            if let Some(found) = self.judged_policies(ends, end) {
                return found.into_iter().map(cause).collect();
            }
        }
        deciding.into_iter().map(cause).collect()
    }

    /// The changed policies that a packet meets that is allowed on one side only: those that accept it there, or else
    /// those that deny it on the other. `None` when there is no such packet to be had.
    fn judged_policies(&self, ends: [&Joint; 2], end: &End) -> Option<Vec<&'d PolicyDifference>> {
        let [old, new] = &end.allows;
        let (more, less) = (new.difference(old), old.difference(new));
        let (allowed, (protocol, port)) = match sample(&more) {
            Some(packet) => (1, packet),
            None => (0, sample(&less)?),
        };
        let mut found = [None, None];
        for (number, version) in self.diff.versions.iter().enumerate() {
            let [source, destination] = ends;
            let source = self.endpoint(number, source, end.family, 0)?;
            let destination = self.endpoint(number, destination, end.family, usize::from(is_same(ends)))?;
            if source == destination {
                return None;
            }
            let judgement = version.program.judge(&Flow {
                source,
                destination,
                family: end.family,
                protocol,
                port,
            });
            let own = match end.direction {
                Direction::Egress => judgement.egress,
                Direction::Ingress => judgement.ingress,
            };
            if own.verdict.is_allow() != (number == allowed) {
                return None;
            }
            if let Some(slot) = found.get_mut(number) {
                *slot = Some(own);
            }
        }
        let [old, new] = found;
        let (allowing, denying) = if allowed == 0 { (old?, new?) } else { (new?, old?) };
        let changed = |judgement: &picket_cluster::EndJudgement| -> Vec<&'d PolicyDifference> {
            let objects: BTreeSet<_> = judgement
                .causes
                .iter()
                .map(|cause| named(&cause.object))
                .collect();
            let changed = objects
                .iter()
                .filter_map(|object| self.policies.get(object).copied());
            changed.collect()
        };
        let accepting = changed(&allowing);
        if allowing.reason == Reason::AllowedByRule && !accepting.is_empty() {
            return Some(accepting);
        }
        Some(changed(&denying))
    }

    /// An end as one side's program knows it.
    fn endpoint(&self, side: usize, joint: &Joint, family: Family, which: usize) -> Option<Endpoint> {
        match joint.endpoint.kind {
            EndpointKind::External => {
                let range = joint.external.ranges().find(|range| range.family() == family)?;
                Some(Endpoint::External(range.first()))
            }
            EndpointKind::Node => {
                let version = self.diff.versions.get(side)?;
                let node = version.snapshot.nodes.get(joint.endpoint.id.as_str())?;
                let of_family = |address: &&IpAddr| Family::of(**address) == family;
                Some(Endpoint::Node {
                    name: node.name.clone(),
                    address: *node.addresses.iter().find(of_family)?,
                })
            }
            EndpointKind::Pod | EndpointKind::Workload => {
                let pods = self.pods.get(side)?.get(&joint.endpoint.id)?;
                Some(Endpoint::Pod(pods.get(which)?.object.clone()))
            }
        }
    }

    /// What is different about an endpoint itself.
    fn altered(&self, joint: &Joint) -> Vec<Cause> {
        let id = &joint.endpoint.id;
        if !matches!(joint.endpoint.kind, EndpointKind::Pod | EndpointKind::Workload) {
            return Vec::new();
        }
        let [old, new] = self
            .pods
            .each_ref()
            .map(|pods| pods.get(id).map(Vec::as_slice).unwrap_or_default());
        let mut causes = Vec::new();
        let mut compare = |what, differs: bool| {
            if differs {
                causes.push(Cause::Object(what, id.clone()));
            }
        };
        compare(
            "labels",
            values(old, |pod| pod.labels.clone()) != values(new, |pod| pod.labels.clone()),
        );
        compare(
            "ports",
            values(old, |pod| pod.ports.clone()) != values(new, |pod| pod.ports.clone()),
        );
        compare(
            "node",
            values(old, |pod| pod.node.clone()) != values(new, |pod| pod.node.clone()),
        );
        compare(
            "addresses",
            values(old, |pod| (pod.addresses, pod.host_network))
                != values(new, |pod| (pod.addresses, pod.host_network)),
        );
        if let Some(pod) = new.first() {
            let name = &pod.object.namespace;
            let [before, after] = self.diff.versions.map(|version| version.snapshot.namespace(name));
            if before.labels != after.labels {
                causes.push(Cause::Object("labels", format!("namespace {name}")));
            }
        }
        causes
    }
}

fn is_same(ends: [&Joint; 2]) -> bool {
    let [one, other] = ends;
    std::ptr::eq(one, other)
}

fn values<T: Ord>(pods: &[&Arc<Pod>], value: impl Fn(&Pod) -> T) -> BTreeSet<T> {
    pods.iter().map(|pod| value(pod)).collect()
}

/// The pods of each endpoint, by what maps call it, alone and with the others of its owner.
fn pods(version: Version<'_>) -> BTreeMap<String, Vec<&Arc<Pod>>> {
    let mut pods: BTreeMap<String, Vec<&Arc<Pod>>> = BTreeMap::new();
    for pod in version.snapshot.live_pods() {
        if let Some(owner) = &pod.owner {
            let id = format!("{}/{}/{}", pod.object.namespace, owner.kind, owner.name);
            pods.entry(id).or_default().push(pod);
        }
        pods.entry(pod.id()).or_default().push(pod);
    }
    pods
}

/// One packet of a set.
fn sample(traffic: &TrafficSet) -> Option<(Protocol, u16)> {
    for protocol in Protocol::WITH_PORTS {
        let ports = traffic.ports(protocol).and_then(|ports| ports.ranges().next());
        if let Some(range) = ports {
            return Some((protocol, range.first()));
        }
    }
    traffic.portless.iter().next().map(|protocol| (protocol, 0))
}
