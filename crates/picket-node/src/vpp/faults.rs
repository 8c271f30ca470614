//! Whatever goes wrong at whichever message while an agent follows what changes: VPP comes to have at each step what an agent gives
//! it that knows nothing from before, nothing passes meanwhile that passes neither before nor after, and nothing is left to do.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use picket_cluster::{Event, Object, Semantics};
use picket_engine::Engine;
use picket_net::{Family, Protocol};
use picket_policy::Direction;
use picket_source::Health;
use picket_testing::applications::apply;
use picket_testing::build::{PodBuilder, accept, block, ip, node, pod, pods_where, policy};
use picket_vpp::acl::ACK;
use picket_vpp::client::{Connector, Error, Vpp};
use picket_vpp::fake::{self, Connection, Fake, Fault, Options, Packet, State, Transport, Verdict, When};
use picket_vpp::session::Turn;

use super::acl::AclTables;
use super::render::{Known, Renderer, Wanted};
use super::report::Report;
use super::session::SessionTables;
use super::told::Told;
use super::worker::{Synced, Tables};
use super::{NamespaceRule, VppSettings, VppStatus, VppTarget};
use crate::metrics::Metrics;
use crate::status::Shared;
use crate::testing::vpp_settings;

/// Who sends and receives: an interface, the tag that it has, a namespace if it is a pod of the node, and an address of each family.
type End = (&'static str, &'static str, Option<u32>, [&'static str; 2]);

const ENDS: [End; 6] = [
    ("tap0", "x/a", Some(1), ["10.0.0.1", "fd00::1"]),
    ("tap1", "x/b", Some(2), ["10.0.0.2", "fd00::2"]),
    ("tap2", "x/c", Some(3), ["10.0.0.3", "fd00::3"]),
    ("uplink", "", None, ["10.0.1.1", "fd00:1::1"]),
    ("uplink", "", None, ["10.0.1.2", "fd00:1::2"]),
    ("uplink", "", None, ["192.0.2.1", "2001:db8::1"]),
];

/// A pod at one of these ends.
fn at(end: usize, name: &str, node: &str) -> PodBuilder {
    let (.., [v4, v6]) = ENDS[end];
    pod(name).on(node).ip(v4).ip(v6)
}

/// What there is: two pods here, one that may receive something and one that may not send everything, and one elsewhere.
fn there() -> Vec<Event> {
    let nodes = [("n", "10.9.0.1"), ("m", "10.9.0.2")];
    let nodes = nodes.map(|(name, address)| apply(Object::from(node(name).ip(address))));
    let pods = [
        at(0, "x/a", "n").label("app", "a"),
        at(1, "x/b", "n").label("app", "b"),
        at(3, "x/p", "m").label("app", "p"),
    ];
    let policies = [receives(80), sends(&["10.0.1.0/24"])];
    let nodes = nodes.into_iter().chain(pods.map(apply));
    nodes.chain(policies).collect()
}

/// What the first pod may receive: from pods of one application, at this port.
fn receives(port: u16) -> Event {
    let from = accept().peer(pods_where("", "app=p")).port(Protocol::TCP, port);
    let policy = policy("x/receives").selects("app=a").ingress(from);
    apply(Object::Policy(policy.build()))
}

/// What the second pod may send: everything but to these blocks, and to pods of one application.
fn sends(but: &[&str]) -> Event {
    let pods = accept().peer(pods_where("", "app=p")).port(Protocol::TCP, 80);
    let policy = policy("x/sends").selects("app=b").egress(pods);
    let policy = policy.egress(accept().peer(block("0.0.0.0/0", but)));
    apply(Object::Policy(policy.build()))
}

/// What happens then.
fn happens() -> Vec<Event> {
    let elsewhere = at(4, "x/q", "m").label("app", "p");
    let here = at(2, "x/c", "n").label("app", "p");
    let gone = |pod: &PodBuilder| Event::Delete(pod.clone().build().object);
    let closed = policy("x/closed").selects("app=p").isolates(Direction::Ingress);
    let (leaves, goes) = (gone(&elsewhere), gone(&here));
    vec![
        apply(elsewhere),
        receives(81),
        apply(here),
        sends(&["10.0.1.0/24", "192.0.2.1/32"]),
        apply(Object::Policy(closed.build())),
        leaves,
        Event::Delete(policy("x/receives").build().object),
        goes,
    ]
}

/// Something that begins: a packet from one interface to another, a connection in a namespace, or one from outside.
#[derive(Clone, Debug)]
enum Attempt {
    Sent([&'static str; 2], Packet),
    Opened(u32, Packet),
    Arrived(Packet),
}

impl Attempt {
    /// All that may begin between two ends.
    fn all(target: VppTarget) -> Vec<Self> {
        let mut found = Vec::new();
        let pairs = ENDS.into_iter().flat_map(|from| ENDS.map(|to| (from, to)));
        for ((out, _, sender, sources), (into, _, receiver, destinations)) in pairs {
            if sources == destinations || (sender, receiver) == (None, None) {
                continue;
            }
            for (source, destination) in sources.into_iter().zip(destinations) {
                for (protocol, port) in [(Protocol::TCP, 80), (Protocol::TCP, 81), (Protocol::UDP, 80)] {
                    let packet = Packet::new(protocol, (ip(source), 40_000), (ip(destination), port));
                    found.push(match (target, sender) {
                        (VppTarget::Acl, _) => Self::Sent([out, into], packet),
                        (VppTarget::Session, Some(namespace)) => Self::Opened(namespace, packet),
                        (VppTarget::Session, None) => Self::Arrived(packet),
                    });
                }
            }
        }
        found
    }

    fn passes(&self, state: &State) -> bool {
        match self {
            Self::Sent([out, into], packet) => {
                let ways = [(out, fake::Direction::In), (into, fake::Direction::Out)];
                ways.into_iter().all(|(name, way)| {
                    let index = state.interface(name);
                    index.is_some_and(|index| state.judge(index, way, packet).0 == Verdict::Passed)
                })
            }
            Self::Opened(namespace, packet) => state.connects(*namespace, packet) == Connection::Allowed,
            Self::Arrived(packet) => state.accepts(packet) == Connection::Allowed,
        }
    }

    /// Whether a connection of TCP that was there goes on when who answered it sends first.
    fn is_taken_up(&self, state: &State) -> bool {
        let Self::Sent([out, into], packet) = self else {
            return false;
        };
        let mut state = state.clone();
        let mut goes = |[from, to]: [&str; 2], packet: &Packet| {
            let segment = Packet {
                tcp_flags: ACK,
                ..*packet
            };
            let ways = [(from, fake::Direction::In), (to, fake::Direction::Out)];
            ways.into_iter().all(|(name, way)| {
                let index = state.interface(name);
                index.is_some_and(|index| state.packet(index, way, &segment) == Verdict::Passed)
            })
        };
        goes([into, out], &packet.reply());
        packet.protocol == Protocol::TCP && goes([out, into], packet)
    }
}

/// What a VPP has, but for the numbers of lists, and for those that only an agent makes that has seen something else before.
fn contents(state: &State) -> BTreeSet<String> {
    let is_cut = |acl: &fake::Acl| acl.tag.starts_with("picket-cut-");
    let lists = state.acls().filter(|(_, acl)| !is_cut(acl));
    let mut found = BTreeSet::from([format!("{} lists", lists.count())]);
    for (index, interface) in state.interfaces() {
        let known = state.lists(index);
        let [input, output] = [known.input, known.output].map(|lists| {
            let lists = lists.into_iter().map(|list| state.acl(list));
            let lists = lists.filter(|acl| !acl.is_some_and(is_cut));
            lists.map(|acl| format!("{acl:?}")).collect::<Vec<_>>()
        });
        found.insert(format!("{}: {input:?}, {output:?}", interface.name));
    }
    for table in [None, Some(1), Some(2), Some(3)] {
        for transport in [Transport::Tcp, Transport::Udp] {
            let rules = Family::BOTH.map(|family| state.session_rules(table, transport, family));
            // Those for everything that say nothing are always there.
            let rules = rules.into_iter().flatten().filter(|rule| rule.action != u32::MAX);
            found.extend(rules.map(|rule| format!("{table:?} {transport:?} {rule:?}")));
        }
    }
    found
}

/// What there is to be when something has happened.
struct Expected {
    contents: BTreeSet<String>,
    status: VppStatus,
    /// The numbers of the attempts that pass.
    passing: BTreeSet<usize>,
}

/// What an agent of one target is told, and what there is to be then: at first, and after each step.
struct Course {
    target: VppTarget,
    settings: VppSettings,
    attempts: Vec<Attempt>,
    told: Vec<Arc<Wanted>>,
    expected: Vec<Expected>,
}

impl Course {
    fn new(target: VppTarget, namespaces: &tempfile::NamedTempFile) -> Self {
        let named = ENDS
            .into_iter()
            .filter_map(|(_, pod, namespace, _)| Some((pod, namespace?)));
        let lines: String = named
            .map(|(pod, namespace)| format!("{pod} {namespace}\n"))
            .collect();
        std::fs::write(namespaces.path(), lines).unwrap();
        let settings = VppSettings {
            targets: [target].into(),
            pod_namespaces: Some(NamespaceRule::File(namespaces.path().into())),
            ..vpp_settings()
        };
        let mut engine = Engine::new(Semantics::default());
        for event in there() {
            engine.apply(event);
        }
        let new = || Renderer::new(&"n".into(), &settings);
        let mut renderer = new();
        let mut course = Self {
            target,
            attempts: Attempt::all(target),
            told: vec![renderer.render(engine.program(), &Known::default())],
            expected: Vec::new(),
            settings: settings.clone(),
        };
        let known = Known::default();
        course.expect(&new().render(engine.program(), &known));
        for event in happens() {
            renderer.note(&engine.apply(event));
            course.told.push(renderer.render(engine.program(), &known));
            course.expect(&new().render(engine.program(), &known));
        }
        course
    }

    /// Notes what a VPP has to which an agent that knows nothing has given what is wanted.
    fn expect(&mut self, wanted: &Arc<Wanted>) {
        let fake = self.start();
        let mut agent = Agent::new(self, &fake);
        agent.tables.hear(wanted);
        agent.enforce(wanted);
        let state = fake.state();
        let numbers = 0..self.attempts.len();
        self.expected.push(Expected {
            contents: contents(&state),
            status: agent.status(),
            passing: numbers
                .filter(|&number| self.attempts[number].passes(&state))
                .collect(),
        });
    }

    /// A VPP with the namespaces of all pods, and without interfaces.
    fn start(&self) -> Fake {
        let options = Options::new(17).session_layer(true);
        let namespaces = ENDS
            .into_iter()
            .filter(|(_, _, namespace, _)| namespace.is_some());
        Fake::start(namespaces.fold(options, |options, (_, pod, ..)| options.namespace(pod))).unwrap()
    }

    /// What passes after none of these steps.
    fn denied(&self, steps: RangeInclusive<usize>) -> Vec<Attempt> {
        let each = self.attempts.iter().enumerate();
        let denied = each.filter(|(number, _)| {
            let mut steps = self.expected[steps.clone()].iter();
            steps.all(|expected| !expected.passing.contains(number))
        });
        denied.map(|(_, attempt)| attempt.clone()).collect()
    }
}

/// How long to wait for an answer that never comes.
const SHORT: Duration = Duration::from_millis(30);

/// How long to wait otherwise: longer than any machine takes.
const PATIENT: Duration = Duration::from_secs(120);

/// An agent of one target, without threads.
struct Agent<'c> {
    course: &'c Course,
    fake: &'c Fake,
    tables: Box<dyn Tables>,
    vpp: Option<Vpp>,
    /// What is to go wrong.
    fault: Option<Fault>,
    /// How often VPP was called.
    calls: u32,
    report: Report,
    shared: Shared,
}

impl<'c> Agent<'c> {
    fn new(course: &'c Course, fake: &'c Fake) -> Self {
        let shared = Shared::new("n", Health::default());
        Self {
            course,
            fake,
            tables: match course.target {
                VppTarget::Acl => Box::new(AclTables::new(&course.settings)),
                VppTarget::Session => Box::new(SessionTables::new(&course.settings)),
            },
            vpp: None,
            fault: None,
            calls: 0,
            report: Report::new(course.target, &shared, &Metrics::default()),
            shared,
        }
    }

    /// What is said, but for when.
    fn status(&self) -> VppStatus {
        let status = self.shared.lock();
        VppStatus {
            changed: None,
            current: None,
            ..status.vpp[self.course.target.name()].clone()
        }
    }

    /// Where an answer may never come, it is waited for twice as long each time: on a busy machine a short time may be too short for
    /// all that comes before.
    fn patience(&self) -> Duration {
        match self.fault {
            Some(Fault::Hold) if self.fake.faults() > 0 => {
                SHORT.saturating_mul(2_u32.pow(self.calls)).min(PATIENT)
            }
            _ => PATIENT,
        }
    }

    fn connect(&mut self) -> Result<Vpp, Error> {
        assert!(self.fake.let_all_end(), "an old connection does not end");
        // Whoever makes interfaces makes them again where VPP has lost them. They are down until they have their lists.
        for (name, tag, ..) in ENDS {
            if self.fake.state().interface(name).is_none() {
                self.fake.add_interface(name, tag);
            }
        }
        let mut connector = Connector::new(self.fake.socket()).patient_for(self.patience());
        self.calls += 1;
        let mut vpp = connector.connect(self.tables.features())?;
        self.tables.watch(&mut vpp)?;
        self.tables.read(&mut vpp)?;
        Ok(vpp)
    }

    /// A turn of the worker: connects where there is no connection any more, and does what is wanted.
    fn turn(&mut self, wanted: &Wanted) -> Result<Synced, Error> {
        let mut vpp = match self.vpp.take() {
            Some(vpp) => vpp,
            None => self.connect()?,
        };
        let synced = self.tables.sync(&mut vpp, wanted)?;
        if !synced.troubles.is_empty() {
            self.tables.read(&mut vpp)?;
        }
        self.report.synced(wanted, &synced, &BTreeSet::new());
        self.vpp = Some(vpp);
        Ok(synced)
    }

    /// Whether all that is wanted could be done at once.
    fn attempt(&mut self, wanted: &Wanted) -> bool {
        let is_done = self.turn(wanted).is_ok_and(|synced| synced.troubles.is_empty());
        if is_done {
            for (index, interface) in self.fake.state().interfaces() {
                assert!(interface.up || self.fake.set_up(index, true));
            }
        }
        is_done
    }

    fn enforce(&mut self, wanted: &Wanted) {
        let is_done = (0..20).any(|_| self.attempt(wanted));
        assert!(is_done, "it does not come about");
    }

    /// Reads everything back and does what is to be done then: how much that is.
    fn refresh(&mut self, wanted: &Wanted) -> usize {
        let vpp = self.vpp.as_mut().unwrap();
        self.tables.read(vpp).unwrap();
        self.turn(wanted).unwrap().operations
    }
}

/// When something goes wrong, and what.
#[derive(Clone, Debug)]
struct Wrong {
    /// Behind how many messages.
    place: usize,
    fault: Fault,
    /// Whether the agent hears of the next step before it calls VPP again, or asks it again.
    hears_more: bool,
}

impl Course {
    /// Goes through all steps, where this goes wrong; whether there was such a message.
    fn play(&self, wrong: &Wrong) -> bool {
        let fake = self.start();
        let mut agent = Agent::new(self, &fake);
        agent.tables.hear(&self.told[0]);
        agent.enforce(&self.told[0]);
        let denied = Arc::new(Mutex::new(Vec::new()));
        watch(&fake, &denied);
        fake.clear_record();
        fake.fail(When::After(wrong.place), wrong.fault.clone());
        // What goes wrong may also be the first call.
        (agent.vpp, agent.fault, agent.calls) = (None, Some(wrong.fault.clone()), 0);
        let (mut now, last) = (0, self.told.len() - 1);
        while now < last {
            let before = now;
            let mut hear = |agent: &mut Agent<'_>| {
                now += 1;
                agent.tables.hear(&self.told[now]);
                *denied.lock().unwrap() = self.denied(before..=now);
                now
            };
            let mut step = hear(&mut agent);
            let was_to_come = fake.faults() > 0;
            if !agent.attempt(&self.told[step]) {
                if wrong.hears_more && step < last {
                    step = hear(&mut agent);
                }
                agent.enforce(&self.told[step]);
            }
            let is_refused = was_to_come && fake.faults() == 0 && matches!(wrong.fault, Fault::Refuse(_));
            // A list that VPP does not give is one that holds nothing, until it is asked for again.
            if is_refused
                && fake
                    .record()
                    .iter()
                    .all(|message| message.retval != Some(REFUSED))
            {
                agent.refresh(&self.told[step]);
            }
            let expected = &self.expected[step];
            assert_eq!(contents(&fake.state()), expected.contents, "{step}, {wrong:?}");
            for &number in self.expected[before].passing.difference(&expected.passing) {
                let cut = &self.attempts[number];
                assert!(!cut.is_taken_up(&fake.state()), "{step}, {wrong:?}: {cut:?}");
            }
            assert_eq!(agent.status(), expected.status, "{step}, {wrong:?}");
            let sent = fake.record().len();
            assert_eq!(
                agent.turn(&self.told[step]).unwrap().operations,
                0,
                "{step}, {wrong:?}"
            );
            assert_eq!(fake.record().len(), sent, "{step}, {wrong:?}");
        }
        let was_met = fake.faults() == 0;
        if was_met {
            assert_eq!(agent.refresh(&self.told[last]), 0, "{wrong:?}");
            assert_eq!(agent.status(), self.expected[last].status, "{wrong:?}");
        }
        for found in [fake.findings(), fake.complaints(), fake.crashes()] {
            assert_eq!(found, Vec::<String>::new(), "{wrong:?}");
        }
        was_met
    }

    /// Everything goes wrong once with each message: with how many at least.
    fn play_all(&self) -> usize {
        let mut places = usize::MAX;
        for fault in Fault::each_kind(Duration::from_millis(1)) {
            for hears_more in [false, true] {
                let wrong = |place| Wrong {
                    place,
                    fault: fault.clone(),
                    hears_more,
                };
                let count = (0..).take_while(|&place| self.play(&wrong(place))).count();
                places = places.min(count);
            }
        }
        places
    }
}

/// What messages that VPP refuses are answered with.
const REFUSED: i32 = -1;

/// Looks after each change of the state whether something passes that is denied.
fn watch(fake: &Fake, denied: &Arc<Mutex<Vec<Attempt>>>) {
    let denied = Arc::clone(denied);
    let mut was_restarted = false;
    fake.observe(move |state, change| {
        // A VPP that was started again has nothing, and lets pass whatever it is asked for until it has its tables.
        was_restarted |= change == "restart";
        let denied = denied.lock().unwrap();
        let passing = denied.iter().find(|attempt| attempt.passes(state));
        was_restarted &= passing.is_some();
        match passing.filter(|_| !was_restarted) {
            Some(attempt) => Err(format!("{attempt:?} passes")),
            None => Ok(()),
        }
    });
}

/// That of a target, where each step gives VPP something else.
fn check(target: VppTarget, least: usize) -> Course {
    let namespaces = tempfile::NamedTempFile::new().unwrap();
    let course = Course::new(target, &namespaces);
    for (step, states) in course.expected.windows(2).enumerate() {
        let [before, after] = states else { unreachable!() };
        assert_ne!(before.contents, after.contents, "{step}");
    }
    let places = course.play_all();
    assert!(places >= least, "{places} messages");
    course
}

#[test]
fn lists_are_right_at_each_step_and_nothing_opens_whatever_goes_wrong_at_any_message() {
    check(VppTarget::Acl, 75);
}

/// An agent that goes on reads VPP back meanwhile, which changes nothing.
#[test]
fn an_agent_keeps_for_a_day_what_a_change_has_cut() {
    let namespaces = tempfile::NamedTempFile::new().unwrap();
    let course = Course::new(VppTarget::Acl, &namespaces);
    let fake = course.start();
    let mut agent = Agent::new(&course, &fake);
    let told = &course.told[..3];
    for wanted in told {
        agent.tables.hear(wanted);
        agent.enforce(wanted);
    }
    let cuts = || {
        let state = fake.state();
        let acls = state.acls();
        let cuts = acls.filter(|(_, acl)| acl.tag.starts_with("picket-cut-"));
        let rules = cuts.flat_map(|(_, acl)| &acl.rules);
        rules.filter(|rule| rule.source != rule.destination).count()
    };
    assert!(cuts() > 0);
    let hour = Duration::from_secs(60 * 60);
    for _ in 1..24 {
        assert!(!agent.tables.age(hour));
        assert_eq!(agent.refresh(&told[2]), 0);
    }
    assert!(cuts() > 0);
    assert!(agent.tables.age(hour));
    agent.enforce(&told[2]);
    assert_eq!(cuts(), 0);
}

#[test]
fn session_rules_are_right_at_each_step_and_nothing_opens_whatever_goes_wrong_at_any_message() {
    let course = check(VppTarget::Session, 75);
    // Some of what is followed is told as what tables lose and get.
    let edits = course.told.iter().map(|wanted| match &wanted.rules {
        Told::Changed(change) => {
            let count = |turns: Vec<&Turn>| turns.into_iter().filter(|turn| turn.is_edit()).count();
            [
                count(change.local.values().collect()),
                count(change.global.values().collect()),
            ]
        }
        Told::Whole(_) => [0, 0],
    });
    let edits = edits.fold([0, 0], |[local, global], [more, others]| {
        [local + more, global + others]
    });
    assert!(edits.into_iter().all(|count| count > 1), "{edits:?}");
}
