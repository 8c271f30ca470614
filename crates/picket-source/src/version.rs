//! In which version an object was read.

use std::fmt;

use serde::{Deserialize, Serialize};
use smol_str::SmolStr;

/// In which version an object was read, by what its source says of that.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectVersion {
    /// Its `metadata.resourceVersion`, which every change of it changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<SmolStr>,
    /// Its `metadata.generation`, which every change of its `spec` makes one more.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// The revision of etcd in which a reflector wrote it, where that is the source; the object has no other version there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
}

impl fmt::Display for ObjectVersion {
    /// As in `version 712 (generation 3)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.resource_version, self.revision) {
            (Some(version), _) => write!(f, "version {version}")?,
            (None, Some(revision)) => write!(f, "revision {revision}")?,
            (None, None) => f.write_str("an unknown version")?,
        }
        match self.generation {
            Some(generation) => write!(f, " (generation {generation})"),
            None => Ok(()),
        }
    }
}
