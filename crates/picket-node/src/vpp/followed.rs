//! Session rules that are followed by what changes are those that are worked out from nothing, whatever happened before.

mod rendered;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::IpAddr;
use std::sync::Arc;

use picket_net::{Family, Prefix};
use picket_policy::ObjectRef;
use picket_source::Health;
use picket_vpp::client::{self, Connector, Feature, Label, SessionAction, SessionScope, Vpp};
use picket_vpp::fake::{Fake, Fault, Options, When};
use picket_vpp::session::{Action, Change, SessionRule, Tables as Rules, Transport};
use proptest::prelude::*;

use super::render::Wanted;
use super::report::Report;
use super::session::SessionTables;
use super::told::Told;
use super::worker::Tables;
use super::{NamespaceRule, VppSettings, VppStatus, VppTarget};
use crate::metrics::Metrics;
use crate::status::Shared;
use crate::testing::vpp_settings;

const PODS: [&str; 3] = ["a", "b", "c"];
/// How many namespaces VPP has beside its own.
const NAMESPACES: u32 = 4;

/// Whose they are at first.
const OWNERS: [Option<usize>; 4] = [Some(0), Some(1), Some(2), Some(0)];

/// What happens.
#[derive(Clone, Debug)]
enum Step {
    /// These are wanted, of which is told whole or in part; something is done at once or with what comes next.
    Rules {
        rules: Rules,
        is_whole: bool,
        waits: bool,
    },
    /// A file gives each of the namespaces, and one that there is not, to one of the pods or to none.
    File(Vec<Option<usize>>),
    /// Others add a rule in a namespace, about one of the ports.
    Others(u32, u16),
    /// What VPP has is read, and everything is worked out.
    Read,
    /// VPP refuses a message about a rule behind so many others.
    Refuse(usize),
    /// Another agent comes, which does not know whose the rules of IPv6 are.
    Restart,
}

/// A table about the ports of one end, or none that restricts anything.
fn table(families: &[Family], local: Option<IpAddr>, ports: &[u16], action: Action) -> Arc<[SessionRule]> {
    let is_there = |family: &Family| local.is_none_or(|local| Prefix::host(local).family() == *family);
    let families = families.iter().copied().filter(is_there);
    let rules = families.flat_map(|family| {
        let any = Prefix::all(family);
        let rule = move |remote, local_port, remote_port, action| SessionRule {
            transport: Transport::Tcp,
            local: local.map_or(any, Prefix::host),
            remote,
            local_port,
            remote_port,
            action,
        };
        let peer = match family {
            Family::Ipv4 => "10.0.9.1".parse().map(Prefix::host),
            Family::Ipv6 => "fd00::9".parse().map(Prefix::host),
        };
        let peer = peer.unwrap();
        let each = ports.iter().map(move |&port| match local {
            Some(_) => rule(peer, port, 0, action),
            None => rule(peer, 0, port, action),
        });
        [rule(any, 0, 0, Action::Drop)]
            .into_iter()
            .chain(each.collect::<Vec<_>>())
    });
    match ports {
        [] => Arc::default(),
        _ => rules.collect(),
    }
}

/// Tables with rules of these families.
fn rules(families: &'static [Family]) -> impl Strategy<Value = Rules> {
    let ports = || prop::sample::subsequence(vec![80, 443, 8080], 0..=3);
    let action = || prop::sample::select(vec![Action::Allow, Action::Drop]);
    let pod = prop::option::weighted(0.7, ("[12]", ports(), action()));
    let address = prop::option::of((ports(), action()));
    (prop::collection::vec(pod, 3), prop::collection::vec(address, 2)).prop_map(move |(pods, addresses)| {
        let local = PODS.into_iter().zip(pods).filter_map(|(name, pod)| {
            let (uid, ports, action) = pod?;
            let pod = ObjectRef {
                uid: uid.into(),
                ..ObjectRef::new("Pod", "x", name)
            };
            Some((pod, table(families, None, &ports, action)))
        });
        let ends: [IpAddr; 2] = [[10, 0, 0, 1].into(), [0xfd00, 0, 0, 0, 0, 0, 0, 1].into()];
        let global = ends.into_iter().zip(addresses).filter_map(|(end, about)| {
            let (ports, action) = about?;
            let is_there = !ports.is_empty() && families.contains(&Prefix::host(end).family());
            is_there.then(|| (end, table(families, Some(end), &ports, action)))
        });
        Rules {
            local: local.collect(),
            global: global.collect(),
        }
    })
}

fn steps(families: &'static [Family]) -> impl Strategy<Value = Vec<Step>> {
    let owner = prop::option::weighted(0.8, 0..PODS.len());
    let count = usize::try_from(NAMESPACES).unwrap() + 1;
    let step = prop_oneof![
        8 => (rules(families), prop::bool::weighted(0.1), prop::bool::weighted(0.2)).prop_map(
            |(rules, is_whole, waits)| Step::Rules { rules, is_whole, waits },
        ),
        1 => prop::collection::vec(owner, count).prop_map(Step::File),
        1 => (1..=NAMESPACES, prop::sample::select(vec![80, 22])).prop_map(|(of, port)| Step::Others(of, port)),
        2 => Just(Step::Read),
        1 => (0..4_usize).prop_map(Step::Refuse),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..24)
}

/// A target and what it tells.
struct Agent {
    tables: SessionTables,
    vpp: Vpp,
    report: Report,
    shared: Shared,
}

impl Agent {
    fn new(fake: &Fake, settings: &VppSettings) -> Self {
        let shared = Shared::new("n", Health::default());
        let mut agent = Self {
            tables: SessionTables::new(settings),
            vpp: Connector::new(fake.socket())
                .connect(&[Feature::SessionRules])
                .unwrap(),
            report: Report::new(VppTarget::Session, &shared, &Metrics::default()),
            shared,
        };
        agent.tables.read(&mut agent.vpp).unwrap();
        agent
    }

    fn hear(&mut self, rules: Told<Rules>) {
        self.tables.hear(&Wanted {
            rules,
            ..Wanted::default()
        });
    }

    /// Does what is wanted; what VPP refuses is tried again once everything has been read.
    fn enforce(&mut self) -> usize {
        let (wanted, mut operations) = (Wanted::default(), 0);
        loop {
            let synced = self.tables.sync(&mut self.vpp, &wanted).unwrap();
            self.report.synced(&wanted, &synced, &BTreeSet::new());
            operations += synced.operations;
            if synced.troubles.is_empty() {
                return operations;
            }
            self.tables.read(&mut self.vpp).unwrap();
        }
    }

    /// What is said of what is where.
    fn said(&self) -> impl PartialEq + std::fmt::Debug + use<> {
        let status = self.shared.lock();
        let VppStatus {
            namespaces,
            pending,
            foreign,
            trouble,
            ..
        } = status.vpp[VppTarget::Session.name()].clone();
        (namespaces, pending, foreign, trouble.map(|trouble| trouble.why))
    }
}

/// Somebody else adds a rule.
fn add(fake: &Fake, namespace: u32, port: u16) {
    let mut vpp = Connector::new(fake.socket())
        .connect(&[Feature::SessionRules])
        .unwrap();
    let rule = client::SessionRule {
        transport: client::Transport::Tcp,
        local: Prefix::all(Family::Ipv4),
        remote: "10.0.9.1/32".parse().unwrap(),
        local_port: 0,
        remote_port: port,
        action: SessionAction::Deny,
        scope: SessionScope::Local,
        tag: Label::new("theirs").unwrap(),
    };
    // There it is already, or another has its place.
    drop(vpp.change_session_rule(client::Change::Add, namespace, &rule));
}

fn write(file: &std::path::Path, owners: &[Option<usize>]) {
    let lines = (1..)
        .zip(owners)
        .filter_map(|(namespace, owner)| Some((namespace, PODS[(*owner)?])));
    let text = lines.fold(String::new(), |mut text, (namespace, pod): (u32, _)| {
        writeln!(text, "x/{pod} {namespace}").unwrap();
        text
    });
    std::fs::write(file, text).unwrap();
}

/// What has been worked out is what is worked out of what VPP has, and that is what is wanted.
fn check(agent: &mut Agent, fake: &Fake) -> Result<(), TestCaseError> {
    agent.enforce();
    let said = agent.said();
    let faults = fake.faults();
    agent.tables.read(&mut agent.vpp).unwrap();
    prop_assert_eq!(agent.enforce(), 0);
    prop_assert_eq!(agent.said(), said);
    prop_assert_eq!(fake.faults(), faults);
    Ok(())
}

fn follow(steps: Vec<Step>) -> Result<(), TestCaseError> {
    let options = (1..=NAMESPACES).fold(Options::new(3).session_layer(true), |options, number| {
        options.namespace(&format!("n{number}"))
    });
    let fake = Fake::start(options).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    write(file.path(), &OWNERS);
    let settings = VppSettings {
        pod_namespaces: Some(NamespaceRule::File(file.path().into())),
        ..vpp_settings()
    };
    let mut agent = Agent::new(&fake, &settings);
    agent.hear(Told::Whole(Arc::default()));
    agent.enforce();
    let mut wanted = Rules::default();
    for step in steps {
        match step {
            Step::Rules {
                rules,
                is_whole,
                waits,
            } => {
                let told = match is_whole {
                    true => Told::Whole(Arc::new(rules.clone())),
                    false => Told::Changed(Arc::new(Change::between(&wanted, &rules))),
                };
                agent.hear(told);
                wanted = rules;
                if waits {
                    continue;
                }
            }
            Step::File(owners) => {
                write(file.path(), &owners);
                agent.tables.look(&mut agent.vpp, false).unwrap();
            }
            Step::Others(namespace, port) => {
                add(&fake, namespace, port);
                agent.tables.read(&mut agent.vpp).unwrap();
            }
            Step::Read => check(&mut agent, &fake)?,
            Step::Restart => {
                agent = Agent::new(&fake, &settings);
                agent.hear(Told::Whole(Arc::new(wanted.clone())));
            }
            Step::Refuse(place) => {
                fake.fail(
                    When::Named("session_rule_add_del".to_owned(), place),
                    Fault::Refuse(-1),
                );
            }
        }
        agent.enforce();
        prop_assert_eq!(fake.complaints(), Vec::<String>::new());
        prop_assert_eq!(fake.crashes(), Vec::<String>::new());
    }
    check(&mut agent, &fake)?;
    // Nothing of ours is left that nobody wants, not even taken for others'. An agent remembers the table of a pod that has no line in
    // the file any more, as the next cannot.
    write(file.path(), &OWNERS);
    agent.tables.look(&mut agent.vpp, false).unwrap();
    agent.enforce();
    let mut next = Agent::new(&fake, &settings);
    next.hear(Told::Whole(Arc::new(wanted)));
    prop_assert_eq!(next.enforce(), 0);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn rules_that_are_followed_are_those_that_are_worked_out_from_nothing(
        steps in prop_oneof![steps(&[Family::Ipv4]), steps(&Family::BOTH)],
    ) {
        follow(steps)?;
    }
}

/// What is told one after another is told as well at once.
#[test]
fn what_nobody_heard_of_is_told_with_what_comes_after_it() {
    let rules = |ports: &[u16]| Rules {
        local: BTreeMap::from([(
            ObjectRef::new("Pod", "x", "a"),
            table(&Family::BOTH, None, ports, Action::Allow),
        )]),
        ..Rules::default()
    };
    let (none, one, two) = (Rules::default(), rules(&[80]), rules(&[80, 443]));
    let change = |before: &Rules, now: &Rules| Change::between(before, now);
    let joined = |first: &Change, then: &Change| {
        let mut whole = first.clone();
        whole.then(then);
        whole
    };
    let there = joined(&change(&none, &one), &change(&one, &two));
    let mut known = none.clone();
    known.advance(&there);
    assert_eq!(known, two);
    assert!(joined(&there, &change(&two, &none)).is_empty());
    let Told::Whole(whole) =
        Told::Whole(Arc::new(one.clone())).then(&Told::Changed(Arc::new(change(&one, &two))))
    else {
        panic!("it is told whole");
    };
    assert_eq!(*whole, two);
}
