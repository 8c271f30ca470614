//! The chains that every policy of a pod shares.

use picket_dataplane::State;
use picket_net::{AddressRange, Family, Interval, Protocol};
use picket_policy::{Direction, Tier};

use super::policy::{chain_name, datatype, destination, interfaces_name, source};
use super::{Hashes, Options, Plan, PodView, PolicyOnPod, hash_of, name, title};
use crate::custom::CustomRules;
use crate::model::{
    Base, Chain, Comment, Draft, Field, Hook, Key, Match, ModelError, Name, Policy, Rule, Set, Value,
    Verdict, priority,
};

/// Adds the dispatchers and the direction and common chains to `draft`.
pub(super) fn write(
    view: &PodView,
    options: &Options,
    directions: &[(Direction, Plan); 2],
    hashes: &Hashes<'_>,
    draft: &mut Draft,
) -> Result<(), ModelError> {
    draft.chains.extend(
        directions
            .iter()
            .map(|(direction, plan)| dispatcher(view, *direction, *plan, hashes)),
    );
    if view.policies.is_empty() {
        return Ok(());
    }
    let own_node = own_node_sets(view)?;
    for (direction, plan) in directions {
        draft
            .chains
            .push(direction_chain(view, *direction, *plan, hashes, &own_node));
    }
    for (direction, plan) in directions {
        let files = custom_rules(view, options, *direction, *plan);
        draft
            .chains
            .push(common_chain(options, &files, *direction, *plan));
        draft
            .counters
            .extend(files.iter().flat_map(|file| file.counters()));
    }
    draft.sets.extend(own_node.into_iter().map(|(_, set)| set));
    Ok(())
}

/// The base chain that sends packets of managed interfaces to the chain of their direction.
fn dispatcher(view: &PodView, direction: Direction, plan: Plan, hashes: &Hashes<'_>) -> Chain {
    let (chain, hook, comment, field) = match direction {
        Direction::Ingress => ("input", Hook::Input, "Input Dispatcher", Field::InputInterface),
        Direction::Egress => (
            "output",
            Hook::Output,
            "Output Dispatcher",
            Field::OutputInterface,
        ),
    };
    let closes = |policy: &PolicyOnPod| match plan {
        Plan::Open => false,
        Plan::Isolated => policy.isolates(direction),
        Plan::Closed { .. } => {
            policy.isolates(direction)
                || (policy.tier != Tier::NetworkPolicy && !policy.side(direction).rules.is_empty())
        }
    };
    let rules = view
        .policies
        .iter()
        .filter(|policy| closes(policy))
        .map(|policy| {
            let managed = Match::is_in(field, interfaces_name(hash_of(hashes, policy)));
            let comment = Comment::new(&title(&policy.object), hash_of(hashes, policy));
            Rule::when([managed], Verdict::Jump(chain_of(direction))).commented(comment)
        });
    let base = Base {
        hook,
        priority: priority::FILTER,
        policy: Policy::Accept,
    };
    Chain::base(name(chain), base)
        .commented(Comment::of(comment))
        .with_rules(rules)
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
                let (interface_field, address) = match direction {
                    Direction::Ingress => (Field::InputInterface, source(*family)),
                    Direction::Egress => (Field::OutputInterface, destination(*family)),
                };
                let over = Match::is(interface_field, Value::Interface(interface.name.clone()));
                let node = Match::is_in(address, set.name().clone());
                Rule::when([over, node], Verdict::Accept).commented(Comment::of("Own node"))
            })
        })
        .collect()
}

/// The chain of what all policies accept.
fn common_chain(options: &Options, files: &[&CustomRules], direction: Direction, plan: Plan) -> Chain {
    let protocols = [
        (options.accept_icmp, Protocol::ICMP, "Accept ICMP"),
        (options.accept_icmpv6, Protocol::ICMPV6, "Accept ICMPv6"),
    ];
    // The flags belong to the NetworkPolicy tier: where a tiered policy denies, they do not count.
    let closed = matches!(plan, Plan::Closed { .. });
    let flags = protocols
        .into_iter()
        .filter(|(accepted, ..)| *accepted && !closed)
        .map(|(_, protocol, comment)| {
            let is = Match::is(Field::Protocol, Value::protocol(protocol));
            Rule::when([is], Verdict::Accept).commented(Comment::of(comment))
        });
    let custom = files.iter().flat_map(|file| file.rendered());
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

/// The files of custom rules that count in a direction.
fn custom_rules<'a>(
    view: &PodView,
    options: &'a Options,
    direction: Direction,
    plan: Plan,
) -> Vec<&'a CustomRules> {
    let files = options.custom.iter().filter(|file| file.direction == direction);
    files
        .filter(|_| every_dispatched_isolates(view, direction, plan))
        .collect()
}

/// Whether every packet that reaches the chain of a direction is one of an isolated interface, which custom rules are
/// about. A tiered policy sends others there too; then they are left out, and everything is denied.
fn every_dispatched_isolates(view: &PodView, direction: Direction, plan: Plan) -> bool {
    let mut policies = view.policies.iter();
    let isolated = policies.any(|policy| policy.isolates(direction) && policy.is_on_cluster(view));
    !matches!(plan, Plan::Closed { .. }) || isolated
}
