//! Access control lists, on the interfaces that there are.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::Arc;

use picket_vpp::acl::hold::Held;
use picket_vpp::acl::plan::{Handle, Installed, Operation, Plan};
use picket_vpp::acl::{AclAction, AclRule, Acls, InterfaceLists, Tag};
use picket_vpp::client::{Error, Feature, Interface, Vpp};
use smol_str::SmolStr;

use super::VppSettings;
use super::claims::Claims;
use super::place::{Finder, Placed};
use super::render::Wanted;
use super::worker::{Cleaned, Summary, Synced, Tables};

/// The lists that VPP has, and whose interfaces are which.
#[derive(Debug)]
pub(crate) struct AclTables {
    finder: Finder,
    interfaces: BTreeMap<SmolStr, Interface>,
    held: Held,
    /// What interfaces were given, unless they may have something else by now.
    given: Option<BTreeMap<SmolStr, InterfaceLists>>,
    /// What VPP has, unless something may be different by now.
    done: Option<(Arc<Acls>, Arc<Claims>, Summary)>,
}

impl AclTables {
    pub(crate) fn new(settings: &VppSettings) -> Self {
        Self {
            finder: Finder::new(&settings.pod_interfaces, &settings.uplinks),
            interfaces: BTreeMap::new(),
            held: Held::default(),
            given: None,
            done: None,
        }
    }

    /// What is wanted, by the interfaces that there are.
    fn place(&self, wanted: &Wanted) -> Placed {
        self.finder.place(&wanted.acls, &wanted.claims, &self.interfaces)
    }

    /// What is to be done, where only those interfaces may have something else that are not given what they were.
    fn next(&self, wanted: &Acls) -> Plan {
        let now = &wanted.interfaces;
        match &self.given {
            Some(given) => {
                let names = given.keys().chain(now.keys());
                let changed: BTreeSet<_> = names.filter(|name| given.get(*name) != now.get(*name)).collect();
                self.held.plan(wanted, changed)
            }
            None => self.held.plan(wanted, self.held.installed().interfaces.keys()),
        }
    }

    /// Makes the lists these; what VPP did not do.
    fn make(&mut self, vpp: &mut Vpp, wanted: &Acls) -> Result<(usize, Vec<Error>), Error> {
        let plan = self.next(wanted);
        self.given = None;
        let troubles = match plan.is_empty() {
            true => Vec::new(),
            false => vpp.carry_out_held(&plan, &self.interfaces, &mut self.held)?,
        };
        if troubles.is_empty() {
            self.given = Some(wanted.interfaces.clone());
        }
        Ok((plan.operations().len(), troubles))
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
        (self.done, self.given) = (None, None);
        let reading = vpp.read()?;
        self.interfaces = reading.interfaces;
        self.held = Held::new(reading.installed);
        self.finder.look();
        Ok(())
    }

    fn look(&mut self, vpp: &mut Vpp, has_events: bool) -> Result<bool, Error> {
        let is_other_file = self.finder.look();
        let known = self.interfaces.values();
        if !has_events && vpp.interfaces()?.values().map(whose).eq(sorted(known).map(whose)) {
            if is_other_file {
                self.done = None;
            }
            return Ok(is_other_file);
        }
        (self.done, self.given) = (None, None);
        // One that is gone and came again has no lists any more.
        let (interfaces, lists) = vpp.read_interfaces()?;
        self.interfaces = interfaces;
        self.held.set_interfaces(lists);
        Ok(true)
    }

    fn sync(&mut self, vpp: &mut Vpp, wanted: &Wanted) -> Result<Synced, Error> {
        if let Some((acls, claims, summary)) = &self.done
            && Arc::ptr_eq(acls, &wanted.acls)
            && Arc::ptr_eq(claims, &wanted.claims)
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
        let (operations, troubles) = self.make(vpp, &placed.acls)?;
        let summary = Summary {
            conflicts: placed.troubles,
            interfaces: placed.pods,
            uplinks: placed.uplinks,
            pending: placed.pending,
            foreign: foreign(self.held.installed()),
            ..Summary::default()
        };
        if troubles.is_empty() {
            let (acls, claims) = (Arc::clone(&wanted.acls), Arc::clone(&wanted.claims));
            self.done = Some((acls, claims, summary.clone()));
        }
        Ok(Synced {
            operations,
            troubles,
            summary,
        })
    }

    fn plan(&mut self, _: &mut Vpp, wanted: &Wanted) -> Result<String, Error> {
        let mut text = String::new();
        if let Some(why) = self.finder.is_lost() {
            line(&mut text, format_args!("# {why}"));
            return Ok(text);
        }
        let placed = self.place(wanted);
        for pending in &placed.pending {
            line(
                &mut text,
                format_args!("# {} has no interface: {}", pending.pod, pending.why),
            );
        }
        for trouble in &placed.troubles {
            line(&mut text, format_args!("# {trouble}"));
        }
        for operation in self.next(&placed.acls).operations() {
            write_operation(operation, self.held.installed(), &mut text);
        }
        Ok(text)
    }

    fn clean(&mut self, vpp: &mut Vpp) -> Result<Cleaned, Error> {
        let before = self.held.installed().acls.len();
        let (_, troubles) = self.make(vpp, &Acls::default())?;
        let removed = before.saturating_sub(self.held.installed().acls.len());
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
