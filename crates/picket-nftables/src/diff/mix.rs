//! Whether a packet that is on its way while a plan comes into force may be judged by a mixture of two tables.
//!
//! It goes on by the rules that were, and finds in sets the elements that are ([`super::stage`]). A rule of new peers, at the ports that
//! it had before, or of new blocks with the holes of before, is in neither table.

use std::collections::{BTreeMap, BTreeSet};

use picket_dataplane::Plan;

use super::{Operation, Reference};
use crate::model::{Chain, End, Name, Rule, Table, Verdict};

/// Whether a packet may be let in by rules that were and elements that are, though neither table lets it in.
///
/// What rules only allow may grow or shrink with one of the sets that a rule looks up, as long as the rule stays: the packet is then
/// judged like before or like after. What restricts, as a drop or the way to one, may not change together with anything else: what the
/// one table denies by one such rule the other may deny by another. Nor may it change its place among the rules by which sets that change let
/// packets in, or lead there.
pub fn mixes(observed: &Table, plan: &Plan<Operation>) -> bool {
    let changes = Changes::of(observed, plan);
    if changes.sets.is_empty() {
        return false;
    }
    let restricting = changes.chains(observed, restricts);
    let asking = changes.chains(observed, |rule, found| changes.asks(rule, found));
    let is_alone = changes.sets.len() < 2 && changes.flushed.is_empty() && changes.added.is_empty();
    observed.chains().iter().any(|chain| {
        let new = changes.rules(chain);
        let restricts = |rule: &&Rule| restricts(rule, &restricting);
        let counts = |rule: &&Rule| restricts(rule) || changes.asks(rule, &asking);
        let is_mixed = |rule: &Rule| {
            let looked_up: BTreeSet<_> = looked_up(rule).collect();
            let changed = looked_up.intersection(&changes.sets).count();
            let stays = || new.contains(&rule);
            changed > 1 || changed == 1 && (!stays() || !is_alone && restricts(&rule))
        };
        let old = chain.rules.iter();
        old.clone().any(is_mixed)
            || !old
                .clone()
                .filter(restricts)
                .eq(new.iter().copied().filter(restricts))
            || !is_ordered(old.filter(counts), &new)
    })
}

/// The sets and maps that a rule looks up.
fn looked_up(rule: &Rule) -> impl Iterator<Item = &Name> {
    Reference::of(rule).filter_map(|used| match used {
        Reference::Container(name) => Some(name),
        Reference::Chain(_) | Reference::Counter(_) => None,
    })
}

/// What a plan changes of what is there.
struct Changes<'a> {
    /// Sets and maps.
    sets: BTreeSet<&'a Name>,
    /// Chains whose rules go.
    flushed: BTreeSet<&'a Name>,
    /// The rules that chains get.
    added: BTreeMap<&'a Name, &'a [Rule]>,
}

impl<'a> Changes<'a> {
    fn of(observed: &'a Table, plan: &'a Plan<Operation>) -> Self {
        let mut changes = Self {
            sets: BTreeSet::new(),
            flushed: BTreeSet::new(),
            added: BTreeMap::new(),
        };
        for operation in plan.operations() {
            match operation {
                Operation::DeleteElements(name, _)
                | Operation::AddElements(name, _)
                | Operation::AddMapElements(name, _) => drop(changes.sets.insert(name)),
                Operation::Flush(name) => drop(changes.flushed.insert(name)),
                Operation::AddRules(name, rules) => drop(changes.added.insert(name, rules)),
                _ => {}
            }
        }
        let chains = observed.chains().iter();
        let looked_up: BTreeSet<_> = chains
            .flat_map(|chain| chain.rules.iter().flat_map(looked_up))
            .collect();
        // No rule that was looks up what is new.
        changes.sets.retain(|name| looked_up.contains(name));
        changes
    }

    /// The rules that a chain has afterwards.
    fn rules<'c>(&self, chain: &'c Chain) -> Vec<&'c Rule>
    where
        'a: 'c,
    {
        let stay: &[Rule] = match self.flushed.contains(&chain.name) {
            true => &[],
            false => &chain.rules,
        };
        let added = self.added.get(&chain.name).copied().unwrap_or_default();
        stay.iter().chain(added).collect()
    }

    /// Whether a rule looks up what changes, or leads to one of these chains.
    fn asks(&self, rule: &Rule, chains: &BTreeSet<&Name>) -> bool {
        let is_there = match &rule.end {
            End::Verdict(Verdict::Jump(chain) | Verdict::Goto(chain)) => chains.contains(chain),
            _ => false,
        };
        is_there || looked_up(rule).any(|name| self.sets.contains(name))
    }

    /// The chains with such a rule, before or afterwards, where that may be for what leads to the others.
    fn chains(
        &self,
        observed: &'a Table,
        is_such: impl Fn(&Rule, &BTreeSet<&Name>) -> bool,
    ) -> BTreeSet<&'a Name> {
        let mut found = BTreeSet::new();
        let mut rules: Vec<(&Name, &[Rule])> =
            self.added.iter().map(|(name, rules)| (*name, *rules)).collect();
        rules.extend(observed.chains().iter().map(|chain| (&chain.name, &*chain.rules)));
        loop {
            let before = found.len();
            for (name, rules) in &rules {
                if rules.iter().any(|rule| is_such(rule, &found)) {
                    found.insert(*name);
                }
            }
            if found.len() == before {
                return found;
            }
        }
    }
}

/// Whether these rules are among others in this order.
fn is_ordered<'a>(mut rules: impl Iterator<Item = &'a Rule>, others: &[&Rule]) -> bool {
    let mut others = others.iter();
    rules.all(|rule| others.any(|other| *other == rule))
}

/// Whether a rule may keep a packet from what would let it in.
fn restricts(rule: &Rule, restricting: &BTreeSet<&Name>) -> bool {
    match &rule.end {
        End::Next | End::Verdict(Verdict::Accept) => false,
        End::Verdict(Verdict::Jump(chain)) => restricting.contains(chain),
        End::Verdict(Verdict::Drop | Verdict::Return | Verdict::Goto(_))
        | End::VerdictMap { .. }
        | End::Reject => true,
    }
}

#[cfg(test)]
mod tests {
    use picket_dataplane::Objects;

    use super::*;
    use crate::parse;

    /// A table with one rule, whose addresses and blocks are these.
    fn table(hosts: &str, blocks: &str, rule: &str) -> Table {
        let text = format!(
            "table inet t {{\n\tset hosts {{\n\t\ttype ipv4_addr\n\t\telements = {{ {hosts} }}\n\t}}\n\n\
             \tset blocks {{\n\t\ttype ipv4_addr\n\t\tflags interval\n\t\telements = {{ {blocks} }}\n\t}}\n\n\
             \tchain input {{\n\t\ttype filter hook input priority filter; policy drop;\n\
             \t\tct state established,related accept\n\t\t{rule} accept\n\t}}\n}}\n"
        );
        let listing = parse::listing(&text, "t").expect("a listing");
        listing.table.expect("a table")
    }

    #[test]
    fn rules_and_what_they_look_up_do_not_change_together() {
        let (hosts, blocks) = ("10.0.0.1, 10.0.0.2", "10.1.0.0/16");
        let at = |port: u16| format!("ip saddr @hosts udp dport {port}");
        let both = "ip saddr @hosts ip daddr @blocks".to_owned();
        for (rule, more, other, next, expected) in [
            (at(80), "10.0.0.3", blocks, at(80), false),
            (at(80), hosts, blocks, at(81), false),
            (at(80), "10.0.0.3", blocks, at(81), true),
            (at(80), "10.0.0.1", blocks, at(81), true),
            (at(80), hosts, "10.2.0.0/16", at(81), false),
            (both.clone(), "10.0.0.3", blocks, both.clone(), false),
            (both.clone(), "10.0.0.3", "10.2.0.0/16", both, true),
        ] {
            let (old, new) = (table(hosts, blocks, &rule), table(more, other, &next));
            let plan = Table::difference(Some(&old), &new);
            assert_eq!(mixes(&old, &plan), expected, "{rule}: {more}, {other}, {next}");
        }
    }

    /// A table whose pods come into a chain by the interfaces of two sets; `first` is judged before addresses are.
    fn restricting(one: &str, other: &str, hosts: &str, first: &str) -> Table {
        let ways = ["one", "other"].map(|set| format!("\t\tiifname @{set} jump ingress\n"));
        let ways = match other {
            "" => &ways[..1],
            _ => &ways[..],
        };
        let sets = [("one", one), ("other", other)].map(|(name, elements)| match elements {
            "" => String::new(),
            _ => format!("\tset {name} {{\n\t\ttype ifname\n\t\telements = {{ {elements} }}\n\t}}\n\n"),
        });
        let text = format!(
            "table inet t {{\n{}\tset hosts {{\n\t\ttype ipv4_addr\n\t\telements = {{ {hosts} }}\n\t}}\n\n\
             \tchain input {{\n\t\ttype filter hook input priority filter; policy accept;\n{}\t}}\n\n\
             \tchain ingress {{\n{first}\t\tip saddr @hosts accept\n\t\tdrop\n\t}}\n}}\n",
            sets.concat(),
            ways.concat(),
        );
        let listing = parse::listing(&text, "t").expect("a listing");
        listing.table.expect("a table")
    }

    #[test]
    fn what_restricts_changes_alone() {
        let (both, one, hosts) = (r#""net1", "net2""#, r#""net1""#, "10.0.0.1");
        let drop = "\t\tudp dport 9 drop\n";
        let old = restricting(both, "", hosts, "");
        for (what, new, expected) in [
            ("fewer interfaces", restricting(one, "", hosts, ""), false),
            (
                "an interface comes in by another rule",
                restricting(one, r#""net2""#, hosts, ""),
                true,
            ),
            ("addresses", restricting(both, "", "10.0.0.2", ""), false),
            (
                "interfaces and addresses",
                restricting(one, "", "10.0.0.2", ""),
                true,
            ),
            ("another drop", restricting(both, "", hosts, drop), false),
            (
                "another drop, and addresses",
                restricting(both, "", "10.0.0.2", drop),
                true,
            ),
        ] {
            let plan = Table::difference(Some(&old), &new);
            assert_eq!(mixes(&old, &plan), expected, "{what}");
        }
    }

    /// A drop that was behind what lets packets in, and is before it.
    #[test]
    fn what_restricts_does_not_change_places_with_what_lets_in() {
        let table = |hosts: &str, rules: [&str; 2], more: &str| {
            let text = format!(
                "table inet t {{\n\tset hosts {{\n\t\ttype ipv4_addr\n\t\telements = {{ {hosts} }}\n\t}}\n\n\
                 \tchain input {{\n\t\ttype filter hook input priority filter; policy drop;\n\t\t{}\n\t\t{}\n\t}}\n{more}}}\n",
                rules[0], rules[1]
            );
            parse::listing(&text, "t")
                .expect("a listing")
                .table
                .expect("a table")
        };
        let known = "\n\tchain known {\n\t\tip saddr @hosts accept\n\t}\n";
        let drop = "udp dport 9 drop";
        for (way, more) in [("ip saddr @hosts accept", ""), ("jump known", known)] {
            let old = table("10.0.0.1", [way, drop], more);
            for (hosts, rules, expected) in [
                ("10.0.0.1, 10.0.0.2", [drop, way], true),
                ("10.0.0.1, 10.0.0.2", [way, drop], false),
                ("10.0.0.1", [drop, way], false),
            ] {
                let new = table(hosts, rules, more);
                let plan = Table::difference(Some(&old), &new);
                assert_eq!(mixes(&old, &plan), expected, "{way}: {hosts}, {rules:?}");
            }
            // Nothing leads there any more.
            if !more.is_empty() {
                let new = table("10.0.0.1, 10.0.0.2", [drop, "udp dport 7 accept"], more);
                let plan = Table::difference(Some(&old), &new);
                assert!(mixes(&old, &plan), "{way}");
            }
        }
    }
}
