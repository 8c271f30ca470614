//! In which versions policies were read and are in force, for people.

use picket_node::PolicyVersions;
use picket_policy::name::printable;
use smol_str::SmolStr;

/// What is known of the versions of policies.
pub(super) struct Versions<'v>(pub(super) &'v [PolicyVersions]);

impl Versions<'_> {
    /// A policy that is in force, with the version that is, and since when.
    pub(super) fn in_force(&self, policy: &str) -> String {
        let mut known = self.of(policy);
        match known.find_map(|known| Some((known.in_force.as_ref()?, known.since))) {
            Some((version, Some(since))) => line(&format!("{policy}, {version}, since {since:.0}")),
            Some((version, None)) => line(&format!("{policy}, {version}, since the agent started or before")),
            None => policy.to_owned(),
        }
    }

    /// A policy that waits, with the versions that do and that are in force instead.
    pub(super) fn waiting(&self, policy: &str) -> String {
        let mut known = self.of(policy);
        match known.find(|known| !known.is_current()) {
            Some(known) => line(&format!("{policy}: {}", words(known))),
            None => policy.to_owned(),
        }
    }

    /// The policies beside `waiting` that are not in force as they were read last, and why.
    pub(super) fn others(&self, waiting: &[String]) -> Vec<String> {
        let known = self.0.iter();
        let others = known.filter(|known| !known.is_current() && !waiting.contains(&known.policy));
        let others = others.map(|known| {
            let why = known.why.as_deref().unwrap_or("it is not in force yet");
            line(&format!("{}: {}: {why}", known.policy, words(known)))
        });
        others.collect()
    }

    /// There are two where one is gone and another of its name is there.
    fn of(&self, policy: &str) -> impl Iterator<Item = &PolicyVersions> {
        self.0.iter().filter(move |known| known.policy == policy)
    }
}

/// What was read last, and what is in force instead.
fn words(versions: &PolicyVersions) -> String {
    let read = match &versions.read {
        Some(version) => format!("{version} was read"),
        None => "it is gone".to_owned(),
    };
    match &versions.in_force {
        Some(version) => format!("{read}, {version} is in force"),
        None => format!("{read}, none is in force"),
    }
}

/// What a server and its users have written, in one line.
fn line(text: &str) -> String {
    printable(&SmolStr::new(text)).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn versions_are_shown_with_policies() {
        let version =
            |version: &str, generation: i64| json!({"resourceVersion": version, "generation": generation});
        let known = json!([
            {"policy": "P a", "read": version("7", 1), "inForce": version("7", 1), "since": null, "why": null},
            {"policy": "P f", "read": version("9", 1), "inForce": version("9", 1), "since": "2026-05-01T10:00:00.5Z", "why": null},
            {"policy": "P b", "read": version("8", 2), "inForce": version("7", 1), "why": "too large"},
            {"policy": "P c", "read": null, "inForce": {"revision": 5}, "why": "too large"},
            {"policy": "P d", "read": version("9", 1), "inForce": null, "why": "P100: spec.\n"},
            {"policy": "P e", "read": {}, "inForce": null, "why": null},
        ]);
        let known: Vec<PolicyVersions> = serde_json::from_value(known).unwrap();
        let versions = Versions(&known);
        assert_eq!(
            versions.in_force("P a"),
            "P a, version 7 (generation 1), since the agent started or before"
        );
        assert_eq!(
            versions.in_force("P f"),
            "P f, version 9 (generation 1), since 2026-05-01T10:00:00Z"
        );
        assert_eq!(versions.in_force("P x"), "P x");
        for (policy, expected) in [
            (
                "P b",
                "P b: version 8 (generation 2) was read, version 7 (generation 1) is in force",
            ),
            ("P c", "P c: it is gone, revision 5 is in force"),
            ("P x", "P x"),
        ] {
            assert_eq!(versions.waiting(policy), expected);
        }
        let waiting = ["P b", "P c"].map(str::to_owned);
        assert_eq!(
            versions.others(&waiting),
            [
                "P d: version 9 (generation 1) was read, none is in force: P100: spec.\u{fffd}",
                "P e: an unknown version was read, none is in force: it is not in force yet"
            ]
        );
    }
}
