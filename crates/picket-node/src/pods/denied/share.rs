//! How those who have something to tell share the lines of a turn.

use std::time::Duration;

use crate::denied::{AT_ONCE, Fold, Told};

/// What is told `now` of all of `folds`, which are in the order of their numbers. Who has much to tell leaves room for the
/// others, and those whose turn it was longest ago come first: after `last`, which becomes the last that told something.
pub(super) fn shared<L: Ord + Clone>(
    folds: Vec<(u64, &mut Fold<L>)>,
    last: &mut u64,
    now: Duration,
) -> Told<(u64, L)> {
    let due = folds.iter().filter(|(_, fold)| fold.is_due(now)).count();
    let share = (AT_ONCE / due.max(1)).max(1);
    let mut told = Told::default();
    let (before, after): (Vec<_>, Vec<_>) = folds.into_iter().partition(|(number, _)| *number <= *last);
    for (number, fold) in after.into_iter().chain(before) {
        let left = AT_ONCE - told.lines.len();
        let one = fold.tell(now, share.min(left));
        if !one.lines.is_empty() {
            *last = number;
        }
        let lines = one.lines.into_iter();
        told.lines
            .extend(lines.map(|(line, packets)| ((number, line), packets)));
        told.unlisted += one.unlisted;
        told.losses += one.losses;
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many lines each of several tells in a turn, where each has as many to tell as given.
    fn counts(folds: &mut [Fold<u32>], last: &mut u64, now: Duration) -> Vec<usize> {
        let numbered = (1..).zip(folds.iter_mut()).collect();
        let told = shared(numbered, last, now);
        assert!(told.lines.len() <= AT_ONCE);
        let of = |number: u64| told.lines.iter().filter(|((one, _), _)| *one == number).count();
        (1..).take(folds.len()).map(of).collect()
    }

    fn folds(lines: impl IntoIterator<Item = u32>) -> Vec<Fold<u32>> {
        let fold = |count| {
            let mut fold = Fold::new(256);
            (0..count).for_each(|line| fold.add(line));
            fold
        };
        lines.into_iter().map(fold).collect()
    }

    #[test]
    fn who_has_much_to_tell_leaves_room_and_has_all_where_nobody_else_has_anything() {
        let (mut folds, mut last, now) = (folds([200, 0, 3, 100]), 0, Duration::ZERO);
        assert_eq!(counts(&mut folds, &mut last, now), [16, 0, 3, 16]);
        assert_eq!(counts(&mut folds, &mut last, now), [25, 0, 0, 25]);
        assert_eq!(counts(&mut folds, &mut last, now), [25, 0, 0, 25]);
        assert_eq!(counts(&mut folds, &mut last, now), [25, 0, 0, 25]);
        assert_eq!(counts(&mut folds, &mut last, now), [25, 0, 0, 9]);
        assert_eq!(counts(&mut folds, &mut last, now), [50, 0, 0, 0]);
    }

    #[test]
    fn those_for_whom_a_turn_had_no_room_come_first_in_the_next() {
        let (mut folds, mut last, now) = (folds([2; 80]), 0, Duration::ZERO);
        let mut sums = vec![0; 80];
        for _ in 0..2 {
            let told = counts(&mut folds, &mut last, now);
            sums.iter_mut().zip(told).for_each(|(sum, told)| *sum += told);
        }
        // A hundred lines of eighty: each has been heard, and the first twenty twice.
        assert_eq!(sums, [[2].repeat(20), [1].repeat(60)].concat());
    }

    #[test]
    fn what_has_no_line_is_counted_whoever_has_it() {
        let (mut folds, mut last) = (folds([300, 257, 0]), 0);
        folds[2].lose(4);
        let numbered = (1..).zip(folds.iter_mut()).collect();
        let told = shared(numbered, &mut last, Duration::ZERO);
        assert_eq!((told.unlisted, told.losses), (45, 4));
    }
}
