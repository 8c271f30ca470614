//! What stands before the lists of an interface after a change has denied something there, so that no connection that the
//! change has cut is taken up again.
//!
//! VPP makes a session of any packet that a list reflects, also of one in the middle of a connection of TCP. So where a pod may
//! not receive any more what it received, but may send to the same peer, its next segment within the connection would let the
//! peer's come past the list that denies them. A list of its own, before the others in the direction of the answers, drops what
//! answers the withdrawn: segments from the port that was withdrawn, to those from whom it was. No segment that begins a
//! connection is among them, which has SYN and no ACK (RFC 9293 §3.5), and none that belongs to a session, as VPP looks these up
//! before its lists.
//!
//! The list is all there is to remember: what it was made of can be read from it.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use picket_net::{Family, Interval, Prefix, Protocol};
use rustc_hash::{FxHashMap, FxHashSet};

use super::meaning::Way;
use super::model::{ACK, Acl, AclAction, AclRule, Beginnings, Role};
use crate::layer4::{Layer4, Selector};
use crate::peers::{Peers, without_ends};
use crate::rule::Action;
use crate::value::{Value, Values};
use crate::work::looked_at;

/// What lists let pass one way through an interface.
#[derive(Clone, Debug, Default)]
pub(super) struct Passage<'a> {
    /// The lists, one after the other.
    pub(super) acls: Vec<&'a Acl>,
    /// Whether what none of them decides passes.
    pub(super) is_open: bool,
}

/// Works out the lists, each of them once.
#[derive(Debug, Default)]
pub(super) struct Cutter {
    values: Values,
    withdrawn: FxHashMap<Change, Arc<Withdrawn>>,
    made: FxHashMap<(Change, Option<Place>), Arc<Acl>>,
    /// Those that were made, by their rules.
    lists: FxHashMap<Vec<AclRule>, Arc<Acl>>,
}

/// The lists of a passage, by places in memory, and whether it is open.
type Place = (Vec<usize>, bool);

/// The way of the answers, what passed before and what does now, and what was known.
type Change = (Way, [Place; 2], Option<usize>);

/// What is denied from now on, of each family of which anything is.
#[derive(Debug)]
struct Withdrawn {
    parts: Vec<Part>,
    /// Whether it can be said without leaving anything to other lists, so that these do not matter.
    is_plain: bool,
}

#[derive(Debug)]
struct Part {
    cut: Peers,
    /// What passes now, at least of whom something is cut; where it cannot be said plainly, of everybody.
    after: Peers,
}

/// Addresses of one family, as ascending ranges apart from each other.
struct Addresses(Vec<(IpAddr, IpAddr)>);

/// A change of what passes one way, with what answers it.
pub(super) struct Withdrawal<'a> {
    /// The way of the answers.
    pub(super) way: Way,
    /// What passed the other way.
    pub(super) before: Passage<'a>,
    /// What passes the other way from now on.
    pub(super) after: Passage<'a>,
    /// What may pass the way of the answers.
    pub(super) answers: Passage<'a>,
    /// The list that stands there because of earlier changes.
    pub(super) known: Option<&'a Arc<Acl>>,
}

/// The ports that systems open connections from by themselves begin here (Linux, `net.ipv4.ip_local_port_range`).
const FIRST_OF_CLIENTS: u16 = 32_768;

/// A range of more ports from there on is one that nobody has named.
const MOST_NAMED: u16 = 1024;

/// With more rules a list is about everybody whom not more is allowed.
const MOST_RULES: usize = 512;

/// How often at most rules are made until they say what was cut. Two are enough but where there are too many.
const ROUNDS: usize = 4;

impl<'a> Passage<'a> {
    /// Those of some lists that are ours and judge what begins; without any everything passes.
    pub(super) fn of(acls: impl Iterator<Item = &'a Acl>) -> Self {
        let acls: Vec<_> = acls.filter(|acl| acl.judges()).collect();
        Self {
            is_open: acls.is_empty(),
            acls,
        }
    }

    fn rules(&self) -> impl Iterator<Item = &'a AclRule> + Clone {
        self.acls.iter().flat_map(|acl| &acl.rules)
    }

    /// Those that decide which connections of TCP begin.
    fn deciding(&self) -> impl Iterator<Item = &'a AclRule> {
        self.rules().filter(|rule| {
            rule.beginnings() != Beginnings::None && [0, Protocol::TCP.number()].contains(&rule.protocol)
        })
    }

    fn place(&self) -> Place {
        let places = self.acls.iter().map(|acl| acl.rules.as_ptr().addr());
        (places.collect(), self.is_open)
    }
}

impl Cutter {
    /// The list that is to stand before others in the way of the answers, if any has to.
    pub(super) fn list(&mut self, change: &Withdrawal<'_>) -> Option<Arc<Acl>> {
        if change.answers.acls.is_empty() {
            // Nothing there makes a session.
            return None;
        }
        if change.known.is_none() && change.is_by_same_lists() {
            return None;
        }
        looked_at(1);
        let passages = [&change.before, &change.after].map(Passage::place);
        let known = change.known.map(|acl| acl.rules.as_ptr().addr());
        let key = (change.way, passages, known);
        let withdrawn = match self.withdrawn.get(&key) {
            Some(withdrawn) => Arc::clone(withdrawn),
            None => {
                let withdrawn = Arc::new(self.withdrawn(change));
                self.withdrawn.insert(key.clone(), Arc::clone(&withdrawn));
                withdrawn
            }
        };
        if withdrawn.parts.is_empty() {
            return None;
        }
        let key = (key, (!withdrawn.is_plain).then(|| change.answers.place()));
        if let Some(made) = self.made.get(&key) {
            return Some(Arc::clone(made));
        }
        let parts = withdrawn.parts.iter();
        let rules = parts.flat_map(|part| self.rules(part, withdrawn.is_plain, change));
        let rules = rules.collect();
        let made = self.named(rules);
        self.made.insert(key, Arc::clone(&made));
        Some(made)
    }

    /// The list with these rules. Its name costs more than to look whether it has one.
    fn named(&mut self, rules: Vec<AclRule>) -> Arc<Acl> {
        if let Some(known) = self.lists.get(&rules) {
            return Arc::clone(known);
        }
        let list = Arc::new(Acl::new(Role::Cut, rules.clone()));
        self.lists.insert(rules, Arc::clone(&list));
        list
    }

    fn withdrawn(&mut self, change: &Withdrawal<'_>) -> Withdrawn {
        let (mut parts, mut is_plain) = (Vec::new(), true);
        let withdrawing = change.withdrawing();
        for family in Family::BOTH {
            let known = change.known.iter().flat_map(|acl| &acl.rules);
            let known = known.map(|rule| peer(rule, change.way));
            let about = Addresses::of(family, known.chain(withdrawing.iter().copied()));
            if about.0.is_empty() {
                continue;
            }
            let before = self.passing(family, &change.before, change.judged(), &about);
            let after = self.passing(family, &change.after, change.judged(), &about);
            let cut = match change.known {
                None => self.combined([&before, &after], |[before, after]| before.difference(after)),
                Some(known) => {
                    let known = self.decoded(family, &known.rules, change.way);
                    self.combined([&before, &known, &after], |[before, known, after]| {
                        before.union(known).difference(after)
                    })
                }
            };
            if cut == Peers::everybody(family, Value::NOTHING) {
                continue;
            }
            let rules = cut.rules(&mut self.values);
            // Each is two rules of a list at most.
            is_plain &=
                2 * rules.len() <= MOST_RULES && rules.iter().all(|rule| rule.action == Action::Permit);
            parts.push(Part { cut, after });
        }
        if !is_plain {
            for part in &mut parts {
                let family = part.cut.family();
                part.after = self.passing(family, &change.after, change.judged(), &Addresses::all(family));
            }
        }
        Withdrawn { parts, is_plain }
    }

    fn rules(&mut self, part: &Part, is_plain: bool, change: &Withdrawal<'_>) -> Vec<AclRule> {
        let (family, after) = (part.cut.family(), &part.after);
        if is_plain {
            return Answers::none(family, change.way).rules(&part.cut, &mut self.values);
        }
        let answers = Answers::new(self, family, change);
        let mut cut = part.cut.clone();
        // What could not be left out of the rules is cut too, so that they can be read again; more of it each time.
        for _ in 0..ROUNDS {
            let rules = answers.rules(&cut, &mut self.values);
            let read = self.decoded(family, &rules, change.way);
            let read = self.combined([&read, after], |[read, after]| read.difference(after));
            let is_exact = read == cut;
            if is_exact && rules.len() <= MOST_RULES {
                return rules;
            }
            cut = match is_exact {
                true => self.of_everybody(&cut, after),
                false => read,
            };
        }
        answers.rules(&cut, &mut self.values)
    }

    /// The same ports from everybody, but what is allowed now.
    fn of_everybody(&mut self, cut: &Peers, after: &Peers) -> Peers {
        let sets = cut.entries().iter().map(|entry| self.values.set(entry.value));
        let ports = sets.fold(Layer4::empty(), |all, set| all.union(set));
        let ports = self.values.number(ports);
        let everybody = Peers::everybody(cut.family(), ports);
        self.combined([&everybody, after], |[ports, after]| ports.difference(after))
    }

    /// What of TCP passes, by the peer, where that is one of those asked `about`; the ports are those of who receives it.
    fn passing(&mut self, family: Family, passage: &Passage<'_>, way: Way, about: &Addresses) -> Peers {
        let rest = match passage.is_open {
            true => self.values.number(tcp()),
            false => Value::NOTHING,
        };
        // What a pod may not send with addresses of others says nothing of what it sends with its own.
        let is_about_others = |rule: &AclRule| {
            let is_whole = rule.is_about_all_from_its_source();
            way == Way::In && is_whole && rule.source.length() > 0 && rule.action == AclAction::Deny
        };
        let own = passage.deciding().filter(|rule| rule.family() == family);
        let own = own.filter(|rule| !is_about_others(rule));
        let own = own.filter(|rule| about.meet(&peer(rule, way)));
        let decisions = own.map(|rule| {
            let packets = rule.selected().intersection(&tcp());
            (peer(rule, way), packets, rule.action != AclAction::Deny)
        });
        let decisions: Vec<_> = decisions.collect();
        looked_at(decisions.len());
        Peers::of_decisions(family, &decisions, rest, &mut self.values)
    }

    /// What a list with these rules has been made of.
    fn decoded(&mut self, family: Family, rules: &[AclRule], way: Way) -> Peers {
        let own = rules.iter().filter(|rule| rule.family() == family);
        // What answers comes from the port that was asked.
        let decisions = own.filter_map(|rule| {
            let ports = Interval::new(rule.first.0, rule.first.1)?;
            let packets = Layer4::of(&Selector::One(Protocol::TCP, ports));
            Some((peer(rule, way), packets, rule.action == AclAction::Deny))
        });
        let decisions: Vec<_> = decisions.collect();
        looked_at(decisions.len());
        Peers::of_decisions(family, &decisions, Value::NOTHING, &mut self.values)
    }

    /// What is made of several, peer by peer; all are of the family of the last.
    fn combined<const COUNT: usize>(
        &mut self,
        each: [&Peers; COUNT],
        combine: impl Fn([&Layer4; COUNT]) -> Layer4,
    ) -> Peers {
        let family = each.last().map_or(Family::Ipv4, |peers| peers.family());
        let prefixes = each.iter().flat_map(|peers| peers.entries());
        let mut prefixes: Vec<_> = prefixes.map(|entry| entry.prefix).collect();
        prefixes.push(Prefix::all(family));
        looked_at(prefixes.len());
        let entries: Vec<_> = prefixes
            .into_iter()
            .map(|prefix| {
                let set = combine(each.map(|peers| self.values.set(peers.value_around(&prefix))));
                (prefix, self.values.number(set))
            })
            .collect();
        Peers::new(family, entries)
    }
}

impl<'a> Withdrawal<'a> {
    /// Of an interface, both ways: of what entered VPP there and what left, what does now, and the lists that stand there because
    /// of earlier changes. What passes one way is cut by what stands in the other.
    pub(super) fn both(
        [was_in, was_out]: [Passage<'a>; 2],
        [input, output]: [Passage<'a>; 2],
        [known_in, known_out]: [Option<&'a Arc<Acl>>; 2],
    ) -> [Self; 2] {
        let in_answers = Self {
            way: Way::In,
            before: was_out,
            after: output.clone(),
            answers: input.clone(),
            known: known_in,
        };
        let out_answers = Self {
            way: Way::Out,
            before: was_in,
            after: input,
            answers: output,
            known: known_out,
        };
        [in_answers, out_answers]
    }

    /// The way of what is answered.
    fn judged(&self) -> Way {
        self.way.other()
    }

    /// Whether the same passes as before, by the same lists.
    fn is_by_same_lists(&self) -> bool {
        let [before, after] =
            [&self.before, &self.after].map(|passage| passage.acls.iter().map(|acl| &acl.tag));
        self.before.is_open == self.after.is_open && before.eq(after)
    }

    /// To or from whom, at most, something passes no more. What did was let pass by a rule that is gone, or is denied by a new
    /// one: rules that are there before and after, in the same order, decide between each other as before.
    fn withdrawing(&self) -> Vec<Prefix> {
        let all = || Family::BOTH.map(Prefix::all).to_vec();
        if self.is_by_same_lists() {
            return Vec::new();
        }
        if self.before.is_open && !self.after.is_open {
            return all();
        }
        let [was, is] = [&self.before, &self.after].map(|passage| passage.deciding().collect::<Vec<_>>());
        looked_at(was.len() + is.len());
        let [was, is] = without_ends(&was, &is);
        let places: FxHashMap<_, _> = is.iter().zip(0_usize..).collect();
        let kept = was.iter().filter_map(|rule| places.get(rule));
        if places.len() < is.len() || !kept.is_sorted() {
            return all();
        }
        let known: FxHashSet<_> = was.iter().collect();
        let gone = was.iter().filter(|rule| !places.contains_key(*rule));
        let gone = gone.filter(|rule| rule.action != AclAction::Deny);
        let new = is.iter().filter(|rule| !known.contains(*rule));
        let new = new.filter(|rule| rule.action == AclAction::Deny);
        gone.chain(new).map(|rule| peer(rule, self.judged())).collect()
    }
}

impl Addresses {
    fn of(family: Family, prefixes: impl Iterator<Item = Prefix>) -> Self {
        let own = prefixes.filter(|prefix| prefix.family() == family);
        let mut ranges: Vec<_> = own.map(|prefix| (prefix.first(), prefix.last())).collect();
        ranges.sort_unstable_by_key(|&(first, last)| (first, Reverse(last)));
        // Of two prefixes that have addresses in common one holds the other.
        ranges.dedup_by(|(_, last), (_, outer)| last <= outer);
        Self(ranges)
    }

    fn all(family: Family) -> Self {
        Self::of(family, [Prefix::all(family)].into_iter())
    }

    /// Whether a prefix holds some of them.
    fn meet(&self, prefix: &Prefix) -> bool {
        let at = self.0.partition_point(|(_, last)| *last < prefix.first());
        self.0.get(at).is_some_and(|(first, _)| *first <= prefix.last())
    }
}

/// Whether a list drops nothing but what another does. What this one lets pass itself, the lists behind it do too.
pub(super) fn drops_no_more(before: &Acl, after: &Acl) -> bool {
    if after.is_spent() {
        return true;
    }
    let is_narrow = |rule: &AclRule| rule.second != ALL;
    let mut all = before.rules.iter().chain(&after.rules);
    let way = match all.all(|rule| rule.destination == Prefix::all(rule.family())) {
        true => Way::Out,
        false => Way::In,
    };
    let mut cutter = Cutter::default();
    let is_less = |family| {
        let [was, is] = [before, after].map(|acl| cutter.decoded(family, &acl.rules, way));
        let more = cutter.combined([&is, &was], |[is, was]| is.difference(was));
        more == Peers::everybody(family, Value::NOTHING)
    };
    let (mut was, mut is) = (before.denials(), after.denials());
    (!was.any(is_narrow) || is.all(is_narrow)) && Family::BOTH.into_iter().all(is_less)
}

/// What may be sent as answers, whatever they answer.
struct Answers {
    family: Family,
    way: Way,
    /// What is reflected.
    reflected: Peers,
    /// The addresses of who may send it.
    own: BTreeSet<Prefix>,
}

impl Answers {
    /// Nothing is left to other lists.
    fn none(family: Family, way: Way) -> Self {
        Self {
            family,
            way,
            reflected: Peers::everybody(family, Value::NOTHING),
            own: BTreeSet::new(),
        }
    }

    fn new(cutter: &mut Cutter, family: Family, change: &Withdrawal<'_>) -> Self {
        // Where lists of others follow, they decide what ours let pass at last.
        let has_others = change.answers.is_open;
        let is_ours =
            |rule: &&AclRule| !has_others || !rule.is_everything() || rule.action == AclAction::Deny;
        let rules = change.answers.rules().filter(|rule| rule.family() == family);
        let rules = rules.filter(is_ours);
        let decisions = rules.clone().filter_map(|rule| {
            let packets = rule.selected().intersection(&tcp());
            let is_reflected = rule.action == AclAction::PermitReflect;
            (!packets.is_empty()).then(|| (peer(rule, change.way), packets, is_reflected))
        });
        let decisions: Vec<_> = decisions.collect();
        looked_at(decisions.len());
        let own = match change.way {
            Way::In => rules
                .filter(|rule| rule.action == AclAction::PermitReflect)
                .map(|rule| rule.source)
                .filter(|source| Prefix::host(source.first()) == *source)
                .collect(),
            Way::Out => BTreeSet::from([Prefix::all(family)]),
        };
        Self {
            family,
            way: change.way,
            reflected: Peers::of_decisions(family, &decisions, Value::NOTHING, &mut cutter.values),
            own,
        }
    }

    /// Whether everything of TCP is reflected that goes to all of these.
    fn are_open(&self, peers: &Prefix, values: &Values) -> bool {
        let inside = |prefix: &Prefix| peers.contains_prefix(prefix) && prefix != peers;
        let mut entries = self.reflected.entries().iter();
        let value = self.reflected.value_around(peers);
        *values.set(value) == tcp() && !entries.any(|entry| inside(&entry.prefix))
    }

    /// The rules that drop what answers this, and nothing else where that can be said.
    fn rules(&self, cut: &Peers, values: &mut Values) -> Vec<AclRule> {
        let mut rules = Vec::new();
        let any = Prefix::all(self.family);
        for rule in cut.rules(values) {
            match (rule.action, rule.selector) {
                (Action::Permit, Selector::One(_, ports)) => {
                    let ranges = of_answers(ports, self.way).into_iter();
                    let denied = ranges.map(|ports| self.rule(AclAction::Deny, (any, rule.peer), ports));
                    rules.extend(denied);
                }
                (Action::Permit, Selector::Any) => {}
                // A list cannot leave something to the next but by doing what that would.
                (Action::Deny, _) if self.are_open(&rule.peer, values) => {
                    let own = self.own.iter();
                    let reflected = own.map(|own| {
                        self.rule(AclAction::PermitReflect, (*own, rule.peer), [(0, u16::MAX); 2])
                    });
                    rules.extend(reflected);
                }
                (Action::Deny, _) => {}
            }
        }
        rules
    }

    fn rule(&self, action: AclAction, (own, peer): (Prefix, Prefix), [first, second]: [Ports; 2]) -> AclRule {
        let (source, destination) = match self.way {
            Way::In => (own, peer),
            Way::Out => (peer, own),
        };
        AclRule {
            action,
            source,
            destination,
            protocol: Protocol::TCP.number(),
            first,
            second,
            tcp_flags: (ACK, ACK),
        }
    }
}

/// The first and the last of some ports.
type Ports = (u16, u16);

const ALL: Ports = (0, u16::MAX);

/// Which ports answers come from and go to that answer what was sent to these. Systems open connections from high ports
/// themselves, to low ones: those of a pod go on, and those to it, unless somebody has named the ports.
fn of_answers(asked: Interval<u16>, way: Way) -> Vec<[Ports; 2]> {
    const HIGH: Ports = (FIRST_OF_CLIENTS, u16::MAX);
    let (first, last) = (asked.first(), asked.last());
    if way == Way::Out && last - first >= MOST_NAMED {
        // The pod has asked, from a high port.
        return vec![[(first, last), HIGH]];
    }
    let from = first.max(FIRST_OF_CLIENTS);
    if last < from || last - from < MOST_NAMED {
        return vec![[(first, last), ALL]];
    }
    let low = (first < from).then_some([(first, from - 1), ALL]);
    let high = [(from, last), HIGH];
    low.into_iter().chain([high]).collect()
}

fn tcp() -> Layer4 {
    Layer4::of(&Selector::whole(Protocol::TCP))
}

/// Who is at the other end of what a rule is about.
fn peer(rule: &AclRule, way: Way) -> Prefix {
    match way {
        Way::In => rule.destination,
        Way::Out => rule.source,
    }
}

impl Way {
    /// That of answers.
    pub(super) fn other(self) -> Self {
        match self {
            Self::In => Self::Out,
            Self::Out => Self::In,
        }
    }
}

impl Acl {
    /// What a list that stands before others becomes where nothing is cut any more: it drops what nobody sends. Lists that are
    /// there have indices, and get no name that another has.
    pub(super) fn spent(index: u32) -> Self {
        let nobody = Prefix::host(Ipv4Addr::UNSPECIFIED.into());
        let [first, second] =
            [index >> 16, index & 0xffff].map(|half| u16::try_from(half).unwrap_or_default());
        let rule = AclRule {
            action: AclAction::Deny,
            source: nobody,
            destination: nobody,
            protocol: Protocol::TCP.number(),
            first: (first, first),
            second: (second, second),
            tcp_flags: (ACK, ACK),
        };
        Self::new(Role::Cut, vec![rule])
    }

    fn denials(&self) -> impl Iterator<Item = &AclRule> {
        self.rules.iter().filter(|rule| rule.action == AclAction::Deny)
    }

    /// Whether this is such a list.
    pub(super) fn is_spent(&self) -> bool {
        let nobody = Prefix::host(Ipv4Addr::UNSPECIFIED.into());
        let is_of_nobody = |rule: &AclRule| rule.source == nobody && rule.destination == nobody;
        self.is_cut() && self.rules.iter().all(is_of_nobody)
    }

    /// Whether this is a list that stands before others because something was cut, as picket makes them: it decides nothing that
    /// begins a connection, and nothing but TCP.
    pub fn is_cut(&self) -> bool {
        self.tag.is_for(Role::Cut) && self.rules.iter().all(is_within_connection)
    }
}

fn is_within_connection(rule: &AclRule) -> bool {
    let is_tcp = rule.protocol == Protocol::TCP.number();
    is_tcp && rule.action != AclAction::Permit && rule.beginnings() == Beginnings::None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_a_pod_are_told_from_what_it_asks_by_their_ports() {
        const HIGH: Ports = (32_768, u16::MAX);
        for (asked, sent, received) in [
            ((80, 80), &[[(80, 80), ALL]][..], ALL),
            ((8000, 9000), &[[(8000, 9000), ALL]], ALL),
            // Somebody has named it.
            ((50_051, 50_051), &[[(50_051, 50_051), ALL]], ALL),
            ((32_000, 33_000), &[[(32_000, 33_000), ALL]], ALL),
            ((0, u16::MAX), &[[(0, 32_767), ALL], [HIGH, HIGH]], HIGH),
            ((81, u16::MAX), &[[(81, 32_767), ALL], [HIGH, HIGH]], HIGH),
            ((1024, 30_000), &[[(1024, 30_000), ALL]], HIGH),
            ((40_000, 50_000), &[[(40_000, 50_000), HIGH]], HIGH),
        ] {
            let range = Interval::new(asked.0, asked.1).unwrap();
            assert_eq!(of_answers(range, Way::In), sent, "{asked:?}");
            assert_eq!(of_answers(range, Way::Out), [[asked, received]], "{asked:?}");
        }
    }

    #[test]
    fn a_list_of_what_was_cut_decides_nothing_that_begins_a_connection() {
        let rule = AclRule {
            protocol: Protocol::TCP.number(),
            tcp_flags: (ACK, ACK),
            ..AclRule::everything(AclAction::Deny, Family::Ipv4)
        };
        for (rule, expected) in [
            (rule, true),
            (
                AclRule {
                    tcp_flags: (0, 0),
                    ..rule
                },
                false,
            ),
            // SYN alone, and what has neither it nor ACK.
            (
                AclRule {
                    tcp_flags: (0x12, 0x02),
                    ..rule
                },
                false,
            ),
            (
                AclRule {
                    tcp_flags: (0x12, 0x00),
                    ..rule
                },
                true,
            ),
            (
                AclRule {
                    tcp_flags: (0x12, 0x12),
                    ..rule
                },
                true,
            ),
            (
                AclRule {
                    tcp_flags: (0x01, 0x00),
                    ..rule
                },
                false,
            ),
            (AclRule { protocol: 0, ..rule }, false),
            (AclRule { protocol: 17, ..rule }, false),
            (
                AclRule {
                    action: AclAction::Permit,
                    ..rule
                },
                false,
            ),
        ] {
            assert_eq!(Acl::new(Role::Cut, vec![rule]).is_cut(), expected, "{rule:?}");
            assert!(!Acl::new(Role::FromPod, vec![rule]).is_cut());
        }
    }
}
