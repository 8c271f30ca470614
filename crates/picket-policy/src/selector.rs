//! Labels, and selectors over them. Only the data: the reference and the engine each evaluate them in their own way.

use std::fmt;
use std::sync::Arc;

use smol_str::SmolStr;

/// The labels of an object: unique keys, sorted. Clones share their memory.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Labels(Arc<[(SmolStr, SmolStr)]>);

impl Labels {
    /// The value of `key`.
    pub fn get(&self, key: &str) -> Option<&SmolStr> {
        let at = self
            .0
            .binary_search_by(|(candidate, _)| candidate.as_str().cmp(key))
            .ok()?;
        self.0.get(at).map(|(_, value)| value)
    }

    /// Keys and values, sorted by key.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&SmolStr, &SmolStr)> {
        self.0.iter().map(|(key, value)| (key, value))
    }

    /// The same labels with `key` set to `value`.
    pub fn with(&self, key: &str, value: &str) -> Self {
        let others = self.0.iter().filter(|(present, _)| present != key).cloned();
        others.chain([(key.into(), value.into())]).collect()
    }
}

impl Default for Labels {
    fn default() -> Self {
        Self(Arc::from([]))
    }
}

impl FromIterator<(SmolStr, SmolStr)> for Labels {
    /// The last value of a repeated key wins.
    fn from_iter<I: IntoIterator<Item = (SmolStr, SmolStr)>>(labels: I) -> Self {
        let sorted: std::collections::BTreeMap<_, _> = labels.into_iter().collect();
        Self(sorted.into_iter().collect())
    }
}

impl<'a> FromIterator<(&'a str, &'a str)> for Labels {
    fn from_iter<I: IntoIterator<Item = (&'a str, &'a str)>>(labels: I) -> Self {
        labels
            .into_iter()
            .map(|(key, value)| (SmolStr::new(key), SmolStr::new(value)))
            .collect()
    }
}

/// One condition of a selector (apimachinery `labels.Requirement`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Requirement {
    /// The key is present with one of these values.
    In(SmolStr, Vec<SmolStr>),
    /// The key is absent, or its value is none of these.
    NotIn(SmolStr, Vec<SmolStr>),
    /// The key is present.
    Exists(SmolStr),
    /// The key is absent.
    DoesNotExist(SmolStr),
}

impl Requirement {
    /// The label key that the condition looks at.
    pub fn key(&self) -> &SmolStr {
        match self {
            Self::In(key, _) | Self::NotIn(key, _) | Self::Exists(key) | Self::DoesNotExist(key) => key,
        }
    }
}

impl fmt::Display for Requirement {
    /// As kubectl writes it: `app=web`, `app in (a,b)`, `app notin (a)`, `app`, `!app`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::In(key, values) if values.len() == 1 => write!(f, "{key}={}", values.join(",")),
            Self::In(key, values) => write!(f, "{key} in ({})", values.join(",")),
            Self::NotIn(key, values) => write!(f, "{key} notin ({})", values.join(",")),
            Self::Exists(key) => write!(f, "{key}"),
            Self::DoesNotExist(key) => write!(f, "!{key}"),
        }
    }
}

/// A LabelSelector: all requirements together; none matches everything.
///
/// Canonical: requirements and values are sorted and unique, `matchLabels` are `In` with one value.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Selector(Vec<Requirement>);

impl Selector {
    /// Matches every object.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Whether it matches every object.
    pub fn is_everything(&self) -> bool {
        self.0.is_empty()
    }

    /// The requirements, sorted.
    pub fn requirements(&self) -> &[Requirement] {
        &self.0
    }
}

impl FromIterator<Requirement> for Selector {
    fn from_iter<I: IntoIterator<Item = Requirement>>(requirements: I) -> Self {
        let mut sorted: Vec<_> = requirements.into_iter().collect();
        for requirement in &mut sorted {
            if let Requirement::In(_, values) | Requirement::NotIn(_, values) = requirement {
                values.sort_unstable();
                values.dedup();
            }
        }
        sorted.sort_unstable();
        sorted.dedup();
        Self(sorted)
    }
}

impl fmt::Display for Selector {
    /// `<all>`, or requirements joined by commas.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("<all>");
        }
        let parts: Vec<_> = self.0.iter().map(Requirement::to_string).collect();
        f.write_str(&parts.join(","))
    }
}
