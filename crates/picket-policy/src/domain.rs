//! Domain names as peers.

use std::fmt;

use smol_str::SmolStr;

/// One domain name, or every name below one (policy.networking.k8s.io/v1alpha2 `DomainName`).
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DomainName {
    /// Whether it stands for the names below: `*.` was written before it.
    wildcard: bool,
    /// The name in lower case, without a dot at the end.
    name: SmolStr,
}

impl DomainName {
    /// The name that `text` writes, or `None` when it is none: at least two labels of letters, digits, `-` and `_`,
    /// which begin and end with a letter or digit, after `*.` or not.
    pub fn parse(text: &str) -> Option<Self> {
        let (wildcard, name) = match text.strip_prefix("*.") {
            Some(name) => (true, name),
            None => (false, text),
        };
        let name = name.strip_suffix('.').unwrap_or(name);
        let complete = name.contains('.') && name.split('.').all(is_label);
        complete.then(|| Self {
            wildcard,
            name: name.to_ascii_lowercase().into(),
        })
    }

    /// Whether it stands for `host`, written in any case, with or without a dot at the end. `*.` stands for one label
    /// or more.
    pub fn matches(&self, host: &str) -> bool {
        let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
        if self.wildcard {
            let above = host.strip_suffix(self.name.as_str());
            above
                .and_then(|above| above.strip_suffix('.'))
                .is_some_and(|above| !above.is_empty())
        } else {
            host == self.name
        }
    }
}

/// Whether a text is letters, digits, `-` and `_`, and begins and ends with a letter or digit.
pub(crate) fn is_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    let outer = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.iter().copied().all(inner) && outer(bytes.first()) && outer(bytes.last())
}

impl fmt::Display for DomainName {
    /// As it is written, in lower case.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let star = if self.wildcard { "*." } else { "" };
        write!(f, "{star}{}", self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_two_labels_or_more() {
        for (text, expected) in [
            ("kubernetes.io", Some("kubernetes.io")),
            ("Blog.Kubernetes.IO.", Some("blog.kubernetes.io")),
            ("*.kubernetes.io", Some("*.kubernetes.io")),
            ("a_b.c-d.e", Some("a_b.c-d.e")),
            ("localhost", None),
            ("*.io", None),
            ("*", None),
            ("www.*.io", None),
            ("a..io", None),
            ("-a.io", None),
            ("", None),
            (".", None),
        ] {
            let found = DomainName::parse(text).map(|name| name.to_string());
            assert_eq!(found.as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn a_wildcard_stands_for_one_label_or_more_and_not_for_the_name_itself() {
        for (name, host, expected) in [
            ("kubernetes.io", "Kubernetes.io.", true),
            ("kubernetes.io", "www.kubernetes.io", false),
            ("*.kubernetes.io", "www.kubernetes.io", true),
            ("*.kubernetes.io", "latest.blog.kubernetes.io", true),
            ("*.kubernetes.io", "kubernetes.io", false),
            ("*.kubernetes.io", "my-kubernetes.io", false),
            ("*.kubernetes.io", ".kubernetes.io", false),
        ] {
            let domain = DomainName::parse(name).unwrap();
            assert_eq!(domain.matches(host), expected, "{name} {host}");
        }
    }
}
