//! NetworkPolicy of networking.k8s.io/v1.
//!
//! Defaulting follows `pkg/apis/networking/v1/defaults.go`, validation and its wording
//! `pkg/apis/networking/validation/validation.go` of Kubernetes 1.36.4.

mod block;
mod peer;
pub(crate) mod port;
pub(crate) mod rule;
mod types;

use crate::dialect::{Lowered, Options};
use crate::document::{Manifest, Value};
use crate::header::{Header, Scope, header};
use crate::label_selector::{self, Reading};
use crate::reader::{Cursor, Fields, Reader, Unreadable};
use crate::{
    Direction, Mode, NamespaceScope, Networks, PodSelector, Policy, Selector, Severity, Side, Tier, code,
    mode,
};

pub(crate) use block::cidr;
use types::{Certainty, Types};

/// Reads a NetworkPolicy. See [`crate::lower`].
pub(crate) fn lower(manifest: &Manifest, options: Options) -> Lowered {
    let (mut reader, root) = manifest.reader();
    let policy = policy(manifest, &root, SelectorField::Optional, options, &mut reader);
    let policy = policy.ok().map(|(policy, _)| policy);
    if policy.is_none() {
        reader.consequence(0, &root, ABOUT_NOTHING);
    }
    Lowered {
        policy,
        diagnostics: reader.finish(),
    }
}

/// What follows when a policy cannot be used at all.
pub(crate) const ABOUT_NOTHING: &str =
    "nobody can tell which pods the policy is about, so it isolates nothing";

/// Whether a policy must have a `podSelector`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SelectorField {
    /// It may be left out, and then selects every pod of the namespace.
    Optional,
    /// Without it the policy cannot be created: it isolates every pod of the namespace and allows nothing.
    Required,
}

/// Reads an object whose spec is that of a NetworkPolicy, for the cluster network.
pub(crate) fn policy(
    manifest: &Manifest,
    root: &Cursor<'_>,
    selector: SelectorField,
    options: Options,
    reader: &mut Reader<'_>,
) -> Result<(Policy, Header), Unreadable> {
    let mut fields = root.fields(reader)?;
    if manifest.is_broken() {
        return rest_of_policy(manifest, &mut fields, reader);
    }
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
    let spec = Spec::read(spec.fields(reader)?, misplaced, selector, options, reader);
    let mut policy = spec.of(&header);
    policy.mode = mode::read(root, &header, options, reader);
    Ok((policy, header))
}

/// Reads a policy of which a part could not be parsed: that part may have named more directions, and its rules may have
/// been narrower, so it isolates in both directions and allows nothing.
fn rest_of_policy(
    manifest: &Manifest,
    fields: &mut Fields<'_>,
    reader: &mut Reader<'_>,
) -> Result<(Policy, Header), Unreadable> {
    if !fields.has("metadata") {
        return Err(Unreadable);
    }
    let header = header(manifest, Scope::Namespaced, fields, reader)?;
    let spec = fields.get("spec").ok_or(Unreadable)?;
    let selector = spec.fields(reader)?.get("podSelector");
    let is_known = selector
        .as_ref()
        .is_some_and(|at| at.node().value != Value::Unreadable);
    let message = "a part of this policy cannot be parsed, so it isolates its pods in both directions and allows nothing";
    let diagnostic = reader.report(code::UNREADABLE, Severity::Error, fields.cursor(), message);
    if !is_known {
        let note =
            "its `podSelector` is not in the part that can be read: it isolates every pod of its namespace";
        diagnostic.notes.push(note.to_owned());
    }
    let selector = selector.filter(|_| is_known);
    let subject = selector.map_or_else(Selector::everything, |at| label_selector::rest(&at, reader));
    let side = || Side {
        isolates: true,
        rules: Vec::new(),
    };
    let spec = Spec {
        subject,
        ingress: side(),
        egress: side(),
    };
    Ok((spec.of(&header), header))
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
    fn read(
        mut fields: Fields<'_>,
        misplaced: bool,
        required: SelectorField,
        options: Options,
        reader: &mut Reader<'_>,
    ) -> Self {
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
        let subject = match selector {
            Some(at) => subject(&at, reader),
            None if required == SelectorField::Required => no_subject(fields.cursor(), reader),
            None => Reading::everything(),
        };
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

    fn of(self, header: &Header) -> Policy {
        Policy {
            subject: PodSelector {
                namespaces: NamespaceScope::Named(header.object.namespace.clone()),
                pods: self.subject,
            },
            object: header.object.clone(),
            position: header.position.clone(),
            mode: Mode::Enforce,
            tier: Tier::NetworkPolicy,
            priority: 0,
            networks: Networks::Cluster,
            ingress: self.ingress,
            egress: self.egress,
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

/// A selector that is missing where one is required.
fn no_subject(spec: &Cursor<'_>, reader: &mut Reader<'_>) -> Reading {
    let before = reader.diagnostics().len();
    reader.missing(code::SELECTOR, spec, "podSelector", "Required value");
    reader.consequence(
        before,
        spec,
        "every pod of the namespace is isolated, and the policy allows nothing",
    );
    Reading {
        complete: false,
        ..Reading::everything()
    }
}

#[cfg(test)]
mod tests;
