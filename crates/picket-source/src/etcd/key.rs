//! The keys under which a cluster is kept.
//!
//! ```text
//! PREFIXobjects/RESOURCE/NAMESPACE/NAME    an object of a kind with namespaces
//! PREFIXobjects/RESOURCE/NAME              an object of any other kind
//! PREFIXprogress                           how far it is
//! PREFIXleader                             which reflector writes
//! ```
//!
//! Names of objects hold no `/`: that is how the API server makes addresses of them.

use picket_policy::name::printable;
use smol_str::SmolStr;

use super::EtcdError;
use crate::kube::kind::{BUILT_IN, CUSTOM, Kind};
use crate::live::Name;

/// The kinds whose objects are kept, in an order in which what pods need stands before them, and whether these objects have
/// namespaces.
const KINDS: [(&str, bool); 10] = [
    ("Namespace", false),
    ("Node", false),
    ("Service", true),
    ("NetworkAttachmentDefinition", true),
    ("NetworkPolicy", true),
    ("MultiNetworkPolicy", true),
    ("ClusterNetworkPolicy", false),
    ("AdminNetworkPolicy", false),
    ("BaselineAdminNetworkPolicy", false),
    ("Pod", true),
];

/// The most bytes of a name that the API server accepts (RFC 1123, section 2.1).
const LONGEST_NAME: usize = 253;

/// Where the keys of one cluster are.
#[derive(Clone, Debug)]
pub(super) struct Keys {
    prefix: String,
    objects: String,
    pub(super) progress: String,
    pub(super) leader: String,
}

/// An object that has a key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    /// The place of its kind in [`KINDS`].
    rank: usize,
    pub(super) name: Name,
}

impl Keys {
    pub(super) fn new(prefix: &str) -> Result<Self, EtcdError> {
        let is_usual = |byte: u8| byte.is_ascii_graphic();
        if !prefix.starts_with('/') || !prefix.ends_with('/') || !prefix.bytes().all(is_usual) {
            return Err(EtcdError::Prefix(prefix.to_owned()));
        }
        Ok(Self {
            prefix: prefix.to_owned(),
            objects: format!("{prefix}objects/"),
            progress: format!("{prefix}progress"),
            leader: format!("{prefix}leader"),
        })
    }

    /// All keys: from the first to before the second.
    pub(super) fn all(&self) -> (&str, String) {
        (&self.prefix, after(&self.prefix))
    }

    /// All keys of objects: from the first to before the second.
    pub(super) fn objects(&self) -> (&str, String) {
        (&self.objects, after(&self.objects))
    }

    /// The key of an object.
    pub(super) fn of(&self, key: &Key) -> String {
        let Name { namespace, name } = &key.name;
        let resource = key.kind().full_name();
        match namespace.as_str() {
            "" => format!("{}{resource}/{name}", self.objects),
            namespace => format!("{}{resource}/{namespace}/{name}", self.objects),
        }
    }

    /// Whether a key is that of an object, or should be.
    pub(super) fn is_object(&self, key: &[u8]) -> bool {
        key.starts_with(self.objects.as_bytes())
    }

    /// The object whose key this is; `None` when it is nobody's.
    pub(super) fn read(&self, key: &[u8]) -> Option<Key> {
        let text = std::str::from_utf8(key).ok()?;
        let mut parts = text.strip_prefix(&self.objects)?.split('/');
        let resource = parts.next()?;
        let mut places = KINDS.iter().enumerate();
        let (rank, (_, in_namespace)) = places.find(|(rank, _)| kind(*rank).full_name() == resource)?;
        let (first, second) = (parts.next()?, parts.next());
        let (namespace, name) = second.map_or(("", first), |second| (first, second));
        let is_whole = parts.next().is_none() && !name.is_empty() && *in_namespace != namespace.is_empty();
        let name = Name {
            namespace: SmolStr::new(namespace),
            name: SmolStr::new(name),
        };
        let can_be = is_whole && could_be(&name.namespace) && could_be(&name.name);
        can_be.then_some(Key { rank, name })
    }
}

impl Key {
    /// The key of an object of a kind, if such objects have keys.
    pub(super) fn new(kind: &str, name: Name) -> Option<Self> {
        let rank = KINDS.iter().position(|(known, _)| *known == kind)?;
        Some(Self { rank, name })
    }

    pub(super) fn kind(&self) -> &'static Kind {
        kind(self.rank)
    }

    /// The first key of a kind there could be.
    pub(super) fn first(kind: &str) -> Option<Self> {
        let name = Name {
            namespace: SmolStr::default(),
            name: SmolStr::default(),
        };
        Self::new(kind, name)
    }
}

/// Every kind whose objects have keys.
pub(super) fn kinds() -> impl Iterator<Item = &'static Kind> {
    (0..KINDS.len()).map(kind)
}

fn kind(rank: usize) -> &'static Kind {
    let (name, _) = KINDS.get(rank).copied().unwrap_or_default();
    let known = || BUILT_IN.iter().chain(&CUSTOM);
    let found = known().find(|kind| kind.name == name);
    // INVARIANT: every name of KINDS is that of a kind; a test holds it.
    found.unwrap_or(&BUILT_IN[0])
}

/// Whether anything could be called so. Of names that are shown otherwise than they are two could be shown alike.
fn could_be(name: &SmolStr) -> bool {
    name.len() <= LONGEST_NAME && printable(name) == *name
}

/// The first key after all that begin with `prefix`, which ends with `/`.
fn after(prefix: &str) -> String {
    let begin = prefix.strip_suffix('/').unwrap_or(prefix);
    // The byte after `/`.
    format!("{begin}0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_they_are_written() {
        let keys = Keys::new("/picket/v1/").unwrap();
        for (text, expected) in [
            (
                "/picket/v1/objects/pods/shop/web-0",
                Some(("Pod", "shop", "web-0")),
            ),
            (
                "/picket/v1/objects/nodes/worker.1",
                Some(("Node", "", "worker.1")),
            ),
            (
                "/picket/v1/objects/services/shop/web",
                Some(("Service", "shop", "web")),
            ),
            (
                "/picket/v1/objects/networkpolicies.networking.k8s.io/shop/web",
                Some(("NetworkPolicy", "shop", "web")),
            ),
            ("/picket/v1/objects/pods/web-0", None),
            ("/picket/v1/objects/nodes/shop/worker", None),
            ("/picket/v1/objects/services/web", None),
            ("/picket/v1/objects/pods", None),
            ("/picket/v1/objects/pods/", None),
            ("/picket/v1/objects/pods//web", None),
            ("/picket/v1/objects/pods/shop/", None),
            ("/picket/v1/objects/pods/shop/web/0", None),
            ("/picket/v1/objects/secrets/shop/web", None),
            ("/picket/v1/progress", None),
            ("/picket/v2/objects/pods/shop/web", None),
        ] {
            let key = keys.read(text.as_bytes());
            let read = key.as_ref().map(|key| {
                let Name { namespace, name } = &key.name;
                (key.kind().name, namespace.as_str(), name.as_str())
            });
            assert_eq!(read, expected, "{text}");
            if let Some(key) = key {
                assert_eq!(keys.of(&key), text);
            }
        }
        assert_eq!(keys.read(b"/picket/v1/objects/pods/shop/\xff"), None);
        assert_eq!(keys.read(b"/picket/v1/objects/pods/shop/a\x1b"), None);
        for (length, is_name) in [(253, true), (254, false)] {
            let key = format!("/picket/v1/objects/nodes/{}", "n".repeat(length));
            assert_eq!(keys.read(key.as_bytes()).is_some(), is_name, "{length}");
        }
    }

    #[test]
    fn every_kind_has_its_keys() {
        for (rank, (name, _)) in KINDS.iter().enumerate() {
            assert_eq!(kind(rank).name, *name);
        }
    }

    #[test]
    fn a_range_ends_where_the_prefix_does() {
        let keys = Keys::new("/picket/v1/").unwrap();
        assert_eq!(keys.all(), ("/picket/v1/", "/picket/v10".to_owned()));
        for wrong in ["", "picket/", "/picket", "/pi cket/"] {
            assert!(Keys::new(wrong).is_err(), "{wrong}");
        }
    }
}
