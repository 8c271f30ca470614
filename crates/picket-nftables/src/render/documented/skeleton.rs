//! The chains that every policy of a pod shares.

use picket_dataplane::State;
use picket_net::{AddressRange, Family, Interval, Protocol};
use picket_policy::{Direction, Tier};

use super::audit::{self, Audited};
use super::policy::{chain_name, datatype, destination, interfaces_name, source};
use super::{Hashes, Options, Plan, PodView, PolicyOnPod, hash_of, log, mid_stream, name, title};
use crate::custom::CustomRules;
use crate::model::{
    Base, Chain, Comment, Counter, Draft, End, Field, Hook, Key, Match, ModelError, Name, Policy, Relation,
    Rule, Set, Statement, Value, Verdict, priority,
};
use crate::render::drops;

/// Adds the dispatchers and the direction and common chains to `draft`.
pub(super) fn write(
    view: &PodView,
    options: &Options,
    directions: &[(Direction, Plan); 2],
    hashes: &Hashes<'_>,
    draft: &mut Draft,
) -> Result<(), ModelError> {
    let mid_stream = options
        .refuse_mid_stream
        .then(|| mid_stream::chain(view, directions, hashes, options.count_drops))
        .flatten();
    let counted = mid_stream.iter().filter(|_| options.count_drops);
    draft.counters.extend(counted.map(|_| drops::of_mid_stream()));
    let audited = directions.map(|(direction, plan)| Audited::of(view, direction, plan));
    let directions = || directions.iter().zip(&audited);
    draft
        .chains
        .extend(directions().map(|((direction, plan), audited)| {
            let first = mid_stream.as_ref().map(|_| mid_stream::jump());
            dispatcher(view, *direction, *plan, hashes, first, audited)
        }));
    draft.chains.extend(mid_stream);
    if view.policies.is_empty() {
        return Ok(());
    }
    let own_node = own_node_sets(view)?;
    for ((direction, plan), audited) in directions() {
        let mut chain = direction_chain(view, *direction, *plan, hashes, &own_node);
        let mut before_drop = audited.rules(audit::goto(*direction));
        let group = options.log_denied.into_iter();
        before_drop.extend(group.flat_map(|group| log::rules(view, *direction, *plan, group)));
        if options.count_drops {
            let (counters, rules) = counts(view, *direction, *plan, hashes);
            draft.counters.extend(counters);
            before_drop.extend(rules);
        }
        let last = chain.rules.len().saturating_sub(1);
        chain.rules.splice(last..last, before_drop);
        draft.chains.push(chain);
        if let Some((counters, chain)) = audited.chain(hashes, options) {
            draft.counters.extend(counters);
            draft.chains.push(chain);
        }
    }
    for ((direction, plan), audited) in directions() {
        let files = options.custom.iter().filter(|file| file.direction == *direction);
        let reach = Reach::of_custom_rules(view, *direction, *plan);
        let files: Vec<_> = files.filter(|_| reach != Reach::Nothing).collect();
        draft
            .chains
            .push(common_chain(view, options, &files, *direction, *plan, audited));
        draft
            .counters
            .extend(files.iter().flat_map(|file| file.counters()));
    }
    draft.sets.extend(own_node.into_iter().map(|(_, set)| set));
    Ok(())
}

/// The base chain that sends packets of managed interfaces to the chain of their direction.
fn dispatcher(
    view: &PodView,
    direction: Direction,
    plan: Plan,
    hashes: &Hashes<'_>,
    first: Option<Rule>,
    audited: &Audited<'_>,
) -> Chain {
    let (chain, hook, comment) = match direction {
        Direction::Ingress => ("input", Hook::Input, "Input Dispatcher"),
        Direction::Egress => ("output", Hook::Output, "Output Dispatcher"),
    };
    let rules = view
        .policies
        .iter()
        .filter(|policy| plan.closes(policy, direction))
        .map(|policy| {
            let managed = Match::is_in(interface_of(direction), interfaces_name(hash_of(hashes, policy)));
            let comment = Comment::new(&title(&policy.object), hash_of(hashes, policy));
            Rule::when([managed], Verdict::Jump(chain_of(direction))).commented(comment)
        });
    let base = Base {
        hook,
        priority: priority::FILTER,
        policy: Policy::Accept,
    };
    let jump = End::Verdict(Verdict::Jump(chain_of(direction)));
    let audited = audited.rules(jump);
    Chain::base(name(chain), base)
        .commented(Comment::of(comment))
        .with_rules(first.into_iter().chain(rules).chain(audited))
}

fn chain_of(direction: Direction) -> Name {
    name(match direction {
        Direction::Ingress => "ingress",
        Direction::Egress => "egress",
    })
}

fn common_of(direction: Direction) -> Name {
    name(match direction {
        Direction::Ingress => "common-ingress",
        Direction::Egress => "common-egress",
    })
}

/// The chain that ends in a drop.
fn direction_chain(
    view: &PodView,
    direction: Direction,
    plan: Plan,
    hashes: &Hashes<'_>,
    own_node: &[(Family, Set)],
) -> Chain {
    let established = Match::state([State::Established, State::Related]);
    let mut rules =
        vec![Rule::when([established], Verdict::Accept).commented(Comment::of("Connection tracking"))];
    rules.extend(necessary_icmpv6());
    let common = Rule::when([], Verdict::Jump(common_of(direction))).commented(Comment::of("Jump to common"));
    let admin_first = Plan::Closed {
        own_node_first: false,
    };
    let own_node = if plan == admin_first {
        Vec::new()
    } else {
        own_node_rules(view, direction, own_node)
    };
    // What comes from the own node always arrives; what goes there may be denied by a custom rule.
    match direction {
        Direction::Ingress => {
            rules.extend(own_node);
            rules.push(common);
        }
        Direction::Egress => {
            rules.push(common);
            rules.extend(own_node);
        }
    }
    // A tiered policy is about the cluster network only; the chains of others name their own interfaces.
    let closed = matches!(plan, Plan::Closed { .. });
    let counts = |policy: &&PolicyOnPod| {
        let side = policy.side(direction);
        policy.tier == Tier::NetworkPolicy
            && (side.isolates || !side.rules.is_empty())
            && !(closed && policy.is_on_cluster(view))
    };
    rules.extend(view.policies.iter().filter(counts).map(|policy| {
        let hash = hash_of(hashes, policy);
        let comment = Comment::new(&title(&policy.object), hash);
        Rule::when([], Verdict::Jump(chain_name(hash))).commented(comment)
    }));
    rules.push(Rule::when([], Verdict::Drop).commented(Comment::of("Drop rule")));
    let comment = match direction {
        Direction::Ingress => "Ingress Policies",
        Direction::Egress => "Egress Policies",
    };
    Chain::regular(chain_of(direction))
        .commented(Comment::of(comment))
        .with_rules(rules)
}

/// Counts what gets there for every policy that may be why, with the counters.
fn counts(
    view: &PodView,
    direction: Direction,
    plan: Plan,
    hashes: &Hashes<'_>,
) -> (Vec<Counter>, Vec<Rule>) {
    let closing = view
        .policies
        .iter()
        .filter(|policy| plan.closes(policy, direction));
    closing
        .map(|policy| {
            let hash = hash_of(hashes, policy);
            let managed = Match::is_in(interface_of(direction), interfaces_name(hash));
            let counter = drops::of_policy(&policy.object, direction);
            let count = Statement::Count(counter.name.clone());
            let rule = Rule::of([managed.into(), count], End::Next);
            (
                counter,
                rule.commented(Comment::new(&title(&policy.object), hash)),
            )
        })
        .unzip()
}

/// Without them IPv6 does not work at all: connection tracking leaves neighbour discovery (RFC 4861, types 133 to 137)
/// untracked, and a packet-too-big (type 2) may be about a packet of no connection (RFC 4890 §4.3.1).
fn necessary_icmpv6() -> [Rule; 2] {
    let types = |first, last| {
        let interval = Interval::new(first, last).unwrap_or(Interval::single(first));
        Match::is(Field::Icmpv6Type, Value::Icmpv6Type(interval))
    };
    [
        Rule::when([types(2, 2)], Verdict::Accept).commented(Comment::of("Packet too big")),
        Rule::when([types(133, 137)], Verdict::Accept).commented(Comment::of("Neighbour discovery")),
    ]
}

fn own_node_sets(view: &PodView) -> Result<Vec<(Family, Set)>, ModelError> {
    let mut sets = Vec::new();
    for family in Family::BOTH {
        let addresses = view.own_node.of_family(family);
        if addresses.is_empty() {
            continue;
        }
        let prefixes: Vec<_> = addresses.ranges().collect::<Vec<AddressRange>>();
        let elements = prefixes
            .iter()
            .flat_map(AddressRange::prefixes)
            .map(|prefix| Key::from(Value::addresses(prefix.range())));
        let set = Set::new(
            name(&format!("own-node_{family}")),
            vec![datatype(family)],
            true,
            elements,
        )?;
        sets.push((
            family,
            set.commented(Comment::of("Addresses of the pod's own node")),
        ));
    }
    Ok(sets)
}

fn own_node_rules(view: &PodView, direction: Direction, sets: &[(Family, Set)]) -> Vec<Rule> {
    let clusters = view.interfaces.iter().filter(|interface| interface.cluster);
    clusters
        .flat_map(|interface| {
            sets.iter().map(|(family, set)| {
                let address = match direction {
                    Direction::Ingress => source(*family),
                    Direction::Egress => destination(*family),
                };
                let over = Match::is(interface_of(direction), Value::Interface(interface.name.clone()));
                let node = Match::is_in(address, set.name().clone());
                Rule::when([over, node], Verdict::Accept).commented(Comment::of("Own node"))
            })
        })
        .collect()
}

/// On which networks something of the common chain counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    Everywhere,
    /// Not on the cluster network, where a tiered policy denies everything.
    OtherNetworks,
    Nothing,
}

impl Reach {
    /// The flags belong to the NetworkPolicy tier: where a tiered policy denies, they do not count.
    fn of_flags(view: &PodView, direction: Direction, plan: Plan) -> Self {
        let mut policies = view.policies.iter();
        match plan {
            Plan::Open | Plan::Isolated => Self::Everywhere,
            Plan::Closed { .. } if policies.any(|policy| is_elsewhere(view, policy, direction)) => {
                Self::OtherNetworks
            }
            Plan::Closed { .. } => Self::Nothing,
        }
    }

    /// Custom rules are about isolated interfaces. A tiered policy sends packets of others to the chain of the
    /// direction, too; there everything is denied.
    fn of_custom_rules(view: &PodView, direction: Direction, plan: Plan) -> Self {
        let mut policies = view.policies.iter();
        if policies.any(|policy| policy.isolates(direction) && policy.is_on_cluster(view)) {
            Self::Everywhere
        } else {
            Self::of_flags(view, direction, plan)
        }
    }

    fn restrict(self, view: &PodView, direction: Direction, mut rule: Rule) -> Rule {
        if self == Self::OtherNetworks {
            let clusters = view.interfaces.iter().filter(|interface| interface.cluster);
            let elsewhere = clusters.map(|interface| {
                Statement::Match(Match::Compare {
                    field: interface_of(direction),
                    relation: Relation::IsNot,
                    value: Value::Interface(interface.name.clone()),
                })
            });
            rule.statements.splice(0..0, elsewhere);
        }
        rule
    }
}

/// Whether a policy isolates an interface on another network than the cluster's.
fn is_elsewhere(view: &PodView, policy: &PolicyOnPod, direction: Direction) -> bool {
    policy.isolates(direction) && !policy.is_on_cluster(view)
}

pub(super) fn interface_of(direction: Direction) -> Field {
    match direction {
        Direction::Ingress => Field::InputInterface,
        Direction::Egress => Field::OutputInterface,
    }
}

/// The chain of what all policies accept.
fn common_chain(
    view: &PodView,
    options: &Options,
    files: &[&CustomRules],
    direction: Direction,
    plan: Plan,
    audited: &Audited<'_>,
) -> Chain {
    let protocols = [
        (options.accept_icmp, Protocol::ICMP, "Accept ICMP"),
        (options.accept_icmpv6, Protocol::ICMPV6, "Accept ICMPv6"),
    ];
    let reach = Reach::of_flags(view, direction, plan);
    let flags = protocols
        .into_iter()
        .filter(|(accepted, ..)| *accepted && reach != Reach::Nothing)
        .map(|(_, protocol, comment)| {
            let is = Match::is(Field::Protocol, Value::protocol(protocol));
            let rule = Rule::when([is], Verdict::Accept).commented(Comment::of(comment));
            reach.restrict(view, direction, rule)
        });
    let reach = Reach::of_custom_rules(view, direction, plan);
    let custom = files.iter().flat_map(|file| file.rendered());
    let custom = custom.flat_map(|rule| {
        let instead = audited.instead_of(&rule);
        instead.into_iter().chain([reach.restrict(view, direction, rule)])
    });
    // Custom rules are judged first. The document has the flags before them, which is the same unless a rule denies
    // what a flag accepts.
    let denies =
        [Protocol::ICMP, Protocol::ICMPV6].map(|protocol| files.iter().any(|file| file.may_deny(protocol)));
    let rules: Vec<Rule> = if denies.contains(&true) {
        custom.chain(flags).collect()
    } else {
        flags.chain(custom).collect()
    };
    Chain::regular(common_of(direction))
        .commented(Comment::of("Common Policies"))
        .with_rules(rules)
}
