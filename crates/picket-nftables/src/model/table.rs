//! A whole table, checked.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Assigned, Chain, Comment, Counter, Datatype, Datum, End, Field, Map, MapType, Match, Name, Rule, Set,
    Slot, Statement, Verdict,
};

/// Why something is no ruleset that the kernel would take, or that would mean what it says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// The key of a set or map is empty or longer than the kernel's registers.
    #[error("set `{set}`: the key must have 1 to 64 bytes")]
    KeyType {
        /// The set or map.
        set: Name,
    },
    /// An element is of another type than its set.
    #[error("set `{set}`: an element is of another type than the set")]
    ElementType {
        /// The set or map.
        set: Name,
    },
    /// An interval in a set without the flag.
    #[error("set `{set}`: holds an interval but is no interval set")]
    NotAnInterval {
        /// The set or map.
        set: Name,
    },
    /// Two elements share a value.
    #[error("set `{set}`: two elements overlap")]
    Overlap {
        /// The set or map.
        set: Name,
    },
    /// An element gives something else than its map.
    #[error("map `{map}`: an element gives another type than the map")]
    DatumType {
        /// The map.
        map: Name,
    },
    /// Two objects of one kind have one name; sets and maps share their names.
    #[error("two objects are named `{name}`")]
    Duplicate {
        /// The name.
        name: Name,
    },
    /// A rule or element uses a name that no object has.
    #[error("`{user}` uses `{name}`, which does not exist")]
    Missing {
        /// The chain or map.
        user: Name,
        /// The name.
        name: Name,
    },
    /// A rule looks something up in a set, or compares or writes it, whose type differs.
    #[error("chain `{chain}`, rule {rule}: the types do not agree")]
    RuleType {
        /// The chain.
        chain: Name,
        /// The rule, from 0.
        rule: usize,
    },
    /// A limit stands before something that not only logs: what a packet meets would depend on others.
    #[error("chain `{chain}`, rule {rule}: behind a limit a rule only logs")]
    Limited {
        /// The chain.
        chain: Name,
        /// The rule, from 0.
        rule: usize,
    },
    /// A jump to a base chain.
    #[error("`{user}` jumps to the base chain `{chain}`")]
    BaseChain {
        /// The chain or map that jumps.
        user: Name,
        /// The base chain.
        chain: Name,
    },
    /// Chains that lead back to themselves, or deeper than the kernel's 16 levels.
    #[error("the jumps from base chain `{chain}` are a loop or nest deeper than 16")]
    Depth {
        /// The base chain where it begins.
        chain: Name,
    },
}

/// A table before it is checked. The order of its objects is the order in which they are printed.
#[derive(Clone, Debug)]
pub struct Draft {
    /// Its name, in family `inet`.
    pub name: Name,
    /// What it is for.
    pub comment: Option<Comment>,
    /// Named counters.
    pub counters: Vec<Counter>,
    /// Named sets.
    pub sets: Vec<Set>,
    /// Named maps and verdict maps.
    pub maps: Vec<Map>,
    /// Chains.
    pub chains: Vec<Chain>,
}

impl Draft {
    /// An empty table of family `inet`.
    pub fn new(name: Name) -> Self {
        Self {
            name,
            comment: None,
            counters: Vec::new(),
            sets: Vec::new(),
            maps: Vec::new(),
            chains: Vec::new(),
        }
    }

    /// Part of a table: names that are used may be those of objects that are not in it.
    pub(crate) fn part(self) -> Table {
        Table(self)
    }

    /// The table, when every name that is used exists and all types agree.
    pub fn check(self) -> Result<Table, ModelError> {
        unique(self.counters.iter().map(|counter| &counter.name))?;
        unique(
            self.sets
                .iter()
                .map(Set::name)
                .chain(self.maps.iter().map(Map::name)),
        )?;
        unique(self.chains.iter().map(|chain| &chain.name))?;
        let names = Names::of(&self);
        for map in &self.maps {
            for datum in map.elements().values() {
                if let Datum::Verdict(verdict) = datum {
                    names.check_target(map.name(), verdict)?;
                }
            }
        }
        for chain in &self.chains {
            for (index, rule) in chain.rules.iter().enumerate() {
                names.check_rule(&chain.name, index, rule)?;
            }
        }
        names.check_depth(&self)?;
        Ok(Table(self))
    }
}

/// A table of family `inet` that the kernel takes.
///
/// Tables are equal when they hold the same objects, in whatever order.
#[derive(Clone, Debug)]
pub struct Table(Draft);

impl Table {
    /// Its name.
    pub fn name(&self) -> &Name {
        &self.0.name
    }

    /// Its comment.
    pub fn comment(&self) -> Option<&Comment> {
        self.0.comment.as_ref()
    }

    /// Its counters, in order.
    pub fn counters(&self) -> &[Counter] {
        &self.0.counters
    }

    /// Its sets, in order.
    pub fn sets(&self) -> &[Set] {
        &self.0.sets
    }

    /// Its maps, in order.
    pub fn maps(&self) -> &[Map] {
        &self.0.maps
    }

    /// Its chains, in order.
    pub fn chains(&self) -> &[Chain] {
        &self.0.chains
    }

    /// How many objects, rules and elements it has.
    pub(crate) fn size(&self) -> usize {
        let sets = self.sets().iter().map(|set| 1 + set.elements().len());
        let maps = self.maps().iter().map(|map| 1 + map.elements().len());
        let chains = self.chains().iter().map(|chain| 1 + chain.rules.len());
        self.counters().len() + sets.chain(maps).chain(chains).sum::<usize>()
    }

    /// Takes it apart, to change it.
    pub fn into_draft(self) -> Draft {
        self.0
    }
}

impl PartialEq for Table {
    fn eq(&self, other: &Self) -> bool {
        fn same<'a, T: PartialEq>(ours: &'a [T], theirs: &'a [T], name: impl Fn(&'a T) -> &'a Name) -> bool {
            let sorted = |objects: &'a [T]| -> BTreeMap<&Name, &T> {
                objects.iter().map(|object| (name(object), object)).collect()
            };
            ours.len() == theirs.len() && sorted(ours) == sorted(theirs)
        }
        self.name() == other.name()
            && self.comment() == other.comment()
            && same(self.counters(), other.counters(), |counter| &counter.name)
            && same(self.sets(), other.sets(), Set::name)
            && same(self.maps(), other.maps(), Map::name)
            && same(self.chains(), other.chains(), |chain| &chain.name)
    }
}

impl Eq for Table {}

fn unique<'a>(names: impl Iterator<Item = &'a Name>) -> Result<(), ModelError> {
    let mut seen = BTreeSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(ModelError::Duplicate { name: name.clone() });
        }
    }
    Ok(())
}

fn only_logs_behind_limits(rule: &Rule) -> bool {
    let is_limit = |statement: &Statement| matches!(statement, Statement::Limit(_));
    let behind = rule.statements.iter().skip_while(|one| !is_limit(one));
    let mut behind = behind.peekable();
    behind.peek().is_none()
        || (rule.end == End::Next && behind.all(|one| is_limit(one) || matches!(one, Statement::Log(_))))
}

/// The objects of a draft by name.
struct Names<'a> {
    counters: BTreeSet<&'a Name>,
    sets: BTreeMap<&'a Name, &'a [Datatype]>,
    maps: BTreeMap<&'a Name, &'a Map>,
    chains: BTreeMap<&'a Name, &'a Chain>,
}

impl<'a> Names<'a> {
    fn of(draft: &'a Draft) -> Self {
        Self {
            counters: draft.counters.iter().map(|counter| &counter.name).collect(),
            sets: draft.sets.iter().map(|set| (set.name(), set.key())).collect(),
            maps: draft.maps.iter().map(|map| (map.name(), map)).collect(),
            chains: draft.chains.iter().map(|chain| (&chain.name, chain)).collect(),
        }
    }

    fn check_target(&self, user: &Name, verdict: &Verdict) -> Result<(), ModelError> {
        let Some(target) = verdict.target() else {
            return Ok(());
        };
        match self.chains.get(target) {
            None => Err(missing(user, target)),
            Some(chain) if chain.base.is_some() => Err(ModelError::BaseChain {
                user: user.clone(),
                chain: target.clone(),
            }),
            Some(_) => Ok(()),
        }
    }

    fn check_rule(&self, chain: &Name, index: usize, rule: &Rule) -> Result<(), ModelError> {
        let types_agree = |agree: bool| {
            agree.then_some(()).ok_or_else(|| ModelError::RuleType {
                chain: chain.clone(),
                rule: index,
            })
        };
        for statement in &rule.statements {
            match statement {
                Statement::Match(condition) => types_agree(self.match_agrees(chain, condition)?)?,
                Statement::Set(slot, assigned) => {
                    types_agree(self.assignment_agrees(chain, *slot, assigned)?)?;
                }
                Statement::Count(counter) if !self.counters.contains(counter) => {
                    return Err(missing(chain, counter));
                }
                Statement::Count(_) | Statement::Log(_) | Statement::Limit(_) => {}
            }
        }
        if !only_logs_behind_limits(rule) {
            return Err(ModelError::Limited {
                chain: chain.clone(),
                rule: index,
            });
        }
        match &rule.end {
            End::Next | End::Reject => Ok(()),
            End::Verdict(verdict) => self.check_target(chain, verdict),
            End::VerdictMap { key, map } => {
                let found = self.map(chain, map)?;
                types_agree(
                    types_of(key).eq(found.key().iter().copied()) && found.gives() == MapType::Verdict,
                )
            }
        }
    }

    fn match_agrees(&self, chain: &Name, condition: &Match) -> Result<bool, ModelError> {
        Ok(match condition {
            Match::Compare { field, value, .. } => field.datatype() == value.datatype(),
            Match::AnyOf { field, values } => {
                let disjoint = values
                    .iter()
                    .zip(values.iter().skip(1))
                    .all(|(one, next)| !one.overlaps(next));
                values.len() > 1
                    && disjoint
                    && values.iter().all(|value| value.datatype() == field.datatype())
            }
            Match::Lookup { key, set, .. } => {
                let types = self.sets.get(set).ok_or_else(|| missing(chain, set))?;
                types_of(key).eq(types.iter().copied())
            }
            Match::State(states) => !states.is_empty(),
            Match::TcpFlags { mask, value, .. } => *mask < 0x40 && value & !mask == 0,
            Match::NoReversePath | Match::LocalSource => true,
        })
    }

    fn assignment_agrees(&self, chain: &Name, slot: Slot, assigned: &Assigned) -> Result<bool, ModelError> {
        Ok(match assigned {
            Assigned::Constant(_) => true,
            Assigned::Field(field) => field.datatype() == slot.field().datatype(),
            Assigned::Map { key, map } => {
                let found = self.map(chain, map)?;
                let gives = match found.gives() {
                    MapType::Verdict => None,
                    MapType::Mark => Some(Datatype::Mark),
                    MapType::Priority => Some(Datatype::Priority),
                };
                types_of(key).eq(found.key().iter().copied()) && gives == Some(slot.field().datatype())
            }
        })
    }

    fn map(&self, chain: &Name, map: &Name) -> Result<&'a Map, ModelError> {
        self.maps.get(map).copied().ok_or_else(|| missing(chain, map))
    }

    /// The kernel's `NFT_JUMP_STACK_SIZE`: 16 chains, the base chain among them.
    fn check_depth(&self, draft: &'a Draft) -> Result<(), ModelError> {
        let mut depths = BTreeMap::new();
        for chain in draft.chains.iter().filter(|chain| chain.base.is_some()) {
            match self.depth(&chain.name, 0, &mut depths) {
                Some(depth) if depth <= 15 => {}
                _ => {
                    return Err(ModelError::Depth {
                        chain: chain.name.clone(),
                    });
                }
            }
        }
        Ok(())
    }

    /// How many chains deep a packet can get from `chain` on; `None` for a loop or something deeper than any ruleset.
    fn depth(&self, chain: &'a Name, above: usize, known: &mut BTreeMap<&'a Name, usize>) -> Option<usize> {
        if let Some(&depth) = known.get(chain) {
            return Some(depth);
        }
        if above > 15 {
            return None;
        }
        let mut deepest = 0;
        let mut maps = BTreeSet::new();
        for rule in &self.chains.get(chain)?.rules {
            match &rule.end {
                End::Verdict(verdict) => {
                    if let Some(target) = verdict.target() {
                        deepest = deepest.max(1 + self.depth(target, above + 1, known)?);
                    }
                }
                End::VerdictMap { map, .. } => {
                    maps.insert(map);
                }
                End::Next | End::Reject => {}
            }
        }
        let targets: BTreeSet<&Name> = maps
            .into_iter()
            .filter_map(|map| self.maps.get(map))
            .flat_map(|map| map.elements().values())
            .filter_map(|datum| match datum {
                Datum::Verdict(verdict) => verdict.target(),
                Datum::Mark(_) | Datum::Priority(_) => None,
            })
            .collect();
        for target in targets {
            deepest = deepest.max(1 + self.depth(target, above + 1, known)?);
        }
        known.insert(chain, deepest);
        Some(deepest)
    }
}

fn missing(user: &Name, name: &Name) -> ModelError {
    ModelError::Missing {
        user: user.clone(),
        name: name.clone(),
    }
}

fn types_of(key: &[Field]) -> impl Iterator<Item = Datatype> + '_ {
    key.iter().map(|field| field.datatype())
}
