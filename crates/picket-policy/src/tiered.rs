//! Policies of the tiers around NetworkPolicy: what ClusterNetworkPolicy and its predecessors have in common.
//!
//! Their rules are judged in order and may deny, so that leaving out what cannot be read may allow more than was meant.
//! What is unreadable therefore accepts nothing and denies all that may be meant, as the API asks of whoever meets a
//! field that it does not know: "For "Accept" rules, "fail closed" means: "treat the rule as matching no traffic". For
//! "Deny" and "Pass" rules, "fail closed" means: "treat the rule as a 'Deny all' rule"."
//!
//! Validation has the wording of the API server for custom resources (`apiextensions-apiserver`), and that of the
//! messages in the CRDs.

pub(crate) mod bounds;
mod peer;
mod rule;
mod subject;

use crate::dialect::{Lowered, Options};
use crate::document::Manifest;
use crate::header::{Header, Scope, header};
use crate::network_policy::ABOUT_NOTHING;
use crate::reader::{Cursor, Fields, Reader, Unreadable};
use crate::{
    Action, Direction, Mode, Networks, PodSelector, Policy, PortMatch, Position, Rule, Severity, Side, Tier,
    code, mode,
};

/// What one kind of these policies has that others lack.
pub(crate) struct Schema {
    /// Its tier; `None` when `spec.tier` says it.
    pub(crate) tier: Option<Tier>,
    /// Whether there is a `spec.priority`.
    pub(crate) has_priority: bool,
    /// The values of `action`.
    pub(crate) actions: &'static [(&'static str, Action)],
    /// The most rules of a direction, and the most peers and ports of a rule.
    pub(crate) most: usize,
    /// The field of a rule that lists protocols and ports.
    pub(crate) ports: &'static str,
    /// Reads an item of that list.
    pub(crate) port: fn(&Cursor<'_>, &mut Reader<'_>) -> Result<PortMatch, Unreadable>,
    /// Whether peers may have `domainNames`.
    pub(crate) has_domain_names: bool,
    /// Whether `namespaceSelector` is required beside `podSelector`.
    pub(crate) needs_namespaces: bool,
}

/// Reads a policy. See [`crate::lower`].
pub(crate) fn lower(manifest: &Manifest, options: Options, schema: &Schema) -> Lowered {
    let (mut reader, root) = manifest.reader();
    let policy = policy(manifest, &root, options, schema, &mut reader).ok();
    if policy.is_none() {
        reader.consequence(0, &root, ABOUT_NOTHING);
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
    schema: &Schema,
    reader: &mut Reader<'_>,
) -> Result<Policy, Unreadable> {
    let mut fields = root.fields(reader)?;
    let header = header(manifest, Scope::Cluster, &mut fields, reader)?;
    let spec = fields.get("spec");
    if manifest.is_broken() {
        let spec = spec.ok_or(Unreadable)?;
        return rest_of_policy(&header, &spec, root, schema, reader);
    }
    let Some(spec) = spec else {
        let message = "Required value: a policy needs a `spec`";
        return Err(reader.missing(code::NO_SPEC, root, "spec", message));
    };
    let before = reader.diagnostics().len();
    let misplaced = !fields
        .unknown(&["apiVersion", "kind", "status"], reader)
        .is_empty();
    let spec = spec.fields(reader)?;
    let at = spec.cursor().clone();
    let spec = Spec::read(spec, options, schema, reader);
    let lost = if misplaced { Loss::Rules } else { spec.lost };
    if lost == Loss::Rules {
        reader.consequence(before, &at, DENIES);
    }
    let mut policy = spec.of(&header, lost);
    policy.mode = mode::read(root, &header, options, reader);
    Ok(policy)
}

/// How much of a policy cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Loss {
    Nothing,
    /// When it is judged, or whom it selects.
    Place,
    /// Fields that nobody knows, and that may have denied something.
    Rules,
}

const DENIES: &str = "what it was meant to say is lost, so the policy denies everything to and from the pods that it may select";

const ONLY_DENIES: &str = "the policy is judged before those that it may come before, and for every pod that it may \
                           select; its rules only deny: an accept matches nothing, and a pass denies";

/// The spec, lowered.
struct Spec {
    position: Position,
    tier: Tier,
    priority: u16,
    subject: PodSelector,
    ingress: Vec<Rule>,
    egress: Vec<Rule>,
    lost: Loss,
}

impl Spec {
    fn read(mut fields: Fields<'_>, options: Options, schema: &Schema, reader: &mut Reader<'_>) -> Self {
        let at = fields.cursor().clone();
        let before = reader.diagnostics().len();
        let tier = schema.tier.map_or_else(|| tier(&mut fields, reader), Ok);
        let priority = match schema.has_priority {
            true => priority(&mut fields, reader),
            false => Ok(0),
        };
        let subject = match fields.get("subject") {
            Some(at) => subject::read(&at, schema.needs_namespaces, reader),
            None => {
                reader.missing(code::SUBJECT, &at, "subject", "Required value");
                subject::Reading::unreadable()
            }
        };
        let placed = tier.is_ok() && priority.is_ok() && subject.complete;
        if !placed {
            reader.consequence(before, &at, ONLY_DENIES);
        }
        let mut side = |direction: Direction, at: Option<Cursor<'_>>| {
            at.map(|at| rule::read_all(&at, direction, options, schema, reader))
                .unwrap_or_default()
        };
        let ingress = side(Direction::Ingress, fields.get("ingress"));
        let egress = side(Direction::Egress, fields.get("egress"));
        let known = fields.unknown(&[], reader).is_empty();
        Self {
            position: reader.source().position(at.node().range.start),
            // What may stand anywhere is judged first.
            tier: tier.unwrap_or(Tier::Admin),
            priority: priority.unwrap_or(0),
            subject: subject.pods,
            ingress,
            egress,
            lost: match (known, placed) {
                (false, _) => Loss::Rules,
                (true, false) => Loss::Place,
                (true, true) => Loss::Nothing,
            },
        }
    }

    fn of(self, header: &Header, lost: Loss) -> Policy {
        let side = |mut rules: Vec<Rule>| {
            match lost {
                Loss::Nothing => {}
                Loss::Place => rules.iter_mut().for_each(rule::only_deny),
                Loss::Rules => rules = vec![rule::deny_all(0, self.position.clone())],
            }
            Side {
                isolates: false,
                rules,
            }
        };
        Policy {
            object: header.object.clone(),
            position: header.position.clone(),
            mode: Mode::Enforce,
            tier: self.tier,
            priority: self.priority,
            networks: Networks::Cluster,
            subject: self.subject,
            ingress: side(self.ingress),
            egress: side(self.egress),
        }
    }
}

/// Makes a policy deny what its rules deny or pass, and nothing else.
pub(crate) fn only_deny(policy: &mut Policy) {
    for side in [&mut policy.ingress, &mut policy.egress] {
        side.rules.iter_mut().for_each(rule::only_deny);
    }
}

/// Reads a policy of which a part could not be parsed: that part may have denied anything.
fn rest_of_policy(
    header: &Header,
    spec: &Cursor<'_>,
    root: &Cursor<'_>,
    schema: &Schema,
    reader: &mut Reader<'_>,
) -> Result<Policy, Unreadable> {
    let subject = spec.fields(reader)?.get("subject");
    let message = "a part of this policy cannot be parsed, so it denies everything to and from the pods that it may select";
    reader.report(code::UNREADABLE, Severity::Error, root, message);
    let spec = Spec {
        position: reader.source().position(spec.node().range.start),
        tier: schema.tier.unwrap_or(Tier::Admin),
        priority: 0,
        subject: subject.map_or_else(subject::everything, |at| subject::rest(&at, reader)),
        ingress: Vec::new(),
        egress: Vec::new(),
        lost: Loss::Rules,
    };
    Ok(spec.of(header, Loss::Rules))
}

fn tier(fields: &mut Fields<'_>, reader: &mut Reader<'_>) -> Result<Tier, Unreadable> {
    let Some(at) = fields.get("tier") else {
        return Err(reader.missing(code::TIER, fields.cursor(), "tier", "Required value"));
    };
    match at.string(reader)?.as_str() {
        "Admin" => Ok(Tier::Admin),
        "Baseline" => Ok(Tier::Baseline),
        text => Err(reader.unsupported(code::TIER, &at, text, &["Admin", "Baseline"])),
    }
}

fn priority(fields: &mut Fields<'_>, reader: &mut Reader<'_>) -> Result<u16, Unreadable> {
    let Some(at) = fields.get("priority") else {
        return Err(reader.missing(code::TIER, fields.cursor(), "priority", "Required value"));
    };
    bounds::number(&at, 0, 1000, code::TIER, reader)
}

#[cfg(test)]
pub(crate) mod tests;
