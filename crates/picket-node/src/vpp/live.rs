//! The lists that a VPP has, for whoever wants them proved.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use picket_policy::ObjectRef;
use picket_vpp::acl::plan::Installed;
use picket_vpp::acl::{Acl, Acls, InterfaceLists, Tag};
use picket_vpp::client::{Connector, Error, Feature};
use smol_str::SmolStr;

use super::acl::foreign;
use super::place::{Finder, Placed};
use super::rule::{Pattern, PodRule};
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

/// Reads the lists of the VPP at `socket`. `wanted` says which pods there are; interfaces that lead out of the node are those
/// of `uplinks`, and without any all that are no pod's.
///
/// # Errors
/// When VPP is not there, is too old, or will not say.
pub fn installed_lists(
    socket: &Path,
    pods: &PodRule,
    uplinks: &[Pattern],
    wanted: &Acls,
) -> Result<InstalledLists, Error> {
    let mut vpp = Connector::new(socket).connect(&[Feature::Acls, Feature::Interfaces])?;
    let reading = vpp.read()?;
    let mut finder = Finder::new(pods, uplinks);
    finder.look();
    Ok(found(
        finder.place(wanted, &reading.interfaces),
        &reading.installed,
    ))
}

fn found(placed: Placed, installed: &Installed) -> InstalledLists {
    let mut found = InstalledLists {
        pending: placed.pending,
        remarks: placed.troubles,
        ..InstalledLists::default()
    };
    for (name, wanted) in &placed.acls.interfaces {
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
