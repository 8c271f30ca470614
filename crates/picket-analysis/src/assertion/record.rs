//! The present connectivity as a file of assertions.
//!
//! For all destinations that the same may reach there is one assertion for each set of packets, that its sources may
//! send exactly these, and one that nobody else may send anything. So every change of what may pass between the endpoints
//! that there are makes one of them fail. Everything is named as shortly as it can be: `any`, whole namespaces, workloads.

mod column;
mod describe;
mod yaml;

use picket_cluster::{Semantics, Snapshot};
use picket_engine::Engine;
use picket_net::Family;
use picket_policy::NetworkName;

use super::world::World;
use super::{API_VERSION, KIND};
use column::{Column, Columns, Part};
use describe::Describer;
use yaml::Test;

/// What is allowed in `snapshot`, as a file of assertions that all hold. `network` is the one that it is, when it is not
/// the cluster network.
pub fn record(snapshot: &Snapshot, semantics: &Semantics, network: Option<&NetworkName>) -> String {
    let engine = Engine::compile(snapshot, semantics.clone());
    let world = World::new(snapshot, engine.program(), &[]);
    let describer = Describer::new(&world, engine.program());
    let columns = Columns::new(&world);
    let mut tests = Vec::new();
    for column in columns.all() {
        for family in column.families(&world) {
            about(&describer, &columns, column, family, &mut tests);
        }
    }
    let network = network.map(|network| format!("network: {}\n", yaml::scalar(&network.to_string())));
    format!(
        "apiVersion: {API_VERSION}\nkind: {KIND}\n{}{}",
        network.unwrap_or_default(),
        yaml::body(&tests)
    )
}

/// The assertions about the destinations of one column, in one family or all.
fn about(
    describer: &Describer<'_>,
    columns: &Columns<'_>,
    column: &Column,
    family: Option<Family>,
    tests: &mut Vec<Test>,
) {
    let everything = describer.everything(family);
    let to = describer.ends(&column.destinations, &everything);
    let senders = describer.senders(&column.destinations, family);
    let parts = columns.parts(column, family);
    let mut test = |says: &str, claim: &'static str, from: Vec<Vec<String>>, ports: Vec<String>| {
        tests.push(Test {
            name: format!("{says} to {}", short(&to)),
            claim,
            family,
            from,
            to: vec![to.clone()],
            ports,
        });
    };
    let mut sources: Vec<_> = parts
        .iter()
        .flat_map(|part| part.sources.iter().copied())
        .collect();
    sources.sort_unstable();
    let others = describer.can_be_kept_out(&senders, &sources, &column.destinations);
    if parts.is_empty() && others {
        test("nothing", "deny: every", vec![vec!["any".into()]], Vec::new());
    }
    let mut lists = Vec::new();
    for Part { sources, packets } in &parts {
        let from = describer.ends(sources, &senders);
        lists.push(from.clone());
        match yaml::ports(packets) {
            all if all.is_empty() => test("everything", "allow: every", vec![from], all),
            ports => test(
                &ports.join(", "),
                "allow: exactly\n  exact: ports",
                vec![from],
                ports,
            ),
        }
    }
    if others && !parts.is_empty() {
        // All sources in a list of their own, or in the lists that they are in already.
        let all = describer.ends(&sources, &senders);
        let from = if all.len() <= yaml::length(&lists) {
            vec![all]
        } else {
            lists
        };
        test("nothing else", "allow: only", from, Vec::new());
    }
}

/// The first of some names, and how many others there are.
fn short(names: &[String]) -> String {
    let name = |name: &String| {
        let part = name
            .strip_prefix("{external: [")
            .and_then(|list| list.split([',', ']']).next());
        part.map_or_else(|| name.clone(), |first| format!("external addresses of {first}"))
            .replace('"', "")
    };
    match names {
        [] => String::new(),
        [only] => name(only),
        [one, two] => format!("{} and {}", name(one), name(two)),
        [first, rest @ ..] => format!("{} and {} others", name(first), rest.len()),
    }
}
