//! How much is read of a table where others may put as much into it, and into tables of their own, as they like: no more than what
//! picket wants there, and some.
//!
//! The kernel says in a few bytes how much a table, a chain and a set have, and only then is listed what that is; what comes all the
//! same beyond that is not kept. It lists chains for all tables alone: those that are expected are asked for one by one, and where
//! all are listed those of other tables are not kept.

use std::collections::BTreeSet;

use picket_linux::{Attributes, Lister, Reply};

use super::super::attributes::{Fields, Oddity};
use super::super::uapi::{NFPROTO_INET, chain, element, message, set, table};
use crate::model::{Name, Table};

/// How many chains, sets, maps and counters there may be more than are expected.
const MORE_OBJECTS: usize = 4_096;

/// How many rules, and ways from rules and elements to chains.
const MORE_RULES: usize = 16_384;

/// How many elements.
const MORE_ELEMENTS: usize = 65_536;

/// `NFT_SET_ANONYMOUS`.
const ANONYMOUS: usize = 1;

/// What is read of a table.
#[derive(Clone, Debug)]
pub(in super::super) enum Extent {
    /// All.
    All,
    /// What is expected, and some.
    Expected(Expected),
}

/// What a table has that is as it should be, or as it was.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Expected {
    chains: BTreeSet<Name>,
    /// Whether it can have no other chains, unless others have made them.
    is_known: bool,
    objects: usize,
    rules: usize,
    elements: usize,
}

impl Expected {
    /// What is in `desired`, or in the table that was made last, if any was.
    pub(in super::super) fn of(desired: &Table, before: Option<&Table>) -> Self {
        let mut expected = Self {
            is_known: before.is_some(),
            ..Self::default()
        };
        for table in [Some(desired), before].into_iter().flatten() {
            let chains = table.chains();
            expected
                .chains
                .extend(chains.iter().map(|chain| chain.name.clone()));
            // A rule may have a set for itself.
            let rules: usize = chains.iter().map(|chain| chain.rules.len()).sum();
            let sets = table.sets().iter().map(|set| set.elements().len());
            let elements: usize = sets
                .chain(table.maps().iter().map(|map| map.elements().len()))
                .sum();
            expected.objects += table.size() - elements;
            expected.rules += 2 * rules + elements;
            // Of an interval the kernel counts both ends.
            expected.elements += 2 * elements + rules;
        }
        expected
    }
}

/// Why no more was read of a table.
pub(super) const TOO_MANY_OBJECTS: Oddity = Oddity::Value("number of objects");
pub(super) const TOO_MANY_RULES: Oddity = Oddity::Value("number of rules");
pub(super) const TOO_MANY_ELEMENTS: Oddity = Oddity::Value("number of elements");
pub(super) const OTHER_CHAINS: Oddity = Oddity::Value("chains");

impl Extent {
    fn expected(&self) -> Option<&Expected> {
        match self {
            Self::All => None,
            Self::Expected(expected) => Some(expected),
        }
    }

    /// How many chains, sets, maps and counters are read.
    pub(super) fn most_objects(&self) -> usize {
        let expected = self.expected();
        expected.map_or(usize::MAX, |expected| expected.objects + MORE_OBJECTS)
    }

    /// How many rules are read, and ways from rules and elements to chains.
    pub(super) fn most_rules(&self) -> usize {
        let expected = self.expected();
        expected.map_or(usize::MAX, |expected| expected.rules + MORE_RULES)
    }

    /// Whether a table has more chains, sets, maps and counters than are read.
    pub(super) fn is_above_objects(&self, table: &Reply) -> bool {
        number(table, table::USE) > self.most_objects()
    }

    /// Whether chains have more rules than are read.
    pub(super) fn is_above_rules<'r>(&self, objects: impl Iterator<Item = &'r Reply>) -> bool {
        let chains = objects.filter(|object| object.kind == message::NEWCHAIN);
        chains.map(|chain| number(chain, chain::USE)).sum::<usize>() > self.most_rules()
    }

    /// Whether so many elements are more than are read.
    pub(super) fn is_above_elements(&self, elements: usize) -> bool {
        let expected = self.expected();
        expected.is_some_and(|expected| elements > expected.elements + MORE_ELEMENTS)
    }

    /// Of the chains that are expected those that there are.
    pub(super) fn chains(&self, lister: &mut Lister<'_>, own: &[u8]) -> picket_linux::Result<Vec<Reply>> {
        let mut chains = Vec::new();
        for name in self.expected().into_iter().flat_map(|expected| &expected.chains) {
            let name = format!("{name}\0");
            let one = [(chain::TABLE, own), (chain::NAME, name.as_bytes())];
            chains.extend(lister.get(message::GETCHAIN, NFPROTO_INET, &one, "look for a chain")?);
        }
        Ok(chains)
    }

    /// Whether chains that are not expected can only be those of others.
    pub(super) fn knows_chains(&self) -> bool {
        self.expected().is_some_and(|expected| expected.is_known)
    }

    /// Whether only what is expected is read.
    pub(super) fn is_wary(&self) -> bool {
        self.expected().is_some()
    }
}

/// Whether a table and these objects of it are all that it has.
pub(super) fn are_all(objects: &[Reply]) -> bool {
    let (mut all, mut found) = (0, 0);
    for object in objects {
        match object.kind {
            message::NEWTABLE => all = number(object, table::USE),
            // Sets that rules have for themselves do not count.
            message::NEWSET if number(object, set::FLAGS) & ANONYMOUS != 0 => {}
            _ => found += 1,
        }
    }
    all == found
}

/// How many elements the kernel says that a set has, if it does.
pub(super) fn told_elements(set: &Reply) -> usize {
    number(set, set::COUNT)
}

/// How many elements it has listed in one message.
pub(super) fn listed_elements(elements: &Reply) -> usize {
    let list = elements.attributes().find(element::ELEMENTS);
    Attributes::of(list.unwrap_or_default()).count()
}

fn number(object: &Reply, attribute: u16) -> usize {
    let mut fields = Fields::of(object.attributes().rest());
    let number = fields.number_or_zero(attribute).unwrap_or(u32::MAX);
    usize::try_from(number).unwrap_or(usize::MAX)
}
