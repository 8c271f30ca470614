//! Which interfaces pods claim by their annotations.
//!
//! Whoever may write pods writes these: so nobody has an interface that no pod may name, that leads out of the node, or that
//! another pod names too.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use picket_cluster::{Event, Object, Pod, codes};
use picket_policy::{Diagnostic, ObjectRef, Severity};
use smol_str::SmolStr;

use super::findings::Found;
use super::rule::Pattern;
use super::told::Whole;
use crate::status::Finding;

/// The annotation.
pub(crate) const ANNOTATION: &str = "picket.dev/vpp-interface";

/// The interface that every VPP has, and through which nothing goes.
pub(crate) const LOCAL: &str = "local0";

/// Which interface each pod of a node names as its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    pods: BTreeMap<ObjectRef, Claim>,
    /// The pods that name each interface.
    by_interface: BTreeMap<SmolStr, BTreeSet<ObjectRef>>,
}

/// What pods claim now, if anything, that claimed something else before.
#[derive(Clone, Debug, Default)]
pub(crate) struct Change(BTreeMap<ObjectRef, Option<Claim>>);

/// The pods that may have another interface because of a change, and the interfaces that may be another pod's.
#[derive(Clone, Debug, Default)]
pub(crate) struct Concerned {
    pub(crate) pods: BTreeSet<ObjectRef>,
    pub(crate) interfaces: BTreeSet<SmolStr>,
}

/// What a pod claims.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Claim {
    interface: SmolStr,
    /// The uid of the pod.
    uid: SmolStr,
}

impl Claim {
    fn of(pod: &Pod) -> Option<Self> {
        Some(Self {
            interface: pod.vpp_interface()?.into(),
            uid: pod.object.uid.clone(),
        })
    }
}

impl<'p> FromIterator<&'p Pod> for Claims {
    /// Those of these pods that policies can select.
    fn from_iter<I: IntoIterator<Item = &'p Pod>>(pods: I) -> Self {
        let managed = pods.into_iter().filter(|pod| pod.is_managed());
        let claims = managed.filter_map(|pod| Some((named(&pod.object), Some(Claim::of(pod)?))));
        let mut known = Self::default();
        known.advance(&Change(claims.collect()));
        known
    }
}

impl Change {
    /// Whether nobody claims anything else.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Concerned {
    /// These, and others.
    pub(crate) fn extend(&mut self, others: Self) {
        self.pods.extend(others.pods);
        self.interfaces.extend(others.interfaces);
    }
}

impl Whole for Claims {
    type Change = Change;

    fn follow(&mut self, change: &Change) {
        self.advance(change);
    }

    fn join(change: &mut Change, later: &Change) {
        change.0.extend(later.0.clone());
    }
}

impl Claims {
    /// What pods of a node claim otherwise after these events.
    pub(crate) fn change(&self, events: &[Event], node: &str) -> Change {
        let mut now = BTreeMap::new();
        for event in events {
            match event {
                Event::Init => {
                    let known = self.pods.keys().chain(now.keys());
                    now = known.map(|pod| (pod.clone(), None)).collect();
                }
                Event::Apply(Object::Pod(pod)) => {
                    let is_here = pod.node.as_deref() == Some(node) && pod.is_managed();
                    let claim = Claim::of(pod).filter(|_| is_here);
                    now.insert(named(&pod.object), claim);
                }
                Event::Delete(object) if object.kind == "Pod" => drop(now.insert(named(object), None)),
                Event::Apply(_) | Event::Delete(_) | Event::InitDone => {}
            }
        }
        now.retain(|pod, claim| self.pods.get(pod) != claim.as_ref());
        Change(now)
    }

    /// Takes in what pods claim otherwise; whom that concerns.
    pub(crate) fn advance(&mut self, change: &Change) -> Concerned {
        let mut concerned = Concerned::default();
        for (pod, now) in &change.0 {
            let before = match now {
                Some(claim) => self.pods.insert(pod.clone(), claim.clone()),
                None => self.pods.remove(pod),
            };
            if let Some(Claim { interface, .. }) = before {
                if let Some(pods) = self.by_interface.get_mut(&interface) {
                    pods.remove(pod);
                    if pods.is_empty() {
                        self.by_interface.remove(&interface);
                    }
                }
                concerned.interfaces.insert(interface);
            }
            if let Some(Claim { interface, .. }) = now {
                let pods = self.by_interface.entry(interface.clone()).or_default();
                pods.insert(pod.clone());
                concerned.interfaces.insert(interface.clone());
            }
            concerned.pods.insert(pod.clone());
        }
        for interface in &concerned.interfaces {
            let pods = self.by_interface.get(interface);
            concerned.pods.extend(pods.into_iter().flatten().cloned());
        }
        concerned
    }
}

/// Which claims hold.
#[derive(Debug)]
pub(crate) struct Judge<'c> {
    claims: &'c Claims,
    /// Which interfaces pods may name.
    may: &'c Pattern,
    uplinks: &'c [Pattern],
}

/// Why a pod does not have the interface that it names.
#[derive(Debug)]
pub(crate) enum Refused<'c> {
    /// Pods may only name those of this pattern.
    NoPods(&'c SmolStr, &'c Pattern),
    /// It leads out of the node.
    Uplink(&'c SmolStr),
    /// Others name it too: the first of them, and whether there are more. How many would be something else to say of each with
    /// every one that comes.
    Contested(&'c SmolStr, &'c ObjectRef, bool),
}

impl<'c> Judge<'c> {
    pub(crate) fn new(claims: &'c Claims, may: &'c Pattern, uplinks: &'c [Pattern]) -> Self {
        Self { claims, may, uplinks }
    }

    /// The interface of a pod; nothing where it names none.
    pub(crate) fn interface(&self, pod: &ObjectRef) -> Option<Result<&'c SmolStr, Refused<'c>>> {
        let (pod, claim) = self.claims.pods.get_key_value(&named(pod))?;
        Some(self.judge(pod, &claim.interface))
    }

    fn judge(&self, pod: &ObjectRef, interface: &'c SmolStr) -> Result<&'c SmolStr, Refused<'c>> {
        if interface == LOCAL || !self.may.matches(interface) {
            return Err(Refused::NoPods(interface, self.may));
        }
        if self.uplinks.iter().any(|uplink| uplink.matches(interface)) {
            return Err(Refused::Uplink(interface));
        }
        let Some(pods) = self.claims.by_interface.get(interface) else {
            return Ok(interface);
        };
        match pods.iter().find(|other| *other != pod) {
            Some(other) => Err(Refused::Contested(interface, other, pods.len() > 2)),
            None => Ok(interface),
        }
    }

    /// Whether an interface is nobody's because several pods name it.
    pub(crate) fn is_contested(&self, interface: &SmolStr) -> bool {
        let known = self.claims.by_interface.get_key_value(interface);
        known.is_some_and(|(interface, pods)| {
            let refused = pods.first().and_then(|pod| self.judge(pod, interface).err());
            matches!(refused, Some(Refused::Contested(..)))
        })
    }

    /// The interfaces that are nobody's because several pods name them.
    pub(crate) fn contested(&self) -> impl Iterator<Item = &'c SmolStr> {
        let names = self.claims.by_interface.keys();
        names.filter(|name| self.is_contested(name))
    }

    /// What is wrong with the claim of a pod.
    pub(crate) fn finding(&self, pod: &ObjectRef) -> Option<Found> {
        let (pod, claim) = self.claims.pods.get_key_value(pod)?;
        let refused = self.judge(pod, &claim.interface).err()?;
        let mut diagnostic =
            Diagnostic::new(codes::CLAIM, Severity::Error, format!("Forbidden: {refused}")).on(pod);
        diagnostic.field = format!("metadata.annotations.{ANNOTATION}");
        Some(Found {
            object: ObjectRef {
                uid: claim.uid.clone(),
                ..pod.clone()
            },
            finding: Finding::new(pod, &diagnostic),
        })
    }
}

impl fmt::Display for Refused<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPods(interface, may) => {
                write!(f, "no pod may have interface `{interface}`, only such as `{may}`")
            }
            Self::Uplink(interface) => write!(f, "interface `{interface}` leads out of the node"),
            Self::Contested(interface, other, more) => {
                let (other, more) = (super::place::id(other), if *more { " and others" } else { "" });
                write!(
                    f,
                    "interface `{interface}` is claimed by {other}{more} too: nothing passes there"
                )
            }
        }
    }
}

/// A pod by its name alone.
fn named(pod: &ObjectRef) -> ObjectRef {
    ObjectRef::new("Pod", &pod.namespace, &pod.name)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use picket_testing::build::{PodBuilder, pod};

    use super::*;

    fn claiming(name: &str, interface: &str) -> Pod {
        on("n1", pod(name).at_vpp(interface))
    }

    fn on(node: &str, pod: PodBuilder) -> Pod {
        pod.on(node).build()
    }

    /// What becomes of each claim, and the findings.
    fn check(claims: &Claims, uplinks: &[&str], expected: &[(&str, &str)]) {
        let may: Pattern = "tap*".parse().unwrap();
        let uplinks: Vec<Pattern> = uplinks.iter().map(|uplink| uplink.parse().unwrap()).collect();
        let judge = Judge::new(claims, &may, &uplinks);
        let told: Vec<_> = claims
            .pods
            .keys()
            .map(|pod| {
                let found = match judge.interface(pod).unwrap() {
                    Ok(interface) => interface.to_string(),
                    Err(refused) => refused.to_string(),
                };
                (pod.name.to_string(), found)
            })
            .collect();
        let expected: Vec<_> = expected
            .iter()
            .map(|(pod, found)| ((*pod).to_owned(), (*found).to_owned()))
            .collect();
        assert_eq!(told, expected);
        let refused = expected.iter().filter(|(_, found)| found.contains(' '));
        let messages: Vec<_> = refused.map(|(_, found)| format!("Forbidden: {found}")).collect();
        let findings = claims.pods.keys().filter_map(|pod| judge.finding(pod));
        let found: Vec<_> = findings
            .map(|found| (found.finding.code, found.finding.message))
            .collect();
        let messages: Vec<_> = messages
            .into_iter()
            .map(|message| ("C020".to_owned(), message))
            .collect();
        assert_eq!(found, messages);
    }

    #[test]
    fn a_claim_holds_that_a_pod_may_make_alone() {
        let claims = |pods: &[(&str, &str)]| -> Claims {
            let pods: Vec<_> = pods.iter().map(|(name, tap)| claiming(name, tap)).collect();
            pods.iter().collect()
        };
        check(
            &claims(&[("a/x", "tap1"), ("b/y", "tap2")]),
            &[],
            &[("x", "tap1"), ("y", "tap2")],
        );
        let uplink = "interface `tap0` leads out of the node";
        check(
            &claims(&[("a/x", "tap0"), ("b/y", "tap2")]),
            &["tap0"],
            &[("x", uplink), ("y", "tap2")],
        );
        check(
            &claims(&[("a/x", "ge0"), ("b/y", "local0")]),
            &[],
            &[
                ("x", "no pod may have interface `ge0`, only such as `tap*`"),
                ("y", "no pod may have interface `local0`, only such as `tap*`"),
            ],
        );
        let twice = claims(&[("a/x", "tap1"), ("b/y", "tap1"), ("b/z", "tap2")]);
        check(
            &twice,
            &[],
            &[
                (
                    "x",
                    "interface `tap1` is claimed by b/y too: nothing passes there",
                ),
                (
                    "y",
                    "interface `tap1` is claimed by a/x too: nothing passes there",
                ),
                ("z", "tap2"),
            ],
        );
        check(
            &claims(&[("a/x", "tap1"), ("b/y", "tap1"), ("b/z", "tap1")]),
            &[],
            &[
                (
                    "x",
                    "interface `tap1` is claimed by b/y and others too: nothing passes there",
                ),
                (
                    "y",
                    "interface `tap1` is claimed by a/x and others too: nothing passes there",
                ),
                (
                    "z",
                    "interface `tap1` is claimed by a/x and others too: nothing passes there",
                ),
            ],
        );
        let any: Pattern = "*".parse().unwrap();
        let closed = |claims: &Claims, uplinks: &[Pattern]| -> Vec<String> {
            let judge = Judge::new(claims, &any, uplinks);
            judge.contested().map(SmolStr::to_string).collect()
        };
        assert_eq!(closed(&twice, &[]), ["tap1"]);
        // What leads out of the node stays open, however many claim it.
        assert_eq!(closed(&twice, &["tap1".parse().unwrap()]), [""; 0]);
        assert_eq!(closed(&claims(&[("a/x", LOCAL), ("b/y", LOCAL)]), &[]), [""; 0]);
    }

    #[test]
    fn what_is_wrong_with_a_claim_is_found_on_the_pod_that_made_it() {
        let claiming = |uid: &str| {
            let mut pod = claiming("a/x", "ge0");
            pod.object.uid = uid.into();
            pod
        };
        let may: Pattern = "tap*".parse().unwrap();
        let mut claims = Claims::default();
        for uid in ["1", "2"] {
            let event = Event::Apply(Object::Pod(Arc::new(claiming(uid))));
            let concerned = claims.advance(&claims.change(&[event], "n1"));
            let judge = Judge::new(&claims, &may, &[]);
            let found = concerned.pods.iter().filter_map(|pod| judge.finding(pod));
            let objects: Vec<_> = found.map(|found| found.object).collect();
            assert_eq!(objects, [claiming(uid).object]);
        }
    }

    #[test]
    fn claims_are_those_of_the_pods_of_the_node() {
        let apply = |pod: Pod| Event::Apply(Object::Pod(Arc::new(pod)));
        let elsewhere = on("n2", pod("a/x").at_vpp("tap1"));
        let finished = Pod {
            finished: true,
            ..claiming("a/x", "tap1")
        };
        let mut claims = Claims::default();
        let mut note = |event: Event| {
            let change = claims.change(&[event], "n1");
            claims.advance(&change);
            (
                !change.is_empty(),
                claims
                    .pods
                    .values()
                    .map(|claim| claim.interface.to_string())
                    .collect::<Vec<_>>(),
            )
        };
        let none = || Vec::<String>::new();
        let some = |name: &str| vec![name.to_owned()];
        assert_eq!(note(apply(elsewhere.clone())), (false, none()));
        assert_eq!(note(apply(claiming("a/x", "tap1"))), (true, some("tap1")));
        assert_eq!(note(apply(claiming("a/x", "tap1"))), (false, some("tap1")));
        assert_eq!(note(apply(claiming("a/x", "tap2"))), (true, some("tap2")));
        assert_eq!(note(apply(finished)), (true, none()));
        assert_eq!(note(apply(claiming("a/x", "tap1"))), (true, some("tap1")));
        assert_eq!(note(apply(elsewhere)), (true, none()));
        assert_eq!(note(apply(claiming("a/x", "tap1"))), (true, some("tap1")));
        let uid = ObjectRef {
            uid: "u".into(),
            ..ObjectRef::new("Pod", "a", "x")
        };
        assert_eq!(note(Event::Delete(uid)), (true, none()));
        assert_eq!(note(apply(claiming("a/x", "tap1"))), (true, some("tap1")));
        assert_eq!(note(Event::Init), (true, none()));
    }
}
