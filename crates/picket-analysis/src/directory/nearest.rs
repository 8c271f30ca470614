//! What somebody who wrote a name that does not exist may have meant.

/// The `count` candidates that are nearest to `asked` by edit distance, nearest first, equals in alphabetical order;
/// and whether the nearest is probably what was meant: at most a third of its characters differ. When it is, only
/// candidates as likely are given.
pub fn nearest(asked: &str, candidates: impl Iterator<Item = String>, count: usize) -> (Vec<String>, bool) {
    let asked: Vec<char> = asked.chars().collect();
    let mut ranked: Vec<_> = candidates
        .map(|candidate| {
            let (distance, length) = distance(&asked, &candidate);
            (distance, candidate, distance * 3 <= length.max(asked.len()))
        })
        .collect();
    ranked.sort();
    ranked.dedup();
    let likely = ranked.first().is_some_and(|(.., likely)| *likely);
    let chosen = ranked
        .into_iter()
        .filter(|(.., one)| !likely || *one)
        .take(count)
        .map(|(_, candidate, _)| candidate);
    (chosen.collect(), likely)
}

/// Edit distance in characters, and the length of what was compared: the candidate, its last part when nothing
/// else was asked for, or it without the kind. What was left out counts as one.
fn distance(asked: &[char], candidate: &str) -> (usize, usize) {
    let parts: Vec<_> = candidate.split('/').collect();
    let asked_parts = asked.iter().filter(|&&one| one == '/').count() + 1;
    let shorter = match (parts.as_slice(), asked_parts) {
        ([.., last], 1) if parts.len() > 1 => Some((*last).to_owned()),
        ([namespace, _, name], 2) => Some(format!("{namespace}/{name}")),
        _ => None,
    };
    let compared = |text: &str, left_out: usize| {
        let text: Vec<char> = text.chars().collect();
        (left_out + edits(asked, &text), text.len())
    };
    let whole = compared(candidate, 0);
    shorter.map_or(whole, |shorter| whole.min(compared(&shorter, 1)))
}

/// Insertions, deletions, replacements, and swaps of neighbours (optimal string alignment).
pub(crate) fn edits(from: &[char], to: &[char]) -> usize {
    let mut row: Vec<usize> = (0..=to.len()).collect();
    let mut above: Vec<usize> = Vec::new();
    let mut last: Option<char> = None;
    for (done, &one) in from.iter().enumerate() {
        let mut next = vec![done + 1];
        let mut left = done + 1;
        let mut before: Option<char> = None;
        for (at, &other) in to.iter().enumerate() {
            let cost = |row: &[usize], at: usize| row.get(at).copied().unwrap_or(usize::MAX / 2);
            let mut best = (cost(&row, at) + usize::from(one != other))
                .min(cost(&row, at + 1) + 1)
                .min(left + 1);
            if last == Some(other) && before == Some(one) {
                best = best.min(cost(&above, at.saturating_sub(1)) + 1);
            }
            next.push(best);
            (left, before) = (best, Some(other));
        }
        above = std::mem::replace(&mut row, next);
        last = Some(one);
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edit_distance_counts_insertions_deletions_replacements_and_swaps() {
        for (from, to, expected) in [
            ("", "abc", 3),
            ("web", "web", 0),
            ("wbe", "web", 1),
            ("ab", "ba", 1),
            ("abc", "ca", 3),
            ("kitten", "sitting", 3),
            ("a", "", 1),
        ] {
            let chars: Vec<char> = from.chars().collect();
            assert_eq!(distance(&chars, to).0, expected, "{from} → {to}");
        }
    }

    #[test]
    fn only_likely_names_are_given_when_there_are_any() {
        let names = || {
            ["shop/web", "shop/wep", "shop/database"]
                .into_iter()
                .map(str::to_owned)
        };
        assert_eq!(
            nearest("shop/wed", names(), 3),
            (vec!["shop/web".into(), "shop/wep".into()], true)
        );
        assert_eq!(nearest("web", names(), 1), (vec!["shop/web".into()], true));
        let workload = || {
            ["shop/Deployment/web", "shop/database"]
                .into_iter()
                .map(str::to_owned)
        };
        assert_eq!(
            nearest("shop/web", workload(), 3),
            (vec!["shop/Deployment/web".into()], true)
        );
        assert!(!nearest("zzzzzzzzz", names(), 3).1);
    }
}
