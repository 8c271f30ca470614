//! What is allowed with whom: prefixes, of which the longest that holds an address decides.

use std::cmp::{Ordering, Reverse};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use picket_net::{Family, Prefix};

use crate::layer4::{Layer4, Selector};
use crate::rule::{Action, Rule, compare_prefixes};
use crate::value::{Value, Values};
use crate::work::looked_at;

/// What is allowed with the addresses of one family, by the longest prefix that holds an address. Addresses that none holds
/// are allowed nothing.
///
/// Compact: no prefix says what the next longer one around it says, and no two that are halves of one say the same. Ordered
/// as rules are: longer prefixes first.
#[derive(Clone, Debug, Eq)]
pub struct Peers {
    family: Family,
    entries: Vec<Entry>,
    /// Of each length that prefixes have, where those of it begin; longer ones first.
    levels: Vec<(u8, usize)>,
}

impl PartialEq for Peers {
    fn eq(&self, other: &Self) -> bool {
        let is_as_long = self.entries.len() == other.entries.len();
        looked_at(if is_as_long { self.entries.len() } else { 1 });
        // The levels are those of the entries.
        is_as_long && self.family == other.family && self.entries == other.entries
    }
}

/// One prefix of [`Peers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The addresses.
    pub prefix: Prefix,
    /// What is allowed with those that no longer prefix holds.
    pub value: Value,
    /// What the next longer prefix around it allows.
    pub outer: Value,
}

/// Half of a rule: whom it is about, and what becomes of which packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerRule {
    /// The address of the peer.
    pub peer: Prefix,
    /// The packets.
    pub selector: Selector,
    /// What becomes of them.
    pub action: Action,
}

/// A prefix as a number of 128 bits, of which the first `length` count and all others are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Bits {
    bits: u128,
    length: u8,
}

impl Peers {
    /// What `entries` say, of which a later one counts for a prefix that is there twice. Those of the other family do not
    /// count.
    pub fn new(family: Family, entries: impl IntoIterator<Item = (Prefix, Value)>) -> Self {
        let own = entries
            .into_iter()
            .filter(|(prefix, _)| prefix.family() == family);
        let mut levels: Vec<(Bits, Value)> = own.map(|(prefix, value)| (Bits::of(&prefix), value)).collect();
        looked_at(levels.len());
        levels.sort_by_key(|(bits, _)| (Reverse(bits.length), bits.bits));
        let mut entries = without_redundant(without_halves(&levels), family);
        entries.sort_by(|one, other| compare_prefixes(&one.prefix, &other.prefix));
        Self::of_compact(family, entries)
    }

    fn of_compact(family: Family, entries: Vec<Entry>) -> Self {
        let mut levels: Vec<(u8, usize)> = Vec::new();
        for (number, entry) in entries.iter().enumerate() {
            if levels
                .last()
                .is_none_or(|(length, _)| *length != entry.prefix.length())
            {
                levels.push((entry.prefix.length(), number));
            }
        }
        Self {
            family,
            entries,
            levels,
        }
    }

    /// The same value for everybody.
    pub fn everybody(family: Family, value: Value) -> Self {
        Self::new(family, [(Prefix::all(family), value)])
    }

    /// What rules allow towards the `source` (or else the destination) of each, the first that matches deciding, whatever
    /// they say about the other end. What none matches is `rest`. Nothing here is about source ports: of rules about some of
    /// them, denials hold for all, and permissions for none.
    pub fn of_rules(
        family: Family,
        rules: &[Rule],
        of_source: bool,
        rest: Value,
        values: &mut Values,
    ) -> Self {
        let decisions = rules.iter().filter_map(|rule| {
            let about = if of_source { rule.source } else { rule.destination };
            let prefix = about.unwrap_or(Prefix::all(family));
            let passes = rule.action == Action::Permit;
            let counts = prefix.family() == family && (!passes || rule.any_source_port());
            counts.then(|| (prefix, rule.selected(), passes))
        });
        Self::of_decisions(family, &decisions.collect::<Vec<_>>(), rest, values)
    }

    /// What decisions about packets of peers allow, the first that holds a packet counting: the peers, the packets, and
    /// whether they pass. What none decides is `rest`. All prefixes are of the family.
    pub(crate) fn of_decisions(
        family: Family,
        decisions: &[(Prefix, Layer4, bool)],
        rest: Value,
        values: &mut Values,
    ) -> Self {
        let numbered = decisions.iter().enumerate();
        let mut by_prefix: Vec<_> = numbered
            .map(|(number, (prefix, ..))| (Bits::of(prefix), number))
            .collect();
        by_prefix.sort_unstable();
        let mut entries = vec![(Prefix::all(family), rest)];
        let mut around: Vec<(Bits, Vec<usize>)> = Vec::new();
        for here in by_prefix.chunk_by(|one, other| one.0 == other.0) {
            let Some(&(bits, _)) = here.first() else { continue };
            while around.last().is_some_and(|(outer, _)| !outer.holds(bits)) {
                around.pop();
            }
            let mut numbers: Vec<_> = around.last().map(|(_, all)| all.clone()).unwrap_or_default();
            numbers.extend(here.iter().map(|(_, number)| number));
            numbers.sort_unstable();
            let matching = numbers.iter().filter_map(|&number| decisions.get(number));
            let allowed = decided(matching, values.set(rest));
            entries.push((bits.prefix(family), values.number(allowed)));
            around.push((bits, numbers));
        }
        Self::new(family, entries)
    }

    /// The family.
    pub fn family(&self) -> Family {
        self.family
    }

    /// The prefixes, longer ones first.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Whether all prefixes but that of everybody are of one length: then none of these is within another.
    pub(crate) fn has_one_length(&self) -> bool {
        let lengths = self.levels.iter().filter(|(length, _)| *length > 0);
        lengths.count() <= 1
    }

    /// Whether no prefix but that of everybody holds one of these, and none is within it.
    pub(crate) fn is_apart(&self, prefix: &Prefix) -> bool {
        if self.has_one_length() {
            return true;
        }
        let ends = self.levels.iter().skip(1).map(|(_, begin)| *begin);
        let levels = self.levels.iter().zip(ends.chain([self.entries.len()]));
        let mut others = levels.filter(|((length, _), _)| *length > 0 && *length != prefix.length());
        others.all(|((_, begin), end)| {
            let level = self.entries.get(*begin..end).unwrap_or_default();
            let at = level.partition_point(|entry| entry.prefix.last() < prefix.first());
            let next = level.get(at).map(|entry| entry.prefix);
            next.is_none_or(|next| !next.contains_prefix(prefix) && !prefix.contains_prefix(&next))
        })
    }

    /// Whether everything is allowed with everybody.
    pub fn is_everything(&self) -> bool {
        matches!(&*self.entries, [only] if only.prefix.length() == 0 && only.value == Value::EVERYTHING)
    }

    /// What is allowed with an address.
    pub fn value(&self, address: IpAddr) -> Value {
        self.value_around(&Prefix::host(address))
    }

    /// What is allowed with addresses that only the prefix of every address holds.
    pub fn value_of_everybody_else(&self) -> Value {
        let last = self.entries.last().filter(|entry| entry.prefix.length() == 0);
        last.map_or(Value::NOTHING, |entry| entry.value)
    }

    /// The same, but for `entries`.
    #[must_use]
    pub fn with(&self, entries: impl IntoIterator<Item = (Prefix, Value)>) -> Self {
        let own = self.entries.iter().map(|entry| (entry.prefix, entry.value));
        Self::new(self.family, own.chain(entries))
    }

    /// The same, but for some addresses of the family, ascending and each once. What was joined stays joined around them.
    #[must_use]
    pub(crate) fn with_hosts(&self, hosts: impl Iterator<Item = (IpAddr, Value)> + Clone) -> Self {
        let spliced = self.spliced(hosts.clone());
        spliced.unwrap_or_else(|| self.with(hosts.map(|(address, value)| (Prefix::host(address), value))))
    }

    /// The same, unless what is said of an address would have to be joined with what is said of the one beside.
    fn spliced(&self, hosts: impl Iterator<Item = (IpAddr, Value)>) -> Option<Self> {
        let any = Prefix::all(self.family);
        let longest = Prefix::host(any.first()).length();
        let after = self.levels.iter().find(|(length, _)| *length < longest);
        let after = after.map_or(self.entries.len(), |(_, begin)| *begin);
        let (mut own, nets) = self.entries.split_at_checked(after)?;
        looked_at(self.entries.len());
        let mut entries: Vec<Entry> = Vec::with_capacity(self.entries.len() + hosts.size_hint().0);
        for (address, value) in hosts {
            let prefix = Prefix::host(address);
            let before = own.partition_point(|entry| entry.prefix.first() < address);
            let (kept, rest) = own.split_at_checked(before)?;
            entries.extend_from_slice(kept);
            own = match rest {
                [known, rest @ ..] if known.prefix == prefix => rest,
                _ => rest,
            };
            let outer = self.value_around(&Prefix::new(address, longest - 1)?);
            let is_beside = |entry: &Entry| entry.value == value && entry.prefix.first() == beside(address);
            if value != outer {
                if entries.last().is_some_and(is_beside) || own.first().is_some_and(is_beside) {
                    return None;
                }
                entries.push(Entry { prefix, value, outer });
            }
        }
        entries.extend_from_slice(own);
        entries.extend_from_slice(nets);
        Some(Self::of_compact(self.family, entries))
    }

    /// What both allow.
    #[must_use]
    pub fn common(&self, other: &Self, values: &mut Values) -> Self {
        let prefixes = self.entries.iter().chain(&other.entries);
        let entries: Vec<_> = prefixes
            .map(|entry| {
                let (one, other) = (
                    self.value_around(&entry.prefix),
                    other.value_around(&entry.prefix),
                );
                (entry.prefix, values.common(one, other))
            })
            .collect();
        Self::new(self.family, entries)
    }

    /// Prefixes outside of which both allow the same.
    pub(crate) fn differing(&self, other: &Self) -> Vec<Prefix> {
        // A prefix that only one of the two has, or with another value, decides where they differ.
        let differing = self.changes(other).filter(|pair| {
            let [one, other] = pair.map(|entry| entry.map(|entry| entry.value));
            one != other
        });
        differing
            .filter_map(|[one, other]| one.or(other).map(|entry| entry.prefix))
            .collect()
    }

    /// The entries of both, in order, those about one prefix together; without some that both have, with which they begin and end.
    pub(crate) fn changes<'p>(&'p self, other: &'p Self) -> impl Iterator<Item = [Option<&'p Entry>; 2]> {
        let [ours, theirs] = without_ends(&self.entries, &other.entries);
        let (mut ours, mut theirs) = (ours.iter().peekable(), theirs.iter().peekable());
        std::iter::from_fn(move || {
            let order = match (ours.peek(), theirs.peek()) {
                (None, None) => return None,
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(one), Some(other)) => compare_prefixes(&one.prefix, &other.prefix),
            };
            Some([ours.next_if(|_| order.is_le()), theirs.next_if(|_| order.is_ge())])
        })
    }

    /// The rules that allow exactly this, in order. What none of them matches is not allowed.
    pub fn rules(&self, values: &mut Values) -> Vec<PeerRule> {
        looked_at(self.entries.len());
        let mut rules = Vec::with_capacity(self.entries.len());
        for entry in &self.entries {
            let steps = values.steps(entry.value, entry.outer);
            rules.extend(steps.iter().map(|&(selector, passes)| PeerRule {
                peer: entry.prefix,
                selector,
                action: if passes { Action::Permit } else { Action::Deny },
            }));
        }
        rules
    }

    /// What is allowed with the addresses of a prefix that no prefix within it holds.
    pub(crate) fn value_around(&self, prefix: &Prefix) -> Value {
        let mut end = self.entries.len();
        let mut levels = self.levels.iter().rev().peekable();
        let mut found = Value::NOTHING;
        // From the shortest prefixes to longer ones: the last that holds it decides.
        while let Some((_, begin)) = levels.next_if(|(length, _)| *length <= prefix.length()) {
            let level = self.entries.get(*begin..end).unwrap_or_default();
            let at = level.partition_point(|entry| entry.prefix.last() < prefix.first());
            if let Some(entry) = level.get(at).filter(|entry| entry.prefix.contains_prefix(prefix)) {
                found = entry.value;
            }
            end = *begin;
        }
        found
    }
}

/// Both without what they begin and end with alike.
pub(crate) fn without_ends<'e, T: PartialEq>(ours: &'e [T], theirs: &'e [T]) -> [&'e [T]; 2] {
    let [first, last] = alike_ends(ours, theirs);
    [ours, theirs].map(|entries| entries.get(first..entries.len() - last).unwrap_or_default())
}

/// How many both begin with alike, and with how many of what is left they end so.
pub(crate) fn alike_ends<T: PartialEq>(ours: &[T], theirs: &[T]) -> [usize; 2] {
    let alike = ours.iter().zip(theirs);
    let first = alike.take_while(|(one, other)| one == other).count();
    let [ours, theirs] = [ours, theirs].map(|entries| entries.iter().skip(first).rev());
    let last = ours.zip(theirs).take_while(|(one, other)| one == other).count();
    [first, last]
}

/// What decisions allow of the packets that all of them are about, where they leave `rest` undecided.
fn decided<'a>(decisions: impl Iterator<Item = &'a (Prefix, Layer4, bool)>, rest: &Layer4) -> Layer4 {
    let (mut open, mut allowed) = (Layer4::all(), Layer4::empty());
    for (_, packets, passes) in decisions {
        let matched = open.intersection(packets);
        if *passes {
            allowed = allowed.union(&matched);
        }
        open = open.difference(&matched);
        if open.is_empty() {
            break;
        }
    }
    allowed.union(&open.intersection(rest))
}

/// Joins halves that say the same. `levels` are sorted, longer prefixes first.
fn without_halves(mut levels: &[(Bits, Value)]) -> Vec<(Bits, Value)> {
    let mut kept = Vec::with_capacity(levels.len());
    let mut joined: Vec<(Bits, Value)> = Vec::new();
    let length = |entries: &[(Bits, Value)]| entries.first().map(|(bits, _)| bits.length);
    while let Some(length) = length(levels).max(length(&joined)) {
        let end = levels.partition_point(|(bits, _)| bits.length == length);
        let (here, shorter) = levels.split_at(end);
        levels = shorter;
        // Two halves together say more than what is said about the whole.
        let mut level = [here, &joined].concat();
        joined.clear();
        level.sort_by_key(|(bits, _)| bits.bits);
        level.dedup_by(|(bits, value), (known, said)| {
            let is_same = bits == known;
            if is_same {
                *said = *value;
            }
            is_same
        });
        let mut level = level.into_iter().peekable();
        while let Some((bits, value)) = level.next() {
            let half = bits.other_half();
            if bits.is_lower_half() && level.next_if_eq(&(half, value)).is_some() {
                joined.push((bits.whole(), value));
            } else {
                kept.push((bits, value));
            }
        }
    }
    kept
}

/// Leaves out what says the same as the next longer prefix around it.
fn without_redundant(mut entries: Vec<(Bits, Value)>, family: Family) -> Vec<Entry> {
    entries.sort_unstable_by_key(|(bits, _)| *bits);
    let mut around: Vec<(Bits, Value)> = Vec::new();
    let mut kept = Vec::with_capacity(entries.len());
    for (bits, value) in entries {
        while around.last().is_some_and(|(outer, _)| !outer.holds(bits)) {
            around.pop();
        }
        let outer = around.last().map_or(Value::NOTHING, |(_, outer)| *outer);
        if value != outer {
            around.push((bits, value));
            kept.push(Entry {
                prefix: bits.prefix(family),
                value,
                outer,
            });
        }
    }
    kept
}

impl Bits {
    fn of(prefix: &Prefix) -> Self {
        let bits = match prefix.first() {
            IpAddr::V4(address) => u128::from(address.to_bits()) << 96,
            IpAddr::V6(address) => address.to_bits(),
        };
        Self {
            bits,
            length: prefix.length(),
        }
    }

    fn prefix(self, family: Family) -> Prefix {
        let address: IpAddr = match family {
            Family::Ipv4 => {
                let [a, b, c, d, ..] = self.bits.to_be_bytes();
                Ipv4Addr::new(a, b, c, d).into()
            }
            Family::Ipv6 => Ipv6Addr::from_bits(self.bits).into(),
        };
        // A length that the family does not have was no prefix of it.
        Prefix::new(address, self.length).unwrap_or(Prefix::all(family))
    }

    /// The bit that tells the halves of a prefix from each other, of that half with the bit; 0 for every address.
    fn last_bit(self) -> u128 {
        match self.length {
            0 => 0,
            length => 1 << (128 - u32::from(length)),
        }
    }

    fn is_lower_half(self) -> bool {
        self.length > 0 && self.bits & self.last_bit() == 0
    }

    fn other_half(self) -> Self {
        Self {
            bits: self.bits ^ self.last_bit(),
            ..self
        }
    }

    fn whole(self) -> Self {
        Self {
            bits: self.bits & !self.last_bit(),
            length: self.length.saturating_sub(1),
        }
    }

    fn holds(self, other: Self) -> bool {
        let mask = match self.length {
            0 => 0,
            length => u128::MAX << (128 - u32::from(length)),
        };
        self.length <= other.length && other.bits & mask == self.bits
    }
}

/// The address with which an address makes up the prefix around it.
pub(crate) fn beside(address: IpAddr) -> IpAddr {
    let prefix = Prefix::host(address);
    Bits::of(&prefix).other_half().prefix(prefix.family()).first()
}

/// `outer` without `inner`, as few prefixes, larger ones first; `outer` itself where they share nothing.
pub fn subtract(outer: &Prefix, inner: &Prefix) -> Vec<Prefix> {
    if inner.contains_prefix(outer) {
        return Vec::new();
    }
    if !outer.contains_prefix(inner) {
        return vec![*outer];
    }
    let family = outer.family();
    let bits = Bits::of(inner);
    let lengths = outer.length() + 1..=inner.length();
    let halves = lengths.map(|length| {
        let mut part = Bits { length, ..bits };
        part.bits &= u128::MAX << (128 - u32::from(length));
        part.other_half().prefix(family)
    });
    halves.collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BLOCK: [u8; 4] = [10, 0, 0, 16];

    /// Prefixes within a block of sixteen addresses and around it, some of them more than once, with one of three values.
    fn entries() -> impl Strategy<Value = Vec<(Prefix, Value)>> {
        let [a, b, c, first] = BLOCK;
        let entry = (26..=32_u8, 0..16_u8, 0..3_usize).prop_map(move |(length, last, value)| {
            let address = Ipv4Addr::new(a, b, c, first + last);
            let prefix = Prefix::new(address.into(), length).unwrap();
            (prefix, three()[value])
        });
        proptest::collection::vec(entry, 0..24)
    }

    fn three() -> [Value; 3] {
        let mut values = Values::default();
        let some = values.number(Layer4::of(&Selector::whole(picket_net::Protocol::TCP)));
        [Value::NOTHING, Value::EVERYTHING, some]
    }

    /// What the longest entry says that holds an address, the last of those that are alike.
    fn longest(entries: &[(Prefix, Value)], address: IpAddr) -> Value {
        let around = entries.iter().filter(|(prefix, _)| prefix.contains(address));
        let decides = around.max_by_key(|(prefix, _)| prefix.length());
        decides.map_or(Value::NOTHING, |(_, value)| *value)
    }

    fn peers_of(entries: &[(Prefix, Value)], more: impl Iterator<Item = (Prefix, Value)>) -> Peers {
        Peers::new(Family::Ipv4, entries.iter().copied().chain(more))
    }

    proptest! {
        #[test]
        fn addresses_of_which_nothing_is_said_are_put_in_as_if_they_had_been_there(
            entries in entries(),
            hosts in proptest::collection::btree_map(0..32_u8, 0..3_usize, 0..4),
        ) {
            let address = |number: u8| IpAddr::from(Ipv4Addr::new(10, 0, 0, 8 + number));
            let hosts = hosts.into_iter().map(|(number, value)| (address(number), three()[value]));
            let hosts: Vec<_> = hosts.collect();
            let is_said = |of: IpAddr| entries.iter().any(|(prefix, _)| *prefix == Prefix::host(of));
            let mut kept: Vec<(IpAddr, Value)> = Vec::new();
            for (host, value) in hosts {
                if !is_said(beside(host)) && kept.iter().all(|(other, _)| *other != beside(host)) {
                    kept.push((host, value));
                }
            }
            let peers = Peers::new(Family::Ipv4, entries.iter().copied());
            let now = peers.with_hosts(kept.iter().copied());
            let prefixes = kept.iter().map(|&(host, value)| (Prefix::host(host), value));
            prop_assert_eq!(now, peers_of(&entries, prefixes));
        }

        #[test]
        fn addresses_are_put_in_as_other_prefixes_are(
            entries in entries(),
            hosts in proptest::collection::btree_map(0..32_u8, 0..3_usize, 0..6),
        ) {
            let hosts = hosts.into_iter().map(|(number, value)| {
                (IpAddr::from(Ipv4Addr::new(10, 0, 0, 8 + number)), three()[value])
            });
            let hosts: Vec<_> = hosts.collect();
            let peers = Peers::new(Family::Ipv4, entries);
            let prefixes = hosts.iter().map(|&(host, value)| (Prefix::host(host), value));
            prop_assert_eq!(peers.with_hosts(hosts.iter().copied()), peers.with(prefixes));
        }

        #[test]
        fn an_address_that_is_allowed_everything_is_no_entry_more(
            entries in entries(),
            others in prop::collection::vec(0..16_u8, 0..6),
            last in 0..16_u8,
        ) {
            let [a, b, c, first] = BLOCK;
            let host = |last: u8| Prefix::host(Ipv4Addr::new(a, b, c, first + last).into());
            let peers = Peers::new(Family::Ipv4, entries);
            let with = |hosts: &[u8]| peers.with(hosts.iter().map(|&last| (host(last), Value::EVERYTHING)));
            let allows = peers.value(host(last).first()) == Value::EVERYTHING;
            if allows {
                let more = [&others[..], &[last]].concat();
                prop_assert_eq!(with(&more), with(&others));
            }
        }

        #[test]
        fn a_prefix_is_apart_where_no_other_holds_it_or_is_within_it(entries in entries()) {
            let peers = Peers::new(Family::Ipv4, entries);
            for entry in peers.entries() {
                let others = peers.entries().iter().filter(|other| other.prefix != entry.prefix);
                let mut others = others.map(|other| other.prefix);
                let overlap = others.any(|other| {
                    other.contains_prefix(&entry.prefix) || entry.prefix.contains_prefix(&other)
                });
                prop_assert_eq!(peers.is_apart(&entry.prefix), !overlap, "{}", entry.prefix);
            }
        }

        #[test]
        fn peers_say_what_the_longest_entry_says_and_no_entry_could_be_left_out(entries in entries()) {
            let peers = Peers::new(Family::Ipv4, entries.iter().copied());
            for last in 0..64 {
                let address = Ipv4Addr::new(10, 0, 0, last).into();
                prop_assert_eq!(peers.value(address), longest(&entries, address), "{}", address);
            }
            let kept = peers.entries();
            let said: Vec<_> = kept.iter().map(|entry| (entry.prefix, entry.value)).collect();
            for (number, entry) in kept.iter().enumerate() {
                let mut others = said.clone();
                others.remove(number);
                // The next longer prefix around it says something else.
                let around = others.iter().filter(|(outer, _)| outer.contains_prefix(&entry.prefix));
                let outer = around.max_by_key(|(outer, _)| outer.length());
                let outer = outer.map_or(Value::NOTHING, |(_, value)| *value);
                prop_assert_eq!(entry.outer, outer);
                prop_assert_ne!(entry.value, outer, "{}", entry.prefix);
                let bits = Bits::of(&entry.prefix);
                let other_half = (bits.other_half().prefix(Family::Ipv4), entry.value);
                prop_assert!(bits.length == 0 || !others.contains(&other_half), "{}", entry.prefix);
            }
        }
    }
}
