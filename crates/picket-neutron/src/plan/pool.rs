//! Ports that others keep ready for pods to come.
//!
//! Each has a tag that says so, and which groups it has: whoever makes a pod takes one with the groups that the pod's annotation
//! names, and no call is needed. Where no pod has just these groups any more nobody would ever take it, so it loses
//! those of ours: then it is ready for any pod, and nothing passes there until it has its groups.

use std::collections::BTreeSet;

use picket_policy::ObjectRef;
use smol_str::{SmolStr, format_smolstr};

use super::Wanted;
use super::installed::{Id, InstalledPort};
use crate::digest;
use crate::model::Name;

/// Whether a port is one that is kept ready, by the tag that says so: alone, or with `=` and what tells its groups.
pub fn is_ready(port: &InstalledPort, tag: &str) -> bool {
    port.tags.iter().any(|own| own == tag || tells_groups(own, tag))
}

/// The tag of a port with these groups.
pub fn tag_of<'a>(tag: &str, groups: impl IntoIterator<Item = &'a Id>) -> SmolStr {
    let mut groups: Vec<&str> = groups.into_iter().map(SmolStr::as_str).collect();
    groups.sort_unstable();
    format_smolstr!("{tag}={}", digest::of_text(&groups.join(",")))
}

/// Whether a tag of a port tells its groups.
pub(super) fn tells_groups(own: &str, tag: &str) -> bool {
    let rest = own.strip_prefix(tag);
    rest.is_some_and(|rest| rest.starts_with('='))
}

/// The groups that ports of pods are to have, all of one port together.
pub(super) fn in_use(wanted: &Wanted<'_>) -> BTreeSet<BTreeSet<Name>> {
    let known = |name: &&Name| wanted.objects.security_groups.contains_key(*name);
    let pods = wanted.objects.ports.values().filter(|_| wanted.pool.is_some());
    pods.map(|port| port.security_groups.iter().filter(known).cloned().collect())
        .collect()
}

/// Whether a port is kept ready, and no pod's.
pub(super) fn waits(port: &InstalledPort, pod: Option<&ObjectRef>, wanted: &Wanted<'_>) -> bool {
    pod.is_none() && wanted.pool.is_some_and(|tag| is_ready(port, tag))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tag_of_groups_is_the_hash_of_what_the_annotation_of_a_pod_says() {
        // printf a,b | sha256sum | cut -c 1-16
        let (a, b) = ("a".into(), "b".into());
        assert_eq!(tag_of("ready", [&b, &a]), "ready=1eb7c54d52831bbf");
        assert_eq!(tag_of("ready", []), "ready=e3b0c44298fc1c14");
    }
}
