//! How far a reflector is, and how far one that reads is behind.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::record::{VERSION, cut, read_mapping};

/// What a reflector says of what it keeps: everything up to these versions is there, in the same revision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reflection {
    /// The version of records.
    version: u64,
    /// The revision of etcd in which the reflector became the one that writes. A later one is larger.
    pub epoch: i64,
    /// What the reflector is called.
    pub reflector: String,
    /// When this was written. It does not go back, whatever the clocks of reflectors say.
    pub time: Timestamp,
    /// When the reflector last compared all of etcd with the cluster.
    pub pass: Timestamp,
    /// How far each kind is, by resource.
    pub kinds: BTreeMap<String, Reach>,
}

/// How far a kind is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reach {
    /// The `resourceVersion` of the API server up to which all changes are there.
    pub resource_version: String,
    /// That of the last change of an object that is there.
    pub changed: u64,
}

/// How fresh is what was read of etcd.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Freshness {
    /// The revision of etcd up to which everything is known; 0 before that.
    pub revision: i64,
    /// How many revisions there were after that, of whatever keys, when etcd was last asked.
    pub behind: i64,
    /// What the reflector said last.
    pub reflection: Option<Reflection>,
}

impl Reflection {
    pub(super) fn new(epoch: i64, reflector: &str, time: Timestamp, pass: Timestamp) -> Self {
        Self {
            version: VERSION,
            epoch,
            reflector: reflector.to_owned(),
            time,
            pass,
            kinds: BTreeMap::new(),
        }
    }

    /// What a reflector wrote.
    ///
    /// # Errors
    /// Why nobody can tell what, for people.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, String> {
        let mut read: Self =
            read_mapping(bytes).map_err(|error| format!("it is no progress: {}", cut(&error.to_string())))?;
        if read.version != VERSION {
            return Err(format!(
                "it is of version {}, and picket reads {VERSION}",
                read.version
            ));
        }
        read.reflector = cut(&read.reflector);
        for reach in read.kinds.values_mut() {
            reach.resource_version = cut(&reach.resource_version);
        }
        Ok(read)
    }

    pub(super) fn write(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}
