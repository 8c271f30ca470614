//! Namespace.

use picket_policy::{Labels, Reader};

use super::field::{Field, Fields};
use crate::NAMESPACE_NAME_LABEL;
use crate::written::{Located, WrittenNamespace};

pub(super) fn parse<'a>(reader: &mut Reader<'a>, root: &Field<'a>, labels: Labels) -> WrittenNamespace {
    let metadata = reader.mapping(root, "metadata");
    let written = reader
        .field(&metadata, "labels")
        .and_then(|field| field.node().get(NAMESPACE_NAME_LABEL));
    let name_label = labels.get(NAMESPACE_NAME_LABEL).zip(written);
    WrittenNamespace {
        name_label: name_label.map(|(value, node)| Located {
            value: value.clone(),
            span: reader.source().span(node.range.clone()),
        }),
        labels,
    }
}
