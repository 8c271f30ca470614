//! Workloads, which stand for the pods of their template.

use picket_policy::Reader;

use super::field::{Field, Fields};
use super::{attachment, labels, pod};
use crate::written::WrittenPod;

/// Reads a workload whose pod template stands below the fields `path`.
pub(super) fn parse<'a>(
    reader: &mut Reader<'a>,
    root: &Field<'a>,
    path: &[&'static str],
    namespace: &str,
) -> WrittenPod {
    let template = path
        .iter()
        .fold(root.clone(), |parent, key| reader.mapping(&parent, key));
    let metadata = reader.mapping(&template, "metadata");
    let spec = reader.mapping(root, "spec");
    WrittenPod {
        labels: labels::parse(reader, &metadata),
        attachments: attachment::parse(reader, &metadata, namespace),
        scaled_to_zero: reader.integer(&spec, "replicas") == Some(0),
        ..pod::spec(reader, &template)
    }
}
