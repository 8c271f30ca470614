//! Whether a packet that is on its way while a plan comes into force may be judged by a mixture of two tables.
//!
//! It goes on by the rules that were, and finds in sets the elements that are ([`super::stage`]). A rule of new peers, at the ports that
//! it had before, or of new blocks with the holes of before, is in neither table.

use std::collections::{BTreeMap, BTreeSet};

use picket_dataplane::Plan;

use super::{Operation, References};
use crate::model::{Name, Rule, Table};

/// Whether a plan changes what a rule looks up that it also takes away, or more than one of the things that a rule looks up.
pub(crate) fn mixes(observed: &Table, plan: &Plan<Operation>) -> bool {
    let (mut changed, mut flushed) = (BTreeSet::new(), BTreeSet::new());
    let mut again: BTreeMap<&Name, &[Rule]> = BTreeMap::new();
    for operation in plan.operations() {
        match operation {
            Operation::DeleteElements(name, _)
            | Operation::AddElements(name, _)
            | Operation::AddMapElements(name, _) => drop(changed.insert(name)),
            Operation::Flush(name) => drop(flushed.insert(name)),
            Operation::AddRules(name, rules) => drop(again.insert(name, rules)),
            _ => {}
        }
    }
    if changed.is_empty() {
        return false;
    }
    observed.chains().iter().any(|chain| {
        let stays = |rule: &Rule| {
            let again = again.get(&chain.name);
            !flushed.contains(&chain.name) || again.is_some_and(|again| again.contains(rule))
        };
        chain.rules.iter().any(|rule| {
            let looked_up = References::of(rule).containers;
            looked_up.intersection(&changed).count() > usize::from(stays(rule))
        })
    })
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
}
