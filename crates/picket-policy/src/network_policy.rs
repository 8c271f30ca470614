//! NetworkPolicy of networking.k8s.io/v1.
//!
//! Defaulting follows `pkg/apis/networking/v1/defaults.go`, validation and its wording
//! `pkg/apis/networking/validation/validation.go` of Kubernetes 1.36.4.

mod block;
mod peer;
mod port;
mod rule;
mod types;

use crate::dialect::{Lowered, Options};
use crate::document::Manifest;
use crate::header::{Scope, header};
use crate::label_selector::{self, Reading};
use crate::reader::{Cursor, Fields, Reader, Unreadable};
use crate::{Direction, NamespaceScope, Networks, PodSelector, Policy, Selector, Side, Tier, code};

use types::{Certainty, Types};

/// Reads a NetworkPolicy. See [`crate::lower`].
pub(crate) fn lower(manifest: &Manifest, options: Options) -> Lowered {
    let (mut reader, root) = manifest.reader();
    let policy = policy(manifest, &root, options, &mut reader).ok();
    if policy.is_none() {
        let note = "nobody can tell which pods the policy is about, so it isolates nothing";
        reader.consequence(0, &root, note);
    }
    Lowered {
        policy,
        diagnostics: reader.finish(),
    }
}

fn policy(
    manifest: &Manifest,
    root: &Cursor<'_>,
    options: Options,
    reader: &mut Reader<'_>,
) -> Result<Policy, Unreadable> {
    let mut fields = root.fields(reader)?;
    let header = header(manifest, Scope::Namespaced, &mut fields, reader)?;
    let Some(spec) = fields.get("spec") else {
        return Err(reader.missing(
            code::NO_SPEC,
            root,
            "spec",
            "Required value: a policy needs a `spec`",
        ));
    };
    let before = reader.diagnostics().len();
    // Older API servers wrote an empty status.
    let misplaced = !fields
        .unknown(&["apiVersion", "kind", "status"], reader)
        .is_empty();
    if misplaced {
        reader.consequence(before, root, SAYS_LESS);
    }
    let spec = Spec::read(spec.fields(reader)?, misplaced, options, reader);
    Ok(Policy {
        subject: PodSelector {
            namespaces: NamespaceScope::Named(header.object.namespace.clone()),
            pods: spec.subject,
        },
        object: header.object,
        position: header.position,
        tier: Tier::NetworkPolicy,
        priority: 0,
        networks: Networks::Cluster,
        ingress: spec.ingress,
        egress: spec.egress,
    })
}

const SAYS_LESS: &str = "what it was meant to say is lost, so the policy allows nothing, and isolates its pods in \
                         both directions if it has no `policyTypes`";

/// The spec, lowered.
struct Spec {
    subject: Selector,
    ingress: Side,
    egress: Side,
}

impl Spec {
    /// Reads the spec. `misplaced` when something of the policy stands outside it, which the spec may lack.
    fn read(mut fields: Fields<'_>, misplaced: bool, options: Options, reader: &mut Reader<'_>) -> Self {
        let selector = fields.get("podSelector");
        let types = fields.get("policyTypes");
        let ingress = fields.get("ingress");
        let egress = fields.get("egress");
        let before = reader.diagnostics().len();
        let unknown = !fields.unknown(&[], reader).is_empty();
        if unknown {
            reader.consequence(before, fields.cursor(), SAYS_LESS);
        }
        let damaged = misplaced || unknown;
        let subject = selector.map_or_else(Reading::everything, |at| subject(&at, reader));
        let types = Types::read(types.as_ref(), egress.as_ref(), damaged, reader);
        let silent = damaged || !subject.complete;
        let mut side = |rules: Option<Cursor<'_>>, direction: Direction| {
            let rules = rules.map(|rules| rule::read_all(&rules, direction, options, reader));
            let mut rules = rules.unwrap_or_default();
            match types.of(direction) {
                Certainty::No => rules.clear(),
                Certainty::Yes if !silent => {}
                Certainty::Yes | Certainty::Unclear => rules.iter_mut().for_each(rule::silence),
            }
            Side {
                isolates: types.of(direction) != Certainty::No,
                rules,
            }
        };
        Self {
            ingress: side(ingress, Direction::Ingress),
            egress: side(egress, Direction::Egress),
            subject: subject.selector,
        }
    }
}

fn subject(at: &Cursor<'_>, reader: &mut Reader<'_>) -> Reading {
    let before = reader.diagnostics().len();
    let subject = label_selector::read(at, reader);
    if !subject.complete {
        let note = "what cannot be read of the selector is ignored: every pod that may be meant is isolated, and the \
                    policy allows nothing";
        reader.consequence(before, at, note);
    }
    subject
}

#[cfg(test)]
mod tests;
