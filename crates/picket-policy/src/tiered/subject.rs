//! Pods by the labels of their namespaces and their own: subjects, and peers that are pods.

use crate::document::Value;
use crate::label_selector;
use crate::reader::{Cursor, Reader};
use crate::tiered::bounds;
use crate::{NamespaceScope, PodSelector, Selector, code};

/// What could be read of the pods that are meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Reading {
    /// Every pod that is meant, and others if something could not be read.
    pub(super) pods: PodSelector,
    /// Whether everything could be read.
    pub(super) complete: bool,
}

impl Reading {
    /// When nothing could be read.
    pub(super) fn unreadable() -> Self {
        Self {
            pods: everything(),
            complete: false,
        }
    }
}

/// Every pod.
pub(super) fn everything() -> PodSelector {
    PodSelector {
        namespaces: NamespaceScope::Matching(Selector::everything()),
        pods: Selector::everything(),
    }
}

/// Reads a subject: `namespaces` or `pods`.
pub(super) fn read(at: &Cursor<'_>, needs_namespaces: bool, reader: &mut Reader<'_>) -> Reading {
    let Ok(mut fields) = at.fields(reader) else {
        return Reading::unreadable();
    };
    match bounds::one_of(&mut fields, ["namespaces", "pods"], code::SUBJECT, reader) {
        Ok(("namespaces", at)) => namespaces(&at, reader),
        Ok((_, at)) => pods(&at, needs_namespaces, reader),
        Err(_) => Reading::unreadable(),
    }
}

/// Reads `namespaces`: every pod in some namespaces.
pub(super) fn namespaces(at: &Cursor<'_>, reader: &mut Reader<'_>) -> Reading {
    let namespaces = label_selector::read(at, reader);
    Reading {
        pods: PodSelector {
            namespaces: NamespaceScope::Matching(namespaces.selector),
            pods: Selector::everything(),
        },
        complete: namespaces.complete,
    }
}

/// Reads `pods`: some pods in some namespaces.
pub(super) fn pods(at: &Cursor<'_>, needs_namespaces: bool, reader: &mut Reader<'_>) -> Reading {
    let Ok(mut fields) = at.fields(reader) else {
        return Reading::unreadable();
    };
    let mut selector = |field: &'static str, required: bool| match fields.get(field) {
        Some(at) => label_selector::read(&at, reader),
        None => {
            if required {
                reader.missing(code::SELECTOR, at, field, "Required value");
            }
            label_selector::Reading {
                complete: !required,
                ..label_selector::Reading::everything()
            }
        }
    };
    let namespaces = selector("namespaceSelector", needs_namespaces);
    let pods = selector("podSelector", true);
    let known = fields.unknown(&[], reader).is_empty();
    Reading {
        pods: PodSelector {
            namespaces: NamespaceScope::Matching(namespaces.selector),
            pods: pods.selector,
        },
        complete: known && namespaces.complete && pods.complete,
    }
}

/// The subject of a policy of which a part could not be parsed: every pod that may be meant.
pub(super) fn rest(at: &Cursor<'_>, reader: &mut Reader<'_>) -> PodSelector {
    let selector = |at: Option<Cursor<'_>>, reader: &mut Reader<'_>| {
        let readable = at.filter(|at| at.node().value != Value::Unreadable);
        readable.map_or_else(Selector::everything, |at| label_selector::rest(&at, reader))
    };
    let Ok(mut fields) = at.fields(reader) else {
        return everything();
    };
    let pods = fields.get("pods");
    match (fields.get("namespaces"), pods) {
        (Some(at), None) => PodSelector {
            namespaces: NamespaceScope::Matching(selector(Some(at), reader)),
            pods: Selector::everything(),
        },
        (None, Some(at)) => {
            let Ok(mut fields) = at.fields(reader) else {
                return everything();
            };
            let namespaces = fields.get("namespaceSelector");
            let namespaces = NamespaceScope::Matching(selector(namespaces, reader));
            let pods = selector(fields.get("podSelector"), reader);
            PodSelector { namespaces, pods }
        }
        (None, None) | (Some(_), Some(_)) => everything(),
    }
}
