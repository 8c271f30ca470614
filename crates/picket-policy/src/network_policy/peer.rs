//! NetworkPolicyPeer.

use super::block;
use crate::dialect::Options;
use crate::label_selector;
use crate::reader::{Cursor, Reader, Unreadable};
use crate::{NamespaceScope, Peer, PodSelector, Selector, code};

/// Reads an item of `from` or `to` of a policy in `namespace`.
pub(super) fn read(
    at: &Cursor<'_>,
    namespace: &str,
    options: Options,
    reader: &mut Reader<'_>,
) -> Result<Peer, Unreadable> {
    let mut fields = at.fields(reader)?;
    let pods = fields.get("podSelector");
    let namespaces = fields.get("namespaceSelector");
    let block = fields.get("ipBlock");
    let known = fields.unknown(&[], reader).is_empty();

    let pods = pods.map(|pods| label_selector::read(&pods, reader).whole());
    let namespaces = namespaces.map(|namespaces| label_selector::read(&namespaces, reader).whole());
    let block = block.map(|at| block::read(&at, options, reader));
    if !known {
        return Err(Unreadable);
    }
    match (pods, namespaces, block) {
        (None, None, None) => Err(reader.error(code::PEER, at, "Required value: must specify a peer")),
        (None, None, Some(block)) => block.map(Peer::Block),
        (pods, namespaces, None) => {
            let pods = pods.unwrap_or_else(|| Ok(Selector::everything()))?;
            let namespaces = match namespaces {
                Some(selector) => NamespaceScope::Matching(selector?),
                None => NamespaceScope::Named(namespace.into()),
            };
            Ok(Peer::Pods(PodSelector { namespaces, pods }))
        }
        (_, _, Some(_)) => {
            let message = "Forbidden: may not specify both ipBlock and another peer";
            Err(reader.error(code::PEER, at, message))
        }
    }
}
