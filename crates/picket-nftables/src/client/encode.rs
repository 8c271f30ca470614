//! Plans as batches, with what each message is about.

use std::fmt;

use picket_dataplane::Plan;
use picket_linux::Batch;

use super::bytes::comment;
use super::container::{Handle, Header, Shape, create, elements};
use super::hold::Hold;
use super::rule;
use super::scope::{Known, Scope, map_shape, set_shape};
use super::uapi::{
    NFPROTO_INET, chain, element, message, object, rule as rule_attribute, set, table, userdata,
};
use crate::diff::Operation;
use crate::model::{
    Assigned, Base, Comment, Counter, Datum, End, Hook, Key, Map, Match, Name, Policy, Rule, Set, Statement,
    Table,
};

/// What a message of a batch is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Object {
    /// The table.
    Table(Name),
    /// A chain.
    Chain(Name),
    /// A rule of a chain: which of those that the operation adds, from 0.
    Rule(Name, usize),
    /// A set or map.
    Container(Name),
    /// Elements of a set or map.
    Elements(Name),
    /// A counter.
    Counter(Name),
}

impl Object {
    /// The name of what is in a table; `None` for the table itself.
    pub fn name(&self) -> Option<&Name> {
        match self {
            Self::Table(_) => None,
            Self::Chain(name)
            | Self::Rule(name, _)
            | Self::Container(name)
            | Self::Elements(name)
            | Self::Counter(name) => Some(name),
        }
    }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Table(name) => write!(f, "table `{name}`"),
            Self::Chain(name) => write!(f, "chain `{name}`"),
            Self::Rule(chain, index) => write!(f, "new rule {index} of chain `{chain}`"),
            Self::Container(name) => write!(f, "set or map `{name}`"),
            Self::Elements(name) => write!(f, "elements of `{name}`"),
            Self::Counter(name) => write!(f, "counter `{name}`"),
        }
    }
}

/// Where a message comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    pub(super) operation: usize,
    pub(super) object: Object,
}

/// Why a plan cannot be written: it changes something that is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unknown {
    pub(super) operation: usize,
    /// The set or map; `None` for the table.
    pub(super) name: Option<Name>,
}

/// One transaction, with what each of its messages is about.
pub(super) type Transaction = (Batch, Vec<Origin>);

/// Writes plans that follow each other for a table that is as `observed`, each as a transaction. Their operations are counted
/// on. `held` are the flags of a table that is held.
pub(super) fn encode(
    observed: Option<&Table>,
    plans: &[&Plan<Operation>],
    hold: Hold,
    held: u32,
) -> Result<Vec<Transaction>, Unknown> {
    let mut writer = Writer {
        flags: hold.flags(held),
        batch: Batch::default(),
        origins: Vec::new(),
        scope: observed.map(Scope::of).unwrap_or_default(),
        table: observed.map(Table::name),
        operation: 0,
    };
    if let (Hold::Take, Some(table)) = (hold, observed) {
        writer.take(table.name());
    }
    let mut transactions = Vec::with_capacity(plans.len());
    for plan in plans {
        if !transactions.is_empty() {
            writer.scope.settle();
        }
        for operation in plan.operations() {
            writer.operation(operation)?;
            writer.operation += 1;
        }
        let batch = std::mem::take(&mut writer.batch);
        transactions.push((batch, std::mem::take(&mut writer.origins)));
    }
    Ok(transactions)
}

struct Writer<'a> {
    /// Those of a table that is made anew or taken.
    flags: u32,
    batch: Batch,
    origins: Vec<Origin>,
    scope: Scope<'a>,
    table: Option<&'a Name>,
    operation: usize,
}

impl<'a> Writer<'a> {
    fn operation(&mut self, operation: &'a Operation) -> Result<(), Unknown> {
        match operation {
            Operation::Replace(new) => return self.replace(new),
            Operation::Delete(name) => {
                self.delete_table(name);
                return Ok(());
            }
            _ => {}
        }
        let table = self.table()?;
        match operation {
            // INVARIANT: handled where there may be no table.
            Operation::Replace(_) | Operation::Delete(_) => {}
            Operation::Flush(name) => {
                self.begin(message::DELRULE, 0, Object::Chain(name.clone()));
                self.batch.text(rule_attribute::TABLE, table.as_str());
                self.batch.text(rule_attribute::CHAIN, name.as_str());
            }
            Operation::DeleteElements(name, keys) => {
                let known = self.container(name)?;
                let keys = keys.iter().map(|key| (key, None));
                self.elements(message::DELSETELEM, name, known, keys)?;
            }
            Operation::DeleteMap(name) => {
                // Before Linux 6.9 packets that are on their way would still find its elements, by numbers that mean something else now.
                self.begin(message::DELSETELEM, 0, Object::Container(name.clone()));
                self.batch.text(element::TABLE, table.as_str());
                self.batch.text(element::SET, name.as_str());
                self.delete_container(table, name);
            }
            Operation::DeleteSet(name) => self.delete_container(table, name),
            Operation::DeleteChain(name) => {
                self.begin(message::DELCHAIN, 0, Object::Chain(name.clone()));
                self.batch.text(chain::TABLE, table.as_str());
                self.batch.text(chain::NAME, name.as_str());
            }
            Operation::DeleteCounter(name) => {
                self.begin(message::DELOBJ, 0, Object::Counter(name.clone()));
                self.batch.text(object::TABLE, table.as_str());
                self.batch.text(object::NAME, name.as_str());
                self.batch.number(object::TYPE, object::COUNTER);
            }
            Operation::AddCounter(counter) => self.add_counter(counter)?,
            Operation::AddChain { name, base, comment } => self.add_chain(name, *base, comment.as_ref())?,
            Operation::SetPolicy(name, base) => self.add_chain(name, Some(*base), None)?,
            Operation::AddSet(set) => self.add_set(set)?,
            Operation::AddMap(map) => self.add_map(map)?,
            Operation::AddElements(name, keys) => {
                let known = self.container(name)?;
                let keys = keys.iter().map(|key| (key, None));
                self.elements(message::NEWSETELEM, name, known, keys)?;
            }
            Operation::AddMapElements(name, pairs) => {
                let known = self.container(name)?;
                let pairs = pairs.iter().map(|(key, datum)| (key, Some(datum)));
                self.elements(message::NEWSETELEM, name, known, pairs)?;
            }
            Operation::AddRules(name, rules) => self.add_rules(name, rules)?,
        }
        Ok(())
    }

    fn unknown(&self, name: Option<&Name>) -> Unknown {
        Unknown {
            operation: self.operation,
            name: name.cloned(),
        }
    }

    fn table(&self) -> Result<&'a Name, Unknown> {
        self.table.ok_or_else(|| self.unknown(None))
    }

    fn container(&self, name: &Name) -> Result<Known<'a>, Unknown> {
        self.scope.container(name).ok_or_else(|| self.unknown(Some(name)))
    }

    /// Begins a message about `object`.
    fn begin(&mut self, kind: u8, flags: u16, object: Object) {
        self.batch.message(kind, flags, NFPROTO_INET);
        self.note(object);
    }

    /// Notes what the messages are about that have no origin yet.
    fn note(&mut self, object: Object) {
        let origin = Origin {
            operation: self.operation,
            object,
        };
        self.origins.resize(self.batch.messages(), origin);
    }

    /// Removes the table, if there is one, and makes it anew.
    fn replace(&mut self, new: &'a Table) -> Result<(), Unknown> {
        let name = new.name();
        self.add_table(name, None);
        self.delete_table(name);
        self.add_table(name, new.comment());
        if self.flags != 0 {
            self.batch.number(table::FLAGS, self.flags);
        }
        for counter in new.counters() {
            self.add_counter(counter)?;
        }
        for chain in new.chains() {
            self.add_chain(&chain.name, chain.base, chain.comment.as_ref())?;
        }
        for set in new.sets() {
            self.add_set(set)?;
        }
        for map in new.maps() {
            self.add_map(map)?;
        }
        for chain in new.chains() {
            self.add_rules(&chain.name, &chain.rules)?;
        }
        Ok(())
    }

    /// Takes a table that belongs to nobody.
    fn take(&mut self, name: &Name) {
        self.begin(message::NEWTABLE, 0, Object::Table(name.clone()));
        self.batch.text(table::NAME, name.as_str());
        self.batch.number(table::FLAGS, self.flags);
    }

    fn add_table(&mut self, name: &'a Name, text: Option<&Comment>) {
        self.begin(message::NEWTABLE, Batch::CREATE, Object::Table(name.clone()));
        self.batch.text(table::NAME, name.as_str());
        self.comment(table::USERDATA, text);
        self.table = Some(name);
    }

    fn delete_table(&mut self, name: &Name) {
        self.begin(message::DELTABLE, 0, Object::Table(name.clone()));
        self.batch.text(table::NAME, name.as_str());
        self.scope.clear();
        self.table = None;
    }

    fn comment(&mut self, attribute: u16, text: Option<&Comment>) {
        if let Some(text) = text {
            self.batch
                .attribute(attribute, &comment(userdata::COMMENT, text.as_str()));
        }
    }

    fn add_counter(&mut self, counter: &Counter) -> Result<(), Unknown> {
        let table = self.table()?;
        self.begin(
            message::NEWOBJ,
            Batch::CREATE,
            Object::Counter(counter.name.clone()),
        );
        self.batch.text(object::TABLE, table.as_str());
        self.batch.text(object::NAME, counter.name.as_str());
        self.batch.number(object::TYPE, object::COUNTER);
        self.batch.nest(object::DATA, |batch| {
            batch.attribute(object::COUNTER_BYTES, &[0; 8]);
            batch.attribute(object::COUNTER_PACKETS, &[0; 8]);
        });
        self.comment(object::USERDATA, counter.comment.as_ref());
        Ok(())
    }

    fn add_chain(&mut self, name: &Name, base: Option<Base>, text: Option<&Comment>) -> Result<(), Unknown> {
        let table = self.table()?;
        self.begin(message::NEWCHAIN, Batch::CREATE, Object::Chain(name.clone()));
        self.batch.text(chain::TABLE, table.as_str());
        self.batch.text(chain::NAME, name.as_str());
        if let Some(base) = base {
            self.batch.text(chain::TYPE, "filter");
            self.batch.number(chain::POLICY, policy_number(base.policy));
            self.batch.nest(chain::HOOK, |batch| {
                batch.number(chain::HOOK_NUMBER, hook_number(base.hook));
                batch.number(chain::HOOK_PRIORITY, base.priority.cast_unsigned());
            });
        }
        self.comment(chain::USERDATA, text);
        Ok(())
    }

    fn add_set(&mut self, set: &'a Set) -> Result<(), Unknown> {
        let keys = set.elements().iter().map(|key| (key, None));
        self.add_container(set.name(), set_shape(set), set.comment(), keys)
    }

    fn add_map(&mut self, map: &'a Map) -> Result<(), Unknown> {
        let pairs = map.elements().iter().map(|(key, datum)| (key, Some(datum)));
        self.add_container(map.name(), map_shape(map), map.comment(), pairs)
    }

    fn add_container(
        &mut self,
        name: &'a Name,
        shape: Shape<'a>,
        comment: Option<&Comment>,
        pairs: impl Iterator<Item = (&'a Key, Option<&'a Datum>)>,
    ) -> Result<(), Unknown> {
        let table = self.table()?;
        let id = Some(self.scope.add(name, shape));
        let handle = Handle {
            name: name.as_str(),
            id,
        };
        let header = Header {
            shape,
            comment,
            constant: None,
        };
        create(&mut self.batch, table, handle, &header);
        self.note(Object::Container(name.clone()));
        self.elements(message::NEWSETELEM, name, Known { shape, id }, pairs)
    }

    fn elements<'e>(
        &mut self,
        kind: u8,
        name: &Name,
        known: Known<'_>,
        pairs: impl Iterator<Item = (&'e Key, Option<&'e Datum>)>,
    ) -> Result<(), Unknown> {
        let table = self.table()?;
        let handle = Handle {
            name: name.as_str(),
            id: known.id,
        };
        elements(&mut self.batch, kind, table, handle, &known.shape, pairs);
        self.note(Object::Elements(name.clone()));
        Ok(())
    }

    fn delete_container(&mut self, table: &Name, name: &Name) {
        self.begin(message::DELSET, 0, Object::Container(name.clone()));
        self.batch.text(set::TABLE, table.as_str());
        self.batch.text(set::NAME, name.as_str());
        self.scope.remove(name);
    }

    fn add_rules(&mut self, chain: &Name, rules: &[Rule]) -> Result<(), Unknown> {
        let table = self.table()?;
        for (index, added) in rules.iter().enumerate() {
            for name in looked_up(added) {
                self.container(name)?;
            }
            rule::add(&mut self.batch, &mut self.scope, table, chain, added);
            self.note(Object::Rule(chain.clone(), index));
        }
        Ok(())
    }
}

/// The sets and maps that a rule names.
fn looked_up(rule: &Rule) -> impl Iterator<Item = &Name> {
    let in_end = match &rule.end {
        End::VerdictMap { map, .. } => Some(map),
        End::Next | End::Verdict(_) | End::Reject => None,
    };
    let in_statements = rule.statements.iter().filter_map(|statement| match statement {
        Statement::Match(Match::Lookup { set, .. }) => Some(set),
        Statement::Set(_, Assigned::Map { map, .. }) => Some(map),
        Statement::Match(_)
        | Statement::Set(..)
        | Statement::Count(_)
        | Statement::Log(_)
        | Statement::Limit(_) => None,
    });
    in_statements.chain(in_end)
}

/// `NF_INET_*`.
pub(super) fn hook_number(hook: Hook) -> u32 {
    match hook {
        Hook::Prerouting => 0,
        Hook::Input => 1,
        Hook::Forward => 2,
        Hook::Output => 3,
        Hook::Postrouting => 4,
    }
}

/// `NF_DROP`, `NF_ACCEPT`.
pub(super) fn policy_number(policy: Policy) -> u32 {
    match policy {
        Policy::Drop => 0,
        Policy::Accept => 1,
    }
}
