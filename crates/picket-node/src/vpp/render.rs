//! What is wanted of VPP, worked out of the program: the one place where something is rendered for it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Instant;

use picket_cluster::Event;
use picket_dataplane::Shortfall;
use picket_engine::{Delta, Program};
use picket_policy::ObjectRef;
use picket_vpp::acl::{self, Acls};
use picket_vpp::session::{self, Tables};
use smol_str::SmolStr;

use super::claims::{self, Claims, Judge};
use super::findings::Found;
use super::place::id;
use super::restrictions::Restrictions;
use super::rule::{Pattern, PodRule};
use super::told::{Told, Whole};
use super::work::looked_at;
use super::{VppSettings, VppTarget};
use crate::status::{Finding, Pods};
use crate::versions::PolicyVersions;

/// Up to which `resourceVersion` of each kind of objects something is known.
pub(crate) type Versions = BTreeMap<SmolStr, SmolStr>;

/// How far changes of the cluster are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Known {
    /// By resource, up to which version all of them are.
    pub(crate) versions: Versions,
    /// The policies of which nobody can tell what they say in the version that was read last.
    pub(crate) unreadable: Vec<PolicyVersions>,
}

/// What VPP is to have: for one target by pods, as nobody knows here which interfaces there are.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    /// The lists of each pod, and of all that leads out of the node.
    pub(crate) lists: Told<Acls>,
    /// Which interfaces pods claim, where that counts.
    pub(crate) claims: Told<Claims>,
    /// The session rules of each pod's namespace, and of what arrives over the network.
    pub(crate) rules: Told<Tables>,
    /// Of which pods those allow less than the policies, as there may be no more rules.
    pub(crate) narrower: Vec<String>,
    /// How many pods of the node policies restrict.
    pub(crate) pods: Pods,
    /// The policies because of which packets of the node's pods can be dropped.
    pub(crate) policies: Arc<[String]>,
    /// How far changes of the cluster are known.
    pub(crate) known: Known,
    /// When the first change was heard of that is new in this.
    pub(crate) heard: Option<Instant>,
    /// The policies that have changed.
    pub(crate) changed: BTreeSet<ObjectRef>,
}

impl Wanted {
    /// The same after this was wanted, of which nobody has heard.
    pub(crate) fn then(&self, later: &Self) -> Self {
        Self {
            lists: self.lists.then(&later.lists),
            claims: self.claims.then(&later.claims),
            rules: self.rules.then(&later.rules),
            heard: self.heard.or(later.heard),
            changed: self.changed.union(&later.changed).cloned().collect(),
            ..later.clone()
        }
    }
}

/// Works out what is wanted.
pub(crate) struct Renderer {
    node: SmolStr,
    targets: BTreeSet<VppTarget>,
    /// Follows the program, where lists are wanted.
    lists: acl::Renderer,
    /// Whether nobody has heard of any list or rule, as all are worked out anew.
    is_new: bool,
    /// Which interfaces pods may claim, where that counts.
    claimable: Option<Pattern>,
    uplinks: Vec<Pattern>,
    claims: Claims,
    /// What of that nobody has heard of.
    claimed: claims::Change,
    /// What is wrong with them, by pod.
    refused: BTreeMap<ObjectRef, Found>,
    /// Follows the program, where session rules are wanted.
    sessions: session::Renderer,
    restrictions: Restrictions,
    narrower: Vec<String>,
    /// What of the policies lists cannot say.
    unsaid: acl::Shortfalls,
    /// What of the policies each target cannot do.
    shortfalls: BTreeMap<VppTarget, Vec<Shortfall>>,
    /// Whether what was rendered is still what the program says.
    is_current: bool,
    heard: Option<Instant>,
    changed: BTreeSet<ObjectRef>,
}

impl Renderer {
    pub(crate) fn new(node: &SmolStr, settings: &VppSettings) -> Self {
        Self {
            node: node.clone(),
            targets: settings.targets.clone(),
            lists: acl::Renderer::new(Some(node), acl::Options::default()),
            is_new: true,
            claimable: match &settings.pod_interfaces {
                PodRule::Annotation(may) if settings.targets.contains(&VppTarget::Acl) => Some(may.clone()),
                _ => None,
            },
            uplinks: settings.uplinks.clone(),
            claims: Claims::default(),
            claimed: claims::Change::default(),
            refused: BTreeMap::new(),
            sessions: session::Renderer::new(
                Some(node),
                session::Options {
                    most_rules: settings.most_session_rules,
                },
            ),
            restrictions: Restrictions::new(node),
            narrower: Vec::new(),
            unsaid: acl::Shortfalls::default(),
            shortfalls: BTreeMap::new(),
            is_current: false,
            heard: None,
            changed: BTreeSet::new(),
        }
    }

    /// Learns what happens to pods; whether they claim other interfaces then.
    pub(crate) fn learn(&mut self, events: &[Event]) -> bool {
        let Some(may) = &self.claimable else {
            return false;
        };
        let change = self.claims.change(events, &self.node);
        let concerned = self.claims.advance(&change);
        let judge = Judge::new(&self.claims, may, &self.uplinks);
        looked_at(concerned.pods.len());
        for pod in concerned.pods {
            match judge.finding(&pod) {
                Some(found) => drop(self.refused.insert(pod, found)),
                None => drop(self.refused.remove(&pod)),
            }
        }
        Claims::join(&mut self.claimed, &change);
        !change.is_empty()
    }

    /// Learns what changed in the program.
    pub(crate) fn note(&mut self, delta: &Delta) {
        self.is_current &= delta.is_empty();
        self.lists.note(delta);
        self.sessions.note(delta);
        self.restrictions.note(delta);
        self.unsaid.note(delta);
    }

    /// Lets the next be worked out from nothing.
    pub(crate) fn forget(&mut self) {
        self.is_current = false;
        self.lists.forget();
        self.sessions.forget();
        self.restrictions.forget();
        self.unsaid.forget();
        self.is_new = true;
    }

    /// Something changed, and was heard of then.
    pub(crate) fn heard(&mut self, at: Instant, policies: &[ObjectRef]) {
        self.heard.get_or_insert(at);
        self.changed.extend(policies.iter().cloned());
    }

    /// What the program wants. All changes of it since the last time must have been noted.
    pub(crate) fn render(&mut self, program: &Program, known: &Known) -> Arc<Wanted> {
        let (mut lists, mut rules) = (Told::default(), Told::default());
        let claimed = std::mem::take(&mut self.claimed);
        let claims = match self.is_new {
            true => Told::Whole(Arc::new(self.claims.clone())),
            false => Told::Changed(Arc::new(claimed)),
        };
        if !self.is_current {
            if self.targets.contains(&VppTarget::Acl) {
                lists = self.render_lists(program);
            }
            if self.targets.contains(&VppTarget::Session) {
                rules = self.render_rules(program);
            }
            (self.is_current, self.is_new) = (true, false);
        }
        let (pods, policies) = self.restrictions.advance(program);
        Arc::new(Wanted {
            lists,
            claims,
            rules,
            narrower: self.narrower.clone(),
            pods,
            policies,
            known: known.clone(),
            heard: self.heard.take(),
            changed: std::mem::take(&mut self.changed),
        })
    }

    fn render_lists(&mut self, program: &Program) -> Told<Acls> {
        let change = self.lists.advance(program);
        let shortfalls = self.unsaid.advance(program, Some(&self.node));
        self.shortfalls.insert(VppTarget::Acl, shortfalls);
        match self.is_new {
            true => Told::Whole(Arc::new(self.lists.acls().clone())),
            false => Told::Changed(Arc::new(change)),
        }
    }

    fn render_rules(&mut self, program: &Program) -> Told<Tables> {
        let change = self.sessions.advance(program);
        let missing = self.sessions.missing();
        looked_at(missing.len());
        let said = missing.iter().map(|missing| {
            format!(
                "{} ({}): its table has no room for {} rules, and what they would allow is denied",
                id(&missing.pod),
                missing.direction,
                missing.missing
            )
        });
        self.narrower = said.collect();
        let shortfalls = session::shortfalls(program, &missing);
        self.shortfalls.insert(VppTarget::Session, shortfalls);
        match self.is_new {
            true => {
                let tables = self.sessions.tables();
                looked_at(tables.local.len() + tables.global.len());
                Told::Whole(Arc::new(tables))
            }
            false => Told::Changed(Arc::new(change)),
        }
    }

    /// What of the policies cannot be enforced, and which claims of pods do not hold.
    pub(crate) fn findings(&self) -> Vec<Found> {
        let unsaid = self.shortfalls.values().flatten().map(found);
        looked_at(self.refused.len());
        unsaid.chain(self.refused.values().cloned()).collect()
    }
}

/// What a target cannot do of a policy, and what it does instead.
fn found(shortfall: &Shortfall) -> Found {
    let finding = Finding::new(&shortfall.policy, &shortfall.diagnostic());
    Found {
        object: shortfall.policy.clone(),
        finding: Finding {
            message: format!("{}; {}", finding.message, shortfall.instead),
            ..finding
        },
    }
}

#[cfg(test)]
mod tests {
    use picket_cluster::{Object, Semantics, Store};
    use picket_engine::Engine;
    use picket_net::Protocol;
    use picket_testing::build::{accept, block, node, pod, pods_in, policy};

    use picket_policy::{Direction, Policy};
    use picket_source::Change;

    use super::super::told::Whole;
    use super::*;
    use crate::Extent;
    use crate::enforcer::in_force;
    use crate::events::Events;
    use crate::knowledge::{Knowledge, Whose};
    use crate::ledger::Instead;
    use crate::metrics::Metrics;
    use crate::testing::vpp_settings;

    fn events() -> Vec<Event> {
        let node = |name: &str, address: &str| Event::Apply(Object::from(node(name).ip(address)));
        let on = |place: &str, name: &str, address: &str| {
            let pod = pod(&format!("x/{name}")).label("app", name).ip(address);
            Event::Apply(Object::from(pod.on(place).build()))
        };
        let apply = |policy| Event::Apply(Object::Policy(policy));
        let of_web = accept().peer(pods_in("x", "app=b")).port(Protocol::TCP, 80);
        let wide = accept().peer(block("10.0.0.0/8", &["10.1.0.0/16"]));
        let ports = (1..=300).map(|port| {
            accept()
                .peer(block("192.0.2.0/24", &[]))
                .port(Protocol::TCP, 2 * port)
        });
        let many = ports.fold(policy("x/many").selects("app=c"), |policy, rule| {
            policy.egress(rule)
        });
        let gone = Event::Delete(ObjectRef::new("Pod", "x", "a"));
        vec![
            node("n1", "10.9.0.1"),
            node("n2", "10.9.0.2"),
            on("n1", "a", "10.0.0.1"),
            on("n1", "b", "10.0.0.2"),
            on("n2", "c", "10.0.0.3"),
            apply(policy("x/web").selects("app=a").ingress(of_web).build()),
            on("n1", "c", "10.0.0.3"),
            apply(policy("x/wide").selects("app=b").egress(wide).build()),
            apply(many.build()),
            gone,
            Event::Delete(ObjectRef::new("NetworkPolicy", "x", "wide")),
            Event::Delete(ObjectRef::new("NetworkPolicy", "x", "many")),
        ]
    }

    /// What is heard of.
    fn hear<W: Whole>(known: &mut W, told: &Told<W>) {
        match told {
            Told::Whole(whole) => known.clone_from(whole),
            Told::Changed(change) => known.follow(change),
        }
    }

    #[test]
    fn what_changes_lead_to_is_what_is_rendered_from_nothing() {
        let settings = vpp_settings();
        let (mut lists, mut rules, mut narrower) = (0, 0, 0);
        for forgetting in [usize::MAX, 3, 7, 9] {
            let mut engine = Engine::new(Semantics::default());
            let mut renderer = Renderer::new(&"n1".into(), &settings);
            let (mut acls, mut tables) = (Acls::default(), Tables::default());
            for (number, event) in events().into_iter().enumerate() {
                let delta = engine.apply(event);
                renderer.note(&delta);
                if number == forgetting {
                    renderer.forget();
                }
                let program = engine.program();
                let wanted = renderer.render(program, &Known::default());
                let (pods, policies) = in_force(program, "n1");
                let policies: Vec<_> = policies.iter().map(ObjectRef::to_string).collect();
                assert_eq!((wanted.pods, &*wanted.policies), (pods, policies.as_slice()));
                let unsaid = acl::shortfalls(program, Some("n1"));
                assert_eq!(renderer.shortfalls[&VppTarget::Acl], unsaid);
                let before = acls.clone();
                hear(&mut acls, &wanted.lists);
                hear(&mut tables, &wanted.rules);
                assert_eq!(acls, acl::render(program, Some("n1"), &acl::Options::default()));
                let options = session::Options { most_rules: 100 };
                let (scratch, missing) = session::render(program, Some("n1"), &options);
                assert_eq!(session::SessionRules::from(&tables), scratch);
                assert_eq!(wanted.narrower.len(), missing.len());
                let findings = renderer.findings();
                let findings = findings.iter();
                assert!(
                    findings
                        .clone()
                        .all(|found| found.finding.object == "NetworkPolicy x/many")
                );
                assert_eq!(findings.count(), missing.len());
                match &wanted.lists {
                    Told::Whole(_) => assert!(number == 0 || number == forgetting),
                    Told::Changed(change) => assert_eq!(**change, acl::Change::between(&before, &acls)),
                }
                lists = lists.max(acls.acls.len());
                rules = rules.max(scratch.local.values().map(Vec::len).sum::<usize>());
                narrower = narrower.max(missing.len());
            }
        }
        assert!(
            lists > 4 && rules > 4 && narrower == 1,
            "{lists} {rules} {narrower}"
        );
    }

    /// One of three policies in one of three versions.
    fn version(name: usize, version: usize) -> Policy {
        let policy = policy(&format!("x/{name}")).selects(&format!("app=a{name}"));
        match version {
            0 => policy.isolates(Direction::Ingress),
            1 => policy.isolates(Direction::Egress),
            _ => policy.isolates(Direction::Ingress).isolates(Direction::Egress),
        }
        .build()
    }

    fn versions() -> Vec<Event> {
        let pods = (0..3).map(|number| {
            let pod = pod(&format!("x/a{number}")).label("app", &format!("a{number}"));
            Event::Apply(Object::from(pod.on("n").ip(&format!("10.0.0.{number}")).build()))
        });
        let first = [Event::Init, Event::Apply(Object::from(node("n").ip("10.9.0.1")))];
        let apply = |name, at| Event::Apply(Object::Policy(version(name, at)));
        let delete = |name, at| Event::Delete(version(name, at).object);
        let changes = [
            apply(0, 0),
            apply(1, 0),
            apply(2, 2),
            apply(1, 1),
            delete(0, 0),
            apply(0, 1),
            apply(0, 2),
            delete(1, 0),
            apply(2, 1),
        ];
        first
            .into_iter()
            .chain(pods)
            .chain([Event::InitDone])
            .chain(changes)
            .collect()
    }

    /// What is wanted of VPP while the policies in these places of the sequence are held back and released.
    #[test]
    fn who_is_not_the_kernel_has_all_policies_whatever_is_held_back() {
        let metrics = Metrics::default();
        let whole = |store: &Store| {
            let engine = Engine::compile(&store.snapshot(), Semantics::default());
            acl::render(engine.program(), Some("n"), &acl::Options::default())
        };
        let mut lists = 0;
        for (held_at, released_at) in [(6, 20), (7, 9), (8, 11), (7, 8), (9, 13), (20, 20)] {
            let told = Events::start(&crate::testing::settings(), Extent::Once, &metrics).unwrap();
            let mut knowledge = Knowledge::new("n", Semantics::default(), true, told);
            let mut renderer = Renderer::new(&"n".into(), &vpp_settings());
            let (mut store, mut acls) = (Store::new(), Acls::default());
            for (at, event) in versions().into_iter().enumerate() {
                store.apply(event.clone());
                let note = |whose: Whose, delta: &Delta| {
                    if whose != Whose::Kernel {
                        renderer.note(delta);
                    }
                };
                knowledge.take(Change::Events(vec![event]), note);
                let Some(program) = knowledge.whole() else {
                    continue;
                };
                hear(&mut acls, &renderer.render(program, &Known::default()).lists);
                assert_eq!(acls, whole(&store), "{held_at} {released_at} {at}");
                lists = lists.max(acls.acls.len());
                if at == held_at {
                    // As a table is tried without them, and again.
                    let changed = knowledge.changed();
                    for instead in [Instead::Closed, Instead::Nothing] {
                        knowledge.hold(&changed, instead, |_| {});
                        knowledge.release(&changed, |_| {});
                    }
                    knowledge.hold(&changed, Instead::Nothing, |_| {});
                    assert!(!knowledge.held().is_empty());
                }
                if at == released_at {
                    let held = knowledge.held();
                    knowledge.release(&held, |_| {});
                }
                knowledge.settle();
                if knowledge.take_other() {
                    renderer.forget();
                }
                let program = knowledge.whole().unwrap();
                hear(&mut acls, &renderer.render(program, &Known::default()).lists);
                assert_eq!(acls, whole(&store), "{held_at} {released_at} {at}");
            }
        }
        assert!(lists > 3, "{lists}");
    }
}
