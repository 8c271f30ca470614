//! What the kernel has of a table, as the model says it: the way back from [`mod@super::encode`].
//!
//! Nothing is passed over. What the model cannot say is told with its place ([`Foreign`]): somebody else has changed the
//! table then.

mod container;
mod foreign;
mod object;
mod rule;
mod wary;

use std::collections::BTreeMap;

use picket_linux::{Lister, Nfnetlink, Reply};

use container::{Container, Named};
pub use foreign::{Foreign, Place};
pub(super) use wary::{Expected, Extent};

use super::attributes::{Fields, Oddity};
use super::expression::Reference;
use super::rule::{Compiled, OwnSet, compile};
use super::uapi::{
    NFPROTO_INET, chain, element, message, object as attribute, rule as rule_attribute, set, table,
};
use crate::model::{Draft, Name, Rule, Table};

/// What the kernel has of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observed {
    /// Nothing.
    Absent,
    /// A table that picket can have written, as [`canonical`] has it.
    Table(Table),
    /// A table in which others have put something, and what.
    Altered(Vec<Foreign>),
}

/// What was listed of a table.
#[derive(Debug, Default)]
pub(super) struct Listing {
    pub(super) objects: Vec<Reply>,
    /// Why it is not all there is, if it is not: picket cannot have written it.
    excess: Option<Oddity>,
}

impl Listing {
    /// The table that this makes.
    pub(super) fn decode(&self, name: &Name) -> Observed {
        match &self.excess {
            None => decode(name, &self.objects),
            Some(oddity) => Observed::Altered(vec![Foreign {
                place: Place::Table,
                oddity: oddity.clone(),
            }]),
        }
    }
}

/// Whether the kernel has a table of this name.
pub(super) fn exists(socket: &mut Nfnetlink, name: &Name) -> picket_linux::Result<bool> {
    let own = format!("{name}\0");
    let (_, tables) = socket.read("look for a table of nf_tables", |lister| {
        Ok(table_of(lister, own.as_bytes())?.into_iter().collect())
    })?;
    Ok(!tables.is_empty())
}

fn table_of(lister: &mut Lister<'_>, own: &[u8]) -> picket_linux::Result<Option<Reply>> {
    let named = [(table::NAME, own)];
    lister.get(message::GETTABLE, NFPROTO_INET, &named, "look for a table")
}

/// Lists what the kernel has of a table, and the generation of the ruleset then. Where only what is expected is read, nothing more
/// is of a table that `is_decided` by what it is, that says of itself what picket writes in none, or that has more.
pub(super) fn list(
    socket: &mut Nfnetlink,
    name: &Name,
    extent: &Extent,
    is_decided: impl Fn(&Reply) -> bool,
) -> picket_linux::Result<(u32, Listing)> {
    let own = format!("{name}\0");
    let own = own.as_bytes();
    let mut excess = None;
    let (generation, objects) = socket.read("list a table of nf_tables", |lister| {
        excess = None;
        let Some(table) = table_of(lister, own)? else {
            return Ok(Vec::new());
        };
        let is_odd = || object::table(Fields::of(table.attributes().rest())).is_err();
        if extent.is_wary() && (is_decided(&table) || is_odd()) {
            return Ok(vec![table]);
        }
        let mut objects = vec![table];
        excess = list_objects(lister, own, extent, &mut objects)?;
        Ok(objects)
    })?;
    Ok((generation, Listing { objects, excess }))
}

/// Lists what a table has; why not all of it, if so.
fn list_objects(
    lister: &mut Lister<'_>,
    own: &[u8],
    extent: &Extent,
    objects: &mut Vec<Reply>,
) -> picket_linux::Result<Option<Oddity>> {
    if objects.iter().any(|table| extent.is_above_objects(table)) {
        return Ok(Some(wary::TOO_MANY_OBJECTS));
    }
    // Others may add something after it was counted and before it is listed.
    let (most_objects, most_rules) = (extent.most_objects(), extent.most_rules());
    objects.extend(extent.chains(lister, own)?);
    if extent.is_above_rules(objects.iter()) {
        return Ok(Some(wary::TOO_MANY_RULES));
    }
    // A rule may have sets for itself, which do not count as objects.
    let most_sets = most_objects.saturating_add(most_rules);
    for (kind, action, most) in [
        (message::GETOBJ, "list the counters", most_objects),
        (message::GETFLOWTABLE, "list the flowtables", most_objects),
        (message::GETSET, "list the sets", most_sets),
    ] {
        if list_own(lister, (kind, action), own, most, objects)? {
            return Ok(Some(wary::TOO_MANY_OBJECTS));
        }
    }
    if !extent.is_wary() || !wary::are_all(objects) {
        if extent.knows_chains() {
            return Ok(Some(wary::OTHER_CHAINS));
        }
        objects.retain(|object| object.kind != message::NEWCHAIN);
        let chains = (message::GETCHAIN, "list the chains");
        if list_own(lister, chains, own, most_objects, objects)? {
            return Ok(Some(wary::TOO_MANY_OBJECTS));
        }
        if extent.is_above_rules(objects.iter()) {
            return Ok(Some(wary::TOO_MANY_RULES));
        }
    }
    let of_kind = objects.iter().filter(|object| object.kind == message::NEWSET);
    if extent.is_above_elements(of_kind.clone().map(wary::told_elements).sum()) {
        return Ok(Some(wary::TOO_MANY_ELEMENTS));
    }
    let names = of_kind.filter_map(|set| Some(set.attributes().find(set::NAME)?.to_vec()));
    let mut count = 0;
    for name in names.collect::<Vec<_>>() {
        let of_set = [(element::TABLE, own), (element::SET, name.as_slice())];
        let keep = |reply: &Reply| {
            count += wary::listed_elements(reply);
            !extent.is_above_elements(count)
        };
        objects.extend(lister.list(
            message::GETSETELEM,
            NFPROTO_INET,
            &of_set,
            "list the elements",
            keep,
        )?);
        if extent.is_above_elements(count) {
            return Ok(Some(wary::TOO_MANY_ELEMENTS));
        }
    }
    let rules = (message::GETRULE, "list the rules");
    let is_above = list_own(lister, rules, own, most_rules, objects)?;
    Ok(is_above.then_some(wary::TOO_MANY_RULES))
}

/// Adds what the kernel lists of one kind for the table of that name, so much at most; whether there is more. Of chains it lists
/// those of other tables too, however many these are.
fn list_own(
    lister: &mut Lister<'_>,
    (kind, action): (u8, &str),
    own: &[u8],
    most: usize,
    objects: &mut Vec<Reply>,
) -> picket_linux::Result<bool> {
    // Everything but a table says there of which table it is.
    let of_table = [(table::NAME, own)];
    let mut count = 0_usize;
    let keep = |reply: &Reply| {
        let table = reply.attributes().find(table::NAME);
        let is_own = table.is_none_or(|table| table == own);
        // INVARIANT: of everything but chains the kernel lists what was asked for alone. To be told of the rest could take minutes.
        debug_assert!(
            is_own || kind == message::GETCHAIN,
            "kind {kind} of another table"
        );
        count += usize::from(is_own);
        is_own && count <= most
    };
    objects.extend(lister.list(kind, NFPROTO_INET, &of_table, action, keep)?);
    Ok(count > most)
}

/// The table `name` that these objects make, each as the kernel lists it.
pub fn decode(name: &Name, objects: &[Reply]) -> Observed {
    let mut decoder = Decoder {
        draft: Draft::new(name.clone()),
        is_there: false,
        chains: BTreeMap::new(),
        containers: BTreeMap::new(),
        foreign: Vec::new(),
    };
    let of_kind = |kind| objects.iter().filter(move |object| object.kind == kind);
    for object in objects {
        if !matches!(object.kind, message::NEWSETELEM | message::NEWRULE) {
            decoder.object(object);
        }
    }
    of_kind(message::NEWSETELEM).for_each(|object| decoder.elements(object));
    let mut own = decoder.containers();
    let intervals = decoder.intervals();
    of_kind(message::NEWRULE).for_each(|object| decoder.rule(object, &mut own, &intervals));
    let unused = own.into_keys().map(|name| Foreign {
        place: Place::Container(name),
        oddity: Oddity::Value("set without a name"),
    });
    decoder.foreign.extend(unused);
    decoder.observed()
}

struct Decoder {
    draft: Draft,
    is_there: bool,
    /// Where in the draft each chain is.
    chains: BTreeMap<String, usize>,
    containers: BTreeMap<String, Container>,
    foreign: Vec<Foreign>,
}

impl Decoder {
    /// Whether something cannot be read; then what belongs to it says nothing more.
    fn is_foreign(&self, place: &Place) -> bool {
        self.foreign.iter().any(|foreign| foreign.place == *place)
    }

    fn note(&mut self, place: Place, oddity: Oddity) {
        self.foreign.push(Foreign { place, oddity });
    }

    /// What others refer to.
    fn object(&mut self, object: &Reply) {
        let fields = Fields::of(object.attributes().rest());
        let noted = match object.kind {
            message::NEWTABLE => {
                self.is_there = true;
                let read = object::table(fields).map(|comment| self.draft.comment = comment);
                read.map_err(|oddity| (Place::Table, oddity))
            }
            message::NEWCHAIN => {
                let read = object::chain(fields).map(|chain| {
                    self.chains
                        .insert(chain.name.to_string(), self.draft.chains.len());
                    self.draft.chains.push(chain);
                });
                read.map_err(|oddity| (Place::Chain(text(object, chain::NAME)), oddity))
            }
            message::NEWOBJ => {
                let read = object::counter(fields).map(|counter| self.draft.counters.push(counter));
                read.map_err(|oddity| (Place::Object(text(object, attribute::NAME)), oddity))
            }
            message::NEWSET => self.container(object),
            message::NEWFLOWTABLE => {
                let place = Place::Flowtable(text(object, set::NAME));
                Err((place, Oddity::Kind(object.kind)))
            }
            kind => Err((Place::Table, Oddity::Kind(kind))),
        };
        if let Err((place, oddity)) = noted {
            self.note(place, oddity);
        }
    }

    fn container(&mut self, object: &Reply) -> Result<(), (Place, Oddity)> {
        let name = text(object, set::NAME);
        match Container::read(Fields::of(object.attributes().rest())) {
            Err(oddity) => Err((Place::Container(name), oddity)),
            Ok(read) => match self.containers.insert(name.clone(), read) {
                Some(_) => Err((Place::Container(name), Oddity::Value("set twice"))),
                None => Ok(()),
            },
        }
    }

    fn elements(&mut self, object: &Reply) {
        let mut fields = Fields::of(object.attributes().rest());
        fields.pass(&[element::TABLE, element::SET]);
        let name = text(object, element::SET);
        if self.is_foreign(&Place::Container(name.clone())) {
            return;
        }
        let read = match self.containers.get_mut(&name) {
            None => Err(Oddity::Value("elements of a set")),
            Some(container) if fields.has(element::ELEMENTS) => fields
                .bytes(element::ELEMENTS)
                .and_then(|elements| container.add(elements)),
            Some(_) => Ok(()),
        };
        if let Err(oddity) = read.and_then(|()| fields.end()) {
            self.note(Place::Container(name), oddity);
        }
    }

    /// Takes what is known of sets and maps into the draft, but for those that rules have for themselves.
    fn containers(&mut self) -> BTreeMap<String, OwnSet> {
        let mut own = BTreeMap::new();
        for (name, container) in std::mem::take(&mut self.containers) {
            let read = if container.is_anonymous {
                container.own().map(|set| {
                    own.insert(name.clone(), set);
                })
            } else {
                let named = Name::new(&name).ok_or(Oddity::Value("name"));
                named
                    .and_then(|name| container.named(name))
                    .map(|named| match named {
                        Named::Set(set) => self.draft.sets.push(set),
                        Named::Map(map) => self.draft.maps.push(map),
                    })
            };
            if let Err(oddity) = read {
                self.note(Place::Container(name), oddity);
            }
        }
        own
    }

    /// Which sets and maps hold intervals.
    fn intervals(&self) -> BTreeMap<Name, bool> {
        let sets = self.draft.sets.iter().map(|set| (set.name(), set.interval()));
        let maps = self.draft.maps.iter().map(|map| (map.name(), map.interval()));
        sets.chain(maps)
            .map(|(name, interval)| (name.clone(), interval))
            .collect()
    }

    fn rule(&mut self, object: &Reply, own: &mut BTreeMap<String, OwnSet>, intervals: &BTreeMap<Name, bool>) {
        let chain = text(object, rule_attribute::CHAIN);
        if self.is_foreign(&Place::Chain(chain.clone())) {
            return;
        }
        let read = read_rule(object, own, intervals).and_then(|rule| {
            let place = self.chains.get(&chain).copied();
            let of_rule = place.and_then(|place| self.draft.chains.get_mut(place));
            of_rule
                .map(|one| one.rules.push(rule))
                .ok_or(Oddity::Value("rule of a chain"))
        });
        if let Err(oddity) = read {
            let handle = Fields::of(object.attributes().rest()).long(rule_attribute::HANDLE);
            let handle = handle.unwrap_or_default();
            self.note(Place::Rule { chain, handle }, oddity);
        }
    }

    fn observed(self) -> Observed {
        if !self.foreign.is_empty() {
            return Observed::Altered(self.foreign);
        }
        if !self.is_there {
            return Observed::Absent;
        }
        match self.draft.check() {
            Ok(table) => Observed::Table(table),
            Err(error) => Observed::Altered(vec![Foreign {
                place: Place::Table,
                oddity: Oddity::Model(error),
            }]),
        }
    }
}

/// Reads a rule; the sets that it has for itself are taken from `own`.
fn read_rule(
    object: &Reply,
    own: &mut BTreeMap<String, OwnSet>,
    intervals: &BTreeMap<Name, bool>,
) -> Result<Rule, Oddity> {
    let mut taken = Vec::new();
    let mut named = |text: &str| {
        if let Some(set) = own.remove(text) {
            taken.push(set);
            return Some(Reference::Own(taken.len() - 1));
        }
        Name::new(text)
            .filter(|name| intervals.contains_key(name))
            .map(Reference::Named)
    };
    let fields = Fields::of(object.attributes().rest());
    let (expressions, comment) = object::rule(fields, &mut named)?;
    let compiled = Compiled {
        expressions,
        own: taken,
    };
    let is_interval = |name: &Name| intervals.get(name).copied().unwrap_or(false);
    let rule = rule::decompile(&compiled, &is_interval)?;
    Ok(Rule { comment, ..rule })
}

/// The name in an attribute, for people.
fn text(object: &Reply, attribute: u16) -> String {
    let name = object.attributes().find(attribute).unwrap_or_default();
    String::from_utf8_lossy(name).trim_end_matches('\0').to_owned()
}

/// The table in the words in which it is read back: of rules that are the same in the kernel, one.
///
/// What picket renders and reads back is equal only so.
pub fn canonical(table: &Table) -> Table {
    let sets = table.sets().iter().map(|set| (set.name(), set.interval()));
    let maps = table.maps().iter().map(|map| (map.name(), map.interval()));
    let intervals: BTreeMap<&Name, bool> = sets.chain(maps).collect();
    let is_interval = |name: &Name| intervals.get(name).copied().unwrap_or(false);
    let mut draft = table.clone().into_draft();
    for rule in draft.chains.iter_mut().flat_map(|chain| &mut chain.rules) {
        let read = rule::decompile(&compile(rule, &is_interval), &is_interval);
        if let Ok(Rule { statements, end, .. }) = read {
            (rule.statements, rule.end) = (statements, end);
        }
    }
    draft.check().unwrap_or_else(|_| table.clone())
}

#[cfg(test)]
mod tests;
