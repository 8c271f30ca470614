//! Session rules while they change, in the strict VPP: whatever goes wrong at whichever message, in the end they are as they
//! should be, and nothing was allowed meanwhile that is allowed neither before nor after.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use picket_cluster::{Object, Semantics, Snapshot};
use picket_engine::Engine;
use picket_net::{Family, Prefix, Protocol};
use picket_policy::ObjectRef;
use picket_testing::build::{accept, block, policy};
use picket_testing::generate::{Shape, cluster, policies, together};
use picket_vpp::client::{self, Connector, Error, Feature, Label, Namespace, RuleTable};
use picket_vpp::fake::{Connection, Dumps, Fake, Fault, Options, Packet, State, Transport, When};
use picket_vpp::session::plan::plan;
use picket_vpp::session::{self, SessionRule, SessionRules, render};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;

use crate::acl::{open_at, pods_called};
use crate::faults::{faults, patience};

/// Something that may be opened: in the namespace of a pod, or from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Attempt {
    namespace: Option<String>,
    packet: Packet,
}

fn is_allowed(state: &State, attempt: &Attempt) -> bool {
    let verdict = match &attempt.namespace {
        None => state.accepts(&attempt.packet),
        Some(id) => match state.namespaces().find(|(_, namespace)| namespace.id == *id) {
            // Nothing is opened in a namespace that there is not.
            None => return false,
            Some((index, _)) => state.connects(index, &attempt.packet),
        },
    };
    verdict == Connection::Allowed
}

fn id(pod: &ObjectRef) -> String {
    format!("{}/{}", pod.namespace, pod.name)
}

/// Connects and does what is to be done; whether all of it is. A call that has been given up is over with its connector.
fn attempt(mut connector: Connector, rules: &SessionRules) -> Result<bool, Error> {
    let mut vpp = connector.connect(&[Feature::Sessions])?;
    vpp.enable_sessions()?;
    let mut tables: BTreeMap<RuleTable, &[SessionRule]> =
        BTreeMap::from([(RuleTable::Global, &*rules.global)]);
    for (pod, rules) in &rules.local {
        let namespace = Namespace {
            id: Label::new(id(pod)).expect("a short name"),
            secret: 0,
            interface: None,
            ipv4_fib: 0,
            ipv6_fib: 0,
        };
        tables.insert(RuleTable::Local(vpp.add_namespace(&namespace)?), rules);
    }
    // A list of VPP's that holds nothing can be one that it did not give: it is asked again.
    let mut is_known = 0;
    while is_known < 2 {
        let installed = vpp.read_rules()?.tables;
        let none = Vec::new();
        let plans = tables.iter().map(|(table, rules)| {
            let installed = installed.get(table).unwrap_or(&none);
            (*table, plan(installed, rules, &BTreeSet::new()))
        });
        let plans: BTreeMap<_, _> = plans.collect();
        let is_done = plans.values().all(Vec::is_empty);
        is_known = if is_done { is_known + 1 } else { 0 };
        if !vpp.carry_out_rules(&plans)?.is_empty() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Goes on until everything is as it should be, whatever goes wrong once.
fn drive(fake: &Fake, rules: &SessionRules, fault: Option<&Fault>) {
    let mut last = None;
    for time in 0..20 {
        let connector = Connector::new(fake.socket()).patient_for(patience(fake, fault, time));
        last = Some(attempt(connector, rules));
        if matches!(last, Some(Ok(true))) {
            return;
        }
        assert!(fake.let_all_end(), "an old connection does not end");
    }
    panic!("it does not come about: {last:?}");
}

fn installed(rules: &SessionRules, dumps: Dumps) -> Fake {
    let fake = Fake::start(Options::new(13).dumps(dumps)).expect("a VPP");
    drive(&fake, rules, None);
    fake
}

/// Every rule that decides something, of each table: that of a pod by its name, and the global one.
fn known(state: &State) -> BTreeSet<(Option<String>, Vec<String>)> {
    let namespaces = state
        .namespaces()
        .map(|(index, known)| (Some(index), Some(known.id.clone())));
    let mut found = BTreeSet::new();
    for (table, name) in namespaces.chain([(None, None)]) {
        for (transport, called) in [(Transport::Tcp, "TCP"), (Transport::Udp, "UDP")] {
            for family in Family::BOTH {
                let rules = state.session_rules(table, transport, family).into_iter();
                let rules = rules.filter(|rule| rule.action != u32::MAX);
                found.extend(rules.map(|rule| {
                    let said = [
                        format!("TRANSPORT_PROTO_API_{called}"),
                        rule.local.to_string(),
                        rule.local_port.to_string(),
                        rule.remote.to_string(),
                        rule.remote_port.to_string(),
                        rule.action.to_string(),
                    ];
                    (name.clone(), said.into())
                }));
            }
        }
    }
    found
}

/// A pod that may receive and send something, so that its tables deny most and allow some, of TCP and of UDP.
#[test]
fn the_json_has_the_rules_of_each_table_in_the_order_in_which_vpp_is_told_them() {
    let peer = |cidr: &str| accept().peer(block(cidr, &["10.1.7.0/24"]));
    let both = policy("x/both")
        .ingress(peer("10.1.0.0/16").port(Protocol::TCP, 80))
        .ingress(peer("10.2.0.0/16").port(Protocol::UDP, 53))
        .egress(peer("10.1.0.0/16").ports(Protocol::UDP, 50, 60))
        .egress(peer("10.3.0.0/16").protocol(Protocol::TCP));
    let pods = pods_called(&["one", "two"]);
    let snapshot: Snapshot = pods.chain([Object::Policy(both.build())]).collect();
    let engine = Engine::compile(&snapshot, Semantics::default());
    let (rules, missing) = render(engine.program(), None, &session::Options::default());
    assert!(missing.is_empty());
    let fake = Fake::start(Options::new(5)).expect("a VPP");
    let record = Arc::new(Mutex::new((BTreeSet::new(), Vec::new())));
    let seen = Arc::clone(&record);
    fake.observe(move |state, _| {
        let (before, told) = &mut *seen.lock().expect("no panic");
        let now = known(state);
        told.extend(now.difference(before).cloned());
        *before = now;
        Ok(())
    });
    drive(&fake, &rules, None);
    assert_eq!(fake.findings(), Vec::<String>::new());
    let json = session::json(&rules);
    let said = json["rules"].as_array().expect("rules").iter().map(|rule| {
        let names = [
            "transport_proto",
            "lcl",
            "lcl_port",
            "rmt",
            "rmt_port",
            "action_index",
        ];
        let said = names.map(|name| match rule[name].as_str() {
            Some(text) => text.to_owned(),
            None => rule[name].to_string(),
        });
        (rule["appns"].as_str().map(str::to_owned), said.to_vec())
    });
    let said: Vec<_> = said.collect();
    let (_, told) = &*record.lock().expect("no panic");
    assert_eq!(told.len(), said.len());
    for table in [Some("x/one".to_owned()), Some("x/two".to_owned()), None] {
        let of_table = |all: &[(Option<String>, Vec<String>)]| -> Vec<Vec<String>> {
            let of_table = all.iter().filter(|(name, _)| *name == table);
            of_table.map(|(_, rule)| rule.clone()).collect()
        };
        let (told, said) = (of_table(told), of_table(&said));
        assert!(told.len() > 4, "{told:?}");
        assert_eq!(told, said, "{table:?}");
    }
}

/// What rules can tell apart, and their neighbours.
fn attempts(rules: &[&SessionRules]) -> Vec<Attempt> {
    let mut found = Vec::new();
    for rules in rules {
        let local = rules.local.iter().map(|(pod, rules)| (Some(id(pod)), rules));
        for (namespace, rules) in local.chain([(None, &rules.global)]) {
            for rule in rules {
                for remote in [rule.remote.first(), rule.remote.last()] {
                    found.extend(of_rule(namespace.clone(), rule, remote));
                }
            }
        }
    }
    found.retain(|attempt| {
        let ends = [attempt.packet.source, attempt.packet.destination];
        !ends.iter().any(IpAddr::is_unspecified)
    });
    let step = found.len().div_ceil(MOST).max(1);
    found.into_iter().step_by(step).collect()
}

/// At most so many connections are tried after each change of the state.
const MOST: usize = 150;

fn of_rule(namespace: Option<String>, rule: &SessionRule, remote: IpAddr) -> [Attempt; 2] {
    let protocol = match rule.transport {
        session::Transport::Tcp => Protocol::TCP,
        session::Transport::Udp => Protocol::UDP,
    };
    let port = rule.local_port.max(rule.remote_port);
    [port.max(1), 4321].map(|port| {
        let packet = match namespace {
            Some(_) => Packet::new(protocol, (rule.local.last(), 40_000), (remote, port)),
            None => Packet::new(protocol, (remote, 40_000), (rule.local.first(), port)),
        };
        Attempt {
            namespace: namespace.clone(),
            packet,
        }
    })
}

/// Lets something go wrong with the message at a place on the way; whether there was one.
fn check(
    (old, new): (&SessionRules, &SessionRules),
    judged: &[(Attempt, bool, bool)],
    fault: Option<(usize, Fault)>,
    dumps: Dumps,
) -> Result<bool, TestCaseError> {
    let fake = installed(old, dumps);
    let watched = judged.to_vec();
    // A VPP that was started again has nothing, and whoever opens something there is not kept from it until the tables are back.
    let (least, mut was_restarted) = (old.local.len(), false);
    fake.observe(move |state, change| {
        was_restarted |= state.namespaces().count() <= least;
        let is_as = |(attempt, _, after): &(Attempt, bool, bool)| is_allowed(state, attempt) == *after;
        was_restarted &= !watched.iter().all(is_as);
        for (attempt, before, after) in &watched {
            if !was_restarted && is_allowed(state, attempt) && !before && !after {
                return Err(format!("after {change}: {attempt:?}"));
            }
        }
        Ok(())
    });
    if let Some((place, fault)) = &fault {
        fake.fail(When::After(*place), fault.clone());
    }
    drive(&fake, new, fault.as_ref().map(|(_, fault)| fault));
    let was_met = fake.faults() == 0;
    prop_assert_eq!(fake.findings(), Vec::<String>::new(), "{:?}", fault);
    prop_assert_eq!(fake.complaints(), Vec::<String>::new(), "{:?}", fault);
    prop_assert_eq!(fake.crashes(), Vec::<String>::new(), "{:?}", fault);
    let state = fake.state();
    for (attempt, _, after) in judged {
        prop_assert_eq!(is_allowed(&state, attempt), *after, "{:?}: {:?}", fault, attempt);
    }
    Ok(was_met)
}

/// Which lists of rules a VPP has.
fn dumps() -> impl Strategy<Value = Dumps> {
    prop::sample::select(vec![Dumps::First, Dumps::Second, Dumps::Both])
}

fn rules(snapshot: &Snapshot) -> SessionRules {
    let engine = Engine::compile(snapshot, Semantics::default());
    let node = snapshot.nodes.keys().next().cloned();
    let options = session::Options { most_rules: 60 };
    render(engine.program(), node.as_deref(), &options).0
}

fn judged(old: &SessionRules, new: &SessionRules) -> Vec<(Attempt, bool, bool)> {
    let [first, last] = [old, new].map(|rules| installed(rules, Dumps::Both).state());
    let judged = attempts(&[old, new]).into_iter().map(|attempt| {
        let (before, after) = (is_allowed(&first, &attempt), is_allowed(&last, &attempt));
        (attempt, before, after)
    });
    judged.collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn nothing_opens_while_rules_change(
        cluster in cluster(),
        before in policies(Shape::Dialects, 3),
        after in policies(Shape::Dialects, 3),
        dumps in dumps(),
    ) {
        let (old, new) = (rules(&together(&cluster, before)), rules(&together(&cluster, after)));
        let judged = judged(&old, &new);
        check((&old, &new), &judged, None, dumps)?;
        let back = judged.into_iter().map(|(one, before, after)| (one, after, before));
        check((&new, &old), &back.collect::<Vec<_>>(), None, dumps)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn nothing_opens_whatever_goes_wrong_at_any_message(
        cluster in cluster(),
        before in policies(Shape::V1, 2),
        after in policies(Shape::V1, 2),
        dumps in dumps(),
    ) {
        let (old, new) = (rules(&together(&cluster, before)), rules(&together(&cluster, after)));
        let judged = judged(&old, &new);
        for fault in faults() {
            let mut place = 0;
            while check((&old, &new), &judged, Some((place, fault.clone())), dumps)? {
                place += 1;
            }
        }
    }
}

/// Somebody removes a rule of one pod by its addresses, so that VPP never takes it again.
#[test]
fn what_vpp_refuses_for_ever_of_one_pod_keeps_nothing_of_others_from_changing() {
    let [old, new] = [80, 81].map(|port| rules(&open_at([port; 2])));
    let fake = installed(&old, Dumps::Both);
    let mut vpp = Connector::new(fake.socket())
        .connect(&[Feature::Sessions])
        .expect("a connection");
    let is_the_first = |rule: &&client::SessionRule| {
        let one: Prefix = "10.0.0.1/32".parse().expect("a prefix");
        rule.local == one && rule.remote.length() == 0 && rule.local_port == 0
    };
    let known = vpp.session_rules().expect("what there is");
    let mut lost = known
        .iter()
        .map(|told| &told.rule)
        .find(is_the_first)
        .expect("a rule")
        .clone();
    lost.tag = Label::new("of nobody").expect("a short name");
    vpp.change_session_rule(client::Change::Delete, 0, &lost)
        .expect("it is there");
    drop(vpp);
    for _ in 0..3 {
        assert!(matches!(attempt(Connector::new(fake.socket()), &new), Ok(false)));
        assert!(fake.let_all_end(), "an old connection does not end");
    }
    let arrives = |pod: [u8; 4], port| {
        let packet = Packet::new(Protocol::TCP, ([9, 9, 9, 9].into(), 40_000), (pod.into(), port));
        fake.state().accepts(&packet) == Connection::Allowed
    };
    let two = [10, 0, 0, 2];
    assert_eq!([80, 81].map(|port| arrives(two, port)), [false, true]);
}

/// What a table says about a prefix: cut in halves, or whole with some ports otherwise.
#[derive(Clone, Copy, Debug)]
enum Cut {
    Halves,
    Like(Like),
}

/// What holds but for some ports.
type Like = (session::Action, &'static [u16]);

/// The prefixes that are cut, three times at most.
const ROOTS: [(&str, u8); 2] = [("10.0.0.8", 29), ("2001:db8::8", 125)];

fn cuts() -> impl Strategy<Value = (Like, Vec<Cut>)> {
    let ports = prop::sample::select(vec![&[][..], &[80], &[443], &[80, 443]]);
    let action = prop::sample::select(vec![session::Action::Allow, session::Action::Drop]);
    let like = (action, ports).boxed();
    let cut = prop_oneof![Just(Cut::Halves), like.clone().prop_map(Cut::Like)];
    (like, prop::collection::vec(cut, 15))
}

/// The rules of a table that is cut so, as rules are rendered.
fn table((everybody, cuts): &(Like, Vec<Cut>)) -> Vec<SessionRule> {
    let mut rules = Vec::new();
    for (address, length) in ROOTS {
        let root = Prefix::new(address.parse().expect("an address"), length).expect("a prefix");
        let any = Prefix::all(root.family());
        let mut pieces = Vec::new();
        cut(root, 0, cuts, &mut pieces);
        // Only where nothing is cut may what holds for everybody be about some ports.
        let default = if pieces.iter().any(|(_, like)| *like != *everybody) {
            (everybody.0, &[][..])
        } else {
            pieces.clear();
            *everybody
        };
        for transport in session::Transport::BOTH {
            let mut piece = |remote, (action, ports): Like, around| {
                let rule = |remote_port, action| SessionRule {
                    transport,
                    local: any,
                    remote,
                    local_port: 0,
                    remote_port,
                    action,
                };
                let opposite = match action {
                    session::Action::Allow => session::Action::Drop,
                    session::Action::Drop => session::Action::Allow,
                };
                rules.extend((action != around).then(|| rule(0, action)));
                rules.extend(ports.iter().map(|&port| rule(port, opposite)));
            };
            piece(any, default, session::Action::Allow);
            for &(prefix, like) in pieces.iter().filter(|(_, like)| *like != default) {
                piece(prefix, like, default.0);
            }
        }
    }
    rules
}

/// Cuts a prefix as the cut at a place of a binary tree says.
fn cut(prefix: Prefix, place: usize, cuts: &[Cut], pieces: &mut Vec<(Prefix, Like)>) {
    match cuts.get(place) {
        Some(Cut::Like(like)) => pieces.push((prefix, *like)),
        Some(Cut::Halves) if 2 * place + 2 < cuts.len() => {
            let ends = [prefix.first(), prefix.last()];
            for (end, place) in ends.into_iter().zip([2 * place + 1, 2 * place + 2]) {
                let half = Prefix::new(end, prefix.length() + 1).expect("a half");
                cut(half, place, cuts, pieces);
            }
        }
        Some(Cut::Halves) | None => {}
    }
}

/// The rules of a node with one pod.
fn of_one(rules: Vec<SessionRule>) -> SessionRules {
    SessionRules {
        local: BTreeMap::from([(ObjectRef::new("Pod", "x", "p"), rules)]),
        global: Vec::new(),
    }
}

/// All that such tables can tell apart.
fn all_attempts() -> Vec<Attempt> {
    let mut found = Vec::new();
    for low in 7..=16_u8 {
        let ends: [(IpAddr, IpAddr); 2] = [
            ([10, 9, 0, 1].into(), [10, 0, 0, low].into()),
            (
                [0x2001, 0xdb8, 9, 0, 0, 0, 0, 1].into(),
                [0x2001, 0xdb8, 0, 0, 0, 0, 0, u16::from(low)].into(),
            ),
        ];
        for (own, other) in ends {
            for protocol in [Protocol::TCP, Protocol::UDP] {
                found.extend([80, 443, 22].map(|port| Attempt {
                    namespace: Some("x/p".to_owned()),
                    packet: Packet::new(protocol, (own, 40_000), (other, port)),
                }));
            }
        }
    }
    found
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn nothing_opens_while_prefixes_are_cut_in_another_way(before in cuts(), after in cuts(), dumps in dumps()) {
        let (old, new) = (of_one(table(&before)), of_one(table(&after)));
        let [first, last] = [&old, &new].map(|rules| installed(rules, Dumps::Both).state());
        let judged = all_attempts().into_iter().map(|attempt| {
            let (before, after) = (is_allowed(&first, &attempt), is_allowed(&last, &attempt));
            (attempt, before, after)
        });
        check((&old, &new), &judged.collect::<Vec<_>>(), None, dumps)?;
    }
}
