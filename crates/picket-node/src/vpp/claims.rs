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
use crate::status::Finding;

/// The annotation.
pub(crate) const ANNOTATION: &str = "picket.dev/vpp-interface";

/// The interface that every VPP has, and through which nothing goes.
pub(crate) const LOCAL: &str = "local0";

/// Which interface each pod of a node names as its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims(BTreeMap<ObjectRef, Claim>);

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
            interface: pod.vpp_interface.as_deref()?.into(),
            uid: pod.object.uid.clone(),
        })
    }
}

impl<'p> FromIterator<&'p Pod> for Claims {
    /// Those of these pods that policies can select.
    fn from_iter<I: IntoIterator<Item = &'p Pod>>(pods: I) -> Self {
        let managed = pods.into_iter().filter(|pod| pod.is_managed());
        let claims = managed.filter_map(|pod| Some((named(&pod.object), Claim::of(pod)?)));
        Self(claims.collect())
    }
}

impl Claims {
    /// Takes in what happens to the pods of a node; whether they claim something else then.
    pub(crate) fn note(&mut self, events: &[Event], node: &str) -> bool {
        let mut is_other = false;
        for event in events {
            is_other |= match event {
                Event::Init => !std::mem::take(&mut self.0).is_empty(),
                Event::Apply(Object::Pod(pod)) => {
                    let is_here = pod.node.as_deref() == Some(node) && pod.is_managed();
                    let claim = Claim::of(pod).filter(|_| is_here);
                    self.put(&pod.object, claim)
                }
                Event::Delete(object) if object.kind == "Pod" => self.put(object, None),
                Event::Apply(_) | Event::Delete(_) | Event::InitDone => false,
            };
        }
        is_other
    }

    fn put(&mut self, pod: &ObjectRef, claim: Option<Claim>) -> bool {
        let pod = named(pod);
        let before = match claim.clone() {
            Some(claim) => self.0.insert(pod, claim),
            None => self.0.remove(&pod),
        };
        before != claim
    }

    /// The interfaces that several pods name, and which pods.
    fn contested(&self) -> BTreeMap<&SmolStr, BTreeSet<&ObjectRef>> {
        let mut pods: BTreeMap<&SmolStr, BTreeSet<&ObjectRef>> = BTreeMap::new();
        for (pod, claim) in &self.0 {
            pods.entry(&claim.interface).or_default().insert(pod);
        }
        pods.retain(|_, pods| pods.len() > 1);
        pods
    }
}

/// Which claims hold.
#[derive(Debug)]
pub(crate) struct Judge<'c> {
    claims: &'c Claims,
    /// Which interfaces pods may name.
    may: &'c Pattern,
    uplinks: &'c [Pattern],
    contested: BTreeMap<&'c SmolStr, BTreeSet<&'c ObjectRef>>,
}

/// Why a pod does not have the interface that it names.
#[derive(Debug)]
pub(crate) enum Refused<'c> {
    /// Pods may only name those of this pattern.
    NoPods(&'c SmolStr, &'c Pattern),
    /// It leads out of the node.
    Uplink(&'c SmolStr),
    /// Others name it too.
    Contested(&'c SmolStr, Vec<&'c ObjectRef>),
}

impl<'c> Judge<'c> {
    pub(crate) fn new(claims: &'c Claims, may: &'c Pattern, uplinks: &'c [Pattern]) -> Self {
        Self {
            claims,
            may,
            uplinks,
            contested: claims.contested(),
        }
    }

    /// The interface of a pod; nothing where it names none.
    pub(crate) fn interface(&self, pod: &ObjectRef) -> Option<Result<&'c SmolStr, Refused<'c>>> {
        let (pod, claim) = self.claims.0.get_key_value(&named(pod))?;
        Some(self.judge(pod, &claim.interface))
    }

    fn judge(&self, pod: &ObjectRef, interface: &'c SmolStr) -> Result<&'c SmolStr, Refused<'c>> {
        if interface == LOCAL || !self.may.matches(interface) {
            return Err(Refused::NoPods(interface, self.may));
        }
        if self.uplinks.iter().any(|uplink| uplink.matches(interface)) {
            return Err(Refused::Uplink(interface));
        }
        match self.contested.get(interface) {
            Some(pods) => {
                let others = pods.iter().copied().filter(|other| *other != pod);
                Err(Refused::Contested(interface, others.collect()))
            }
            None => Ok(interface),
        }
    }

    /// The interfaces that are nobody's because several pods name them.
    pub(crate) fn contested(&self) -> impl Iterator<Item = &'c SmolStr> {
        let names = self.contested.iter();
        let names = names.filter_map(|(name, pods)| Some((*name, *pods.first()?)));
        names
            .filter(|(name, pod)| matches!(self.judge(pod, name), Err(Refused::Contested(..))))
            .map(|(name, _)| name)
    }

    /// What is wrong with the claims of pods.
    pub(crate) fn findings(&self) -> Vec<Found> {
        let claims = self.claims.0.iter();
        let refused = claims.filter_map(|(pod, claim)| {
            let refused = self.judge(pod, &claim.interface).err()?;
            Some((pod, claim, refused))
        });
        let found = refused.map(|(pod, claim, refused)| {
            let mut diagnostic =
                Diagnostic::new(codes::CLAIM, Severity::Error, format!("Forbidden: {refused}")).on(pod);
            diagnostic.field = format!("metadata.annotations.{ANNOTATION}");
            Found {
                object: ObjectRef {
                    uid: claim.uid.clone(),
                    ..pod.clone()
                },
                finding: Finding::new(pod, &diagnostic),
            }
        });
        found.collect()
    }
}

impl fmt::Display for Refused<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPods(interface, may) => {
                write!(f, "no pod may have interface `{interface}`, only such as `{may}`")
            }
            Self::Uplink(interface) => write!(f, "interface `{interface}` leads out of the node"),
            Self::Contested(interface, others) => {
                let others: Vec<_> = others.iter().map(|other| super::place::id(other)).collect();
                let others = others.join(", ");
                write!(
                    f,
                    "interface `{interface}` is claimed by {others} too: nothing passes there"
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
        Pod {
            vpp_interface: Some(interface.into()),
            ..on("n1", pod(name))
        }
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
            .0
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
        let findings = judge.findings();
        let found: Vec<_> = findings
            .iter()
            .map(|found| (found.finding.code.as_str(), found.finding.message.clone()))
            .collect();
        let messages: Vec<_> = messages.into_iter().map(|message| ("C020", message)).collect();
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
            assert!(claims.note(&[event], "n1"));
            let found = Judge::new(&claims, &may, &[]).findings();
            let objects: Vec<_> = found.into_iter().map(|found| found.object).collect();
            assert_eq!(objects, [claiming(uid).object]);
        }
    }

    #[test]
    fn claims_are_those_of_the_pods_of_the_node() {
        let apply = |pod: Pod| Event::Apply(Object::Pod(Arc::new(pod)));
        let elsewhere = Pod {
            vpp_interface: Some("tap1".into()),
            ..on("n2", pod("a/x"))
        };
        let finished = Pod {
            finished: true,
            ..claiming("a/x", "tap1")
        };
        let mut claims = Claims::default();
        let mut note = |event: Event| {
            let is_other = claims.note(&[event], "n1");
            (
                is_other,
                claims
                    .0
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
