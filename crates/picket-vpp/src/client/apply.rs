//! What VPP has, and carrying out a plan that gives it other lists.

use std::collections::BTreeMap;

use smol_str::SmolStr;

use super::definition::Message;
use super::message::AclAddReplace;
use super::stream::LONGEST;
use super::value::{Acl, Interface, InterfaceLists};
use super::{Error, Vpp};
use crate::acl::plan::{Handle, Installed, InstalledLists, Operation, Plan};
use crate::acl::{self, Tag};

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
        let mut reading = Reading::default();
        let acls = self.acls()?;
        reading.installed.acls = acls.iter().map(|(&index, acl)| (index, acl.into())).collect();
        self.read_interfaces(&mut reading)?;
        Ok(reading)
    }

    /// Reads again which interfaces there are, and which lists they have, but not what these say.
    ///
    /// # Errors
    /// [`Error`]; then nothing has been changed of what was known.
    pub fn read_interfaces(&mut self, reading: &mut Reading) -> Result<(), Error> {
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
        (reading.interfaces, reading.installed.interfaces) = (interfaces, installed);
        Ok(())
    }

    /// Carries out a plan that was made for what was read, which then says what VPP has. What VPP refused of the plan is given
    /// back: then interfaces that it concerns have the lists that they had, nothing is removed, and a plan for what is known
    /// then does the rest.
    ///
    /// # Errors
    /// [`Error`]. Nobody knows then how far it came; it must be read again.
    pub fn carry_out(&mut self, plan: &Plan, reading: &mut Reading) -> Result<Vec<Error>, Error> {
        let (mut new, mut sets, mut gone) = (Vec::new(), Vec::new(), Vec::new());
        for operation in plan.operations() {
            match operation {
                Operation::Create(acl) => new.push(&**acl),
                Operation::Set {
                    interface,
                    input,
                    output,
                } => sets.push((interface, input, output)),
                Operation::Delete(index) => gone.push(*index),
            }
        }
        let mut troubles = Vec::new();
        let created = self.create(&new, reading, &mut troubles)?;
        let index = |handle: &Handle| match handle {
            Handle::Installed(index) => Some(*index),
            Handle::Created(tag) => created.get(tag).copied(),
        };
        let indices = |handles: &[Handle]| -> Option<Vec<u32>> { handles.iter().map(index).collect() };
        let lists = sets.into_iter().filter_map(|(interface, input, output)| {
            let lists = InstalledLists {
                input: indices(input)?,
                output: indices(output)?,
            };
            Some((interface, lists))
        });
        self.set(lists, reading, &mut troubles)?;
        if troubles.is_empty() {
            let outcomes = self.delete_acls(gone.iter().copied())?;
            for (index, outcome) in gone.into_iter().zip(outcomes) {
                match outcome {
                    Ok(()) => drop(reading.installed.acls.remove(&index)),
                    Err(refusal) => troubles.push(refusal.into()),
                }
            }
        }
        Ok(troubles)
    }

    /// Makes lists; their indices, but of those that VPP refuses.
    fn create<'a>(
        &mut self,
        lists: &[&'a acl::Acl],
        reading: &mut Reading,
        troubles: &mut Vec<Error>,
    ) -> Result<BTreeMap<&'a Tag, u32>, Error> {
        let (lists, long): (Vec<&acl::Acl>, Vec<&acl::Acl>) =
            lists.iter().partition(|list| length(list) <= LONGEST);
        troubles.extend(long.into_iter().map(|list| Error::TooLong {
            message: AclAddReplace::DEFINITION.name,
            subject: format!("list `{}`", list.tag),
            length: length(list),
            longest: LONGEST,
        }));
        let told: Vec<_> = lists.iter().map(|&list| Acl::from(list)).collect();
        let outcomes = self.replace_acls(told.iter().map(|acl| (None, acl)))?;
        let mut created = BTreeMap::new();
        for (list, outcome) in lists.iter().zip(outcomes) {
            match outcome {
                Ok(index) => {
                    reading.installed.acls.insert(index, acl::Acl::clone(list));
                    created.insert(&list.tag, index);
                }
                Err(refusal) => troubles.push(refusal.into()),
            }
        }
        Ok(created)
    }

    /// Gives interfaces their lists, but those that have too many.
    fn set<'a>(
        &mut self,
        sets: impl Iterator<Item = (&'a SmolStr, InstalledLists)>,
        reading: &mut Reading,
        troubles: &mut Vec<Error>,
    ) -> Result<(), Error> {
        let (mut names, mut told) = (Vec::new(), Vec::new());
        for (name, lists) in sets {
            let Some(interface) = reading.interfaces.get(name) else {
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
                count => troubles.push(Error::TooManyAcls {
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
                    reading.installed.interfaces.insert(name.clone(), lists);
                }
                Err(refusal) => troubles.push(refusal.into()),
            }
        }
        Ok(())
    }
}

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
