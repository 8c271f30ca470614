//! What the table of a node that runs has besides what policies say: source addresses that cannot be are refused, and the
//! own pods are listed, so that a pod that came while nobody looked is known to be unknown.

use std::collections::BTreeSet;
use std::net::IpAddr;

use picket_net::Family;

use super::chains::{BASE, SENT, destination, exempt, relayed, source};
use super::counters::unknown_counter;
use super::sets::address_type;
use super::{closed_draft, name, sets};
use crate::model::{
    Comment, Counter, Datatype, Draft, End, Field, InterfaceName, Key, Match, ModelError, Name, Relation,
    Rule, Set, Statement, Table, Value, Verdict,
};
use crate::render::drops::{of_spoofed, spoofed_counter};

/// The set of interfaces that lead to others than own pods.
const UPLINKS: &str = "uplinks";

/// What was dropped because of a pod that the table does not know.
pub(super) const UNKNOWN_COUNTER: &str = "drop-unknown";

/// What a node is to look at besides the policies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guard {
    /// The interfaces of the node that lead to others than its own pods.
    pub uplinks: BTreeSet<InterfaceName>,
    /// Whether nothing is forwarded that arrives by any other interface with a source to which the way back does not lead
    /// through it.
    pub anti_spoof: bool,
}

/// The sets of the addresses of own pods.
pub(super) fn pods(addresses: &BTreeSet<IpAddr>) -> Result<[Set; 2], ModelError> {
    let [v4, v6] = Family::BOTH.map(|family| {
        let own = addresses.iter().filter(|&&address| Family::of(address) == family);
        let own = own.map(|&address| Key::from(Value::address(address)));
        let set = Set::new(known(family), vec![address_type(family)], false, own)?;
        Ok(set.commented(Comment::of("own pods")))
    });
    Ok([v4?, v6?])
}

/// The table of a node of which nobody knows yet what its pods may do: nothing new is forwarded.
///
/// # Errors
/// When what is rendered is no ruleset.
pub fn closed(guard: &Guard) -> Result<Table, ModelError> {
    let mut draft = closed_draft()?;
    let to_pods = is_not_in(Field::OutputInterface, name(UPLINKS));
    draft
        .chains
        .push(relayed([Rule::of([to_pods], End::Verdict(Verdict::Drop))]));
    guard.add(&mut draft)?;
    draft.check()
}

/// What a table of this layout is to be until somebody knows again what the pods of the node may do: nobody begins a connection
/// with a pod, nor a pod one with anybody, whose address it does not list. `None` where it lists no addresses of pods.
///
/// # Errors
/// When what is rendered is no ruleset.
pub fn until_known(table: &Table, guard: &Guard) -> Result<Option<Table>, ModelError> {
    let mut draft = table.clone().into_draft();
    let is_listed = |family| draft.sets.iter().any(|set| *set.name() == known(family));
    let Some(forward) = draft.chains.iter_mut().find(|chain| chain.name == name(BASE)) else {
        return Ok(None);
    };
    if !Family::BOTH.into_iter().all(is_listed) {
        return Ok(None);
    }
    // Whoever was to find out about them did not.
    if draft
        .counters
        .iter()
        .any(|counter| counter.name == unknown_counter())
    {
        return with_uplinks(table, guard).map(Some);
    }
    let unknown = exempt().into_iter().chain(drop_unknown());
    // Before anything else is accepted.
    let is_guard = |rule: &Rule| rule.statements.contains(&Match::NoReversePath.into());
    let at = forward.rules.iter().position(is_guard).map_or(0, |at| at + 1);
    forward.rules.splice(at..at, unknown);
    shut_out_of_what_is_sent(&mut draft);
    list_always(&mut draft)?;
    draft.counters.push(Counter {
        name: unknown_counter(),
        comment: Some(Comment::of("with pods that are not known")),
    });
    replace_uplinks(&mut draft, guard)?;
    draft.check().map(Some)
}

/// The same table where the node has other uplinks.
///
/// # Errors
/// When what is rendered is no ruleset.
pub fn with_uplinks(table: &Table, guard: &Guard) -> Result<Table, ModelError> {
    let mut draft = table.clone().into_draft();
    replace_uplinks(&mut draft, guard)?;
    draft.check()
}

impl Guard {
    /// Puts it into a table.
    pub(super) fn add(&self, draft: &mut Draft) -> Result<(), ModelError> {
        replace_uplinks(draft, self)?;
        if !self.anti_spoof {
            return Ok(());
        }
        let Some(forward) = draft.chains.iter_mut().find(|chain| chain.name == name(BASE)) else {
            // INVARIANT: every table of this layout has it.
            return Ok(());
        };
        // IPv6 cannot do without some ICMPv6, which may come from addresses to which there is no way.
        let [_, always] = exempt();
        forward.rules.splice(0..0, [always, drop_spoofed()]);
        draft
            .counters
            .push(of_spoofed("from where the way back does not lead"));
        list_always(draft)
    }
}

/// Adds the set of ICMPv6 that always passes where it is not there.
fn list_always(draft: &mut Draft) -> Result<(), ModelError> {
    if !draft.sets.iter().any(|set| *set.name() == name(sets::ALWAYS)) {
        draft.sets.push(sets::always()?);
    }
    Ok(())
}

fn replace_uplinks(draft: &mut Draft, guard: &Guard) -> Result<(), ModelError> {
    draft.sets.retain(|set| *set.name() != name(UPLINKS));
    let names = guard.uplinks.iter().cloned();
    let names = names.map(|name| Key::from(Value::Interface(name)));
    let set = Set::new(name(UPLINKS), vec![Datatype::Interface], false, names)?;
    let comment = Comment::of("interfaces that lead to others than own pods");
    draft.sets.push(set.commented(comment));
    Ok(())
}

/// The set of the addresses of own pods.
fn known(family: Family) -> Name {
    name(match family {
        Family::Ipv4 => "pods4",
        Family::Ipv6 => "pods6",
    })
}

fn is_not_in(field: Field, set: Name) -> Statement {
    let (key, relation) = (vec![field], Relation::IsNot);
    Match::Lookup { key, relation, set }.into()
}

fn dropped(matches: impl IntoIterator<Item = Statement>, counter: Name) -> Rule {
    let count = Statement::Count(counter);
    Rule::of(matches.into_iter().chain([count]), End::Verdict(Verdict::Drop))
}

fn drop_spoofed() -> Rule {
    let not_uplink = is_not_in(Field::InputInterface, name(UPLINKS));
    dropped([not_uplink, Match::NoReversePath.into()], spoofed_counter())
}

/// What goes between the pods of the node and `end`, where that is none that is known.
fn unknown(interface: Field, end: Field, family: Family) -> Rule {
    let (leads_to_pods, strange) = (is_not_in(interface, name(UPLINKS)), is_not_in(end, known(family)));
    dropped([leads_to_pods, strange], unknown_counter())
}

/// What comes from pods that are not known, and what goes to them.
fn drop_unknown() -> impl Iterator<Item = Rule> {
    Family::BOTH.into_iter().flat_map(|family| {
        [
            unknown(Field::InputInterface, source(family), family),
            unknown(Field::OutputInterface, destination(family), family),
        ]
    })
}

/// The same of what the node sends for others. Nothing tells by which interface that came.
fn shut_out_of_what_is_sent(draft: &mut Draft) {
    let unknown = Family::BOTH.map(|family| unknown(Field::OutputInterface, destination(family), family));
    match draft.chains.iter_mut().find(|chain| chain.name == name(SENT)) {
        Some(sent) => {
            let about_itself = |rule: &Rule| rule.statements.contains(&Match::LocalSource.into());
            let at = sent.rules.iter().position(about_itself).map_or(0, |at| at + 1);
            sent.rules.splice(at..at, unknown);
        }
        // INVARIANT: without restricted pods nothing of what is sent is looked at.
        None => draft.chains.push(relayed(unknown)),
    }
}
