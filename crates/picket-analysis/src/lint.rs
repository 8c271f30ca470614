//! What policies say that is probably not what was meant: the lints of `picket check`.
//!
//! A lint never finds what the API server would refuse: that is validation. It finds what has a meaning, and probably
//! another one than somebody thought. Each has a code, an explanation, and an example of what it finds and of what it
//! leaves alone, all in [`LINTS`]; what a lint cannot know from the input, it keeps quiet about.

mod block;
mod cluster;
mod dash;
mod dns;
mod named_port;
mod open;
mod priority;
mod redundant;
mod selection;
mod service_port;
mod shadow;
mod silence;
mod table;
mod text;
mod types;
mod v1beta1;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use picket_cluster::Snapshot;
use picket_policy::{Code, Diagnostic, Direction, Fix, ObjectRef, Policy, Rule, Severity, Tier, V1beta1};
use smol_str::SmolStr;

use cluster::Cluster;
pub(crate) use cluster::matches;
use text::{Place, Texts};

pub use silence::ANNOTATION;
pub use table::{ALL, LINTS, Lint};

/// What lints look at.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a> {
    /// What exists.
    pub snapshot: &'a Snapshot,
    /// How NetworkPolicy of extensions/v1beta1 was read.
    pub v1beta1: V1beta1,
    /// The text of each file, which policies have their places in.
    pub sources: &'a BTreeMap<Arc<str>, Arc<str>>,
    /// Policies that validation found errors in. They are left alone: what they mean is not what was written.
    pub broken: &'a BTreeSet<ObjectRef>,
    /// Lints that are not wanted at all.
    pub ignored: &'a BTreeSet<Code>,
}

/// Everything that the lints find, by policy. What an annotation of the policy silences is left out.
///
/// Policies for secondary networks are looked at on each of their networks.
pub fn check(input: &Input<'_>) -> Vec<Diagnostic> {
    let texts = Texts::new(input.sources);
    let mut found = on_one_network(input, input.snapshot, &texts);
    for network in attached(input.snapshot) {
        let mut seen = input.snapshot.on(&network);
        seen.policies
            .retain(|_, policy| policy.networks.hold(Some(&network)));
        found.extend(on_one_network(input, &seen, &texts));
    }
    redundant::on_every_network(input.snapshot, &mut found);
    found.retain(|diagnostic| !input.ignored.contains(&diagnostic.code));
    let mut known = BTreeSet::new();
    found.retain(|diagnostic| {
        let object = diagnostic.object.clone();
        known.insert((
            object,
            diagnostic.code,
            diagnostic.field.clone(),
            diagnostic.message.clone(),
        ))
    });
    silence::apply(input.snapshot, &texts, found)
}

/// The secondary networks that policies are about.
fn attached(snapshot: &Snapshot) -> BTreeSet<picket_policy::NetworkName> {
    let policies = snapshot.policies.values();
    policies
        .flat_map(|policy| policy.networks.attached().iter().cloned())
        .collect()
}

fn on_one_network(input: &Input<'_>, snapshot: &Snapshot, texts: &Texts<'_>) -> Vec<Diagnostic> {
    let context = Context::new(input, snapshot, texts);
    let addresses = block::Taken::of(snapshot);
    let names = dns::Resolvers::of(&context);
    let ports = service_port::Translated::of(&context.cluster);
    let mut found = Vec::new();
    for policy in &context.policies {
        let about = Subject {
            context: &context,
            policy,
        };
        types::check(&about, &mut found);
        selection::check(&about, &mut found);
        dash::check(&about, &mut found);
        block::check(&about, &addresses, &mut found);
        service_port::check(&about, &ports, &mut found);
        dns::check(&about, &names, &mut found);
        named_port::check(&about, &mut found);
        shadow::check(&about, &mut found);
        open::check(&about, &mut found);
        v1beta1::check(&about, input.v1beta1, &mut found);
    }
    priority::check(&context, &mut found);
    redundant::check(&context, &mut found);
    silence::check(&context, &mut found);
    found
}

/// What every lint may look at.
struct Context<'a> {
    cluster: Cluster<'a>,
    texts: &'a Texts<'a>,
    /// Those that are looked at, on the network that is looked at.
    policies: Vec<&'a Arc<Policy>>,
    /// The same, by their namespaces.
    by_namespace: BTreeMap<&'a SmolStr, Vec<&'a Arc<Policy>>>,
}

impl<'a> Context<'a> {
    fn new(input: &Input<'a>, snapshot: &'a Snapshot, texts: &'a Texts<'a>) -> Self {
        let policies = snapshot.policies.values();
        let policies = policies.filter(|policy| policy.networks.are_looked_at());
        // The isolation of a namespace and the cluster default are no policies that anybody wrote.
        let written =
            |policy: &&Arc<Policy>| policy.object.kind != "Namespace" && policy.tier != Tier::ClusterDefault;
        let policies: Vec<_> = policies
            .filter(written)
            .filter(|policy| !input.broken.contains(&policy.object))
            .collect();
        let mut by_namespace: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for policy in &policies {
            by_namespace
                .entry(&policy.object.namespace)
                .or_default()
                .push(*policy);
        }
        Self {
            cluster: Cluster::new(snapshot),
            texts,
            policies,
            by_namespace,
        }
    }

    /// The policies of a namespace.
    fn in_namespace(&self, name: &SmolStr) -> &[&'a Arc<Policy>] {
        self.by_namespace.get(name).map_or(&[], Vec::as_slice)
    }
}

/// One policy among the others.
struct Subject<'a> {
    context: &'a Context<'a>,
    policy: &'a Policy,
}

impl Subject<'_> {
    fn cluster(&self) -> &Cluster<'_> {
        &self.context.cluster
    }

    /// The whole policy, in its text.
    fn place(&self) -> Place {
        self.context.texts.place(self.policy)
    }

    /// Where the pods are named that the policy is about.
    fn subject_place(&self) -> Place {
        let field = if self.is_tiered() {
            "subject"
        } else {
            "podSelector"
        };
        self.place().field("spec").field(field)
    }

    fn rule_place(&self, direction: Direction, rule: &Rule) -> Place {
        let at = usize::try_from(rule.index).unwrap_or(usize::MAX);
        let rules = self.place().field("spec").field(&direction.to_string());
        rules.item(at)
    }

    /// An item of `from` or `to`. In the tiers an item may have become several peers, so that the rule has to do.
    fn peer_place(&self, direction: Direction, rule: &Rule, at: usize) -> Place {
        let place = self.rule_place(direction, rule);
        if self.is_tiered() {
            return place;
        }
        place.field(peers_field(direction)).item(at)
    }

    fn port_place(&self, direction: Direction, rule: &Rule, at: usize) -> Place {
        let place = self.rule_place(direction, rule);
        if self.is_tiered() {
            return place;
        }
        place.field("ports").item(at)
    }

    fn is_tiered(&self) -> bool {
        self.policy.tier != Tier::NetworkPolicy
    }

    /// Every rule with its direction.
    fn rules(&self) -> impl Iterator<Item = (Direction, &Rule)> {
        Direction::BOTH.into_iter().flat_map(|direction| {
            let rules = self.policy.side(direction).rules.iter();
            rules.map(move |rule| (direction, rule))
        })
    }

    fn warning(&self, code: Code, place: &Place, message: String) -> Diagnostic {
        let mut diagnostic = Diagnostic::new(code, Severity::Warning, message).on(&self.policy.object);
        place.path().clone_into(&mut diagnostic.field);
        match place.span() {
            Some(span) => diagnostic.mark(span, ""),
            None => diagnostic,
        }
    }
}

fn peers_field(direction: Direction) -> &'static str {
    match direction {
        Direction::Ingress => "from",
        Direction::Egress => "to",
    }
}

/// Something that a person may do, and has to decide.
fn advice(title: impl Into<String>) -> Fix {
    Fix {
        title: title.into(),
        edits: Vec::new(),
    }
}

/// The code of a lint as somebody writes it; `None` when there is no such lint.
pub fn code(text: &str) -> Option<Code> {
    silence::code(text)
}

/// `1 pod`, `2 pods`.
fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

/// Up to four names in backticks.
fn quoted<'n>(names: impl IntoIterator<Item = &'n SmolStr>) -> String {
    let mut names = names.into_iter();
    let some: Vec<_> = names.by_ref().take(4).map(|name| format!("`{name}`")).collect();
    match names.count() {
        0 => some.join(", "),
        more => format!("{} and {more} more", some.join(", ")),
    }
}
