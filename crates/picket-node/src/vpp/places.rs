//! Which lists each interface is to have, kept while what is wanted and what there is change: a pod that changes costs what
//! its own interfaces cost.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use picket_policy::ObjectRef;
use picket_vpp::acl::{Acl, Acls, Change, InterfaceLists};
use picket_vpp::client::Interface;
use smol_str::SmolStr;

use super::VppSettings;
use super::claims::{Claims, Concerned};
use super::place::{Finder, Known, Placed, id};
use super::told::Told;
use super::work::looked_at;
use super::worker::Moved;

/// What interfaces are to have.
#[derive(Debug)]
pub(crate) struct Places {
    finder: Finder,
    interfaces: BTreeMap<SmolStr, Interface>,
    known: Known,
    /// The lists of pods, and of all that leads out of the node.
    wanted: Acls,
    claims: Claims,
    placed: Placed,
    /// What has changed since they were placed; `None` where anything may have.
    news: Option<News>,
    /// How often everything was worked out.
    revision: u64,
    /// What has become of pods since then that nobody has asked for yet, by name.
    moved: BTreeMap<String, Moved>,
    /// The list that lets nothing pass.
    closed: Arc<Acl>,
}

/// What has changed since interfaces were placed.
#[derive(Debug, Default)]
struct News {
    /// Whose lists are others.
    lists: BTreeSet<SmolStr>,
    /// Whom it concerns that pods claim other interfaces.
    claims: Concerned,
}

impl Places {
    pub(crate) fn new(settings: &VppSettings) -> Self {
        Self {
            finder: Finder::new(&settings.pod_interfaces, &settings.uplinks),
            interfaces: BTreeMap::new(),
            known: Known::new(),
            wanted: Acls::default(),
            claims: Claims::default(),
            placed: Placed::default(),
            news: None,
            revision: 0,
            moved: BTreeMap::new(),
            closed: Arc::new(Acl::closed()),
        }
    }

    /// The interfaces that there are.
    pub(crate) fn interfaces(&self) -> &BTreeMap<SmolStr, Interface> {
        &self.interfaces
    }

    /// From now on there are these.
    pub(crate) fn set_interfaces(&mut self, interfaces: BTreeMap<SmolStr, Interface>) {
        self.interfaces = interfaces;
        self.news = None;
    }

    /// Looks whether a file says something else than it did.
    pub(crate) fn look(&mut self) -> bool {
        let is_other = self.finder.look();
        if is_other {
            self.news = None;
        }
        is_other
    }

    /// Why nobody can say whose any interface is.
    pub(crate) fn is_lost(&self) -> Option<&str> {
        self.finder.is_lost()
    }

    /// Takes in what is wanted.
    pub(crate) fn hear(&mut self, told: &Told<Acls>, claims: &Told<Claims>) {
        match told {
            Told::Whole(acls) => {
                self.wanted.clone_from(acls);
                self.news = None;
            }
            Told::Changed(change) => {
                self.wanted.advance(change);
                self.placed.take_lists(change);
                if let Some(news) = &mut self.news {
                    news.lists.extend(change.interfaces.keys().cloned());
                }
            }
        }
        match claims {
            Told::Whole(claims) => {
                self.claims.clone_from(claims);
                self.news = None;
            }
            Told::Changed(change) => {
                let concerned = self.claims.advance(change);
                if let Some(news) = &mut self.news {
                    news.claims.extend(concerned);
                }
            }
        }
    }

    /// Where nothing is wanted yet: nothing passes at the interfaces that look like those of pods, but for those at which
    /// something is in force from before.
    pub(crate) fn closed(&self, is_in_force: impl Fn(&SmolStr) -> bool) -> Acls {
        let mut placed = Placed::default();
        for (name, interface) in &self.interfaces {
            if self.finder.is_of_pods(name, interface) && !is_in_force(name) {
                placed.shut(name);
            }
        }
        placed.acls
    }

    /// What interfaces are to have, since the last step.
    pub(crate) fn placed(&self) -> &Placed {
        &self.placed
    }

    /// As long as this is the same, so is everything but the lists, what [has become of pods](Self::take_moved), and which interfaces
    /// are those of no pod that is known.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// What has become of pods since everything was worked out, or since this was asked, by name.
    pub(crate) fn take_moved(&mut self) -> BTreeMap<String, Moved> {
        std::mem::take(&mut self.moved)
    }

    /// Works out what interfaces are to have; those to which that is something else than before.
    pub(crate) fn advance(&mut self) -> BTreeSet<SmolStr> {
        let mut changed = BTreeSet::new();
        if let Some(news) = self.news.take()
            && self.claim(&news.claims, &mut changed)
            && news.lists.iter().all(|name| self.follow(name, &mut changed))
        {
            self.settle();
            self.news = Some(News::default());
            return changed;
        }
        looked_at(self.interfaces.len() + self.wanted.interfaces.len());
        self.finder.settle(&self.interfaces);
        self.known = self.finder.know(&self.interfaces);
        let now = self.finder.place(&self.wanted, &self.claims, &self.interfaces);
        let before = std::mem::replace(&mut self.placed, now).acls.interfaces;
        let now = &self.placed.acls.interfaces;
        let names = before.keys().chain(now.keys());
        let others = names.filter(|name| before.get(*name) != now.get(*name));
        changed.extend(others.cloned());
        self.news = Some(News::default());
        self.revision += 1;
        self.moved.clear();
        changed
    }

    /// Gives interfaces that pods claim otherwise to those that have them now; whether that can be said without a look at all others.
    fn claim(&mut self, concerned: &Concerned, changed: &mut BTreeSet<SmolStr>) -> bool {
        looked_at(concerned.pods.len() + concerned.interfaces.len());
        // One may claim what another had.
        for pod in &concerned.pods {
            if !self.leave(&SmolStr::from(id(pod)), changed) {
                return false;
            }
        }
        let here = concerned.interfaces.iter().filter(|name| {
            let found = self.interfaces.get(*name);
            found.is_some_and(|found| self.finder.is_of_pods(name, found))
        });
        let here: Vec<_> = here.collect();
        for name in &here {
            self.placed.contested.remove(*name);
        }
        for pod in &concerned.pods {
            let name: SmolStr = id(pod).into();
            let lists = self.wanted.interfaces.get(&name).cloned();
            if let Some(lists) = lists
                && let Some(pod) = &lists.pod
                && !self.come(pod, &lists, changed)
            {
                return false;
            }
        }
        let judge = self.finder.judge(&self.claims);
        for name in here {
            if self.placed.owners.contains_key(name) {
                continue;
            }
            changed.insert(name.clone());
            if judge.as_ref().is_some_and(|judge| judge.is_contested(name)) {
                self.placed.unknown.remove(name);
                self.placed.close(name);
            } else {
                self.placed.abandon(name);
            }
        }
        true
    }

    /// Gives its lists to whoever is of this name; whether that can be said without a look at all others.
    fn follow(&mut self, name: &SmolStr, changed: &mut BTreeSet<SmolStr>) -> bool {
        looked_at(1);
        let Some(lists) = self.wanted.interfaces.get(name).cloned() else {
            return self.leave(name, changed);
        };
        match &lists.pod {
            Some(pod) if self.placed.pods.contains_key(name.as_str()) => {
                self.give(name, pod, &lists, changed)
            }
            Some(pod) => self.come(pod, &lists, changed),
            None => {
                looked_at(self.placed.uplinks.len());
                for uplink in &self.placed.uplinks {
                    let uplink = SmolStr::new(uplink);
                    self.placed.acls.interfaces.insert(uplink.clone(), lists.clone());
                    changed.insert(uplink);
                }
                true
            }
        }
    }

    /// Gives the interfaces of a pod other lists.
    fn give(
        &mut self,
        name: &SmolStr,
        pod: &ObjectRef,
        lists: &InterfaceLists,
        changed: &mut BTreeSet<SmolStr>,
    ) -> bool {
        let own: Vec<SmolStr> = self.own(name).collect();
        let is_of_pod = |interface: &SmolStr| {
            self.placed.owners.get(interface) == Some(pod) && !self.placed.contested.contains(interface)
        };
        let is_clear = own.iter().all(is_of_pod);
        if is_clear {
            for interface in own {
                self.placed.set(&interface, lists);
                changed.insert(interface);
            }
        }
        is_clear
    }

    /// Places a pod that had no interface.
    fn come(&mut self, pod: &ObjectRef, lists: &InterfaceLists, changed: &mut BTreeSet<SmolStr>) -> bool {
        let judge = self.finder.judge(&self.claims);
        let own = self.finder.sought(pod, judge.as_ref());
        let own = own.and_then(|sought| self.known.get(&sought)).cloned();
        let own = own.unwrap_or_default();
        let is_taken = |interface: &SmolStr| {
            let uplinks = &self.placed.uplinks;
            self.placed.owners.contains_key(interface) || uplinks.iter().any(|uplink| uplink == interface)
        };
        if own.iter().any(is_taken) {
            return false;
        }
        self.finder
            .place_pod(pod, lists, &self.known, judge.as_ref(), &mut self.placed);
        for interface in &own {
            self.placed.unknown.remove(interface);
        }
        changed.extend(own);
        let name = id(pod);
        let moved = Moved {
            interfaces: self.placed.pods.get(&name).cloned().unwrap_or_default(),
            pending: self.placed.pending.get(&name).cloned(),
            ..Moved::default()
        };
        self.moved.insert(name, moved);
        true
    }

    /// Leaves the interfaces of a pod that is gone. What is behind them may still run.
    fn leave(&mut self, name: &SmolStr, changed: &mut BTreeSet<SmolStr>) -> bool {
        let own: Vec<SmolStr> = self.own(name).collect();
        let may_be_of_others = |interface: &SmolStr| {
            let found = self.interfaces.get(interface);
            self.placed.contested.contains(interface)
                || found.is_none_or(|found| self.finder.is_uplink(interface, found))
        };
        if own.iter().any(may_be_of_others) {
            return false;
        }
        for interface in own {
            self.placed.owners.remove(&interface);
            self.placed.acls.interfaces.remove(&interface);
            let found = self.interfaces.get(&interface);
            if found.is_some_and(|found| self.finder.is_of_pods(&interface, found)) {
                self.placed.abandon(&interface);
            }
            changed.insert(interface);
        }
        self.placed.pods.remove(name.as_str());
        self.placed.pending.remove(name.as_str());
        self.moved.insert(name.to_string(), Moved::default());
        true
    }

    /// Has the list that lets nothing pass where it is needed.
    fn settle(&mut self) {
        let tag = &self.closed.tag;
        let is_needed = !self.placed.contested.is_empty() || !self.placed.unknown.is_empty();
        let acls = &mut self.placed.acls.acls;
        if is_needed {
            acls.insert(tag.clone(), Arc::clone(&self.closed));
        } else if !self.wanted.acls.contains_key(tag) {
            acls.remove(tag);
        }
    }

    /// The interfaces of a pod.
    fn own(&self, name: &SmolStr) -> impl Iterator<Item = SmolStr> {
        let own = self.placed.pods.get(name.as_str()).into_iter().flatten();
        own.map(SmolStr::new)
    }
}

impl Placed {
    /// Takes in which lists there are.
    fn take_lists(&mut self, change: &Change) {
        let acls = &mut self.acls.acls;
        for tag in change.removed.keys() {
            acls.remove(tag);
        }
        let created = change.created.iter();
        acls.extend(created.map(|(tag, acl)| (tag.clone(), Arc::clone(acl))));
    }
}

#[cfg(test)]
mod tests {
    use picket_cluster::{Event, Object, Pod};
    use picket_net::Family;
    use picket_testing::build::pod;
    use picket_vpp::acl::{Acl, AclAction, AclRule, Role};
    use picket_vpp::client::{Label, LinkState};
    use proptest::prelude::*;

    use super::*;
    use crate::testing::vpp_settings;
    use crate::vpp::{Pattern, PodRule};

    const PODS: [&str; 3] = ["x/a", "x/b", "y/a"];

    /// What happens.
    #[derive(Clone, Debug)]
    enum Step {
        /// These are the lists, of which is told whole or in part.
        Lists(Acls, bool),
        /// There are interfaces with these tags, `tap0` and on; those without one are not there.
        Interfaces(Vec<Option<&'static str>>),
        /// Each of the pods names an interface, or none.
        Claims(Vec<Option<usize>>),
        /// Everything is placed.
        Place,
    }

    /// Lists of some of the pods, and those of all that leads out of the node.
    fn acls() -> impl Strategy<Value = Acls> {
        let known = Role::ALL.map(|role| {
            let all = Family::BOTH.map(|family| AclRule::everything(AclAction::Deny, family));
            Arc::new(Acl::new(role, all.into()))
        });
        let choice = prop::collection::vec(prop::option::weighted(0.8, (0..3usize, "[12]")), PODS.len());
        (choice, 0..3usize).prop_map(move |(choice, outside)| {
            let mut acls = Acls::default();
            let mut put = |name: &str, pod: Option<ObjectRef>, chosen: usize| {
                // One of them is what closes an interface.
                let acl = chosen.checked_sub(1).and_then(|chosen| known.get(chosen));
                let lists = InterfaceLists {
                    pod,
                    input: acl.iter().map(|acl| acl.tag.clone()).collect(),
                    output: Vec::new(),
                };
                acls.acls
                    .extend(acl.map(|acl| (acl.tag.clone(), Arc::clone(acl))));
                acls.interfaces.insert(name.into(), lists);
            };
            put("uplink", None, outside);
            for (name, chosen) in PODS.into_iter().zip(choice) {
                let Some((chosen, uid)) = chosen else {
                    continue;
                };
                let object = ObjectRef {
                    uid: uid.into(),
                    ..pod(name).build().object
                };
                put(name, Some(object), chosen);
            }
            acls
        })
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let tag = prop::sample::select(vec!["x/a", "x/b", "y/a", "none"]);
        let interfaces = prop::collection::vec(prop::option::weighted(0.9, tag), 4);
        let claims = prop::collection::vec(prop::option::weighted(0.9, 0..2usize), PODS.len());
        let step = prop_oneof![
            4 => (acls(), prop::bool::weighted(0.1)).prop_map(|(acls, whole)| Step::Lists(acls, whole)),
            1 => interfaces.prop_map(Step::Interfaces),
            1 => claims.prop_map(Step::Claims),
            4 => Just(Step::Place),
        ];
        prop::collection::vec(step, 1..48)
    }

    fn interfaces(tags: Vec<Option<&'static str>>) -> BTreeMap<SmolStr, Interface> {
        let there = (0..).zip(tags).filter_map(|(number, tag)| {
            let name: SmolStr = format!("tap{number}").into();
            let interface = Interface {
                index: number,
                parent: number,
                address: [0; 6],
                state: LinkState::default(),
                name: Label::new(&*name).unwrap(),
                device: Label::default(),
                tag: Label::new(tag?).unwrap(),
            };
            Some((name, interface))
        });
        there.collect()
    }

    fn pods(named: &[Option<usize>]) -> Vec<Pod> {
        let pods = PODS.into_iter().zip(named).map(|(name, interface)| {
            let pod = pod(name).on("n");
            match interface {
                Some(number) => pod.at_vpp(&format!("tap{number}")).build(),
                None => pod.build(),
            }
        });
        pods.collect()
    }

    fn settings(rule: PodRule, uplinks: &[&str]) -> VppSettings {
        VppSettings {
            pod_interfaces: rule,
            uplinks: uplinks.iter().map(|uplink| uplink.parse().unwrap()).collect(),
            ..vpp_settings()
        }
    }

    /// Goes through steps.
    fn follow(settings: &VppSettings, steps: Vec<Step>) -> Result<(), TestCaseError> {
        let mut places = Places::new(settings);
        let finder = Finder::new(&settings.pod_interfaces, &settings.uplinks);
        let (mut wanted, mut there) = (Acls::default(), BTreeMap::new());
        let mut claimed = Claims::default();
        for step in steps {
            match step {
                Step::Lists(acls, is_whole) => {
                    let told = match is_whole {
                        true => Told::Whole(Arc::new(acls.clone())),
                        false => Told::Changed(Arc::new(Change::between(&wanted, &acls))),
                    };
                    wanted = acls;
                    places.hear(&told, &Told::default());
                }
                Step::Interfaces(tags) => {
                    there = interfaces(tags);
                    places.set_interfaces(there.clone());
                }
                Step::Claims(named) => {
                    let pods = pods(&named);
                    let events = pods.iter().cloned().map(|pod| Event::Apply(Object::from(pod)));
                    let change = claimed.change(&events.collect::<Vec<_>>(), "n");
                    places.hear(&Told::default(), &Told::Changed(Arc::new(change)));
                    claimed = pods.iter().collect();
                }
                Step::Place => {
                    let before = places.placed().acls.interfaces.clone();
                    let revision = places.revision();
                    let Placed {
                        mut pods,
                        mut pending,
                        ..
                    } = places.placed().clone();
                    let others = said(places.placed());
                    let changed = places.advance();
                    let scratch = finder.place(&wanted, &claimed, &there);
                    prop_assert_eq!(places.placed(), &scratch);
                    let now = &scratch.acls.interfaces;
                    let names = before.keys().chain(now.keys());
                    for name in names.filter(|name| before.get(*name) != now.get(*name)) {
                        prop_assert!(changed.contains(name), "{} of {:?}", name, changed);
                    }
                    if places.revision() == revision {
                        for (pod, moved) in places.take_moved() {
                            put(
                                &mut pods,
                                &pod,
                                Some(moved.interfaces).filter(|own| !own.is_empty()),
                            );
                            put(&mut pending, &pod, moved.pending);
                        }
                        prop_assert_eq!(said(places.placed()), others);
                        prop_assert_eq!((&scratch.pods, &scratch.pending), (&pods, &pending));
                    }
                }
            }
        }
        Ok(())
    }

    /// What is told of them but for pods.
    fn said(placed: &Placed) -> String {
        format!("{:?} {:?}", placed.uplinks, placed.troubles)
    }

    fn put<T>(known: &mut BTreeMap<String, T>, pod: &str, now: Option<T>) {
        match now {
            Some(now) => drop(known.insert(pod.to_owned(), now)),
            None => drop(known.remove(pod)),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1024))]
        #[test]
        fn what_is_kept_is_what_is_worked_out_from_nothing(
            steps in steps(),
            is_claimed in any::<bool>(),
            uplinks in prop::sample::select(vec![vec![], vec!["tap0"], vec!["tap*"], vec!["ge0"]]),
        ) {
            let may: Pattern = "tap*".parse().unwrap();
            let rule = if is_claimed { PodRule::Annotation(may) } else { PodRule::default() };
            follow(&settings(rule, &uplinks), steps)?;
        }
    }

    /// What is told one after another is told as well at once.
    #[test]
    fn what_nobody_heard_of_is_told_with_what_comes_after_it() {
        let acls = |number: u8| {
            let rule = AclRule::everything(AclAction::Permit, Family::Ipv4);
            let acl = Acl::new(Role::ToPod, vec![rule; usize::from(number)]);
            let lists = InterfaceLists {
                pod: None,
                input: vec![acl.tag.clone()],
                output: Vec::new(),
            };
            let mut acls = Acls::default();
            acls.acls.insert(acl.tag.clone(), acl.into());
            acls.interfaces.insert("uplink".into(), lists);
            acls
        };
        let [one, two, three] = [acls(1), acls(2), acls(3)];
        let whole = |acls: &Acls| Told::Whole(Arc::new(acls.clone()));
        let change = |before: &Acls, now: &Acls| Told::Changed(Arc::new(Change::between(before, now)));
        for told in [
            whole(&one).then(&change(&one, &three)),
            whole(&one).then(&whole(&three)),
            change(&one, &two).then(&whole(&three)),
            change(&one, &two).then(&change(&two, &three)),
        ] {
            let mut places = Places::new(&settings(PodRule::default(), &[]));
            places.hear(&whole(&one), &Told::default());
            places.hear(&told, &Told::default());
            assert_eq!(places.wanted, three);
        }
    }
}
