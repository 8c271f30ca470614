//! The counters of packets that rules drop, or would drop if no policy were only audited.

use picket_policy::{Direction, ObjectRef};

use super::documented::{name, policy_hash, title};
use crate::model::{Comment, Counter, Name};

/// `drop-<direction>-<hash>`: packets that were dropped in this direction and that the policy may be why, in the documented
/// layout. The indexed one has names of its own ([`indexed::counter_name`](super::indexed::counter_name)).
pub fn counter_name(policy: &ObjectRef, direction: Direction) -> Name {
    name(&format!("drop-{direction}-{}", policy_hash(policy)))
}

/// `audit-<direction>-<hash>`: packets that passed in this direction and that would be dropped if the policy, which is only
/// audited, were enforced.
pub fn audit_counter_name(policy: &ObjectRef, direction: Direction) -> Name {
    name(&format!("audit-{direction}-{}", policy_hash(policy)))
}

/// The counter of TCP packets that belong to no known connection and begin none, which were dropped.
pub fn mid_stream_counter() -> Name {
    name("drop-mid-stream")
}

/// The counter of packets that were dropped because their source cannot be where they came from: the way back to it leads
/// elsewhere, or it is the pod itself.
pub fn spoofed_counter() -> Name {
    name("drop-spoofed")
}

/// The counter of [`counter_name`].
pub(super) fn of_policy(policy: &ObjectRef, direction: Direction) -> Counter {
    Counter {
        name: counter_name(policy, direction),
        comment: Some(Comment::new(&title(policy), policy_hash(policy))),
    }
}

/// The counter of [`audit_counter_name`].
pub(super) fn of_audited(policy: &ObjectRef, direction: Direction) -> Counter {
    Counter {
        name: audit_counter_name(policy, direction),
        comment: Some(Comment::new(&title(policy), policy_hash(policy))),
    }
}

/// The counter of [`mid_stream_counter`].
pub(super) fn of_mid_stream() -> Counter {
    Counter {
        name: mid_stream_counter(),
        comment: Some(Comment::of("TCP of no known connection")),
    }
}

/// The counter of [`spoofed_counter`].
pub(super) fn of_spoofed(comment: &str) -> Counter {
    Counter {
        name: spoofed_counter(),
        comment: Some(Comment::of(comment)),
    }
}
