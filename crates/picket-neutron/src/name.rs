//! How picket calls its groups.
//!
//! Every name begins with `picket/`, or with what the cluster is called instead. Parts are joined by slashes, which no name
//! of Kubernetes has, so that two different things never share a name.

use picket_policy::{Direction, NamespaceScope, ObjectRef, PodSelector, Selector};
use smol_str::{SmolStr, format_smolstr};

use crate::digest::Digest;
use crate::model::Name;

/// What Neutron takes: `security_groups.name` has 255 characters.
const LONGEST: usize = 255;
/// What Neutron takes of a tag: 60 characters.
const LONGEST_TAG: usize = 60;

/// A name of these parts. One that would be too long ends in a hash of itself.
pub(crate) fn name(cluster: &str, parts: &[&str]) -> Name {
    let whole = format!("{cluster}/{}", parts.join("/"));
    shortened(whole, LONGEST)
}

/// What marks the group of one direction of a policy: `<uid>_IN` or `<uid>_EG`. A policy whose object has no uid yet is
/// told by a hash of its kind, namespace and name.
pub(crate) fn tag(policy: &ObjectRef, direction: Direction) -> SmolStr {
    let end = match direction {
        Direction::Ingress => "IN",
        Direction::Egress => "EG",
    };
    let fits = |uid: &str| uid.len() + 3 <= LONGEST_TAG && uid.bytes().all(is_plain);
    if !policy.uid.is_empty() && fits(&policy.uid) {
        return format_smolstr!("{}_{end}", policy.uid);
    }
    let hash = Digest::of("policy").texts([&policy.kind, &policy.namespace, &policy.name, &policy.uid]);
    format_smolstr!("{}_{end}", hash.digits())
}

/// What a tag may hold so that lists of tags can be told apart.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

fn shortened(whole: String, longest: usize) -> Name {
    if whole.len() <= longest {
        return whole.into();
    }
    let hash = Digest::of("name").text(&whole).digits();
    let mut end = longest - hash.len() - 1;
    while !whole.is_char_boundary(end) {
        end -= 1;
    }
    let begins = whole.get(..end).unwrap_or_default();
    format_smolstr!("{begins}~{hash}")
}

/// A hash of what pods a selector means.
pub(crate) fn of_selector(selector: &PodSelector) -> String {
    selected(Digest::of("pods"), selector).digits()
}

/// Takes in a selector.
pub(crate) fn selected(digest: Digest, selector: &PodSelector) -> Digest {
    let digest = match &selector.namespaces {
        NamespaceScope::Named(namespace) => digest.texts(["in", namespace]),
        NamespaceScope::Matching(selector) => requirements(digest.text("where"), selector),
    };
    requirements(digest, &selector.pods)
}

fn requirements(digest: Digest, selector: &Selector) -> Digest {
    use picket_policy::Requirement::{DoesNotExist, Exists, In, NotIn};
    let all = selector.requirements();
    let counted = digest.text(&all.len().to_string());
    all.iter().fold(counted, |digest, one| match one {
        In(key, values) => digest.texts(["in", key]).texts(values),
        NotIn(key, values) => digest.texts(["notin", key]).texts(values),
        Exists(key) => digest.texts(["exists", key]),
        DoesNotExist(key) => digest.texts(["absent", key]),
    })
}

/// What pods a selector means, for people.
pub(crate) fn described(selector: &PodSelector) -> String {
    let pods = match selector.pods.is_everything() {
        true => "all pods".to_owned(),
        false => format!("pods with {}", selector.pods),
    };
    match &selector.namespaces {
        NamespaceScope::Named(namespace) => format!("{pods} in namespace {namespace}"),
        NamespaceScope::Matching(selector) if selector.is_everything() => format!("{pods} of all namespaces"),
        NamespaceScope::Matching(selector) => format!("{pods} in namespaces with {selector}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_stay_apart() {
        let long = |end: char| {
            let name: String = std::iter::repeat_n('a', 253).chain([end]).collect();
            super::name("picket", &["np", "x", &name])
        };
        assert_eq!(long('b').chars().count(), LONGEST);
        assert_ne!(long('b'), long('c'));
    }

    #[test]
    fn a_policy_is_told_by_its_uid() {
        let mut policy = ObjectRef::new("NetworkPolicy", "x", "web");
        let without = tag(&policy, Direction::Egress);
        policy.uid = "65d54bbb-70d5-11e9-9986-fa163e6aa097".into();
        assert_eq!(
            tag(&policy, Direction::Ingress),
            "65d54bbb-70d5-11e9-9986-fa163e6aa097_IN"
        );
        policy.uid = "a,b".into();
        let hashed = tag(&policy, Direction::Egress);
        assert!(!hashed.contains(',') && hashed != without);
    }
}
