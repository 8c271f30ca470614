//! `policyTypes`: which directions a policy is about.

use crate::document::Value;
use crate::reader::{Cursor, Reader, Unreadable};
use crate::{Direction, code};

/// Which directions a policy is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Types {
    ingress: Certainty,
    egress: Certainty,
}

/// Whether a policy is about a direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Certainty {
    Yes,
    No,
    /// It cannot be told. The direction is isolated, and its rules allow nothing: they would be inert if the policy
    /// were not about it, so that what they allow to pods which another policy isolates would be more than was meant.
    Unclear,
}

const ISOLATES_BOTH: &str = "the policy isolates its pods in both directions, and allows nothing in a direction that is not clearly listed";

impl Types {
    pub(super) const UNCLEAR: Self = Self {
        ingress: Certainty::Unclear,
        egress: Certainty::Unclear,
    };

    pub(super) fn of(self, direction: Direction) -> Certainty {
        match direction {
            Direction::Ingress => self.ingress,
            Direction::Egress => self.egress,
        }
    }

    /// What `policyTypes` says, or its default. `damaged` when the list may be missing only because it stands, or is
    /// spelled, where it cannot be found.
    pub(super) fn read(
        types: Option<&Cursor<'_>>,
        egress: Option<&Cursor<'_>>,
        damaged: bool,
        reader: &mut Reader<'_>,
    ) -> Self {
        let listed = types.filter(|types| !is_empty_list(types));
        match listed {
            Some(types) => Self::listed(types, reader),
            None if damaged => Self::UNCLEAR,
            None => Self::default_for(egress),
        }
    }

    /// `Ingress`, and `Egress` when there is an egress rule.
    fn default_for(egress: Option<&Cursor<'_>>) -> Self {
        let egress = match egress {
            None => Certainty::No,
            Some(rules) if is_empty_list(rules) => Certainty::No,
            Some(rules) if matches!(rules.node().value, Value::Sequence(_)) => Certainty::Yes,
            Some(_) => Certainty::Unclear,
        };
        let ingress = Certainty::Yes;
        Self { ingress, egress }
    }

    fn listed(at: &Cursor<'_>, reader: &mut Reader<'_>) -> Self {
        let before = reader.diagnostics().len();
        let Ok(items) = at.items(reader) else {
            reader.consequence(before, at, ISOLATES_BOTH);
            return Self::UNCLEAR;
        };
        let mut clear = items.len() <= 2;
        if !clear {
            let value = |item: &Cursor<'_>| item.node().as_str().map(|text| format!("{text:?}"));
            let values: Vec<_> = items.iter().filter_map(value).collect();
            let message = format!(
                "Invalid value: [{}]: may not specify more than two policyTypes",
                values.join(",")
            );
            reader.error(code::POLICY_TYPES, at, message);
        }
        let (mut ingress, mut egress) = (false, false);
        for item in &items {
            match item.string(reader).map(|text| text.as_str()) {
                Ok("Ingress") => ingress = true,
                Ok("Egress") => egress = true,
                Ok(text) => {
                    clear = false;
                    reader.unsupported(code::POLICY_TYPES, item, text, &["Ingress", "Egress"]);
                }
                Err(Unreadable) => clear = false,
            }
        }
        if !clear {
            reader.consequence(before, at, ISOLATES_BOTH);
        }
        let certainty = |listed| match (listed, clear) {
            (true, _) => Certainty::Yes,
            (false, true) => Certainty::No,
            (false, false) => Certainty::Unclear,
        };
        Self {
            ingress: certainty(ingress),
            egress: certainty(egress),
        }
    }
}

fn is_empty_list(at: &Cursor<'_>) -> bool {
    matches!(&at.node().value, Value::Sequence(items) if items.is_empty())
}
