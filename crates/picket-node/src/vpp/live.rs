//! The lists and session rules that a VPP has, for whoever wants them proved.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use picket_policy::ObjectRef;
use picket_vpp::acl::plan::Installed;
use picket_vpp::acl::{Acl, Acls, InterfaceLists, Tag};
use picket_vpp::client::{Connector, Error, Feature, RuleReading, RuleTable};
use picket_vpp::session::{SessionRule, SessionRules, Tables};
use smol_str::SmolStr;

use super::acl::{foreign, nobody_has};
use super::claims::Claims;
use super::held::Held;
use super::namespace::NamespaceFinder;
use super::place::{Finder, Placed, id};
use super::rule::{NamespaceRule, Pattern, PodRule};
use super::session::others;
use super::status::PendingPod;

/// What VPP has on the interfaces of pods, and on those that lead out of the node.
#[derive(Clone, Debug, Default)]
pub struct InstalledLists {
    /// Every list that one of them has, those of others too.
    pub acls: Acls,
    /// The interfaces of each pod that has one.
    pub pods: BTreeMap<ObjectRef, Vec<SmolStr>>,
    /// Pods without an interface.
    pub pending: Vec<PendingPod>,
    /// What does not fit together, and what lists of others mean.
    pub remarks: Vec<String>,
}

/// Reads the lists of the VPP at `socket`. `wanted` says which pods there are, and `claims` what their annotations name; interfaces that lead out of the node are those
/// of `uplinks`, and without any all that are no pod's.
///
/// # Errors
/// When VPP is not there, is too old, or will not say.
pub fn installed_lists(
    socket: &Path,
    pods: &PodRule,
    uplinks: &[Pattern],
    wanted: &Acls,
    claims: &Claims,
) -> Result<InstalledLists, Error> {
    let mut vpp = Connector::new(socket).connect(&[Feature::Acls, Feature::Interfaces])?;
    let reading = vpp.read()?;
    let mut finder = Finder::new(pods, uplinks);
    finder.look();
    Ok(found(
        finder.place(wanted, claims, &reading.interfaces),
        &reading.installed,
    ))
}

fn found(placed: Placed, installed: &Installed) -> InstalledLists {
    let mut found = InstalledLists {
        pending: placed.pending.into_values().collect(),
        remarks: placed.troubles,
        ..InstalledLists::default()
    };
    let of_nobody = &placed.unknown;
    found
        .remarks
        .extend(of_nobody.iter().map(|name| nobody_has(name)));
    let known = placed.acls.interfaces.iter();
    // Where nothing passes there is no pod of which something could be proved, and no way out of the node.
    let known = known.filter(|(name, _)| !of_nobody.contains(*name) && !placed.contested.contains(*name));
    for (name, wanted) in known {
        let known = installed.interfaces.get(name).cloned().unwrap_or_default();
        let lists = InterfaceLists {
            pod: wanted.pod.clone(),
            input: taken(&known.input, installed, &mut found.acls),
            output: taken(&known.output, installed, &mut found.acls),
        };
        if let Some(pod) = wanted.pod.clone() {
            found.pods.entry(pod).or_default().push(name.clone());
        }
        found.acls.interfaces.insert(name.clone(), lists);
    }
    found.remarks.extend(foreign(installed));
    found
}

/// Lists by their index, which no two share; names of others may be alike.
fn taken(indices: &[u32], installed: &Installed, acls: &mut Acls) -> Vec<Tag> {
    let known = indices
        .iter()
        .filter_map(|index| Some((index, installed.acls.get(index)?)));
    let tags = known.map(|(index, acl)| {
        let tag = Tag::installed(&index.to_string());
        let list = Acl {
            tag: tag.clone(),
            rules: acl.rules.clone(),
        };
        acls.acls.insert(tag.clone(), Arc::new(list));
        tag
    });
    tags.collect()
}

/// What VPP has in the tables of pods, and in the global one.
#[derive(Clone, Debug, Default)]
pub struct InstalledRules {
    /// The rules, those of others too, in the order in which VPP lists them. There are several where a pod has several
    /// namespaces, each with another of them; at least one.
    pub each: Vec<SessionRules>,
    /// Pods without a namespace.
    pub unknown: BTreeSet<ObjectRef>,
    /// The same, and why.
    pub pending: Vec<PendingPod>,
    /// What does not fit together, and what rules of others mean.
    pub remarks: Vec<String>,
}

/// Reads the session rules of the VPP at `socket`. `wanted` says which pods there are.
///
/// # Errors
/// When VPP is not there, is too old, has no rules, or will not say.
pub fn installed_rules(
    socket: &Path,
    namespaces: &NamespaceRule,
    wanted: &Tables,
) -> Result<InstalledRules, Error> {
    let mut vpp = Connector::new(socket).connect(&[Feature::SessionRules])?;
    let reading = vpp.read_rules()?;
    if reading.tables.is_empty() {
        return Err(Error::NoSessionRules);
    }
    let mut held = Held::default();
    held.take(reading.clone());
    let mut finder = NamespaceFinder::new(Some(namespaces));
    finder.look();
    let placed = finder.place(wanted, &held);
    let mut remarks = placed.troubles;
    let others = others(&held);
    if !others.is_empty() {
        remarks.push(
            "rules are read in the order in which VPP lists them; where others have some, what they mean can depend on \
             that in which they were added"
                .to_owned(),
        );
    }
    remarks.extend(
        others
            .into_iter()
            .map(|other| format!("rules of others, {other}")),
    );
    let own = |pod: &ObjectRef| placed.pods.get(&id(pod)).map(Vec::as_slice).unwrap_or_default();
    let pods = wanted.local.keys();
    let most = pods.map(|pod| own(pod).len()).max().unwrap_or_default().max(1);
    Ok(InstalledRules {
        each: (0..most)
            .map(|number| rules(&reading, wanted, own, number))
            .collect(),
        unknown: wanted
            .local
            .keys()
            .filter(|pod| own(pod).is_empty())
            .cloned()
            .collect(),
        pending: placed.pending.into_values().collect(),
        remarks,
    })
}

/// The rules with that namespace of each pod, or its last one.
fn rules<'p>(
    reading: &RuleReading,
    wanted: &Tables,
    own: impl Fn(&ObjectRef) -> &'p [u32],
    number: usize,
) -> SessionRules {
    let of = |table: RuleTable| -> Vec<SessionRule> {
        let known = reading.tables.get(&table).into_iter().flatten();
        known.map(|known| known.rule).collect()
    };
    let local = wanted.local.keys().filter_map(|pod| {
        let own = own(pod);
        let namespace = own.get(number).or(own.last())?;
        Some((pod.clone(), of(RuleTable::Local(*namespace))))
    });
    SessionRules {
        local: local.collect(),
        global: of(RuleTable::Global),
    }
}
