//! What somebody may have meant by a name that does not exist.

/// The one of `candidates` that `written` is most likely a misspelling of: letters in another case, or few letters
/// wrong, missing, too many or swapped. `None` when none is near, or several are equally near.
pub(super) fn nearest<'a>(written: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let lower = written.to_lowercase();
    let bound = (written.chars().count() / 3).clamp(1, 3);
    let mut scored: Vec<_> = candidates
        .into_iter()
        .map(|candidate| (strsim::osa_distance(&lower, &candidate.to_lowercase()), candidate))
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
