//! Documents of the kinds that say what exists: Namespace, Node, Pod, Service, NetworkAttachmentDefinition, and
//! workloads.
//!
//! Only what picket uses is read, and only that must have the right type; every other field may be anything. What
//! cannot be read is left out with a diagnostic.

mod attachment;
mod field;
mod kind;
mod labels;
mod namespace;
mod neutron;
mod node;
mod pod;
mod service;
mod vpp;
mod workload;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use picket_policy::document::Manifest;
use picket_policy::{
    Cursor, Diagnostic, Header, NetworkName, ObjectRef, OwnerReference, Reader, Scope, Span, Unreadable,
    header,
};

use self::field::{Field, Fields};
use self::kind::{Kind, group};
pub use self::kind::{is_cluster_kind, misnamed};
use crate::written::{Spec, Written};
use crate::{Network, NetworkConfig, Owner};

/// Reads one object; `None` for kinds that say nothing about the cluster, for an object whose namespace cannot be read,
/// of which nothing can be used, and for one of which a part could not be parsed: it may have had other labels.
pub fn parse(manifest: &Manifest, diagnostics: &mut Vec<Diagnostic>) -> Option<Written> {
    let kind = Kind::of(group(manifest.api_version()), manifest.kind())?;
    if manifest.is_broken() {
        return None;
    }
    let (mut reader, root) = manifest.reader();
    let written = read(manifest, kind, root, &mut reader);
    let mut found = reader.finish();
    for diagnostic in found.iter_mut().filter(|found| labels::is_unquoted(found)) {
        diagnostic
            .notes
            .push("the label is read as the text that is written".to_owned());
    }
    diagnostics.extend(found);
    written.ok()
}

fn read<'a>(
    manifest: &'a Manifest,
    kind: Kind,
    root: Cursor<'a>,
    reader: &mut Reader<'a>,
) -> Result<Written, Unreadable> {
    let scope = match kind {
        Kind::Namespace => Scope::Namespace,
        Kind::Node => Scope::Cluster,
        Kind::Pod | Kind::Service | Kind::Network | Kind::Workload(_) => Scope::Namespaced,
    };
    kind::check_version(manifest, &root, reader);
    let mut fields = root.fields(reader)?;
    let Header {
        object,
        labels,
        owners,
        ..
    } = header(manifest, scope, &mut fields, reader)?;
    let root = Some(root);
    let metadata = reader.mapping(&root, "metadata");
    let labels = labels::complete(reader, &metadata, labels);
    let mut spec = match kind {
        Kind::Namespace => Spec::Namespace(namespace::parse(reader, &root, labels)),
        Kind::Node => Spec::Node(node::parse(reader, &root, labels)),
        Kind::Pod => Spec::Pod(pod::parse(reader, &root, labels)),
        Kind::Service => Spec::Service(service::parse(reader, &root, object.clone())),
        Kind::Network => Spec::Network(network(&object, &root)),
        Kind::Workload(template) => Spec::Pod(workload::parse(reader, &root, template, &object.namespace)),
    };
    if let (Kind::Pod, Spec::Pod(pod)) = (kind, &mut spec) {
        pod.attachments = attachment::parse(reader, &metadata, &object.namespace);
        pod.static_uid = pod::static_uid(reader, &metadata);
        pod.vpp_interface = vpp::interface(reader, &metadata);
        pod.neutron_ports = neutron::ports(reader, &metadata);
    }
    if let Spec::Pod(pod) = &mut spec {
        pod.owners = controller_first(owners);
    }
    let span = place(manifest);
    Ok(Written {
        object,
        span,
        places: BTreeMap::new(),
        spec,
    })
}

/// The network that a definition defines. What its configuration may say is up to plugins, so that nothing is wrong with any.
fn network(object: &ObjectRef, root: &Field<'_>) -> Network {
    let spec = root.as_ref().and_then(|root| root.node().get("spec"));
    let config = spec.and_then(|spec| spec.get("config")?.as_str());
    Network {
        name: NetworkName {
            namespace: object.namespace.clone(),
            name: object.name.clone(),
        },
        wire: config.and_then(|config| NetworkConfig::read(config).wire),
    }
}

/// The place to show for a whole object: its name, or else its first line.
pub fn place(manifest: &Manifest) -> Span {
    let (source, root) = (manifest.source(), manifest.root());
    let name = root.get("metadata").and_then(|metadata| metadata.get("name"));
    let range = name.map_or_else(
        || {
            let text = source.slice(root.range.clone());
            let width = text.lines().next().map_or(0, str::len);
            root.range.start..root.range.start + width
        },
        |name| name.range.clone(),
    );
    source.span(range)
}

fn controller_first(references: Vec<OwnerReference>) -> Vec<Owner> {
    let (controller, others): (Vec<_>, Vec<_>) = references.into_iter().partition(|owner| owner.controller);
    let owners = controller.into_iter().chain(others);
    owners
        .map(|owner| Owner {
            kind: owner.kind,
            name: owner.name,
        })
        .collect()
}
