//! Which objects a list is to have.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use smol_str::SmolStr;

/// What is left as it is in paths and queries. A dot alone would be another path.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_');

/// Which objects a list is to have: those that fit in every respect. By default all that the user may see.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Those of a project.
    pub project: Option<SmolStr>,
    /// Those that have all of these tags.
    pub tags: Vec<SmolStr>,
    /// Those that have one of these, if there are any.
    pub tags_any: Vec<SmolStr>,
    /// Those that are called so.
    pub name: Option<String>,
    /// Those with one of these ids, if there are any.
    pub ids: Vec<SmolStr>,
    /// Ports on a network.
    pub network: Option<SmolStr>,
    /// Ports that have this security group.
    pub security_group: Option<SmolStr>,
}

impl Filter {
    /// As a query.
    pub(super) fn query(&self) -> String {
        let mut query = String::new();
        let mut add = |key: &str, value: &str| {
            if !query.is_empty() {
                query.push('&');
            }
            query.extend([key, "=", value]);
        };
        // The commas between tags must stay.
        let listed = |tags: &[SmolStr]| tags.iter().map(|tag| escaped(tag)).collect::<Vec<_>>().join(",");
        for (key, tags) in [("tags", &self.tags), ("tags-any", &self.tags_any)] {
            if !tags.is_empty() {
                add(key, &listed(tags));
            }
        }
        for (key, value) in [
            ("project_id", self.project.as_deref()),
            ("name", self.name.as_deref()),
            ("network_id", self.network.as_deref()),
            ("security_groups", self.security_group.as_deref()),
        ] {
            if let Some(value) = value {
                add(key, &escaped(value));
            }
        }
        for id in &self.ids {
            add("id", &escaped(id));
        }
        query
    }
}

impl Filter {
    /// As a query for no more than these fields.
    pub(super) fn query_for(&self, fields: &[&str]) -> String {
        let mut query = self.query();
        for field in fields {
            query.extend(["&fields=", field]);
        }
        query
    }
}

/// As part of a path or query.
pub(super) fn escaped(text: &str) -> String {
    utf8_percent_encode(text, ESCAPED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_are_escaped_and_keep_their_commas() {
        let filter = Filter {
            project: Some("p".into()),
            tags: vec!["a&b".into(), "c/../d".into()],
            name: Some("é".to_owned()),
            ids: vec!["1".into(), "2".into()],
            ..Filter::default()
        };
        let expected = "tags=a%26b,c%2F%2E%2E%2Fd&project_id=p&name=%C3%A9&id=1&id=2";
        assert_eq!(filter.query(), expected);
        assert_eq!(Filter::default().query(), "");
    }
}
