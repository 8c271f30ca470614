//! What a watch says.

use std::mem::take;

use super::message::{Event, WatchResponse};

/// What an answer of a watch says.
#[derive(Debug, PartialEq)]
pub(super) enum Heard {
    /// What some revisions changed, once all of its parts are there.
    Changes(Vec<Event>),
    /// That nothing changed up to a revision.
    Progress(i64),
    /// Nothing yet.
    Nothing,
}

impl Heard {
    /// What an answer says that ends nothing, after these parts.
    ///
    /// One without changes is a progress, which etcd sends in order with changes to whoever has all of them. Progress is
    /// not asked for: etcd 3.4 before 3.4.25 answers with the revision that it has, also while changes up to there are still
    /// to be sent (etcd's issue 15220).
    pub(super) fn of(answer: WatchResponse, parts: &mut Vec<Event>) -> Self {
        // That a watch begins comes before what changed since the revision from which it was asked for.
        if answer.created {
            return Self::Nothing;
        }
        parts.extend(answer.events);
        if answer.fragment {
            return Self::Nothing;
        }
        match (take(parts), answer.header) {
            (events, Some(at)) if events.is_empty() => Self::Progress(at.revision),
            (events, None) if events.is_empty() => Self::Nothing,
            (events, _) => Self::Changes(events),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::message::{Header, KeyValue};
    use super::*;

    fn answer(revision: i64, changes: &[i64]) -> WatchResponse {
        let change = |&mod_revision: &i64| {
            let kv = KeyValue {
                mod_revision,
                ..KeyValue::default()
            };
            Event::new(kv, false)
        };
        WatchResponse {
            header: Some(Header {
                cluster_id: 1,
                revision,
            }),
            events: changes.iter().map(change).collect(),
            ..WatchResponse::default()
        }
    }

    #[test]
    fn only_an_answer_without_changes_that_is_whole_says_how_far_etcd_is() {
        let begun = WatchResponse {
            created: true,
            ..answer(9, &[])
        };
        let part = |of: WatchResponse| WatchResponse { fragment: true, ..of };
        let nameless = WatchResponse {
            header: None,
            ..answer(9, &[])
        };
        let changes = |of: &[i64]| Heard::Changes(answer(0, of).events);
        let mut parts = Vec::new();
        for (answer, expected) in [
            (begun, Heard::Nothing),
            (answer(7, &[]), Heard::Progress(7)),
            (nameless, Heard::Nothing),
            // etcd may send what changed in between later.
            (answer(9, &[8]), changes(&[8])),
            (part(answer(9, &[9])), Heard::Nothing),
            (part(answer(9, &[])), Heard::Nothing),
            (answer(9, &[9]), changes(&[9, 9])),
            (answer(9, &[]), Heard::Progress(9)),
        ] {
            assert_eq!(Heard::of(answer.clone(), &mut parts), expected, "{answer:?}");
        }
    }
}
