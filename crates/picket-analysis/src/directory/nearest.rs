//! What somebody who wrote a name that does not exist may have meant.

/// The `count` candidates that are nearest to `asked` by edit distance, nearest first, equals in alphabetical order;
/// and whether the nearest is probably what was meant: at most a third of its characters differ. When it is, only
/// candidates as likely are given.
pub fn nearest(asked: &str, candidates: impl Iterator<Item = String>, count: usize) -> (Vec<String>, bool) {
    let letters = asked.chars().count();
    let mut ranked: Vec<_> = candidates
        .map(|candidate| {
            let (distance, length) = distance(asked, &candidate);
            (distance, candidate, distance * 3 <= length.max(letters))
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
fn distance(asked: &str, candidate: &str) -> (usize, usize) {
    let parts: Vec<_> = candidate.split('/').collect();
    let asked_parts = asked.matches('/').count() + 1;
    let shorter = match (parts.as_slice(), asked_parts) {
        ([.., last], 1) if parts.len() > 1 => Some((*last).to_owned()),
        ([namespace, _, name], 2) => Some(format!("{namespace}/{name}")),
        _ => None,
    };
    let compared = |text: &str, left_out: usize| {
        let edits = strsim::osa_distance(asked, text);
        (left_out + edits, text.chars().count())
    };
    let whole = compared(candidate, 0);
    shorter.map_or(whole, |shorter| whole.min(compared(&shorter, 1)))
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
            assert_eq!(distance(from, to).0, expected, "{from} → {to}");
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
