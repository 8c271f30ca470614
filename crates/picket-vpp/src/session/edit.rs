//! From a table to the next one, where only with a few prefixes something else may be exchanged.

use std::cmp::Ordering;
use std::net::IpAddr;
use std::sync::Arc;

use picket_net::Prefix;
use rustc_hash::{FxHashMap, FxHashSet};

use super::model::{Action, SessionRule, Transport};
use super::ports::{PortSets, Ports, of_transport};
use super::table::Piece;
use crate::peers::Peers;
use crate::value::Values;
use crate::work::looked_at;

/// The rules that a table loses and those that it gets, none of which is among both, in order.
#[derive(Clone, Debug)]
pub(super) struct Edit {
    pub(super) gone: Vec<SessionRule>,
    pub(super) come: Vec<SessionRule>,
    /// Whether everybody else is denied before and after, wherever there are some.
    pub(super) is_closed: bool,
}

/// What it takes until a table is that of another list.
#[derive(Debug)]
pub(super) enum Takes {
    /// It is already.
    Nothing,
    /// These rules go and come.
    Edit(Edit),
    /// It has to be made anew.
    Table,
}

/// An edit while it is being made: in the order of a table.
#[derive(Debug)]
pub(super) struct Draft(Edit);

/// Where two lists do not say the same: prefixes that overlap no other of their list, so that they part no other into pieces. What
/// both say of everybody else is the same, and not about some ports.
#[derive(Debug)]
pub(super) struct Difference {
    rest: [Ports; 2],
    /// The prefixes of each, in order.
    entries: [Vec<(Prefix, [Ports; 2])>; 2],
}

/// Makes tables from those before. How two lists differ is found out once for all that turn from one to the other.
#[derive(Debug, Default)]
pub(super) struct Editor {
    differences: FxHashMap<[usize; 2], Known>,
    /// A table that is being made.
    rules: Vec<SessionRule>,
}

/// Two lists, which nothing else gets the place of in memory, and how they differ where that can be said.
type Known = ([Arc<Peers>; 2], Option<Difference>);

impl Editor {
    /// How two lists differ; `None` where it takes a whole table to tell.
    pub(super) fn difference(
        &mut self,
        [before, now]: [&Arc<Peers>; 2],
        sets: &mut PortSets,
        values: &Values,
    ) -> Option<&Difference> {
        let key = [before, now].map(|peers| Arc::as_ptr(peers).addr());
        let (_, known) = self.differences.entry(key).or_insert_with(|| {
            let difference = Difference::between(before, now, sets, values);
            ([before, now].map(Arc::clone), difference)
        });
        known.as_ref()
    }

    /// The rules of a table after a change; `None` where it does not have one that goes.
    pub(super) fn carry_out(
        &mut self,
        draft: &Draft,
        mut rules: &[SessionRule],
    ) -> Option<Arc<[SessionRule]>> {
        looked_at(rules.len());
        let Draft(Edit { gone, come, .. }) = draft;
        self.rules.clear();
        let (mut gone, mut come) = (gone.iter().peekable(), come.iter().peekable());
        while gone.peek().is_some() || come.peek().is_some() {
            let next_gone = gone.next_if(|gone| come.peek().is_none_or(|come| in_table(gone, come).is_lt()));
            let next = next_gone.or_else(|| come.next())?;
            let before = rules.partition_point(|rule| in_table(rule, next).is_lt());
            let (kept, following) = rules.split_at_checked(before)?;
            self.rules.extend_from_slice(kept);
            rules = match (next_gone, following) {
                (Some(gone), [first, following @ ..]) if first == gone => following,
                (Some(_), _) => return None,
                (None, _) => {
                    self.rules.push(*next);
                    following
                }
            };
        }
        self.rules.extend_from_slice(rules);
        Some(self.rules.as_slice().into())
    }
}

impl Difference {
    fn between(before: &Peers, now: &Peers, sets: &mut PortSets, values: &Values) -> Option<Self> {
        let everybody = Prefix::all(now.family());
        let rest = now.value_of_everybody_else();
        let mut difference = Self {
            rest: sets.of(rest, values),
            entries: [Vec::new(), Vec::new()],
        };
        if before.value_of_everybody_else() != rest || !difference.rest.into_iter().all(Ports::is_whole) {
            return None;
        }
        for pair in before.changes(now) {
            looked_at(1);
            let [was, is] = pair.map(|entry| entry.map(|entry| entry.value));
            let sides = [before, now].into_iter().zip(pair).zip(&mut difference.entries);
            for ((peers, entry), entries) in sides.filter(|_| was != is) {
                let Some(entry) = entry else { continue };
                // Rules about a network with the address 0 are about parts of it.
                let is_plain = !entry.prefix.first().is_unspecified();
                if entry.prefix == everybody || !is_plain || !peers.is_apart(&entry.prefix) {
                    return None;
                }
                entries.push((entry.prefix, sets.of(entry.value, values)));
            }
        }
        for entries in &mut difference.entries {
            entries.sort_unstable_by_key(|(prefix, _)| *prefix);
        }
        Some(difference)
    }

    /// Whether it is about any of these addresses.
    pub(super) fn is_about(&self, addresses: &[IpAddr]) -> bool {
        let mut prefixes = self.entries.iter().flatten().map(|(prefix, _)| prefix);
        prefixes.any(|prefix| addresses.iter().any(|&address| prefix.contains(address)))
    }
}

impl Draft {
    /// No change.
    pub(super) fn new() -> Self {
        Self(Edit {
            gone: Vec::new(),
            come: Vec::new(),
            is_closed: true,
        })
    }

    /// Takes in how the rules differ, where the addresses at this end are `own`. `outwards` when the ports at the other end count.
    /// What is of another family comes in its order.
    pub(super) fn add(&mut self, difference: &Difference, own: Prefix, outwards: bool, sets: &PortSets) {
        for transport in Transport::BOTH {
            let rest = of_transport(difference.rest, transport);
            let default = sets.said(rest).action;
            let Edit {
                gone,
                come,
                is_closed,
            } = &mut self.0;
            for (entries, rules) in difference.entries.iter().zip([gone, come]) {
                for &(remote, ports) in entries {
                    let ports = of_transport(ports, transport);
                    let piece = Piece {
                        transport,
                        own,
                        remote,
                        outwards,
                    };
                    if ports != rest {
                        *is_closed &= default == Action::Drop;
                        piece.push_rules(sets.said(ports), default, rules);
                    }
                }
            }
        }
    }

    /// Leaves out what would go and come again.
    pub(super) fn without_kept(mut self) -> Self {
        let Edit { gone, come, .. } = &mut self.0;
        if !gone.is_empty() && !come.is_empty() {
            let kept = gone.iter();
            let kept = kept.filter(|rule| come.binary_search_by(|other| in_table(other, rule)).is_ok());
            let kept: FxHashSet<_> = kept.copied().collect();
            gone.retain(|rule| !kept.contains(rule));
            come.retain(|rule| !kept.contains(rule));
        }
        self
    }

    /// Whether nothing changes.
    pub(super) fn is_empty(&self) -> bool {
        let Self(Edit { gone, come, .. }) = self;
        gone.is_empty() && come.is_empty()
    }

    /// How many rules there are then where there were so many.
    pub(super) fn count(&self, before: usize) -> usize {
        let Self(Edit { gone, come, .. }) = self;
        before.saturating_sub(gone.len()) + come.len()
    }

    /// What it is at last.
    pub(super) fn finish(self) -> Takes {
        if self.is_empty() {
            return Takes::Nothing;
        }
        let Self(mut edit) = self;
        edit.gone.sort_unstable();
        edit.come.sort_unstable();
        Takes::Edit(edit)
    }
}

/// The order of the rules of a table: one family after the other, and in each one transport after the other.
pub(super) fn in_table(one: &SessionRule, other: &SessionRule) -> Ordering {
    if one.transport == other.transport {
        // Prefixes of IPv4 come before those of IPv6.
        return one.remote.cmp(&other.remote).then_with(|| one.cmp(other));
    }
    let families = one.family().cmp(&other.family());
    families.then_with(|| one.transport.cmp(&other.transport))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::net::Ipv4Addr;

    use picket_net::Family;
    use proptest::prelude::*;

    use super::*;
    use crate::session::local::{Alike, Local, Opened, Source};
    use crate::session::plan::{between, of_edit};
    use crate::session::table::tests::four;
    use crate::value::Value;

    /// What is said of prefixes in a few blocks, one of which has the address 0, by the number of one of four values.
    type Said = BTreeMap<Prefix, usize>;

    fn said(most: usize) -> impl Strategy<Value = Said> {
        let prefix = (0..3u32, 0..8u32, 29..=32u8).prop_map(|(block, last, length)| {
            let first = [0, 0x0a00_0000, 0x0a00_0100][block as usize];
            Prefix::new(Ipv4Addr::from_bits(first + last).into(), length).unwrap()
        });
        proptest::collection::btree_map(prefix, 0..4usize, 0..most)
    }

    fn opened(rest: usize, said: &Said, four: &[Value; 4], other: &Option<Arc<Peers>>) -> Opened {
        let everybody = (Prefix::all(Family::Ipv4), four[rest]);
        let said = said.iter().map(|(prefix, value)| (*prefix, four[*value]));
        let peers = Peers::new(Family::Ipv4, std::iter::once(everybody).chain(said));
        Opened {
            peers: [Some(Arc::new(peers)), other.clone()],
            closed: [false; 2],
        }
    }

    fn source<'a>(
        most_rules: usize,
        alike: &'a mut Alike,
        sets: &'a mut PortSets,
        values: &'a Values,
    ) -> Source<'a> {
        Source {
            most_rules,
            alike,
            sets,
            values,
        }
    }

    #[test]
    fn a_prefix_more_is_a_rule_more_of_the_same_table() {
        let mut values = Values::default();
        let four = four(&mut values);
        let (mut alike, mut sets) = (Alike::default(), PortSets::default());
        let addresses: Arc<[IpAddr]> = Arc::new([Ipv4Addr::new(10, 0, 0, 1).into()]);
        let net = |text: &str| -> Prefix { text.parse().unwrap() };
        let mut entries = Said::from([(net("10.0.0.2/32"), 1), (net("10.0.1.0/28"), 2)]);
        // Who may open nothing but this, and who may open everything but this.
        for (rest, value, rules) in [(0, 2, 1), (0, 1, 2), (1, 0, 2)] {
            entries.remove(&net("10.0.0.7/32"));
            let before = opened(rest, &entries, &four, &None);
            let mut table = Local::new(before, &addresses, source(100, &mut alike, &mut sets, &values));
            entries.insert(net("10.0.0.7/32"), value);
            let now = opened(rest, &entries, &four, &None);
            let takes = table.turn(&now, &addresses, &mut source(100, &mut alike, &mut sets, &values));
            let Takes::Edit(edit) = takes else {
                panic!("{rest} {value}: {takes:?}");
            };
            assert_eq!((edit.gone.len(), edit.come.len()), (0, rules), "{rest} {value}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1024))]

        #[test]
        fn a_table_that_was_changed_is_the_one_from_nothing(
            rest in 0..4usize,
            mut entries in said(8),
            changes in said(3),
            gone in 0..8usize,
            own in proptest::collection::btree_set(0..8u32, 0..2),
            most_rules in prop_oneof![Just(100), 0..40usize],
            is_dual in any::<bool>(),
        ) {
            let mut values = Values::default();
            let four = four(&mut values);
            let other = is_dual.then(|| Arc::new(Peers::everybody(Family::Ipv6, four[2])));
            let addresses: Arc<[IpAddr]> = own
                .into_iter()
                .map(|last| Ipv4Addr::from_bits(0x0a00_0000 + last).into())
                .collect();
            let (mut alike, mut sets) = (Alike::default(), PortSets::default());
            let before = opened(rest, &entries, &four, &other);
            let mut from = source(most_rules, &mut alike, &mut sets, &values);
            let mut table = Local::new(before, &addresses, from);
            let before = Arc::clone(&table.made.rules);
            let key = entries.keys().nth(gone).copied();
            key.map(|key| entries.remove(&key));
            entries.extend(changes);
            let now = opened(rest, &entries, &four, &other);
            from = source(most_rules, &mut alike, &mut sets, &values);
            let takes = table.turn(&now, &addresses, &mut from);
            let anew = Local::new(now, &addresses, from);
            prop_assert!(anew.made.rules.is_sorted_by(|one, other| in_table(one, other).is_lt()));
            let plan = match &takes {
                Takes::Table => {
                    prop_assert_eq!(&table.made.rules, &before);
                    return Ok(());
                }
                Takes::Nothing => Vec::new(),
                Takes::Edit(edit) => of_edit(edit, &before),
            };
            prop_assert_eq!(&table.made.rules, &anew.made.rules);
            prop_assert_eq!(table.made.missing, anew.made.missing);
            prop_assert_eq!(plan, between(&before, &anew.made.rules));
        }
    }
}
