//! What a controller does, turn by turn, by a clock that a test moves and in a cloud that is a value.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use picket_cluster::{Event, Object, Semantics};
use picket_net::Family;
use picket_neutron::{Remote, SecurityGroup, SecurityGroupRule};
use picket_node::{Outbox, channel};
use picket_policy::{Direction, ObjectRef};
use picket_source::{Health, ObjectVersion};
use picket_testing::build::{accept, admin_policy, namespace, pod, pods_in, policy};
use tokio::runtime::{Builder, Runtime};

use super::*;
use crate::clock::Hands;
use crate::settings::Timing;
use crate::testing::{CALL, Fake, World};

/// A controller between a cluster and a cloud.
struct Scene {
    hands: Hands,
    world: Rc<RefCell<World>>,
    outbox: Outbox<News>,
    controller: Controller<Fake>,
    runtime: Runtime,
}

fn timing() -> Timing {
    Timing {
        call: CALL,
        ..Timing::default()
    }
}

impl Scene {
    /// One with two pods that have ports and a policy about the first.
    fn new() -> Self {
        let scene = Self::with(|clock| Lease::of_the_only_one(clock, "test"));
        scene.fill();
        scene
    }

    fn with(lease: impl FnOnce(Clock) -> Lease) -> Self {
        let hands = Hands::default();
        let lease = lease(hands.clock());
        let metrics = Metrics::default();
        let gate = Gate::new(lease.clone(), metrics.clone());
        let world = Rc::<RefCell<World>>::default();
        let (outbox, inbox) = channel();
        let controller = Controller {
            cloud: Fake {
                world: Rc::clone(&world),
                gate: gate.clone(),
            },
            clock: hands.clock(),
            shared: Shared::new("test", Health::default(), lease.clone()),
            lease,
            gate,
            knowledge: Knowledge::new(Semantics::default()),
            inbox,
            options: Options::default(),
            metrics,
            sync: Sync::new(timing(), "test"),
            outlet: None,
            at_once: 4,
            call: CALL,
            term: None,
            is_wary: false,
            state: None,
            rendered: Rendered::default(),
            extents: None,
            unanswered: 0,
            told: None,
            stop: Stop::default(),
        };
        Self {
            hands,
            world,
            outbox,
            controller,
            runtime: Builder::new_current_thread().build().unwrap(),
        }
    }

    fn fill(&self) {
        let mut events = vec![
            Event::Init,
            Event::Apply(Object::Namespace(namespace("x").build())),
        ];
        for (name, address) in [("a", "10.0.0.1"), ("b", "10.0.0.2")] {
            events.push(self.new_pod(name, address));
            self.port(name);
        }
        events.push(isolation());
        events.push(Event::InitDone);
        self.happens(events);
    }

    fn new_pod(&self, name: &str, address: &str) -> Event {
        let built = pod(&format!("x/{name}")).label("app", name).ip(address).build();
        Event::Apply(Object::from(built))
    }

    fn port(&self, name: &str) {
        let ports = &mut self.world.borrow_mut().has.ports;
        ports.insert(of(name), ["default".into()].into());
    }

    fn happens(&self, events: Vec<Event>) {
        let heard = self.controller.clock.now();
        self.outbox.tell(News::Cluster(heard, Change::Events(events)));
    }

    /// What is about this cannot be done from now on.
    fn fails(&self, name: &str, reason: Reason) {
        self.world.borrow_mut().failing.insert(name.to_owned(), reason);
    }

    /// Turns until there is nothing to do now; until when then.
    fn go(&mut self) -> Option<Duration> {
        for _ in 0..1000 {
            let next = self.runtime.block_on(self.controller.turn()).unwrap();
            if let Next::Wait(until) = next {
                return until;
            }
        }
        panic!("it never rests: {:?}", self.world.borrow().asked.last());
    }

    /// Turns, and lets time pass to each next moment, for so long.
    fn goes_on(&mut self, span: Duration) {
        let end = self.controller.clock.now() + span;
        loop {
            let until = self.go();
            let now = self.controller.clock.now();
            match until.filter(|until| *until < end) {
                Some(until) => self
                    .hands
                    .forward((until.saturating_sub(now)).max(Duration::from_millis(1))),
                None => return self.hands.forward(end - now),
            }
        }
    }

    /// What the cloud was asked since this was last called.
    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.world.borrow_mut().asked)
    }

    #[track_caller]
    fn expect_enforced(&self) {
        let program = self.controller.knowledge.program().unwrap();
        let rendered = render(program, &Options::default());
        let world = self.world.borrow();
        assert!(world.has.is(&rendered.objects), "{:#?}", world.has.ports);
    }
}

fn everybody() -> SecurityGroupRule {
    SecurityGroupRule {
        direction: Direction::Ingress,
        ethertype: Family::Ipv4,
        protocol: None,
        ports: None,
        remote: Remote::Anyone,
    }
}

fn of(name: &str) -> ObjectRef {
    pod(&format!("x/{name}")).build().object
}

fn isolation() -> Event {
    let lets_in = accept().peer(pods_in("x", "app=b"));
    Event::Apply(Object::Policy(
        policy("x/web").selects("app=a").ingress(lets_in).build(),
    ))
}

const MOMENT: Duration = Duration::from_secs(2);

#[test]
fn what_the_cluster_says_is_made_and_then_nothing_is_asked() {
    let mut scene = Scene::new();
    scene.goes_on(MOMENT);
    scene.expect_enforced();
    let asked = scene.asked();
    assert_eq!(
        asked.iter().filter(|call| *call == "read").count(),
        1,
        "{asked:?}"
    );
    assert!(scene.controller.shared.status().ready);
    scene.goes_on(Duration::from_secs(500));
    assert_eq!(scene.asked(), Vec::<String>::new());
    let status = scene.controller.shared.lock().clone();
    assert!(status.current.is_some() && status.failures.is_empty() && status.pending.is_empty());
    assert!(
        status.policies[0].ready && status.policies[0].pods == 1,
        "{status:?}"
    );
}

#[test]
fn one_more_peer_is_one_port_update() {
    let mut scene = Scene::new();
    scene.goes_on(MOMENT);
    scene.asked();
    scene.port("c");
    let peer = pod("x/c").label("app", "b").ip("10.0.0.3").build();
    scene.happens(vec![Event::Apply(Object::from(peer))]);
    scene.goes_on(MOMENT);
    scene.expect_enforced();
    let asked = scene.asked();
    assert_eq!(asked[0], "find");
    assert!(
        asked.len() == 2 && asked[1].starts_with("port Pod x/c"),
        "{asked:?}"
    );
}

#[test]
fn changes_that_come_together_are_enforced_together_and_do_not_wait_for_ever() {
    let mut scene = Scene::new();
    scene.goes_on(MOMENT);
    scene.asked();
    // Something changes every 50 ms, which is never quiet.
    let mut first = None;
    for number in 0..40_u32 {
        let label = format!("{number}");
        let changed = pod("x/b")
            .label("app", "b")
            .label("n", &label)
            .ip("10.0.0.2")
            .build();
        let reselects = policy("x/web").selects(&format!("app=a,n!={number}")).build();
        scene.happens(vec![
            Event::Apply(Object::from(changed)),
            Event::Apply(Object::Policy(reselects)),
        ]);
        scene.go();
        if !scene.asked().is_empty() {
            first.get_or_insert(number);
        }
        scene.hands.forward(Duration::from_millis(50));
    }
    assert!(first.is_some_and(|first| (19..=21).contains(&first)), "{first:?}");
}

#[test]
fn what_others_change_is_found_and_repaired_at_the_next_reading() {
    let mut scene = Scene::new();
    scene.goes_on(MOMENT);
    scene.asked();
    {
        let mut world = scene.world.borrow_mut();
        world.has.ports.insert(of("a"), BTreeSet::new());
        world.has.groups.pop_first();
    }
    scene.goes_on(Duration::from_secs(800));
    scene.expect_enforced();
    assert_eq!(scene.asked().len(), 3);
    assert_eq!(scene.controller.shared.lock().repaired, 2);
    // What the cluster changes is nothing that others did.
    scene.happens(vec![Event::Delete(policy("x/web").build().object)]);
    scene.goes_on(MOMENT);
    scene.expect_enforced();
    assert_eq!(scene.controller.shared.lock().repaired, 2);
}

#[test]
fn what_others_change_is_told_also_while_something_cannot_be_changed() {
    let mut scene = Scene::new();
    scene.fails("b", Reason::Refused);
    scene.goes_on(MOMENT);
    let before = scene.controller.shared.lock().repaired;
    scene
        .world
        .borrow_mut()
        .has
        .ports
        .insert(of("a"), BTreeSet::new());
    // One reading in ten minutes: another may fall together with another attempt.
    scene.goes_on(Duration::from_secs(2400));
    let status = scene.controller.shared.lock().clone();
    assert_eq!((before, status.repaired), (0, 1), "{:?}", status.failures);
    assert!(!scene.world.borrow().has.ports[&of("a")].is_empty());
}

#[test]
fn a_policy_is_not_said_to_be_in_force_before_it_is_planned_for() {
    let mut scene = Scene::new();
    scene.goes_on(MOMENT);
    let states = |scene: &Scene| {
        let policies = scene.controller.shared.lock().policies.clone();
        let said = policies
            .iter()
            .map(|one| (one.policy.clone(), one.ready, one.pods));
        said.collect::<Vec<_>>()
    };
    let before = states(&scene);
    assert!(before.len() == 1 && before[0].1, "{before:?}");
    // It is heard of, and not looked at for a while in which more may come.
    let other = policy("x/other").selects("app=b").build();
    scene.happens(vec![Event::Apply(Object::Policy(other))]);
    scene.go();
    assert_eq!(states(&scene), before);
    scene.goes_on(MOMENT);
    let after = states(&scene);
    assert!(
        after.len() == 2 && after.iter().all(|(_, ready, _)| *ready),
        "{after:?}"
    );
}

#[test]
fn what_cannot_be_changed_is_reported_and_tried_again_while_others_go_on() {
    for reason in [Reason::Refused, Reason::Stale, Reason::Unknown] {
        let mut scene = Scene::new();
        scene.fails("a", reason);
        scene.goes_on(MOMENT);
        let status = scene.controller.shared.lock().clone();
        assert_eq!(status.failures[0].object, "Pod x/a", "{reason:?}");
        assert!(!status.policies[0].ready, "{:?}", status.policies);
        // The others are in force, so that it could be told from it that a new one has taken over.
        assert!(status.ready && status.current.is_none(), "{reason:?}");
        // The other port has its groups.
        assert!(!scene.world.borrow().has.ports[&of("b")].contains("default"));
        scene.world.borrow_mut().failing.clear();
        scene.goes_on(Duration::from_secs(600));
        scene.expect_enforced();
        let status = scene.controller.shared.lock().clone();
        assert!(
            status.failures.is_empty() && status.policies[0].ready,
            "{status:?}"
        );
    }
}

#[test]
fn a_policy_whose_peer_cannot_be_let_in_is_not_in_force_and_others_are() {
    let mut scene = Scene::new();
    let alone = policy("x/alone").selects("app=a").isolates(Direction::Ingress);
    scene.happens(vec![Event::Apply(Object::Policy(alone.build()))]);
    scene.fails("b", Reason::Refused);
    scene.goes_on(MOMENT);
    let status = scene.controller.shared.lock().clone();
    let told = status
        .policies
        .iter()
        .map(|state| (state.policy.as_str(), state.ready));
    let told: BTreeMap<_, _> = told.collect();
    let expected = [("NetworkPolicy x/alone", true), ("NetworkPolicy x/web", false)];
    assert_eq!(told, expected.into(), "{:?}", status.policies);
    let web = status.policies.iter().find(|state| !state.ready).unwrap();
    let [why] = web.failures.as_slice() else {
        panic!("{web:?}");
    };
    assert!(why.starts_with("Pod x/b: "), "{why}");
    assert_eq!(web.pods, 1);
}

/// A port that rules mean all the same, and one that they do not.
#[test]
fn a_policy_about_a_peer_is_not_in_force_where_no_rule_means_its_port() {
    for (left_out, is_ready) in [(false, true), (true, false)] {
        let mut scene = Scene::new();
        let mut world = scene.world.borrow_mut();
        world
            .unenforced
            .insert(of("b"), "groups do not count there".to_owned());
        world.left_out.extend(left_out.then(|| of("b")));
        drop(world);
        scene.goes_on(MOMENT);
        let status = scene.controller.shared.lock().clone();
        assert_eq!(status.policies[0].ready, is_ready, "{:?}", status.policies);
        assert_eq!(status.unenforced.len(), 1);
    }
}

#[test]
fn of_what_is_refused_again_and_again_attempts_become_few() {
    let mut scene = Scene::new();
    scene.fails("a", Reason::Refused);
    scene.goes_on(Duration::from_secs(590));
    let attempts = scene
        .asked()
        .iter()
        .filter(|call| call.starts_with("port Pod x/a"))
        .count();
    assert!((8..=11).contains(&attempts), "{attempts}");
}

#[test]
fn a_group_that_a_quota_forbids_keeps_nothing_else_from_being_made() {
    let mut scene = Scene::new();
    let own = "picket/policy/x/web/ingress";
    scene.fails(own, Reason::Refused);
    scene.goes_on(MOMENT);
    let status = scene.controller.shared.lock().clone();
    assert_eq!(status.failures[0].object, format!("group {own}"));
    assert!(!status.policies[0].ready && status.policies[0].failures[0].contains(own));
    // The pod has all of its groups but this: it is closed, and not open.
    let world = scene.world.borrow();
    let groups = &world.has.ports[&of("a")];
    assert!(
        !groups.contains("default") && !groups.contains("picket/open/ingress"),
        "{groups:?}"
    );
    assert!(groups.contains("picket/open/egress"));
}

#[test]
fn a_group_that_no_port_has_and_that_keeps_too_much_keeps_nothing_else_from_being_made() {
    let mut scene = Scene::new();
    let own = "picket/policy/x/web/ingress";
    {
        let mut world = scene.world.borrow_mut();
        let open = SecurityGroup {
            rules: [everybody()].into(),
            ..SecurityGroup::default()
        };
        world.has.groups.insert(own.into(), open);
        world.failing.insert(own.to_owned(), Reason::Refused);
    }
    scene.goes_on(MOMENT);
    let status = scene.controller.shared.lock().clone();
    assert_eq!(status.failures[0].object, format!("group {own}"));
    // The pod has all of its groups but this.
    let groups = scene.world.borrow().has.ports[&of("a")].clone();
    assert!(!groups.contains("default") && !groups.contains(own), "{groups:?}");
    assert!(groups.contains("picket/open/egress"), "{groups:?}");
    scene.world.borrow_mut().failing.clear();
    scene.goes_on(Duration::from_secs(600));
    scene.expect_enforced();
}

/// Otherwise a new port of the pod would get what it had before.
#[test]
fn a_pod_is_told_its_groups_without_those_that_cannot_be_made() {
    let mut scene = Scene::new();
    let outlet = Outlet::default();
    scene.controller.outlet = Some(outlet.clone());
    let own = "picket/policy/x/web/ingress";
    scene.fails(own, Reason::Refused);
    scene.goes_on(MOMENT);
    let told = || outlet.take().unwrap().groups[&of("a")].clone();
    assert_eq!(told(), "id of picket/open/egress");
    scene.world.borrow_mut().failing.clear();
    scene.goes_on(Duration::from_secs(600));
    assert_eq!(told(), format!("id of picket/open/egress,id of {own}"));
}

#[test]
fn a_cloud_that_is_away_is_asked_more_and_more_seldom_and_then_made_right() {
    let mut scene = Scene::new();
    scene.world.borrow_mut().is_away = true;
    scene.goes_on(Duration::from_secs(300));
    let status = scene.controller.shared.lock().clone();
    assert_eq!(status.trouble.as_deref(), Some("nobody answers"));
    assert_eq!(status.policies[0].failures, ["nobody answers"]);
    assert!(!status.ready);
    let asked = scene.asked().len();
    assert!((7..=9).contains(&asked), "{asked}");
    scene.world.borrow_mut().is_away = false;
    scene.goes_on(Duration::from_secs(400));
    scene.expect_enforced();
    assert_eq!(scene.controller.shared.lock().trouble, None);
}

#[test]
fn when_calls_get_no_answer_again_and_again_no_more_are_begun() {
    let mut scene = Scene::new();
    let all = render_names(&scene);
    let mut world = scene.world.borrow_mut();
    world.failing = all.into_iter().map(|name| (name, Reason::Unknown)).collect();
    assert!(world.failing.len() >= 4);
    drop(world);
    scene.controller.at_once = 1;
    scene.go();
    scene.hands.forward(Duration::from_millis(150));
    scene.go();
    let calls = scene.asked().into_iter().filter(|call| call != "read").count();
    assert!(calls <= 4, "{calls}");
}

/// The names of all groups that there are to be.
fn render_names(scene: &Scene) -> Vec<String> {
    let mut other = Scene::new();
    other.goes_on(MOMENT);
    drop(scene.asked());
    let world = other.world.borrow();
    world.has.groups.keys().map(ToString::to_string).collect()
}

#[test]
fn a_pod_without_a_port_is_pending_and_looked_for() {
    let mut scene = Scene::new();
    scene.goes_on(MOMENT);
    scene.happens(vec![scene.new_pod("late", "10.0.0.9")]);
    scene.goes_on(Duration::from_secs(60));
    assert_eq!(scene.controller.shared.lock().pending, ["Pod x/late"]);
    scene.port("late");
    scene.goes_on(Duration::from_secs(15));
    scene.expect_enforced();
    assert_eq!(scene.controller.shared.lock().pending, Vec::<String>::new());
}

/// Nothing gives a port to a pod that no node can run, and all ports need not be read for it.
#[test]
fn a_pod_without_a_node_is_not_looked_for_until_it_has_one() {
    let mut scene = Scene::new();
    scene.goes_on(MOMENT);
    scene.asked();
    let late = || pod("x/late").label("app", "late");
    scene.happens(vec![Event::Apply(late().into())]);
    scene.goes_on(Duration::from_secs(60));
    assert_eq!(scene.controller.shared.lock().pending, ["Pod x/late"]);
    assert!(!scene.asked().contains(&"find".to_owned()));
    scene.happens(vec![Event::Apply(late().on("n").into())]);
    scene.goes_on(MOMENT);
    assert!(scene.asked().contains(&"find".to_owned()));
}

#[test]
fn a_pod_that_has_another_address_or_names_other_ports_is_looked_for_though_a_port_is_known() {
    let mut scene = Scene::new();
    scene.goes_on(MOMENT);
    scene.asked();
    scene.happens(vec![scene.new_pod("b", "10.0.0.9")]);
    scene.goes_on(MOMENT);
    assert_eq!(scene.asked(), ["find"]);
    let relabelled = || {
        let pod = pod("x/b").label("app", "b").label("n", "1");
        pod.ip("10.0.0.9")
    };
    scene.happens(vec![Event::Apply(relabelled().into())]);
    scene.goes_on(MOMENT);
    assert_eq!(scene.asked(), Vec::<String>::new());
    let names_more = relabelled().at_neutron(&["a", "b"]);
    scene.happens(vec![Event::Apply(names_more.into())]);
    scene.goes_on(MOMENT);
    assert_eq!(scene.asked(), ["find"]);
}

#[test]
fn a_port_at_which_no_group_counts_is_in_the_status_and_counted() {
    let mut scene = Scene::new();
    let why = "port 7 has port security off".to_owned();
    scene.world.borrow_mut().unenforced.insert(of("a"), why.clone());
    scene.goes_on(MOMENT);
    let status = scene.controller.shared.lock().clone();
    let [unenforced] = status.unenforced.as_slice() else {
        panic!("{:?}", status.unenforced);
    };
    assert_eq!((unenforced.pod.as_str(), &unenforced.why), ("Pod x/a", &why));
    assert!(!status.policies[0].ready && status.policies[0].failures[0].contains(&why));
    let status = scene.controller.shared.status();
    let text = scene.controller.metrics.text(&status).unwrap();
    assert!(text.contains("picket_controller_ports_unenforced 1\n"), "{text}");
}

#[test]
fn whom_each_group_of_peers_is_there_for_is_in_the_status() {
    let mut scene = Scene::new();
    let lets_in = |app| accept().peer(pods_in("x", app));
    let same = policy("x/same").selects("app=b").ingress(lets_in("app=b"));
    scene.happens(vec![Event::Apply(Object::Policy(same.build()))]);
    scene.goes_on(MOMENT);
    let users = |scene: &Scene| {
        let status = scene.controller.shared.lock().clone();
        let groups = status.shared.into_iter();
        let groups: BTreeMap<_, _> = groups.map(|shared| (shared.group, shared.users)).collect();
        for name in groups.keys() {
            assert!(
                scene.world.borrow().has.groups.contains_key(name.as_str()),
                "{name}"
            );
        }
        groups.into_values().collect::<Vec<_>>()
    };
    assert_eq!(users(&scene), [["NetworkPolicy x/same", "NetworkPolicy x/web"]]);
    // What an administrator says first, a group for all policies of a pod together has to say.
    let first = admin_policy("first", 1).ingress(lets_in("app=c"));
    scene.happens(vec![Event::Apply(Object::Policy(first.build()))]);
    scene.goes_on(MOMENT);
    let together = ["ClusterNetworkPolicy first", "NetworkPolicy x/web"].map(str::to_owned);
    let users = users(&scene);
    assert!(users.iter().any(|users| *users == together), "{users:?}");
}

#[test]
fn who_does_not_lead_asks_nothing() {
    let mut scene = Scene::with(Lease::of_nobody);
    scene.fill();
    scene.goes_on(Duration::from_secs(100));
    assert_eq!(scene.asked(), Vec::<String>::new());
    // But it knows the cluster.
    assert!(scene.controller.knowledge.program().is_some());
}

#[test]
fn who_takes_over_waits_as_long_as_a_call_may_take_and_reads_twice() {
    for (begins, waits) in [(Beginning::Handed, false), (Beginning::Taken, true)] {
        let mut scene = Scene::with(Lease::of_nobody);
        scene.fill();
        scene.goes_on(Duration::from_secs(5));
        scene
            .controller
            .lease
            .begin_for_test("test", 1, Duration::from_secs(1000), begins);
        scene.goes_on(CALL - Duration::from_secs(1));
        assert_eq!(scene.asked().is_empty(), waits, "{begins:?}");
        scene.goes_on(MOMENT);
        scene.expect_enforced();
        scene.asked();
        // A call of the one before has an effect late.
        scene
            .world
            .borrow_mut()
            .has
            .ports
            .insert(of("a"), BTreeSet::new());
        scene.goes_on(CALL + MOMENT);
        assert_eq!(scene.asked().first().is_some_and(|call| call == "read"), waits);
        if waits {
            scene.expect_enforced();
        }
    }
}

#[test]
fn no_call_begins_that_would_outlast_the_lease() {
    let mut scene = Scene::with(Lease::of_nobody);
    scene.fill();
    let lease = scene.controller.lease.clone();
    lease.begin_for_test("test", 1, CALL + Duration::from_secs(1), Beginning::Handed);
    scene.goes_on(Duration::from_millis(500));
    scene.expect_enforced();
    scene.asked();
    // Less than a call is left.
    scene.hands.forward(Duration::from_millis(600));
    scene.happens(vec![Event::Delete(policy("x/web").build().object)]);
    scene.goes_on(Duration::from_secs(5));
    assert!(scene.asked().iter().all(|call| call == "read"));
    // It is renewed, and what was left is done.
    lease.begin_for_test("test", 1, Duration::from_secs(1000), Beginning::Handed);
    scene.goes_on(Duration::from_secs(20));
    scene.expect_enforced();
}

#[test]
fn what_was_read_in_another_term_is_nothing_to_go_by() {
    let mut scene = Scene::with(Lease::of_nobody);
    scene.fill();
    let lease = scene.controller.lease.clone();
    lease.begin_for_test("test", 1, Duration::from_secs(1000), Beginning::Handed);
    scene.goes_on(MOMENT);
    scene.asked();
    // Between two turns another had it.
    scene
        .world
        .borrow_mut()
        .has
        .ports
        .insert(of("b"), BTreeSet::new());
    lease.begin_for_test("test", 2, Duration::from_secs(2000), Beginning::Handed);
    assert!(!scene.controller.gate.permits(Duration::ZERO));
    scene.goes_on(MOMENT);
    assert_eq!(scene.asked()[0], "read");
    scene.expect_enforced();
}

#[test]
fn the_generation_of_a_policy_is_told() {
    let mut scene = Scene::new();
    let version = ObjectVersion {
        generation: Some(7),
        ..ObjectVersion::default()
    };
    let object = policy("x/web").build().object;
    let change = Change::Version(object, Some(version));
    scene.outbox.tell(News::Cluster(Duration::ZERO, change));
    scene.goes_on(MOMENT);
    let policies = scene.controller.shared.lock().policies.clone();
    assert_eq!(policies[0].observed_generation, Some(7));
}

#[test]
fn numbers_tell_how_it_goes() {
    let mut scene = Scene::new();
    scene.goes_on(MOMENT);
    scene.happens(vec![scene.new_pod("b", "10.0.0.3")]);
    scene.goes_on(MOMENT);
    scene
        .controller
        .gate
        .called("update_port", "done", Duration::from_millis(3));
    let status = scene.controller.shared.status();
    let text = scene.controller.metrics.text(&status).unwrap();
    for line in [
        "picket_controller_leading 1\n",
        "picket_controller_ready 1\n",
        "picket_controller_pods_pending 0\n",
        "picket_controller_policies 1\n",
        "picket_controller_calls_total{kind=\"update_port\",outcome=\"done\"} 1\n",
        "picket_controller_steps_total{kind=\"update_port\",outcome=\"done\"} 2\n",
        "picket_controller_enforce_seconds_count 1\n",
        "picket_controller_drift_repaired_total 0\n",
    ] {
        assert!(text.contains(line), "{line}{text}");
    }
}
