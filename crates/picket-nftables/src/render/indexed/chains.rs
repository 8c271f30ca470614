//! The chains.

use std::collections::BTreeSet;

use picket_dataplane::State;
use picket_engine::IdentitySet;
use picket_net::{Family, TrafficSet};
use picket_policy::Direction;

use super::class::{Classes, NOBODY};
use super::counters::Counters;
use super::sets::{self, Exact};
use super::traffic::ANY_TRAFFIC;
use super::view::{LocalSide, NodeView, Role};
use super::{Options, log_prefix, name};
use crate::diff::{ANYTHING, CHANGING};
use crate::model::{
    Assigned, Base, Chain, Comment, End, Field, Hook, Match, Policy, Relation, Rule, Slot, Statement,
    Transport, Value, Verdict,
};
use crate::render::drops::mid_stream_counter;
use crate::render::{log, mid_stream};

/// Before `mangle` (-150): who gives packets a queueing priority in this hook does it after the scratch use is over.
const PRIORITY: i32 = -200;

/// Behind the kernel's load balancer (IPVS, 99), which translates in this very hook what services lead to the node itself, and
/// sends on what they lead elsewhere. Before `nat` of the same priority where that came first.
const RECEIVED: i32 = 100;

/// The most counters in one rule; the kernel takes 128 expressions.
const COUNTERS_PER_RULE: usize = 64;

/// The base chain of forwarded packets.
pub(super) const BASE: &str = Hook::Forward.keyword();

/// The base chain of what the node sends.
pub(super) const SENT: &str = Hook::Output.keyword();

/// The chain for TCP that belongs to no known connection and begins none.
const MID_STREAM: &str = "mid-stream";

/// The chain that judges the source of a packet once more, while rules change.
const AGAIN: &str = "judge-source";

/// The chain for what the node sends itself.
const FROM_ITSELF: &str = "from-itself";

/// The table's chains, callers first.
pub(super) fn chains(
    view: &NodeView,
    classes: &Classes,
    counters: &Counters,
    options: &Options,
) -> Vec<Chain> {
    let mut chains = vec![forward()];
    chains.extend(input(view));
    chains.extend(output(view));
    chains.extend(sets::PRIORITIES.map(with_priority));
    chains.push(mid_stream_chain());
    chains.push(judge(view));
    chains.push(Chain::regular(name(AGAIN)).with_rules(dispatch(Role::Egress)));
    chains.extend([classify_destination(), classify_source()]);
    let sides = view.sides.iter();
    chains.extend(sides.map(|side| subject(side, !classes.of_side(side).is_empty(), counters, options)));
    chains
}

/// The base chain of a node without restricted pods: nothing is looked at, not even by connection tracking.
pub(super) fn idle() -> Chain {
    base(Hook::Forward)
}

/// The base chain of a node of which nothing is known: what is no part of an established connection is dropped.
pub(super) fn closed() -> Chain {
    let until_known = Comment::of("nothing new is forwarded until the policies are known");
    let drop = Rule::when([], Verdict::Drop).commented(until_known);
    base(Hook::Forward).with_rules(exempt().into_iter().chain([drop]))
}

/// The base chain of what a node sends that is about what it sends for others alone.
pub(super) fn relayed(rules: impl IntoIterator<Item = Rule>) -> Chain {
    let itself = from_itself(Verdict::Accept);
    base(Hook::Output).with_rules(exempt().into_iter().chain([itself]).chain(rules))
}

/// A rule for what the node sends itself.
fn from_itself(verdict: Verdict) -> Rule {
    Rule::when([Match::LocalSource], verdict)
}

fn base(hook: Hook) -> Chain {
    let priority = match hook {
        Hook::Input => RECEIVED,
        // Connection tracking looks at what the node sends at -200 of this very hook.
        Hook::Output => PRIORITY + 1,
        _ => PRIORITY,
    };
    let base = Base {
        hook,
        priority,
        policy: Policy::Accept,
    };
    Chain::base(name(hook.keyword()), base)
}

fn forward() -> Chain {
    base(Hook::Forward).with_rules(exempt().into_iter().chain(judged()))
}

/// Has a packet between others judged, and gives its priority back.
fn judged() -> [Rule; 6] {
    let jump = End::Verdict(Verdict::Jump(name("judge")));
    [
        Rule::when([own(Family::Ipv4)], Verdict::Accept),
        Rule::when([own(Family::Ipv6)], Verdict::Accept),
        Rule::when(mid_stream(), Verdict::Jump(name(MID_STREAM))),
        Rule::of(
            [],
            End::VerdictMap {
                key: vec![Field::Priority],
                map: name(sets::ARRIVAL_PRIORITY),
            },
        ),
        Rule::of([], jump),
        scratch(NOBODY),
    ]
}

/// Packets from own pods to this node itself, as far as administrators restrict them, and what would bring back what the cluster
/// default denies the node. Nobody sees their queueing priority later.
fn input(view: &NodeView) -> Option<Chain> {
    let rules = with_node(view, [Role::OwnNode, Role::AuditOwnNode], Role::FromOwnNode);
    (!rules.is_empty()).then(|| base(Hook::Input).with_rules(exempt().into_iter().chain(rules)))
}

/// Packets that this node sends. What it sends on for others, as the kernel's load balancer does with what came for a service,
/// is judged as what is forwarded. What it sends itself to own pods is denied as far as the cluster default says so, and
/// only what goes to such pods loses its priority; and what would bring back what administrators deny its pods.
fn output(view: &NodeView) -> Vec<Chain> {
    let rules = with_node(view, [Role::FromOwnNode], Role::OwnNode);
    if rules.is_empty() {
        return vec![relayed(judged())];
    }
    let itself = from_itself(Verdict::Goto(name(FROM_ITSELF)));
    vec![
        base(Hook::Output).with_rules(exempt().into_iter().chain([itself]).chain(judged())),
        Chain::regular(name(FROM_ITSELF)).with_rules(rules),
    ]
}

/// Judges what this node exchanges with its pods in these roles, and what would bring a connection back that another denies: the latter once
/// more at last, as a packet that is just judged might meet what another denied before and what these deny now.
fn with_node<const N: usize>(view: &NodeView, roles: [Role; N], other: Role) -> Vec<Rule> {
    let judged = brought_back(view, other).chain(dispatches(view, roles));
    judged.chain(brought_back(view, other)).collect()
}

/// What would bring a connection back that was cut because this role denies it: what its other end sends, in the middle of a
/// connection that nobody knows.
fn brought_back(view: &NodeView, role: Role) -> impl Iterator<Item = Rule> + use<> {
    let own_pod = match role.direction() {
        Direction::Egress => destination,
        Direction::Ingress => source,
    };
    let families = view.judges(role).then_some(Family::BOTH).into_iter().flatten();
    families.map(move |family| {
        let own_pod = Match::is_in(own_pod(family), name(&sets::restricted_in(role, family)));
        let found = mid_stream().into_iter().chain([own_pod]).map(Statement::Match);
        let count = Statement::Count(mid_stream_counter());
        Rule::of(found.chain([count]), End::Verdict(Verdict::Drop))
    })
}

/// What is never judged: replies, and what IPv6 cannot do without.
pub(super) fn exempt() -> [Rule; 2] {
    [
        Rule::when(
            [Match::state([State::Established, State::Related])],
            Verdict::Accept,
        ),
        Rule::when(
            [Match::is_in(Field::Icmpv6Type, name(sets::ALWAYS))],
            Verdict::Accept,
        ),
    ]
}

/// A pod reaches itself, also through a service.
fn own(family: Family) -> Match {
    Match::Lookup {
        key: vec![source(family), destination(family)],
        relation: Relation::Is,
        set: name(sets::own(family)),
    }
}

/// What would bring a connection back that was cut, the other way round if need be. The source is asked about twice: a packet that is just
/// judged might meet it as it was and its destination as it is, where one restricts only the one, and one only the other.
fn mid_stream_chain() -> Chain {
    let rules = Family::BOTH.into_iter().flat_map(|family| {
        [source(family), destination(family), source(family)].map(|end| {
            let own_pod = Match::is_in(end, name(sets::restricted_pods(family)));
            Rule::of(
                [own_pod.into(), Statement::Count(mid_stream_counter())],
                End::Verdict(Verdict::Drop),
            )
        })
    });
    Chain::regular(name(MID_STREAM)).with_rules(rules)
}

/// Judges a packet that came with this priority, and gives the priority back: the way back from the jump remembers it.
fn with_priority(priority: u32) -> Chain {
    let jump = End::Verdict(Verdict::Jump(name("judge")));
    Chain::regular(name(&sets::priority_chain(priority))).with_rules([Rule::of([], jump), scratch(priority)])
}

fn judge(view: &NodeView) -> Chain {
    let ends = dispatches(view, [Role::Egress, Role::Ingress]);
    let is_changing = Match::is_in(Field::Priority, name(CHANGING));
    let again = [
        scratch(ANYTHING),
        Rule::when([is_changing], Verdict::Jump(name(AGAIN))),
    ];
    // What would be denied counts for what nothing denies.
    let audits = dispatches(view, [Role::AuditEgress, Role::AuditIngress]);
    Chain::regular(name("judge")).with_rules(ends.chain(again).chain(audits))
}

fn dispatches<const N: usize>(view: &NodeView, roles: [Role; N]) -> impl Iterator<Item = Rule> + '_ {
    let roles = roles.into_iter().filter(|&role| view.judges(role));
    roles.flat_map(dispatch)
}

/// To the chain of the own pod that the packet comes from or goes to.
fn dispatch(role: Role) -> [Rule; 2] {
    Family::BOTH.map(|family| {
        let own_pod = match role {
            Role::Egress | Role::OwnNode | Role::AuditEgress | Role::AuditOwnNode => source(family),
            Role::Ingress | Role::FromOwnNode | Role::AuditIngress => destination(family),
        };
        let end = End::VerdictMap {
            key: vec![own_pod],
            map: name(&sets::subjects(role, family)),
        };
        Rule::of([], end)
    })
}

/// The chain that puts the peer class of the other end into the scratch field.
fn classifier(role: Role) -> &'static str {
    match role.direction() {
        Direction::Egress => "classify-destination",
        Direction::Ingress => "classify-source",
    }
}

fn classify_destination() -> Chain {
    Chain::regular(name(classifier(Role::Egress))).with_rules(classify(destination))
}

fn classify_source() -> Chain {
    Chain::regular(name(classifier(Role::Ingress))).with_rules(classify(source))
}

fn classify(peer: fn(Family) -> Field) -> Vec<Rule> {
    let lookups = Family::BOTH.into_iter().flat_map(|family| {
        [sets::blocks(family), sets::peers(family)].map(|map| {
            let found = Assigned::Map {
                key: vec![peer(family)],
                map: name(map),
            };
            Rule::of([Statement::Set(Slot::Priority, found)], End::Next)
        })
    });
    std::iter::once(scratch(NOBODY)).chain(lookups).collect()
}

/// Returns what one subject is allowed, so that the other end of the connection can be judged too; drops the rest, or only
/// tells of it.
pub(super) fn subject(side: &LocalSide, allows: bool, counters: &Counters, options: &Options) -> Chain {
    let mut rules = Vec::new();
    if allows {
        rules.push(Rule::of(
            [],
            End::Verdict(Verdict::Jump(name(classifier(side.role)))),
        ));
        let traffic = Assigned::Map {
            key: vec![Field::Priority],
            map: side.name.clone(),
        };
        rules.push(Rule::of([Statement::Set(Slot::Priority, traffic)], End::Next));
        rules.extend(lookups(&side.allowed).into_iter().map(|found| {
            // Of packets of the node itself no chain before remembers the priority.
            let reset = Statement::Set(Slot::Priority, Assigned::Constant(NOBODY));
            let reset = (side.role == Role::FromOwnNode).then_some(reset);
            let statements = std::iter::once(Statement::Match(found)).chain(reset);
            Rule::of(statements, End::Verdict(Verdict::Return))
        }));
    }
    rules.extend(options.log_denied.map(|group| logged(side, group)));
    rules.extend(deny(side, counters));
    Chain::regular(side.name.clone()).with_rules(rules)
}

/// What a side looks packets up in: whether some traffic is all there is, and the sets of the others.
pub(super) fn looked_up(allowed: &[(TrafficSet, IdentitySet)]) -> (bool, BTreeSet<Exact>) {
    let (all, others): (Vec<_>, Vec<_>) = allowed
        .iter()
        .map(|(traffic, _)| traffic)
        .partition(|traffic| traffic.is_all());
    (
        !all.is_empty(),
        others.into_iter().flat_map(sets::kinds).collect(),
    )
}

/// The lookups that find a packet in what a side allows, the cheapest first.
fn lookups(allowed: &[(TrafficSet, IdentitySet)]) -> Vec<Match> {
    let (any, used) = looked_up(allowed);
    let class = [Field::Priority, Field::Protocol];
    let port = Field::DestinationPort(Transport::Any);
    let any = any.then(|| Match::is(Field::Priority, Value::priority(ANY_TRAFFIC)));
    let lookups = used.into_iter().map(|kind| Match::Lookup {
        key: match kind {
            Exact::Protocols => class.to_vec(),
            Exact::Ports | Exact::Ranges => [&class[..], &[port]].concat(),
        },
        relation: Relation::Is,
        set: name(kind.set()),
    });
    any.into_iter().chain(lookups).collect()
}

/// Logs what gets here.
fn logged(side: &LocalSide, group: u16) -> Rule {
    log::rule([], log_prefix(side.role.direction(), side.role.audits()), group)
}

/// Counts the packet for every policy that may be why, and drops it if it is not only audited.
fn deny(side: &LocalSide, counters: &Counters) -> Vec<Rule> {
    let names = counters.of_side(side).into_iter();
    let counts: Vec<_> = names.map(Statement::Count).collect();
    let mut rules: Vec<_> = counts
        .chunks(COUNTERS_PER_RULE)
        .map(|chunk| Rule::of(chunk.iter().cloned(), End::Next))
        .collect();
    if side.role.audits() {
        return rules;
    }
    match rules.last_mut() {
        Some(last) => last.end = End::Verdict(Verdict::Drop),
        None => rules.push(Rule::when([], Verdict::Drop)),
    }
    rules
}

fn scratch(value: u32) -> Rule {
    Rule::of(
        [Statement::Set(Slot::Priority, Assigned::Constant(value))],
        End::Next,
    )
}

pub(super) fn source(family: Family) -> Field {
    match family {
        Family::Ipv4 => Field::Ipv4Source,
        Family::Ipv6 => Field::Ipv6Source,
    }
}

pub(super) fn destination(family: Family) -> Field {
    match family {
        Family::Ipv4 => Field::Ipv4Destination,
        Family::Ipv6 => Field::Ipv6Destination,
    }
}
