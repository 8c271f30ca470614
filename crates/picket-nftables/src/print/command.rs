//! A plan as nft commands: one file, one transaction.

use std::fmt::Write;

use picket_dataplane::Plan;

use super::text::{Printed, chain_header, element, joined, map_header, quoted, rule, set_header, text};
use crate::diff::Operation;
use crate::model::{Chain, Map, Name, Set};

/// The operations as commands to the table `table`, one in a line but for whole tables.
pub fn commands(table: &Name, plan: &Plan<Operation>) -> String {
    plan.operations()
        .iter()
        .fold(String::new(), |mut script, operation| {
            // INVARIANT: writing to a `String` cannot fail.
            let _ = match operation {
                Operation::Replace(new) => write!(script, "{}", text(new)),
                Operation::Delete(old) => writeln!(script, "delete table inet {old}"),
                Operation::AddRules(chain, rules) => rules
                    .iter()
                    .try_for_each(|one| writeln!(script, "add rule inet {table} {chain} {}", rule(one))),
                other => writeln!(script, "{}", command(table, other)),
            };
            script
        })
}

fn command(table: &Name, operation: &Operation) -> String {
    let at = |verb: &str, kind: &str, name: &Name| format!("{verb} {kind} inet {table} {name}");
    match operation {
        // INVARIANT: printed where one operation may take several lines.
        Operation::Replace(_) | Operation::Delete(_) | Operation::AddRules(..) => String::new(),
        Operation::Flush(name) => at("flush", "chain", name),
        Operation::DeleteElements(name, keys) => {
            format!(
                "{} {{ {} }}",
                at("delete", "element", name),
                joined(keys.iter().map(element), ", ")
            )
        }
        Operation::DeleteMap(name) => at("delete", "map", name),
        Operation::DeleteSet(name) => at("delete", "set", name),
        Operation::DeleteChain(name) => at("delete", "chain", name),
        Operation::DeleteCounter(name) => at("delete", "counter", name),
        Operation::AddCounter(counter) => match &counter.comment {
            Some(comment) => {
                format!(
                    "{} {{ comment {}; }}",
                    at("add", "counter", &counter.name),
                    quoted(comment.as_str())
                )
            }
            None => at("add", "counter", &counter.name),
        },
        Operation::AddChain { name, base, comment } => {
            let mut chain = Chain::regular(name.clone());
            (chain.base, chain.comment) = (*base, comment.clone());
            format!("{}{}", at("add", "chain", name), body(&chain_header(&chain)))
        }
        Operation::SetPolicy(name, base) => format!("{} {{ {} }}", at("add", "chain", name), Printed(base)),
        Operation::AddSet(set) => add_set(&at("add", "set", set.name()), set),
        Operation::AddMap(map) => add_map(&at("add", "map", map.name()), map),
        Operation::AddElements(name, keys) => {
            format!(
                "{} {{ {} }}",
                at("add", "element", name),
                joined(keys.iter().map(element), ", ")
            )
        }
        Operation::AddMapElements(name, elements) => {
            let elements = elements
                .iter()
                .map(|(key, datum)| format!("{} : {}", element(key), Printed(datum)));
            format!("{} {{ {} }}", at("add", "element", name), joined(elements, ", "))
        }
    }
}

/// Header lines in one line; nothing for an object without any.
fn body(lines: &[String]) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let lines = lines
        .iter()
        .map(|line| format!("{};", line.trim_end_matches(';')));
    format!(" {{ {} }}", joined(lines, " "))
}

fn add_set(command: &str, set: &Set) -> String {
    let mut lines = set_header(set);
    if !set.elements().is_empty() {
        lines.push(format!(
            "elements = {{ {} }}",
            joined(set.elements().iter().map(element), ", ")
        ));
    }
    format!("{command}{}", body(&lines))
}

fn add_map(command: &str, map: &Map) -> String {
    let mut lines = map_header(map);
    if !map.elements().is_empty() {
        let elements = map
            .elements()
            .iter()
            .map(|(key, datum)| format!("{} : {}", element(key), Printed(datum)));
        lines.push(format!("elements = {{ {} }}", joined(elements, ", ")));
    }
    format!("{command}{}", body(&lines))
}
