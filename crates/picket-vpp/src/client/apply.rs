//! What VPP has, and carrying out a plan that gives it other lists.

use std::collections::BTreeMap;

use smol_str::SmolStr;

use super::value::{Acl, InterfaceLists};
use super::{Error, Refusal, Vpp};
use crate::acl::plan::{Handle, Installed, InstalledLists, Operation, Plan};
use crate::acl::{self, Tag};

/// What was read of a VPP: its lists, and its interfaces by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The lists and where they are.
    pub installed: Installed,
    /// The indices of the interfaces.
    pub interfaces: BTreeMap<SmolStr, u32>,
}

impl Vpp {
    /// The lists that VPP has, and on which interfaces they are.
    ///
    /// # Errors
    /// [`Error`].
    pub fn read(&mut self) -> Result<Reading, Error> {
        let interfaces = self.interfaces()?;
        let acls = self.acls()?;
        let mut lists = self.interface_lists()?;
        let mut reading = Reading::default();
        reading.installed.acls = acls.iter().map(|(&index, acl)| (index, acl.into())).collect();
        for (index, interface) in interfaces {
            let name = SmolStr::from(interface.name.to_string());
            let lists = lists.remove(&index).unwrap_or_default();
            let lists = InstalledLists {
                input: lists.input,
                output: lists.output,
            };
            reading.installed.interfaces.insert(name.clone(), lists);
            reading.interfaces.insert(name, index);
        }
        Ok(reading)
    }

    /// Carries out a plan that was made for what was read. What VPP refused of it is given back: then interfaces whose lists
    /// it concerns have those that they had, nothing is removed, and a plan for what is read then does the rest.
    ///
    /// # Errors
    /// [`Error`]. Nobody knows then how far it came; it must be read again.
    pub fn carry_out(&mut self, plan: &Plan, reading: &Reading) -> Result<Vec<Refusal>, Error> {
        let (mut new, mut sets, mut gone) = (Vec::new(), Vec::new(), Vec::new());
        for operation in plan.operations() {
            match operation {
                Operation::Create(acl) => new.push((&acl.tag, Acl::from(&**acl))),
                Operation::Set {
                    interface,
                    input,
                    output,
                } => sets.push((interface, input, output)),
                Operation::Delete(index) => gone.push(*index),
            }
        }
        let mut refusals = Vec::new();
        let mut created: BTreeMap<&Tag, u32> = BTreeMap::new();
        let outcomes = self.replace_acls(new.iter().map(|(_, acl)| (None, acl)))?;
        for ((tag, _), outcome) in new.iter().zip(outcomes) {
            match outcome {
                Ok(index) => drop(created.insert(tag, index)),
                Err(refusal) => refusals.push(refusal),
            }
        }
        let indices = |handles: &[Handle]| -> Option<Vec<u32>> {
            let index = |handle: &Handle| match handle {
                Handle::Installed(index) => Some(*index),
                Handle::Created(tag) => created.get(tag).copied(),
            };
            handles.iter().map(index).collect()
        };
        let lists = sets.into_iter().filter_map(|(interface, input, output)| {
            Some(InterfaceLists {
                interface: *reading.interfaces.get(interface)?,
                input: indices(input)?,
                output: indices(output)?,
            })
        });
        let lists: Vec<_> = lists.collect();
        refusals.extend(
            self.set_interface_lists(&lists)?
                .into_iter()
                .filter_map(Result::err),
        );
        if refusals.is_empty() {
            refusals.extend(self.delete_acls(gone)?.into_iter().filter_map(Result::err));
        }
        Ok(refusals)
    }
}

impl From<&Acl> for acl::Acl {
    fn from(list: &Acl) -> Self {
        Self {
            tag: Tag::installed(&list.tag.to_string()),
            rules: list.rules.iter().map(acl::AclRule::from).collect(),
        }
    }
}
