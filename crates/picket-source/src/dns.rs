//! Addresses of the domain names that policies name.

use std::path::Path;
use std::sync::Arc;

use picket_cluster::resolve_domains;
use picket_policy::Hosts;

use crate::files::{SourceError, Text};
use crate::load::{Loaded, sort};

/// Reads a file in the format of hosts(5).
///
/// # Errors
/// When the system refuses.
pub fn read_hosts(path: &Path) -> Result<Text, SourceError> {
    let bytes = std::fs::read(path).map_err(|source| SourceError::Unreadable {
        path: path.to_owned(),
        source,
    })?;
    Ok(Text {
        name: path.display().to_string().into(),
        bytes,
    })
}

impl Loaded {
    /// Gives the domain names in policies the addresses that a text in the format of hosts(5) lists. A name without
    /// one matches nothing and has a warning, and so does every name when there is no text.
    pub fn resolve(&mut self, hosts: Option<&Text>) {
        let mut table = Hosts::default();
        if let Some(Text { name, bytes }) = hosts {
            let (read, problems) = Hosts::read(name, bytes);
            table = read;
            self.diagnostics.extend(problems);
            let text = String::from_utf8_lossy(bytes);
            self.sources.insert(Arc::clone(name), Arc::from(text));
        }
        let lines = crate::load::Lines::of(&self.sources);
        let unknown = resolve_domains(&mut self.snapshot, &table, &|position| lines.span(position));
        self.diagnostics.extend(unknown);
        sort(&mut self.diagnostics, &self.files);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use picket_policy::Options;

    use super::*;
    use crate::load_texts;

    const POLICY: &str = "\
apiVersion: policy.networking.k8s.io/v1alpha2
kind: ClusterNetworkPolicy
metadata: {name: web}
spec:
  tier: Admin
  priority: 1
  subject: {namespaces: {}}
  egress:
  - action: Accept
    to: [{domainNames: [example.com, '*.example.org']}]
";

    fn text(name: &str, content: &str) -> Text {
        Text {
            name: name.into(),
            bytes: content.as_bytes().to_vec(),
        }
    }

    /// The peers of the rule, and what is reported, after a file of hosts.
    fn resolved(hosts: Option<&str>) -> (usize, Vec<String>) {
        let mut loaded = load_texts(&[text("policy.yaml", POLICY)], Options::default());
        let hosts = hosts.map(|content| text("hosts", content));
        loaded.resolve(hosts.as_ref());
        let policy = loaded.snapshot.policies.values().next().unwrap();
        let picket_policy::List::Items(peers) = &policy.egress.rules[0].peers else {
            panic!("the rule has peers");
        };
        let found = loaded.diagnostics.iter().map(|found| {
            let span = &found.labels[0].span;
            format!("{} {}:{}: {}", found.code, span.file, span.line, found.message)
        });
        (peers.len(), found.collect())
    }

    #[test]
    fn names_get_the_addresses_of_the_file() {
        let hosts = "192.0.2.1 example.com\n2001:db8::1 a.example.org\n192.0.2.2 b.example.org example.org\n";
        assert_eq!(resolved(Some(hosts)), (5, vec![]));
    }

    #[test]
    fn a_name_without_an_address_matches_nothing_and_is_reported() {
        let warning = |name| {
            format!(
                "C015 policy.yaml:9: no address is known for `{name}`, which ClusterNetworkPolicy web names"
            )
        };
        let expected = vec![warning("example.com"), warning("*.example.org")];
        assert_eq!(resolved(None), (2, expected));
        let error =
            "P116 hosts:1: `example.com` is no IP address, with which a line of hosts begins".to_owned();
        let expected = vec![warning("*.example.org"), error];
        let hosts = "example.com 192.0.2.1\n192.0.2.1 example.com\n";
        assert_eq!(resolved(Some(hosts)), (3, expected));
    }

    #[test]
    fn a_file_that_is_not_there_is_an_error() {
        assert!(read_hosts(Path::new("/nonexistent/hosts")).is_err());
    }
}
