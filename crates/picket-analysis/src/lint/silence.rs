//! Findings that somebody has looked at and does not want to see again.

use std::collections::BTreeSet;

use picket_cluster::Snapshot;
use picket_policy::{Code, Diagnostic, Policy};

use super::table::{LINTS, UNKNOWN_LINT};
use super::text::Texts;
use super::{Context, Subject, advice};

/// The annotation of a policy that names the lints which leave it alone: codes, separated by commas.
pub const ANNOTATION: &str = "picket.dev/ignore";

/// The code of a lint as somebody writes it, in capitals or not.
pub(super) fn code(text: &str) -> Option<Code> {
    let wanted = |code: &&Code| code.0.eq_ignore_ascii_case(text.trim());
    LINTS.iter().map(|lint| &lint.code).find(wanted).copied()
}

/// Leaves out what annotations silence.
pub(super) fn apply(snapshot: &Snapshot, texts: &Texts<'_>, found: Vec<Diagnostic>) -> Vec<Diagnostic> {
    let is_wanted = |diagnostic: &Diagnostic| {
        let object = diagnostic.object.as_ref();
        let policy = object.and_then(|object| snapshot.policies.get(object));
        policy.is_none_or(|policy| !ignored(texts, policy).contains(&diagnostic.code))
    };
    found.into_iter().filter(is_wanted).collect()
}

fn ignored(texts: &Texts<'_>, policy: &Policy) -> BTreeSet<Code> {
    let words = words(texts, policy);
    words.iter().filter_map(|word| code(word)).collect()
}

/// The codes that the annotation of a policy lists, as they are written.
fn words(texts: &Texts<'_>, policy: &Policy) -> Vec<String> {
    if !texts.may_mention(policy, ANNOTATION) {
        return Vec::new();
    }
    let annotations = texts.place(policy).field("metadata").field("annotations");
    let value = annotations.field(ANNOTATION);
    let text = value.node().and_then(|node| node.as_str());
    let words = text.iter().flat_map(|text| text.split(','));
    let words = words.map(|word| word.trim().to_owned());
    words.filter(|word| !word.is_empty()).collect()
}

/// Codes in annotations that no lint has: what they were meant to silence is not silenced.
pub(super) fn check(context: &Context<'_>, found: &mut Vec<Diagnostic>) {
    if !context.texts.mention(ANNOTATION) {
        return;
    }
    for policy in &context.policies {
        let about = Subject { context, policy };
        for word in words(context.texts, policy)
            .iter()
            .filter(|word| code(word).is_none())
        {
            let annotations = about.place().field("metadata").field("annotations");
            let place = annotations.field(ANNOTATION);
            let message = format!("`{word}` in `{ANNOTATION}` of {} is no lint", policy.object);
            let mut diagnostic = about.warning(UNKNOWN_LINT, &place, message);
            diagnostic
                .fixes
                .push(advice("write codes of lints, as in `L001,L009`"));
            found.push(diagnostic);
        }
    }
}
