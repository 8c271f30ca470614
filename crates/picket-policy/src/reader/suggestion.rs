//! What somebody may have meant by a name that does not exist.

/// The one of `candidates` that `written` is most likely a misspelling of: letters in another case, or few letters
/// wrong, missing, too many or swapped. `None` when none is near, or several are equally near.
pub(super) fn nearest<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = written.to_lowercase();
    let bound = (written.chars().count() / 3).clamp(1, 3);
    let mut scored: Vec<_> = candidates
        .into_iter()
        .map(|candidate| (distance(&lower, &candidate.to_lowercase(), bound), candidate))
        .filter(|&(distance, _)| distance <= bound)
        .collect();
    scored.sort_unstable();
    scored.dedup();
    match scored.as_slice() {
        [(_, only)] => Some(only),
        [(first, nearest), (second, _), ..] if first < second => Some(nearest),
        _ => None,
    }
}

/// The optimal string alignment distance; anything above `bound` when the lengths alone differ by more.
fn distance(a: &str, b: &str, bound: usize) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if a.len().abs_diff(b.len()) > bound {
        return bound + 1;
    }
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (row, x) in a.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, y) in b.iter().enumerate() {
            let get = |line: &[usize], at: usize| line.get(at).copied().unwrap_or(usize::MAX / 2);
            let replaced = get(&above, column) + usize::from(x != y);
            let mut best = replaced
                .min(get(&above, column + 1) + 1)
                .min(get(&current, column) + 1);
            let swapped = row > 0 && column > 0 && a.get(row - 1) == Some(y) && b.get(column - 1) == Some(x);
            if swapped {
                best = best.min(get(&before, column - 1) + 1);
            }
            current.push(best);
        }
        before = std::mem::replace(&mut above, current);
    }
    above.last().copied().unwrap_or(bound + 1)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn misspellings_find_what_was_meant() {
        let fields = [
            "podSelector",
            "policyTypes",
            "ingress",
            "egress",
            "from",
            "to",
            "ports",
        ];
        for (written, expected) in [
            ("podselector", Some("podSelector")),
            ("podSelectors", Some("podSelector")),
            ("ingres", Some("ingress")),
            ("policyType", Some("policyTypes")),
            ("form", Some("from")),
            ("prots", Some("ports")),
            ("port", Some("ports")),
            ("namespace", None),
            ("xyz", None),
            ("", None),
        ] {
            assert_eq!(nearest(written, fields), expected, "{written}");
        }
    }

    #[test]
    fn two_equally_near_names_are_no_suggestion() {
        assert_eq!(nearest("gress", ["agress", "egress"]), None);
    }
}
