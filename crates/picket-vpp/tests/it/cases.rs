//! What Contiv's policy plugin made of rules, where it was right: its own tests, and what it gave when it was run.
//!
//! Its tables are compared by meaning: what they let pass with whom.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use picket_net::{Family, Interval, Prefix, Protocol};
use picket_policy::{Direction, ObjectRef};
use picket_vpp::acl::hold::Held;
use picket_vpp::acl::meaning::{Interpreter, Packet, Way};
use picket_vpp::acl::plan::Operation;
use picket_vpp::acl::{AclAction, Acls, Change, NodeAcls, Options, PodLists, Role, Tag, text};
use picket_vpp::combine::tables;
use picket_vpp::lists::{Lists, of_rules};
use picket_vpp::peers::{Peers, subtract};
use picket_vpp::rule::{ALL_PORTS, Action, Rule};
use picket_vpp::session;
use picket_vpp::value::{Value, Values};
use serde::Deserialize;
use smol_str::SmolStr;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Cases {
    /// Rules in their order.
    order: Vec<String>,
    subtract: Vec<Subtraction>,
    tables: Vec<Tables>,
    connections: Vec<Connections>,
    pub(crate) configured: Vec<Configured>,
    sessions: Vec<Sessions>,
}

/// What the original made of policies.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Configured {
    pub(crate) name: String,
    /// The address that packets have which come back to their pod through a service.
    pub(crate) loopback: IpAddr,
    pub(crate) pods: Vec<Known>,
    pub(crate) configured: Vec<OfPod>,
    /// `allow tcp 80 10.0.0.1 -> default/pod1`: what the lists of the pod do.
    pub(crate) traffic: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Known {
    pub(crate) pod: String,
    pub(crate) address: IpAddr,
}

/// The policies of a pod, and the rules that the original made of them.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OfPod {
    pub(crate) pod: String,
    pub(crate) matches: Vec<Match>,
    pub(crate) ingress: Vec<String>,
    pub(crate) egress: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Match {
    pub(crate) ingress: bool,
    pub(crate) pods: Vec<String>,
    pub(crate) blocks: Vec<GivenBlock>,
    /// `tcp 80`, `udp any`.
    pub(crate) ports: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GivenBlock {
    pub(crate) cidr: String,
    pub(crate) except: Vec<String>,
}

/// What the original asked of the session layer.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sessions {
    name: String,
    pods: Vec<Given>,
    /// How many requests it needed.
    requests: usize,
    local: Vec<String>,
    global: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Subtraction {
    from: String,
    what: String,
    rest: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    pod: String,
    address: String,
    /// What the pod may receive.
    ingress: Vec<String>,
    /// What it may send.
    egress: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Tables {
    name: String,
    /// Whether tables judge what goes to pods, and not what comes from them.
    to_pods: bool,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    pods: Vec<Given>,
    local: BTreeMap<String, Vec<String>>,
    global: Vec<String>,
    /// How many tables changed.
    changes: usize,
}

/// What became of connections with the lists of the original.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Connections {
    name: String,
    steps: Vec<Connected>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Connected {
    pods: Vec<Given>,
    /// How many requests it needed: one for each list, and one for each interface that has it.
    requests: usize,
    connections: Vec<String>,
}

pub(crate) fn cases() -> Cases {
    serde_json::from_str(include_str!("cases.json")).expect("cases")
}

/// `permit tcp 80 10.0.0.0/8 -> any`.
fn rule(text: &str) -> Rule {
    let words: Vec<_> = text.split(' ').collect();
    let [action, protocol, port, source, "->", destination] = words[..] else {
        panic!("no rule: {text}");
    };
    let net = |text: &str| (text != "any").then(|| text.parse::<Prefix>().expect("a network"));
    let protocol = (protocol != "any").then(|| protocol_of(protocol));
    Rule {
        source: net(source),
        destination: net(destination),
        protocol,
        source_ports: ALL_PORTS,
        destination_ports: match port {
            "any" => ALL_PORTS,
            port => Interval::single(port.parse().expect("a port")),
        },
        action: if action == "permit" {
            Action::Permit
        } else {
            Action::Deny
        },
    }
}

pub(crate) fn protocol_of(text: &str) -> Protocol {
    match text {
        "tcp" => Protocol::TCP,
        "udp" => Protocol::UDP,
        // Anything that is neither.
        "other" => Protocol::from_number(47),
        text => panic!("no protocol: {text}"),
    }
}

/// Rules, each as [`rule`] has it.
pub(crate) fn rules(texts: &[impl AsRef<str>]) -> Vec<Rule> {
    texts.iter().map(|text| rule(text.as_ref())).collect()
}

fn object(name: &str) -> ObjectRef {
    let (namespace, name) = name.split_once('/').expect("a namespace and a name");
    ObjectRef::new("Pod", namespace, name)
}

fn pods(given: &[Given], values: &mut Values) -> BTreeMap<ObjectRef, Lists> {
    let one = |given: &Given| {
        let address: IpAddr = given.address.parse().expect("an address");
        let lists = of_rules([address], &rules(&given.ingress), &rules(&given.egress), values);
        (object(&given.pod), lists)
    };
    given.iter().map(one).collect()
}

#[test]
fn rules_are_in_the_order_of_the_original() {
    let expected = rules(&cases().order);
    let mut sorted = expected.clone();
    sorted.reverse();
    sorted.sort();
    let shown = |rules: &[Rule]| rules.iter().map(Rule::to_string).collect::<Vec<_>>();
    assert_eq!(shown(&sorted), shown(&expected));
}

#[test]
fn networks_are_subtracted_as_by_the_original() {
    for case in cases().subtract {
        let (from, what): (Prefix, Prefix) = (case.from.parse().unwrap(), case.what.parse().unwrap());
        let rest: Vec<_> = subtract(&from, &what).iter().map(Prefix::to_string).collect();
        assert_eq!(rest, case.rest, "{from} without {what}");
    }
}

#[test]
fn tables_mean_what_those_of_the_original_do() {
    for case in cases().tables {
        let direction = if case.to_pods {
            Direction::Ingress
        } else {
            Direction::Egress
        };
        let mut values = Values::default();
        for (number, step) in case.steps.iter().enumerate() {
            let pods = pods(&step.pods, &mut values);
            let made = tables(&pods, direction, &mut values);
            for (pod, [made, _]) in &made {
                let expected = step.local.get(&format!("{}/{}", pod.namespace, pod.name));
                let expected = rules(expected.expect("a table of the pod"));
                let expected = Peers::of_rules(
                    Family::Ipv4,
                    &expected,
                    case.to_pods,
                    Value::EVERYTHING,
                    &mut values,
                );
                let own = pods[pod].addresses.first().copied().expect("an address");
                // A pod is no peer of its own.
                let expected = expected.with([(Prefix::host(own), Value::EVERYTHING)]);
                let made = made
                    .as_ref()
                    .expect("a table")
                    .with([(Prefix::host(own), Value::EVERYTHING)]);
                assert_eq!(
                    made.rules(&mut values),
                    expected.rules(&mut values),
                    "{} {number}: {pod}",
                    case.name
                );
            }
            let global = rules(&step.global);
            for (pod, lists) in &pods {
                let own = lists.addresses.first().map(|&address| Prefix::host(address));
                let about = |rule: &&Rule| {
                    let end = if case.to_pods {
                        rule.source
                    } else {
                        rule.destination
                    };
                    end.is_none() || end == own
                };
                let theirs: Vec<_> = global.iter().filter(about).copied().collect();
                let theirs = Peers::of_rules(
                    Family::Ipv4,
                    &theirs,
                    !case.to_pods,
                    Value::EVERYTHING,
                    &mut values,
                );
                let [ours, _] = if case.to_pods {
                    &lists.egress
                } else {
                    &lists.ingress
                };
                assert_eq!(
                    Some(&theirs),
                    ours.as_deref(),
                    "{} {number}: global for {pod}",
                    case.name
                );
            }
        }
    }
}

/// Pods with the names of their interfaces, and those of before that are no more.
fn changed(pods: &BTreeMap<ObjectRef, Lists>, before: &BTreeSet<ObjectRef>) -> PodLists {
    let gone = before.iter().map(|pod| (pod.clone(), None));
    let there = pods.iter().map(|(pod, lists)| {
        let lists = (interface(pod), Arc::new(lists.clone()));
        (pod.clone(), Some(lists))
    });
    gone.chain(there).collect()
}

fn interface(pod: &ObjectRef) -> SmolStr {
    format!("{}/{}", pod.namespace, pod.name).into()
}

/// How many lists that keep something of IPv4 from pods, and global tables, are new, on other interfaces, or gone. Those that
/// only reflect are in none of the original's tables.
fn changed_lists(change: &Change, acls: &Acls) -> usize {
    let is = |tag: &Tag, role: Role| tag.as_str().contains(&role.to_string());
    let outputs = change
        .interfaces
        .values()
        .flatten()
        .flat_map(|lists| &lists.output);
    let local = outputs.chain(change.removed.keys()).filter(|tag| {
        let acl = acls.acls.get(*tag).or_else(|| change.removed.get(*tag));
        let mut rules = acl.into_iter().flat_map(|acl| &acl.rules);
        is(tag, Role::ToPod)
            && rules.any(|rule| rule.action == AclAction::Deny && rule.family() == Family::Ipv4)
    });
    let mut others = change.created.keys().chain(change.removed.keys());
    let is_global = others.any(|tag| is(tag, Role::Global));
    local.collect::<BTreeSet<_>>().len() + usize::from(is_global)
}

/// The same of tables of session rules.
fn changed_tables(change: &session::Change) -> usize {
    let turns = change.local.values();
    let local = turns.flat_map(|turn| turn.before.iter().chain(&turn.now));
    let local: BTreeSet<_> = local.filter(|rules| !rules.is_empty()).collect();
    local.len() + usize::from(!change.global.is_empty())
}

#[test]
fn no_more_tables_change_than_those_of_the_original_did() {
    for case in cases().tables {
        let mut values = Values::default();
        let mut lists = NodeAcls::of_rules(Options::default());
        let mut layer = session::NodeRules::of_rules(session::Options::default());
        let mut known = BTreeSet::new();
        for (number, step) in case.steps.iter().enumerate() {
            let pods = pods(&step.pods, &mut values);
            let pods = changed(&pods, &known);
            known = pods.keys().cloned().collect();
            let changes = if case.to_pods {
                let change = lists.advance(&pods, None, &mut values);
                changed_lists(&change, lists.acls())
            } else {
                let each = pods.iter().map(|(pod, now)| {
                    let lists = now.as_ref().map(|(_, lists)| Arc::clone(lists));
                    (pod.clone(), lists)
                });
                changed_tables(&layer.advance(&each.collect(), &mut values))
            };
            assert!(
                changes <= step.changes,
                "{} {number}: {changes} tables",
                case.name
            );
        }
    }
}

/// The interfaces that lead out of the node.
const UPLINKS: [&str; 3] = ["GbE", "VPP-Host", "VXLAN-BVI"];

/// How many lists the original put at each step, as its own tests counted that (`vpp_txn.ops` of `contiv_cases.json`: 2 and none, 3 and
/// none, 2 and 2): those that judge, which are one for pods that are alike and one for the node, and the one that reflects.
///
/// A put is a request to another program, which takes a list with the interfaces that have it. VPP is asked with `acl_add_replace` for each
/// list and with `acl_interface_set_acl_list` for each interface, so that a put is as many messages as interfaces have its list, and one:
/// that is how `requests` of `cases.json` is worked out from the interfaces that the original names.
///
/// Its one list that reflects reflects whatever comes. What reflects only what is from a pod itself is a list for each pod, and what lets
/// it answer who is outside is one for the node.
const PUTS: [(&str, &[[usize; 2]]); 3] = [
    ("TestEgressRulesOnePod", &[[1, 1], [0, 0]]),
    ("TestIngressRulesOnePod", &[[2, 1], [0, 0]]),
    ("TestEgressRulesTwoPods", &[[1, 1], [1, 1]]),
];

/// How many lists were made that judge what goes to pods or out of the node, of pods, and of what comes into the node. What
/// is said of pods and of everybody else is one list of the node in two.
fn made(operations: &[Operation]) -> [usize; 3] {
    let lists = operations.iter().filter_map(|operation| match operation {
        Operation::Create(acl) | Operation::Replace { acl, .. } => Some(acl.tag.as_str()),
        Operation::Set { .. } | Operation::Delete(_) => None,
    });
    let lists: Vec<_> = lists.collect();
    let count = |role: Role| {
        let is_for = |tag: &&&str| tag.starts_with(&format!("picket-{role}-"));
        lists.iter().filter(is_for).count()
    };
    let [judging, of_node, own, outside] =
        [Role::ToPod, Role::Global, Role::FromPod, Role::FromOutside].map(count);
    assert_eq!(judging + of_node + own + outside, lists.len(), "{lists:?}");
    assert!(of_node <= 2 && outside <= 2, "{lists:?}");
    [judging + of_node.min(1), own, outside.min(1)]
}

#[test]
fn connections_pass_as_in_the_tests_of_the_original_with_no_more_requests() {
    let named = cases().connections.into_iter().map(|case| case.name);
    assert_eq!(named.collect::<Vec<_>>(), PUTS.map(|(name, _)| name));
    for (case, (_, puts)) in cases().connections.into_iter().zip(PUTS) {
        assert_eq!(case.steps.len(), puts.len(), "{}", case.name);
        let mut values = Values::default();
        let uplinks = UPLINKS.map(SmolStr::new).to_vec();
        let mut node = NodeAcls::of_rules(Options { uplinks });
        let mut vpp = Held::default();
        let mut known = BTreeSet::new();
        for (number, step) in case.steps.iter().enumerate() {
            let pods = pods(&step.pods, &mut values);
            node.advance(&changed(&pods, &known), None, &mut values);
            known = pods.keys().cloned().collect();
            let operations = put(&mut vpp, node.acls());
            assert!(
                operations.len() <= step.requests,
                "{} {number}: {operations:?}",
                case.name
            );
            let ([judging, own, outside], [put, reflecting]) = (made(&operations), puts[number]);
            assert!(judging <= put, "{} {number}: {operations:?}", case.name);
            assert!(
                own <= reflecting * pods.len(),
                "{} {number}: {operations:?}",
                case.name
            );
            // Who is outside is only answered by a list of its own where the node has one that judges.
            assert!(
                outside <= put.saturating_sub(1),
                "{} {number}: {operations:?}",
                case.name
            );
            let gone = operations
                .iter()
                .filter(|operation| matches!(operation, Operation::Delete(_)));
            assert!(
                gone.count() <= put + reflecting,
                "{} {number}: {operations:?}",
                case.name
            );
            for connection in &step.connections {
                connects(&case.name, &pods, node.acls(), connection);
            }
        }
    }
}

/// Gives a VPP its lists, and says with which requests. Interfaces of pods that are gone stay.
fn put(vpp: &mut Held, acls: &Acls) -> Vec<Operation> {
    let mut interfaces = vpp.installed().interfaces.clone();
    for interface in acls.interfaces.keys() {
        interfaces.entry(interface.clone()).or_default();
    }
    vpp.set_interfaces(interfaces.clone());
    let plan = vpp.plan(acls, interfaces.keys());
    let first = vpp
        .installed()
        .acls
        .last_key_value()
        .map_or(0, |(index, _)| index + 1);
    let created = plan.operations().iter().filter_map(|operation| match operation {
        Operation::Create(acl) => Some(acl.tag.clone()),
        _ => None,
    });
    vpp.advance(&plan, &created.zip(first..).collect());
    let lists = vpp.installed().acls.values().map(|acl| &acl.tag);
    assert_eq!(
        lists.collect::<BTreeSet<_>>(),
        acls.acls.keys().collect::<BTreeSet<_>>()
    );
    plan.operations().to_vec()
}

/// A connection passes or not, as it says, through every interface that leads out, and is answered.
fn connects(case: &str, pods: &BTreeMap<ObjectRef, Lists>, acls: &Acls, connection: &str) {
    let words: Vec<_> = connection.split(' ').collect();
    let [result, protocol, port, source, "->", destination] = words[..] else {
        panic!("no connection: {connection}");
    };
    let ends = [source, destination].map(|end| end.parse::<IpAddr>().expect("an address"));
    let packet = Packet::opening(
        ends[0],
        ends[1],
        protocol_of(protocol),
        port.parse().expect("a port"),
    );
    for uplink in UPLINKS {
        let [from, to] = ends.map(|address| {
            let pod = pods.iter().find(|(_, lists)| lists.addresses.contains(&address));
            pod.map_or_else(|| uplink.into(), |(pod, _)| interface(pod))
        });
        let mut vpp = Interpreter::new(acls);
        let passes = vpp.passes(&from, Way::In, &packet) && vpp.passes(&to, Way::Out, &packet);
        let shown = || format!("{case}: {connection}\n{}", text(acls));
        assert_eq!(passes, result == "allow", "{}", shown());
        let reply = packet.reply();
        let answered = vpp.passes(&to, Way::In, &reply) && vpp.passes(&from, Way::Out, &reply);
        assert!(answered || !passes, "no answer: {}", shown());
    }
}

#[test]
fn session_rules_are_those_of_the_original_and_no_more() {
    for case in cases().sessions {
        let mut values = Values::default();
        let pods = pods(&case.pods, &mut values);
        let (rules, missing) = session::render_lists(&pods, &session::Options::default(), &mut values);
        assert!(missing.is_empty());
        let shown =
            |rules: &[session::SessionRule]| rules.iter().map(ToString::to_string).collect::<Vec<_>>();
        let local: Vec<_> = rules.local.values().flat_map(|rules| shown(rules)).collect();
        assert_eq!(local, case.local, "{}", case.name);
        assert_eq!(shown(&rules.global), case.global, "{}", case.name);
        // Each rule is one request.
        assert!(local.len() + rules.global.len() <= case.requests, "{}", case.name);
    }
}
