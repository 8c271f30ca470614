//! The same for many network namespaces at once.

use std::iter;
use std::panic::resume_unwind;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// How many are served at once. Most of the time of a transaction is waiting for the kernel, so that there may be more of them than
/// processors.
const AT_ONCE: usize = 8;

/// Does something with each of these, several at once, and gives what came of each, in their order.
///
/// For rulesets of different network namespaces: in each the kernel carries out one transaction after the other, and waits until no
/// packet is under way by the rules before.
pub fn at_once<T: Send, R: Send>(all: Vec<T>, each: impl Fn(T) -> R + Sync) -> Vec<R> {
    let others = all.len().min(AT_ONCE).saturating_sub(1);
    let waiting = Mutex::new(all.into_iter().enumerate());
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || -> Vec<(usize, R)> {
        iter::from_fn(next)
            .map(|(index, one)| (index, each(one)))
            .collect()
    };
    let mut done = thread::scope(|scope| {
        // Where no more threads can begin, those that have do all of it.
        let others: Vec<_> = (0..others)
            .map_while(|_| thread::Builder::new().spawn_scoped(scope, work).ok())
            .collect();
        let mut done = work();
        for other in others {
            done.extend(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        done
    });
    done.sort_unstable_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, came)| came).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;

    use super::*;

    #[test]
    fn what_came_of_each_is_in_order() {
        let all: Vec<_> = (0..100).collect();
        assert_eq!(
            at_once(all.clone(), |one| one * 2),
            all.iter().map(|one| one * 2).collect::<Vec<_>>()
        );
        assert!(at_once(Vec::new(), |one: usize| one).is_empty());
    }

    #[test]
    fn several_are_served_at_once() {
        let together = Barrier::new(AT_ONCE);
        let waited = at_once(vec![(); AT_ONCE], |()| together.wait().is_leader());
        assert_eq!(waited.iter().filter(|is_leader| **is_leader).count(), 1);
    }
}
