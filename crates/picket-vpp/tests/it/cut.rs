//! A connection that a change of policies cuts does not come back, whichever end sends first afterwards.

use std::collections::BTreeSet;
use std::time::Duration;

use picket_cluster::{Object, Semantics, Snapshot};
use picket_engine::Engine;
use picket_net::Protocol;
use picket_policy::{Direction, Policy};
use picket_testing::build::{self, PodBuilder, accept, block, ip, node, pod, pods_where};
use picket_vpp::acl::hold::Held;
use picket_vpp::acl::plan::{Installed, Plan};
use picket_vpp::acl::verify::{self, Report, verify};
use picket_vpp::acl::{ACK, Acl, Acls, Options as Rendered, SYN, render};
use picket_vpp::client::{Connector, Error, Feature, Vpp};
use picket_vpp::fake::{self, Direction as Way, Fake, Fault, Lists, Options, Packet, Verdict, When};

pub(crate) const NODE: &str = "n1";
pub(crate) const UPLINK: &str = "uplink";
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// A pod's port: its interface, its address and the number.
pub(crate) type End = (&'static str, &'static str, u16);

pub(crate) const SERVER: End = ("x/server", "10.0.0.1", 80);
pub(crate) const CLIENT: End = ("x/client", "10.0.0.2", 40_000);
pub(crate) const FRIEND: End = ("x/friend", "10.0.0.3", 40_000);
pub(crate) const REMOTE: End = (UPLINK, "10.0.1.1", 40_000);

/// The same pod with another port.
pub(crate) fn at((interface, address, _): End, port: u16) -> End {
    (interface, address, port)
}

fn pods() -> Vec<Object> {
    let of = |name: &str, address: &str| labelled(name, address, name);
    vec![
        Object::Node(node(NODE).ip("192.168.0.1").build()),
        of("server", "10.0.0.1"),
        of("client", "10.0.0.2"),
        of("friend", "10.0.0.3"),
        Object::from(
            PodBuilder::on(pod("x/remote").label("name", "client"), "n2")
                .ip("10.0.1.1")
                .build(),
        ),
    ]
}

fn labelled(name: &str, address: &str, label: &str) -> Object {
    let pod = pod(&format!("x/{name}")).label("name", label).on(NODE);
    Object::from(pod.ip(address).build())
}

/// Those pods and a policy.
pub(crate) fn with(policy: Policy) -> Snapshot {
    objects(policy).into_iter().collect()
}

fn objects(policy: Policy) -> Vec<Object> {
    pods().into_iter().chain([Object::Policy(policy)]).collect()
}

/// The server may receive only from these at these ports.
pub(crate) fn server_receives(from: &[&str], ports: &[u16]) -> Snapshot {
    server_receives_of(from, ports).into_iter().collect()
}

fn server_receives_of(from: &[&str], ports: &[u16]) -> Vec<Object> {
    let mut policy = build::policy("x/server")
        .selects("name=server")
        .isolates(Direction::Ingress);
    for name in from {
        let mut rule = accept().peer(pods_where("", &format!("name={name}")));
        for &port in ports {
            rule = rule.port(Protocol::TCP, port);
        }
        policy = policy.ingress(rule);
    }
    objects(policy.build())
}

/// Nothing is restricted.
pub(crate) fn open() -> Snapshot {
    pods().into_iter().collect()
}

/// A VPP and the agent that makes it what snapshots ask for.
pub(crate) struct Scene {
    pub(crate) fake: Fake,
    pub(crate) vpp: Vpp,
    pub(crate) held: Held,
    engine: Engine,
    has_others: bool,
}

impl Scene {
    pub(crate) fn start(snapshot: &Snapshot) -> Self {
        let fake = Fake::start(Options::new(7)).expect("a VPP");
        for name in [SERVER.0, CLIENT.0, FRIEND.0, UPLINK] {
            let index = fake.add_interface(name, "");
            assert!(fake.set_up(index, true));
        }
        let (vpp, held) = connect(&fake);
        let engine = Engine::compile(snapshot, Semantics::default());
        let mut scene = Self {
            fake,
            vpp,
            held,
            engine,
            has_others: false,
        };
        scene.change(snapshot);
        scene
    }

    /// The agent is started again.
    pub(crate) fn restart(&mut self) {
        (self.vpp, self.held) = connect(&self.fake);
    }

    /// The policies or pods are these from now on.
    pub(crate) fn change(&mut self, snapshot: &Snapshot) {
        self.engine = Engine::compile(snapshot, Semantics::default());
        self.sync();
    }

    /// The same; what is done for that.
    pub(crate) fn change_by(&mut self, snapshot: &Snapshot) -> Plan {
        self.engine = Engine::compile(snapshot, Semantics::default());
        let plan = self
            .held
            .plan(&self.wanted(), self.held.installed().interfaces.keys());
        self.sync();
        plan
    }

    pub(crate) fn sync(&mut self) {
        assert!(self.attempt().is_empty());
        let acls = self.wanted();
        assert_eq!(
            self.vpp.read().expect("what there is").installed,
            *self.held.installed()
        );
        let again = self.held.plan(&acls, self.held.installed().interfaces.keys());
        assert!(again.is_empty(), "{again:?}");
        // Nothing is proved where lists of others stand.
        if !self.has_others {
            let report = self.report(self.held.installed());
            assert!(report.is_proof(), "{report:?}");
        }
    }

    fn wanted(&self) -> Acls {
        render(self.engine.program(), Some(NODE), &Rendered::default())
    }

    /// Does once what is to be done; what VPP refused of it.
    fn attempt(&mut self) -> Vec<Error> {
        let acls = self.wanted();
        self.carry_out(&acls)
    }

    fn carry_out(&mut self, acls: &Acls) -> Vec<Error> {
        let plan = self.held.plan(acls, self.held.installed().interfaces.keys());
        let interfaces = self.vpp.read().expect("what there is").interfaces;
        let done = self
            .vpp
            .carry_out_held(&plan, &interfaces, &BTreeSet::new(), &mut self.held);
        let troubles = done.expect("answers");
        if troubles.is_empty() {
            self.held.settle_all();
        }
        troubles
    }

    /// The same, while VPP refuses so many lists; what it refused.
    pub(crate) fn change_refused(&mut self, snapshot: &Snapshot, lists: usize) -> Vec<Error> {
        self.engine = Engine::compile(snapshot, Semantics::default());
        for before in 0..lists {
            let when = When::Named("acl_add_replace".to_owned(), before);
            self.fake.fail(when, Fault::Refuse(-1));
        }
        self.attempt()
    }

    /// Nothing passes at an interface until it has its lists again.
    pub(crate) fn close(&mut self, interface: &str) {
        let mut acls = self.wanted();
        let closed = Acl::closed();
        let lists = acls.interfaces.get_mut(interface).expect("an interface");
        lists.input = vec![closed.tag.clone()];
        lists.output = vec![closed.tag.clone()];
        acls.acls.insert(closed.tag.clone(), closed.into());
        assert!(self.carry_out(&acls).is_empty());
    }

    /// Others put a list behind those of an interface, for what leaves VPP there.
    pub(crate) fn put_behind(&mut self, interface: &str, rules: Vec<fake::AclRule>) {
        self.has_others = true;
        let index = self.fake.state().interface(interface).expect("an interface");
        self.fake.change("others put a list there", |state| {
            let theirs = state.add_acl(None, "theirs", rules).expect("a list");
            let mut lists = state.lists(index);
            lists.output.push(theirs);
            state.set_acl_list(index, &lists).expect("lists");
        });
        let reading = self.vpp.read().expect("what there is");
        self.held.read_again(reading.installed);
        self.sync();
    }

    /// Whether what VPP has means the policies, whatever stands there because of earlier ones.
    pub(crate) fn report(&self, installed: &Installed) -> Report {
        let program = self.engine.program();
        let pods = program.pods();
        let pods: Vec<_> = pods.map(|pod| pod.pod()).collect();
        let mut lists = installed.lists(|name| {
            let found = pods.iter().find(|pod| pod.id() == name);
            found.map(|pod| pod.object.clone())
        });
        lists.interfaces.remove("local0");
        verify(&lists, program, Some(NODE), |pod| vec![pod.pod().id().into()], 9)
    }

    /// Whether a segment with these flags gets from one end to the other.
    pub(crate) fn sends(&self, from: End, to: End, flags: u8) -> bool {
        let packet = Packet {
            tcp_flags: flags,
            ..Packet::new(Protocol::TCP, (ip(from.1), from.2), (ip(to.1), to.2))
        };
        let passes = |end: End, way| {
            let index = self.fake.state().interface(end.0).expect("an interface");
            self.fake.packet(index, way, &packet) == Verdict::Passed
        };
        passes(from, Way::In) && passes(to, Way::Out)
    }

    /// Whether a connection begins.
    pub(crate) fn opens(&self, from: End, to: End) -> bool {
        self.sends(from, to, SYN) && self.sends(to, from, SYN | ACK) && self.sends(from, to, ACK)
    }

    /// Whether segments of a connection get to both ends, one of which sends first.
    pub(crate) fn goes_on(&self, first: End, second: End) -> bool {
        self.sends(first, second, ACK) && self.sends(second, first, ACK)
    }

    /// Whether segments of a connection get to either end, whoever sends, and however often.
    pub(crate) fn is_taken_up(&self, one: End, other: End) -> bool {
        let sent = [(one, other), (other, one), (one, other), (other, one)];
        sent.map(|(from, to)| self.sends(from, to, ACK)).contains(&true)
    }

    /// How many rules stand before the lists of pods because something was cut.
    pub(crate) fn cuts(&self) -> usize {
        let acls = self.held.installed().acls.values();
        let cuts = acls.filter(|acl| acl.tag.as_str().starts_with("picket-cut-"));
        // A list of which nothing is left has a rule that is about nobody.
        let rules = cuts.flat_map(|acl| &acl.rules);
        rules.filter(|rule| rule.source != rule.destination).count()
    }
}

fn connect(fake: &Fake) -> (Vpp, Held) {
    let connected = Connector::new(fake.socket()).connect(&[Feature::Acls, Feature::Interfaces]);
    let mut vpp = connected.expect("a connection");
    let held = Held::new(vpp.read().expect("what there is").installed);
    (vpp, held)
}

/// The server may receive from the client and the friend, whose connections are there.
pub(crate) fn connected() -> Scene {
    let scene = Scene::start(&server_receives(&["client", "friend"], &[80, 443]));
    for client in [CLIENT, FRIEND, REMOTE] {
        assert!(scene.opens(client, SERVER), "{client:?}");
        assert!(scene.opens(client, at(SERVER, 443)), "{client:?}");
    }
    assert_eq!(scene.cuts(), 0);
    scene
}

#[test]
fn a_connection_that_a_change_cuts_is_not_taken_up_when_its_server_sends_first() {
    for client in [CLIENT, REMOTE] {
        let mut scene = connected();
        scene.change(&server_receives(&["friend"], &[80, 443]));
        assert!(!scene.is_taken_up(SERVER, client), "{client:?}");
        assert!(!scene.is_taken_up(client, SERVER), "{client:?}");
        // Nor is one that had just begun.
        assert!(!scene.sends(SERVER, at(client, 40_001), SYN | ACK));
        assert!(!scene.sends(at(client, 40_001), SERVER, ACK));
    }
}

#[test]
fn connections_that_are_still_allowed_go_on_whoever_sends_first() {
    for server_is_first in [true, false] {
        let mut scene = connected();
        scene.change(&server_receives(&["friend"], &[80, 443]));
        let ends = |client: End, server: End| match server_is_first {
            true => (server, client),
            false => (client, server),
        };
        for port in [80, 443] {
            let (first, second) = ends(FRIEND, at(SERVER, port));
            assert!(scene.goes_on(first, second), "{port}");
        }
        // And another port of the same two.
        let mut scene = connected();
        scene.change(&server_receives(&["client", "friend"], &[443]));
        let (first, second) = ends(CLIENT, at(SERVER, 443));
        assert!(scene.goes_on(first, second));
        assert!(!scene.is_taken_up(SERVER, CLIENT));
    }
}

#[test]
fn a_pod_opens_connections_to_whom_it_may_not_receive_from_any_more() {
    let mut scene = connected();
    let own = at(SERVER, 50_000);
    assert!(scene.opens(own, at(CLIENT, 5432)));
    scene.change(&server_receives(&["friend"], &[80, 443]));
    assert!(scene.goes_on(own, at(CLIENT, 5432)));
    assert!(scene.opens(at(SERVER, 50_001), at(CLIENT, 5432)));
    // Even from the very port.
    assert!(scene.opens(SERVER, at(CLIENT, 5432)) && scene.goes_on(SERVER, at(CLIENT, 5432)));
    assert!(!scene.is_taken_up(SERVER, CLIENT));
}

#[test]
fn what_was_cut_goes_on_when_it_is_allowed_again() {
    let mut scene = connected();
    scene.change(&server_receives(&["friend"], &[80, 443]));
    assert!(scene.cuts() > 0);
    scene.change(&server_receives(&["client", "friend"], &[80]));
    assert!(scene.goes_on(SERVER, CLIENT));
    assert!(!scene.is_taken_up(at(SERVER, 443), CLIENT));
    scene.change(&server_receives(&["client", "friend"], &[80, 443]));
    assert!(scene.goes_on(at(SERVER, 443), CLIENT));
    assert_eq!(scene.cuts(), 0);
}

#[test]
fn what_was_cut_is_remembered_for_a_day() {
    let mut scene = connected();
    scene.change(&server_receives(&["friend"], &[80, 443]));
    let second = Duration::from_secs(1);
    assert!(scene.held.age(DAY.checked_sub(second).expect("less")).is_empty());
    scene.sync();
    assert!(!scene.is_taken_up(SERVER, CLIENT));
    let over = scene.held.age(second);
    assert_eq!(over.iter().collect::<Vec<_>>(), [SERVER.0]);
    scene.sync();
    assert_eq!(scene.cuts(), 0);
}

#[test]
fn an_agent_that_is_started_again_finds_what_was_cut() {
    let mut scene = connected();
    let after = server_receives(&["friend"], &[80, 443]);
    scene.change(&after);
    scene.restart();
    scene.sync();
    assert!(!scene.is_taken_up(SERVER, CLIENT));
    // Also what changed while none ran.
    let mut scene = connected();
    scene.restart();
    scene.change(&after);
    assert!(!scene.is_taken_up(SERVER, CLIENT));
    scene.restart();
    scene.change(&server_receives(&[], &[]));
    assert!(!scene.is_taken_up(SERVER, CLIENT));
    assert!(!scene.is_taken_up(SERVER, FRIEND));
}

#[test]
fn other_labels_of_a_client_cut_as_another_policy_does() {
    let mut scene = connected();
    let stranger = labelled("client", "10.0.0.2", "stranger");
    let objects = server_receives_of(&["client", "friend"], &[80, 443]).into_iter();
    scene.change(&objects.chain([stranger]).collect());
    assert!(!scene.is_taken_up(SERVER, CLIENT));
    assert!(scene.goes_on(SERVER, REMOTE));
}

#[test]
fn the_first_policy_of_a_pod_cuts_what_others_opened_and_not_what_it_opened_itself() {
    for restarted in [false, true] {
        let mut scene = Scene::start(&open());
        if restarted {
            // So that an agent that comes later knows that one was there.
            scene.change(&{
                let policy = build::policy("x/friend").selects("name=friend");
                with(policy.isolates(Direction::Ingress).build())
            });
            scene.restart();
        }
        let own = at(SERVER, 50_000);
        assert!(scene.opens(CLIENT, SERVER) && scene.opens(REMOTE, SERVER));
        assert!(scene.opens(own, at(CLIENT, 5432)) && scene.opens(CLIENT, at(SERVER, 443)));
        scene.change(&server_receives(&["client"], &[443]));
        assert!(!scene.is_taken_up(SERVER, CLIENT) && !scene.is_taken_up(SERVER, REMOTE));
        assert!(!scene.is_taken_up(at(SERVER, 45_000), CLIENT));
        assert!(scene.goes_on(own, at(CLIENT, 5432)));
        assert!(scene.goes_on(at(SERVER, 443), CLIENT));
        assert!(scene.opens(SERVER, REMOTE));
    }
}

#[test]
fn what_a_client_may_not_send_any_more_is_not_taken_up_either() {
    let client_sends = |ports: &[u16]| {
        let mut policy = build::policy("x/client").selects("name=client");
        for &port in ports {
            policy = policy.egress(accept().port(Protocol::TCP, port));
        }
        with(policy.isolates(Direction::Egress).build())
    };
    for server in [SERVER, (UPLINK, "10.0.2.1", 80)] {
        let mut scene = Scene::start(&client_sends(&[80, 443]));
        for port in [80, 443] {
            assert!(scene.opens(CLIENT, at(server, port)));
        }
        scene.change(&client_sends(&[443]));
        assert!(!scene.is_taken_up(server, CLIENT), "{server:?}");
        assert!(scene.goes_on(CLIENT, at(server, 443)), "{server:?}");
        assert!(scene.opens(at(server, 50_000), at(CLIENT, 8080)));
        scene.restart();
        scene.sync();
        assert!(!scene.is_taken_up(server, CLIENT), "{server:?}");
    }
}

#[test]
fn whoever_comes_to_have_the_address_of_a_client_is_opened_connections_to() {
    let mut scene = connected();
    let objects = server_receives_of(&["friend"], &[80, 443]).into_iter();
    let mut snapshot: Snapshot = objects.chain([labelled("new", "10.0.0.2", "friend")]).collect();
    snapshot.pods.retain(|object, _| object.name != "client");
    let interface = scene.fake.add_interface("x/new", "");
    assert!(scene.fake.set_up(interface, true));
    scene.held.settle_all();
    scene.restart();
    scene.change(&snapshot);
    let new = ("x/new", "10.0.0.2", 40_000);
    assert!(scene.opens(SERVER, at(new, 5432)) && scene.opens(new, SERVER));
}

/// However many were denied one after another, the rules stay few, and what is allowed goes on.
#[test]
fn there_are_few_rules_however_much_was_cut() {
    let receives = |number: u16| {
        let peer = |number: u16| format!("10.{}.{}.1/32", 1 + number / 256, number % 256);
        let mut policy = build::policy("x/server").selects("name=server");
        for cidr in [peer(number), peer(number + 1)] {
            policy = policy.ingress(accept().peer(block(&cidr, &[])).port(Protocol::TCP, 80));
        }
        let friend = pods_where("", "name=friend");
        policy = policy.ingress(accept().peer(friend).port(Protocol::TCP, 80));
        with(policy.build())
    };
    let mut scene = Scene::start(&receives(0));
    let mut most = 0;
    for number in (0..1200).step_by(2) {
        scene.change(&receives(number));
        most = most.max(scene.cuts());
    }
    assert!((100..600).contains(&most), "{most}");
    assert!(scene.cuts() < 600);
    let peer = (UPLINK, "10.1.0.1", 40_000);
    assert!(!scene.is_taken_up(SERVER, peer));
    assert!(scene.goes_on(SERVER, FRIEND));
}

/// Rules that picket never makes are not taken for what it remembers.
#[test]
fn a_list_that_decides_what_begins_a_connection_is_no_memory() {
    let mut scene = connected();
    scene.change(&server_receives(&["friend"], &[80, 443]));
    let index = scene.fake.state().interface(SERVER.0).expect("an interface");
    scene.fake.change("somebody lets more be denied", |state| {
        let lists = state.lists(index);
        let acl = state.acl(lists.input[0]).expect("a list").clone();
        let mut rules = acl.rules;
        for rule in &mut rules {
            rule.tcp_flags = (0, 0);
        }
        assert!(state.add_acl(Some(lists.input[0]), &acl.tag, rules).is_ok());
    });
    assert!(!scene.opens(SERVER, CLIENT));
    let installed = scene.vpp.read().expect("what there is").installed;
    let found = scene.report(&installed).counterexamples;
    assert!(
        found.iter().any(|found| found.fault == verify::Fault::Dropped),
        "{found:?}"
    );
    // Read again, what this agent remembers is put back.
    let reading = scene.vpp.read().expect("what there is");
    scene.held.read_again(reading.installed);
    scene.sync();
    assert!(scene.opens(SERVER, CLIENT));
    scene.fake.change("somebody takes it away", |state| {
        let Lists { input, output } = state.lists(index);
        let input = input[1..].to_vec();
        state
            .set_acl_list(index, &fake::Lists { input, output })
            .expect("lists");
    });
    let reading = scene.vpp.read().expect("what there is");
    scene.held.read_again(reading.installed);
    scene.sync();
    assert!(!scene.is_taken_up(SERVER, at(CLIENT, 40_002)));
}

#[test]
fn lists_of_what_was_cut_are_removed_with_all_others() {
    let mut scene = connected();
    scene.change(&server_receives(&["friend"], &[80, 443]));
    assert!(scene.cuts() > 0);
    let plan = scene
        .held
        .plan(&Acls::default(), scene.held.installed().interfaces.keys());
    let interfaces = scene.vpp.read().expect("what there is").interfaces;
    let done = scene
        .vpp
        .carry_out_held(&plan, &interfaces, &BTreeSet::new(), &mut scene.held);
    assert!(done.expect("answers").is_empty());
    assert!(scene.vpp.read().expect("what there is").installed.acls.is_empty());
}
