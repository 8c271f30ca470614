//! The kinds that say something about connectivity, and which of them a cluster serves.

use super::error::KubeError;
use super::list::Session;
use crate::origin::Missing;

/// A kind, and the versions of its group that are read, the one to prefer first.
pub(crate) struct Kind {
    pub(crate) group: &'static str,
    pub(crate) versions: &'static [&'static str],
    pub(crate) name: &'static str,
    /// What lists of it are called in addresses of the API.
    pub(crate) plural: &'static str,
}

/// What every cluster has.
pub(crate) const BUILT_IN: [Kind; 12] = [
    kind("", &["v1"], "Namespace", "namespaces"),
    kind("", &["v1"], "Node", "nodes"),
    kind("", &["v1"], "Pod", "pods"),
    kind("", &["v1"], "ReplicationController", "replicationcontrollers"),
    kind("", &["v1"], "Service", "services"),
    kind("apps", &["v1"], "DaemonSet", "daemonsets"),
    kind("apps", &["v1"], "Deployment", "deployments"),
    kind("apps", &["v1"], "ReplicaSet", "replicasets"),
    kind("apps", &["v1"], "StatefulSet", "statefulsets"),
    kind("batch", &["v1"], "CronJob", "cronjobs"),
    kind("batch", &["v1"], "Job", "jobs"),
    kind("networking.k8s.io", &["v1"], "NetworkPolicy", "networkpolicies"),
];

/// What a cluster has where somebody defined it.
pub(crate) const CUSTOM: [Kind; 5] = [
    kind(
        "k8s.cni.cncf.io",
        &["v1"],
        "NetworkAttachmentDefinition",
        "network-attachment-definitions",
    ),
    kind(
        "k8s.cni.cncf.io",
        &["v1beta2", "v1beta1"],
        "MultiNetworkPolicy",
        "multi-networkpolicies",
    ),
    kind(
        "policy.networking.k8s.io",
        &["v1alpha2"],
        "ClusterNetworkPolicy",
        "clusternetworkpolicies",
    ),
    kind(
        "policy.networking.k8s.io",
        &["v1alpha1"],
        "AdminNetworkPolicy",
        "adminnetworkpolicies",
    ),
    kind(
        "policy.networking.k8s.io",
        &["v1alpha1"],
        "BaselineAdminNetworkPolicy",
        "baselineadminnetworkpolicies",
    ),
];

const fn kind(
    group: &'static str,
    versions: &'static [&'static str],
    name: &'static str,
    plural: &'static str,
) -> Kind {
    Kind {
        group,
        versions,
        name,
        plural,
    }
}

/// Objects to list: a kind in a version that is served.
#[derive(Clone, Copy)]
pub(crate) struct Resource {
    pub(crate) kind: &'static Kind,
    pub(crate) version: &'static str,
}

impl Resource {
    /// What objects of it say as their `apiVersion`.
    pub(crate) fn api_version(&self) -> String {
        match self.kind.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// The address of the list.
    pub(super) fn path(&self) -> String {
        let root = if self.kind.group.is_empty() { "api" } else { "apis" };
        format!("/{root}/{}/{}", self.api_version(), self.kind.plural)
    }
}

impl Kind {
    /// Whether its objects are policies.
    pub(crate) fn is_policy(&self) -> bool {
        self.name.ends_with("NetworkPolicy")
    }

    /// Whether a list of its objects may be of this kind. Who defines a kind may call its lists something else.
    pub(super) fn has_list(&self, kind: &str) -> bool {
        let is_custom = CUSTOM.iter().any(|custom| custom.name == self.name);
        let of = kind.strip_suffix("List");
        of.is_some_and(|of| of == self.name || is_custom && !of.is_empty())
    }

    /// The resource with its group, as roles and error messages name it.
    pub(crate) fn full_name(&self) -> String {
        match self.group {
            "" => self.plural.to_owned(),
            group => format!("{}.{group}", self.plural),
        }
    }
}

/// What to list of the kinds that somebody wants, and those of them that are there and cannot be read. Nothing is asked about others:
/// what becomes of them is no trouble of whoever does not want them.
pub(super) async fn served(
    session: &Session,
    wants: impl Fn(&Kind) -> bool,
) -> Result<(Vec<Resource>, Vec<Missing>), KubeError> {
    let built_in = BUILT_IN.iter().filter(|kind| wants(kind)).flat_map(|kind| {
        kind.versions
            .iter()
            .map(move |version| Resource { kind, version })
    });
    let mut resources: Vec<_> = built_in.collect();
    let mut missing = Vec::new();
    let custom: Vec<_> = CUSTOM.iter().filter(|kind| wants(kind)).collect();
    if custom.is_empty() {
        return Ok((resources, missing));
    }
    let groups = match session.groups().await? {
        Ok(groups) => groups,
        Err(lacks) => {
            missing.push(lacks);
            return Ok((resources, missing));
        }
    };
    let mut offered = Vec::new();
    for (group, version) in groups {
        if !custom.iter().any(|kind| kind.group == group) {
            continue;
        }
        match session.kinds(&group, &version).await? {
            Ok(kinds) => offered.extend(kinds.into_iter().map(|kind| Offer {
                group: group.clone(),
                version: version.clone(),
                kind,
            })),
            Err(lacks) => missing.push(lacks),
        }
    }
    for kind in custom {
        match choose(kind, &offered) {
            Ok(Some(resource)) => resources.push(resource),
            Ok(None) => match unnamed(session, kind).await? {
                Ok(resource) => resources.extend(resource),
                Err(lacks) => missing.push(lacks),
            },
            Err(lacks) => missing.push(lacks),
        }
    }
    Ok((resources, missing))
}

/// The version in which a kind is served although the cluster does not name it, if there is one: a server that has just started may
/// not name all that it serves yet, and whoever took that for all would enforce nothing of the rest. Of a list that may not be
/// read, nobody learns whether it is there; there the names are believed.
async fn unnamed(
    session: &Session,
    kind: &'static Kind,
) -> Result<Result<Option<Resource>, Missing>, KubeError> {
    for version in kind.versions {
        let resource = Resource { kind, version };
        match session.has_list(&resource).await? {
            Ok(()) => return Ok(Ok(Some(resource))),
            Err(refusal) if matches!(refusal.code, 403 | 404) => {}
            Err(refusal) => return Ok(Err(refusal.of(kind.full_name()))),
        }
    }
    Ok(Ok(None))
}

/// A kind that the cluster serves in a version.
struct Offer {
    group: String,
    version: String,
    kind: String,
}

/// The version of a kind to list, if it is served at all.
fn choose(kind: &'static Kind, offered: &[Offer]) -> Result<Option<Resource>, Missing> {
    let versions: Vec<_> = offered
        .iter()
        .filter(|offer| offer.group == kind.group && offer.kind == kind.name)
        .map(|offer| offer.version.as_str())
        .collect();
    let known = kind.versions.iter().find(|version| versions.contains(version));
    match known {
        Some(version) => Ok(Some(Resource { kind, version })),
        None if versions.is_empty() => Ok(None),
        None => Err(Missing {
            what: kind.full_name(),
            why: format!(
                "the cluster serves {} only as {}, and picket reads {}",
                kind.name,
                versions.join(" and "),
                kind.versions.join(" and ")
            ),
        }),
    }
}

#[cfg(test)]
mod tests {
    use picket_cluster::is_cluster_kind;
    use picket_policy::Options;

    use super::*;
    use crate::{Text, load_texts};

    #[test]
    fn every_kind_is_one_that_is_read_from_files() {
        for kind in BUILT_IN.iter().chain(&CUSTOM) {
            for version in kind.versions {
                let api_version = Resource { kind, version }.api_version();
                let text = format!(
                    "{{apiVersion: {api_version}, kind: {}, metadata: {{name: a}}}}",
                    kind.name
                );
                let text = Text {
                    name: "a.yaml".into(),
                    bytes: text.into_bytes(),
                };
                let loaded = load_texts(&[text], Options::default());
                assert_eq!(
                    loaded.objects.get(kind.name),
                    Some(&1),
                    "{api_version} {}",
                    kind.name
                );
            }
        }
        assert!(is_cluster_kind("v1", "Pod"));
    }

    /// What is listed of MultiNetworkPolicy where these versions are served.
    fn chosen(versions: &[&str]) -> Result<Option<String>, String> {
        let kind = CUSTOM
            .iter()
            .find(|kind| kind.name == "MultiNetworkPolicy")
            .unwrap();
        let offered: Vec<_> = versions
            .iter()
            .map(|version| Offer {
                group: kind.group.to_owned(),
                version: (*version).to_owned(),
                kind: kind.name.to_owned(),
            })
            .collect();
        choose(kind, &offered)
            .map(|resource| resource.map(|resource| resource.path()))
            .map_err(|missing| format!("{}: {}", missing.what, missing.why))
    }

    #[test]
    fn a_version_that_is_read_is_chosen_or_the_kind_is_missing() {
        let list = |version| {
            Ok(Some(format!(
                "/apis/k8s.cni.cncf.io/{version}/multi-networkpolicies"
            )))
        };
        assert_eq!(chosen(&[]), Ok(None));
        assert_eq!(chosen(&["v1beta1"]), list("v1beta1"));
        assert_eq!(chosen(&["v1", "v1beta1", "v1beta2"]), list("v1beta2"));
        let missing = "multi-networkpolicies.k8s.cni.cncf.io: the cluster serves MultiNetworkPolicy only as v1 and v2, and \
                       picket reads v1beta2 and v1beta1";
        assert_eq!(chosen(&["v1", "v2"]), Err(missing.to_owned()));
    }
}
