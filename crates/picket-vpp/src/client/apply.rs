//! What VPP has, and carrying out a plan that gives it other lists.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use smol_str::SmolStr;

use super::definition::Message;
use super::message::AclAddReplace;
use super::stream::LONGEST;
use super::value::{Acl, Interface, InterfaceLists};
use super::{Error, Vpp};
use crate::acl::hold::Held;
use crate::acl::plan::{Handle, Installed, InstalledLists, Operation, Plan};
use crate::acl::{self, Role, Tag};

/// What was read of a VPP: its lists, and its interfaces by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The lists and where they are.
    pub installed: Installed,
    /// The interfaces.
    pub interfaces: BTreeMap<SmolStr, Interface>,
}

impl Vpp {
    /// The lists that VPP has, and on which interfaces they are.
    ///
    /// # Errors
    /// [`Error`].
    pub fn read(&mut self) -> Result<Reading, Error> {
        let acls = self.acls()?;
        let acls = acls.iter().map(|(&index, acl)| (index, acl.into())).collect();
        let (interfaces, lists) = self.read_interfaces()?;
        let installed = Installed {
            acls,
            interfaces: lists,
        };
        Ok(Reading {
            installed,
            interfaces,
        })
    }

    /// Which interfaces there are, and which lists they have, but not what these say.
    ///
    /// # Errors
    /// [`Error`].
    pub fn read_interfaces(&mut self) -> Result<Interfaces, Error> {
        let found = self.interfaces()?;
        let mut lists = self.interface_lists()?;
        let (mut interfaces, mut installed) = (BTreeMap::new(), BTreeMap::new());
        for (index, interface) in found {
            let name = SmolStr::from(interface.name.to_string());
            let lists = lists.remove(&index).unwrap_or_default();
            let lists = InstalledLists {
                input: lists.input,
                output: lists.output,
            };
            installed.insert(name.clone(), lists);
            interfaces.insert(name, interface);
        }
        Ok((interfaces, installed))
    }

    /// Carries out a plan that was made for what was read, which then says what VPP has. What VPP refused of the plan is given
    /// back: then interfaces that it concerns have the lists that they had, or where none of ours was there
    /// [stricter ones](acl::Acl::stricter); nothing is removed that one has, and a plan for what is known then does the rest.
    ///
    /// # Errors
    /// [`Error`]. Nobody knows then how far it came; it must be read again.
    pub fn carry_out(&mut self, plan: &Plan, reading: &mut Reading) -> Result<Vec<Error>, Error> {
        let done = self.act(plan, &reading.interfaces, &reading.installed, &BTreeSet::new())?;
        done.apply(&mut reading.installed);
        Ok(done.troubles)
    }

    /// The same for a plan that was made for what is held, in a time that the plan takes and not what is held. Of
    /// `strangers`, which have the lists of another pod than they lead to, none keeps these: they are as if none of ours was there.
    ///
    /// # Errors
    /// [`Error`]. Nobody knows then how far it came; it must be read again.
    pub fn carry_out_held(
        &mut self,
        plan: &Plan,
        interfaces: &BTreeMap<SmolStr, Interface>,
        strangers: &BTreeSet<SmolStr>,
        held: &mut Held,
    ) -> Result<Vec<Error>, Error> {
        held.note(plan);
        let done = self.act(plan, interfaces, held.installed(), strangers)?;
        if done.troubles.is_empty() {
            let created = done.created.iter();
            let created = created.map(|(acl, index)| (acl.tag.clone(), *index));
            held.advance_noted(plan, &created.collect());
        } else {
            let mut installed = held.installed().clone();
            done.apply(&mut installed);
            held.read_again(installed);
        }
        Ok(done.troubles)
    }

    fn act<'p>(
        &mut self,
        plan: &'p Plan,
        interfaces: &BTreeMap<SmolStr, Interface>,
        installed: &Installed,
        strangers: &BTreeSet<SmolStr>,
    ) -> Result<Done<'p>, Error> {
        let (mut new, mut others, mut gone) = (Vec::new(), Vec::new(), Vec::new());
        // The interfaces that get other lists before some of theirs become others, and all that do so after that.
        let (mut first, mut sets) = (Vec::new(), Vec::new());
        for operation in plan.operations() {
            match operation {
                Operation::Create(acl) => new.push((None, Arc::clone(acl))),
                Operation::Replace { index, acl } => {
                    first.append(&mut sets);
                    others.push((Some(*index), Arc::clone(acl)));
                }
                Operation::Set {
                    interface,
                    input,
                    output,
                } => sets.push((interface, [&**input, output])),
                Operation::Delete(index) => gone.push(*index),
            }
        }
        let mut done = Done::default();
        self.create(&new, &mut done)?;
        let mut known = Known::new(&done, installed, strangers);
        self.set(known.all(first.iter().copied()), interfaces, &mut done)?;
        let kept = done.kept(&first, installed);
        let (kept, others): (Vec<_>, Vec<_>) = others
            .into_iter()
            .partition(|(index, _)| index.is_some_and(|index| kept.contains(&index)));
        // What keeps something cut drops less only where everything else has been done.
        let (cuts, others): (Vec<_>, Vec<_>) =
            others.into_iter().partition(|(_, acl)| acl.tag.is_for(Role::Cut));
        self.create(&others, &mut done)?;
        let (cuts, left) = match done.troubles.is_empty() {
            true => (cuts, Vec::new()),
            false => (Vec::new(), cuts),
        };
        self.create(&cuts, &mut done)?;
        // Other interfaces need some of them all the same.
        let are_wanted = |tag: &Tag| {
            let mut handles = sets.iter().flat_map(|(_, ways)| ways.iter().copied().flatten());
            handles.any(|handle| *handle == Handle::Created(tag.clone()))
        };
        let left = left.into_iter().chain(kept.iter().cloned());
        let left = left.filter(|(_, acl)| acl.tag.is_for(Role::Cut) && are_wanted(&acl.tag));
        let left: Vec<New> = left.map(|(_, acl)| (None, acl)).collect();
        self.create(&left, &mut done)?;
        known.learn(&done);
        let all = [new, others, cuts, left, kept].concat();
        if done.created.len() < all.len() {
            let needed = known.needed(&all, &sets);
            self.create(&needed, &mut done)?;
            known.learn(&done);
        }
        self.set(known.all(sets), interfaces, &mut done)?;
        done.spare(&mut gone, installed);
        let outcomes = self.delete_acls(gone.iter().copied())?;
        for (index, outcome) in gone.into_iter().zip(outcomes) {
            match outcome {
                Ok(()) => done.deleted.push(index),
                Err(refusal) => done.troubles.push(refusal.into()),
            }
        }
        Ok(done)
    }

    /// Makes lists, those with an index of what is there, but those that VPP refuses.
    fn create(&mut self, lists: &[New], done: &mut Done<'_>) -> Result<(), Error> {
        let (lists, long): (Vec<&New>, Vec<_>) = lists.iter().partition(|(_, list)| length(list) <= LONGEST);
        done.troubles
            .extend(long.into_iter().map(|(_, list)| Error::TooLong {
                message: AclAddReplace::DEFINITION.name,
                subject: format!("list `{}`", list.tag),
                length: length(list),
                longest: LONGEST,
            }));
        let told: Vec<_> = lists
            .iter()
            .map(|(index, list)| (*index, Acl::from(&**list)))
            .collect();
        let outcomes = self.replace_acls(told.iter().map(|(index, acl)| (*index, acl)))?;
        for ((_, list), outcome) in lists.into_iter().zip(outcomes) {
            match outcome {
                Ok(index) => done.created.push((Arc::clone(list), index)),
                Err(refusal) => done.troubles.push(refusal.into()),
            }
        }
        Ok(())
    }

    /// Gives interfaces their lists, but those that have too many.
    fn set<'p>(
        &mut self,
        sets: Vec<(&'p SmolStr, InstalledLists)>,
        interfaces: &BTreeMap<SmolStr, Interface>,
        done: &mut Done<'p>,
    ) -> Result<(), Error> {
        let (mut names, mut told) = (Vec::new(), Vec::new());
        for (name, lists) in sets {
            let Some(interface) = interfaces.get(name) else {
                continue;
            };
            let lists = InterfaceLists {
                interface: interface.index,
                input: lists.input,
                output: lists.output,
            };
            match lists.input.len() + lists.output.len() {
                0..=MOST_LISTS => {
                    names.push(name);
                    told.push(lists);
                }
                count => done.troubles.push(Error::TooManyAcls {
                    interface: interface.index,
                    count,
                }),
            }
        }
        let outcomes = self.set_interface_lists(&told)?;
        for ((name, lists), outcome) in names.into_iter().zip(told).zip(outcomes) {
            match outcome {
                Ok(()) => {
                    let lists = InstalledLists {
                        input: lists.input,
                        output: lists.output,
                    };
                    done.set.push((name, lists));
                }
                Err(refusal) => done.troubles.push(refusal.into()),
            }
        }
        Ok(())
    }
}

/// A list to be made, or with an index what the list there becomes.
type New = (Option<u32>, Arc<acl::Acl>);

/// An interface, with the lists that it is to have of both ways.
type Wanted<'p> = (&'p SmolStr, [&'p [Handle]; 2]);

/// What VPP has done of a plan.
#[derive(Default)]
struct Done<'p> {
    /// New lists and those that became others, with their indices.
    created: Vec<(Arc<acl::Acl>, u32)>,
    set: Vec<(&'p SmolStr, InstalledLists)>,
    deleted: Vec<u32>,
    troubles: Vec<Error>,
}

impl Done<'_> {
    /// The lists of those interfaces that should have others by now and do not.
    fn kept(&self, sets: &[Wanted<'_>], installed: &Installed) -> BTreeSet<u32> {
        let done: BTreeSet<_> = self.set.iter().map(|(name, _)| *name).collect();
        let left = sets.iter().filter(|(name, _)| !done.contains(name));
        let lists = left.filter_map(|(name, _)| installed.interfaces.get(*name));
        lists.flat_map(InstalledLists::indices).collect()
    }

    /// Leaves away those lists that interfaces have all the same, where something was refused.
    fn spare(&self, gone: &mut Vec<u32>, installed: &Installed) {
        if self.troubles.is_empty() {
            return;
        }
        let set: BTreeMap<_, _> = self.set.iter().map(|(name, lists)| (*name, lists)).collect();
        let all = installed.interfaces.iter();
        let lists = all.flat_map(|(name, lists)| set.get(name).copied().unwrap_or(lists).indices());
        let used: BTreeSet<u32> = lists.collect();
        gone.retain(|index| !used.contains(index));
    }

    fn apply(&self, installed: &mut Installed) {
        for (acl, index) in &self.created {
            installed.acls.insert(*index, acl::Acl::clone(acl));
        }
        for (name, lists) in &self.set {
            installed.interfaces.insert(SmolStr::clone(name), lists.clone());
        }
        for index in &self.deleted {
            installed.acls.remove(index);
        }
    }
}

/// Which lists can be had, where VPP has refused some.
struct Known<'a> {
    installed: &'a Installed,
    strangers: &'a BTreeSet<SmolStr>,
    created: BTreeMap<Tag, u32>,
    /// What stands in for each list that was refused.
    stricter: BTreeMap<Tag, Option<Tag>>,
}

impl<'a> Known<'a> {
    fn new(done: &Done<'_>, installed: &'a Installed, strangers: &'a BTreeSet<SmolStr>) -> Self {
        let mut known = Self {
            installed,
            strangers,
            created: BTreeMap::new(),
            stricter: BTreeMap::new(),
        };
        known.learn(done);
        known
    }

    fn learn(&mut self, done: &Done<'_>) {
        let created = done.created.iter();
        self.created
            .extend(created.map(|(acl, index)| (acl.tag.clone(), *index)));
    }

    /// What is to be made to stand in for those of these lists that were refused, for interfaces that would be open otherwise.
    fn needed(&mut self, new: &[New], sets: &[Wanted<'_>]) -> Vec<New> {
        let bare = sets.iter().filter(|wanted| self.is_bare(wanted));
        let wanted: BTreeSet<_> = bare
            .flat_map(|(_, ways)| ways.iter().copied().flatten())
            .collect();
        let is_refused = |acl: &Arc<acl::Acl>| !self.created.contains_key(&acl.tag);
        let is_missing =
            |acl: &&Arc<acl::Acl>| is_refused(acl) && wanted.contains(&Handle::Created(acl.tag.clone()));
        let (mut needed, mut stricter) = (BTreeMap::new(), BTreeMap::new());
        for acl in new.iter().map(|(_, acl)| acl).filter(is_missing) {
            let instead = acl.stricter();
            stricter.insert(acl.tag.clone(), instead.as_ref().map(|acl| acl.tag.clone()));
            needed.extend(instead.map(|acl| (acl.tag.clone(), Arc::new(acl))));
        }
        self.stricter = stricter;
        let own = self.installed.own();
        for tag in needed.keys() {
            self.created
                .extend(own.get(tag).map(|&index| (tag.clone(), index)));
        }
        needed.retain(|tag, _| !self.created.contains_key(tag));
        needed.into_values().map(|acl| (None, acl)).collect()
    }

    /// Whether an interface has no list of ours, or is to have those of a pod and has none of that one: until its tag was set it may
    /// have been taken for a connection with the rest, or been another pod's.
    fn is_bare(&self, (interface, ways): &Wanted<'_>) -> bool {
        let is_of_pod = |handle: &Handle| match handle {
            Handle::Created(tag) => !tag.is_of_uplink(),
            Handle::Installed(index) => {
                let acl = self.installed.acls.get(index);
                acl.is_some_and(|acl| !acl.tag.is_of_uplink())
            }
        };
        if ways.iter().copied().flatten().any(is_of_pod) {
            return self.strangers.contains(*interface) || !self.installed.judges_pods(interface);
        }
        !self.installed.has_own(interface)
    }

    /// The lists that these interfaces get, but for those that stay as they are.
    fn all<'p>(&self, sets: impl IntoIterator<Item = Wanted<'p>>) -> Vec<(&'p SmolStr, InstalledLists)> {
        let lists = sets
            .into_iter()
            .filter_map(|wanted| Some((wanted.0, self.lists(&wanted)?)));
        lists.collect()
    }

    /// The lists that an interface gets; nothing where it stays as it is.
    fn lists(&self, wanted: &Wanted<'_>) -> Option<InstalledLists> {
        let is_bare = self.is_bare(wanted);
        let indices = |handles: &[Handle]| -> Option<Vec<u32>> {
            let each = handles
                .iter()
                .filter_map(|handle| self.index(handle, is_bare).transpose());
            each.map(|index| index.ok()).collect()
        };
        let [input, output] = wanted.1.map(indices);
        Some(InstalledLists {
            input: input?,
            output: output?,
        })
    }

    /// The index of a list or of what stands in for it, if anything has to.
    ///
    /// # Errors
    /// When neither is there.
    fn index(&self, handle: &Handle, may_stand_in: bool) -> Result<Option<u32>, Refused> {
        let tag = match handle {
            Handle::Installed(index) => return Ok(Some(*index)),
            Handle::Created(tag) => tag,
        };
        let created = |tag: &Tag| self.created.get(tag).copied();
        if tag.is_for(Role::Cut) {
            // What only drops more does not keep an interface from the rest.
            return Ok(created(tag));
        }
        match (created(tag), self.stricter.get(tag).filter(|_| may_stand_in)) {
            (Some(index), _) => Ok(Some(index)),
            (None, Some(None)) => Ok(None),
            (None, Some(Some(stricter))) => created(stricter).map(Some).ok_or(Refused),
            (None, None) => Err(Refused),
        }
    }
}

/// VPP has neither a list nor what would stand in for it.
struct Refused;

/// The interfaces that there are, and the lists of each, by name.
pub type Interfaces = (BTreeMap<SmolStr, Interface>, BTreeMap<SmolStr, InstalledLists>);

/// The bytes of the message that makes a list.
fn length(list: &acl::Acl) -> usize {
    82 + 48 * list.rules.len()
}

/// The most lists of an interface, in both directions together: their number is a byte.
const MOST_LISTS: usize = 255;

impl From<&Acl> for acl::Acl {
    fn from(list: &Acl) -> Self {
        Self {
            tag: Tag::installed(&list.tag.to_string()),
            rules: list.rules.iter().map(acl::AclRule::from).collect(),
        }
    }
}
