//! Access control lists, on the interfaces that there are.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;

use picket_vpp::acl::plan::{Handle, Installed, Operation, plan};
use picket_vpp::acl::{AclAction, AclRule, Acls, Tag};
use picket_vpp::client::{Error, Feature, Interface, Reading, Vpp};
use smol_str::SmolStr;

use super::VppSettings;
use super::place::{Finder, Placed};
use super::render::Wanted;
use super::worker::{Cleaned, Summary, Synced, Tables};

/// The lists that VPP has, and whose interfaces are which.
#[derive(Debug)]
pub(crate) struct AclTables {
    finder: Finder,
    reading: Reading,
    /// What VPP has, unless something may be different by now.
    done: Option<(Arc<Acls>, Summary)>,
}

impl AclTables {
    pub(crate) fn new(settings: &VppSettings) -> Self {
        Self {
            finder: Finder::new(&settings.pod_interfaces, &settings.uplinks),
            reading: Reading::default(),
            done: None,
        }
    }

    fn place(&self, wanted: &Wanted) -> Placed {
        self.finder.place(&wanted.acls, &self.reading.interfaces)
    }
}

impl Tables for AclTables {
    fn features(&self) -> &'static [Feature] {
        &[Feature::Acls, Feature::Interfaces]
    }

    fn watch(&mut self, vpp: &mut Vpp) -> Result<(), Error> {
        vpp.watch_interfaces()
    }

    fn read(&mut self, vpp: &mut Vpp) -> Result<(), Error> {
        self.done = None;
        self.reading = vpp.read()?;
        self.finder.look();
        Ok(())
    }

    fn look(&mut self, vpp: &mut Vpp, has_events: bool) -> Result<bool, Error> {
        let is_other_file = self.finder.look();
        let known = self.reading.interfaces.values();
        if !has_events && vpp.interfaces()?.values().map(whose).eq(sorted(known).map(whose)) {
            if is_other_file {
                self.done = None;
            }
            return Ok(is_other_file);
        }
        self.done = None;
        // One that is gone and came again has no lists any more.
        vpp.read_interfaces(&mut self.reading)?;
        Ok(true)
    }

    fn sync(&mut self, vpp: &mut Vpp, wanted: &Wanted) -> Result<Synced, Error> {
        if let Some((acls, summary)) = &self.done
            && Arc::ptr_eq(acls, &wanted.acls)
        {
            return Ok(Synced {
                summary: summary.clone(),
                ..Synced::default()
            });
        }
        self.done = None;
        if let Some(why) = self.finder.is_lost() {
            // What VPP has stays: nobody says which interface is whose.
            let conflicts = vec![why.to_owned()];
            let summary = Summary {
                conflicts,
                ..Summary::default()
            };
            return Ok(Synced {
                summary,
                ..Synced::default()
            });
        }
        let placed = self.place(wanted);
        let operations = plan(&self.reading.installed, &placed.acls);
        let troubles = match operations.is_empty() {
            true => Vec::new(),
            false => vpp.carry_out(&operations, &mut self.reading)?,
        };
        let summary = Summary {
            conflicts: placed.troubles,
            interfaces: placed.pods,
            uplinks: placed.uplinks,
            pending: placed.pending,
            foreign: foreign(&self.reading.installed),
            ..Summary::default()
        };
        if troubles.is_empty() {
            self.done = Some((Arc::clone(&wanted.acls), summary.clone()));
        }
        Ok(Synced {
            operations: operations.operations().len(),
            troubles,
            summary,
        })
    }

    fn plan(&mut self, _: &mut Vpp, wanted: &Wanted) -> Result<String, Error> {
        let placed = self.place(wanted);
        let mut text = String::new();
        for pending in &placed.pending {
            line(
                &mut text,
                format_args!("# {} has no interface: {}", pending.pod, pending.why),
            );
        }
        for trouble in &placed.troubles {
            line(&mut text, format_args!("# {trouble}"));
        }
        let installed = &self.reading.installed;
        for operation in plan(installed, &placed.acls).operations() {
            write_operation(operation, installed, &mut text);
        }
        Ok(text)
    }

    fn clean(&mut self, vpp: &mut Vpp) -> Result<Cleaned, Error> {
        let operations = plan(&self.reading.installed, &Acls::default());
        let before = self.reading.installed.acls.len();
        let troubles = match operations.is_empty() {
            true => Vec::new(),
            false => vpp.carry_out(&operations, &mut self.reading)?,
        };
        let removed = before.saturating_sub(self.reading.installed.acls.len());
        Ok(Cleaned { removed, troubles })
    }
}

/// What says whose an interface is.
fn whose(interface: &Interface) -> impl PartialEq {
    (interface.index, interface.name.clone(), interface.tag.clone())
}

fn sorted<'i>(interfaces: impl Iterator<Item = &'i Interface>) -> impl Iterator<Item = &'i Interface> {
    let mut all: Vec<_> = interfaces.collect();
    all.sort_unstable_by_key(|interface| interface.index);
    all.into_iter()
}

/// What lists of others mean behind ours.
pub(super) fn foreign(installed: &Installed) -> Vec<String> {
    let mut found = Vec::new();
    for (interface, lists) in &installed.interfaces {
        for (way, indices) in [("input", &lists.input), ("output", &lists.output)] {
            let (own, others): (Vec<u32>, Vec<u32>) =
                indices.iter().partition(|&&index| is_own(installed, index));
            if others.is_empty() {
                continue;
            }
            let others: Vec<_> = others.iter().map(|&index| name(installed, index)).collect();
            let meaning = match () {
                () if own.is_empty() => "they decide alone",
                () if own.iter().any(|&index| decides_all(installed, index)) => {
                    "they decide nothing: what picket's lists before them do not let pass is denied"
                }
                () => "they decide what picket's lists before them leave open",
            };
            found.push(format!("{interface}, {way}: {}; {meaning}", others.join(", ")));
        }
    }
    found
}

/// Whether nothing gets past a list.
fn decides_all(installed: &Installed, index: u32) -> bool {
    let rules = installed.acls.get(&index).map(|acl| acl.rules.as_slice());
    let last = rules.unwrap_or_default().iter();
    let denied = last.filter(|rule| rule.is_everything() && rule.action == AclAction::Deny);
    let families: BTreeSet<_> = denied.map(AclRule::family).collect();
    families.len() == 2
}

fn is_own(installed: &Installed, index: u32) -> bool {
    installed
        .acls
        .get(&index)
        .is_some_and(|acl| Tag::is_own(acl.tag.as_str()))
}

fn name(installed: &Installed, index: u32) -> String {
    match installed.acls.get(&index) {
        Some(acl) => format!("{index} `{}`", acl.tag),
        None => index.to_string(),
    }
}

fn line(text: &mut String, what: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "{what}");
}

fn write_operation(operation: &Operation, installed: &Installed, text: &mut String) {
    let handles = |handles: &[Handle]| -> String {
        let each = handles.iter().map(|handle| match handle {
            Handle::Installed(index) => name(installed, *index),
            Handle::Created(tag) => format!("new `{tag}`"),
        });
        match each.collect::<Vec<_>>().join(", ") {
            none if none.is_empty() => "nothing".to_owned(),
            some => some,
        }
    };
    match operation {
        Operation::Create(acl) => {
            line(
                text,
                format_args!("create acl `{}` with {} rules", acl.tag, acl.rules.len()),
            );
            for rule in &acl.rules {
                line(text, format_args!("    {rule}"));
            }
        }
        Operation::Set {
            interface,
            input,
            output,
        } => set(text, interface, &handles(input), &handles(output)),
        Operation::Delete(index) => line(text, format_args!("delete acl {}", name(installed, *index))),
    }
}

fn set(text: &mut String, interface: &SmolStr, input: &str, output: &str) {
    line(text, format_args!("set interface `{interface}`"));
    line(text, format_args!("    input: {input}"));
    line(text, format_args!("    output: {output}"));
}
