//! Addresses of domain names, as a file in the format of hosts(5) lists them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;

use picket_net::parse_address;
use smol_str::SmolStr;

use crate::document::Source;
use crate::{Diagnostic, DomainName, Severity, code};

/// Names and their addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts(BTreeMap<SmolStr, BTreeSet<IpAddr>>);

impl Hosts {
    /// Reads a file: on every line an address and the names that have it, with spaces or tabs between them, and `#`
    /// before a comment. A name may be on many lines. A line without a readable address is ignored, and so is a name
    /// that is none; both have a diagnostic.
    pub fn read(file: &Arc<str>, bytes: &[u8]) -> (Self, Vec<Diagnostic>) {
        let source = match Source::decode(file, bytes) {
            Ok(source) => source,
            Err(diagnostic) => return (Self::default(), vec![*diagnostic]),
        };
        let (mut hosts, mut diagnostics) = (Self::default(), Vec::new());
        let mut start = 0;
        for line in source.text().split_inclusive('\n') {
            hosts.line(&source, start, line, &mut diagnostics);
            start += line.len();
        }
        (hosts, diagnostics)
    }

    fn line(&mut self, source: &Source, start: usize, line: &str, diagnostics: &mut Vec<Diagnostic>) {
        let line = line.split('#').next().unwrap_or_default();
        let mut report = |range: Range<usize>, message: String, note: &str| {
            let found = Diagnostic::new(code::HOSTS, Severity::Error, message);
            diagnostics.push(found.mark(source.span(range), "").note(note));
        };
        let mut words = words(line);
        let Some((at, word)) = words.next() else { return };
        let range = |at: usize, word: &str| start + at..start + at + word.len();
        let Some(address) = parse_address(word) else {
            let message = format!("`{word}` is no IP address, with which a line of hosts begins");
            return report(range(at, word), message, "the line is ignored");
        };
        let mut named = false;
        for (at, name) in words {
            named = true;
            if is_host(name) {
                let name = name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase();
                self.0.entry(name.into()).or_default().insert(address);
            } else {
                let message = format!("`{name}` is no name of a host");
                report(range(at, name), message, "the name is ignored");
            }
        }
        if !named {
            let message = format!("no name follows the address `{word}`");
            report(range(at, word), message, "the line is ignored");
        }
    }

    /// Every address of the names that `domain` stands for, in order.
    pub fn addresses(&self, domain: &DomainName) -> BTreeSet<IpAddr> {
        let meant = self.0.iter().filter(|(name, _)| domain.matches(name));
        meant.flat_map(|(_, addresses)| addresses).copied().collect()
    }
}

/// The words of a line, with their places in it.
fn words(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut rest = 0;
    line.split_ascii_whitespace().filter_map(move |word| {
        let at = rest + line.get(rest..)?.find(word)?;
        rest = at + word.len();
        Some((at, word))
    })
}

/// Whether a text is a name of letters, digits, `-` and `_`, in labels that begin and end with a letter or digit.
fn is_host(text: &str) -> bool {
    let name = text.strip_suffix('.').unwrap_or(text);
    name.split('.').all(crate::domain::is_label)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Hosts, Vec<Diagnostic>) {
        Hosts::read(&Arc::from("hosts"), text.as_bytes())
    }

    #[test]
    fn names_have_the_addresses_of_their_lines() {
        let text = "# a comment\n127.0.0.1 localhost\n\n192.0.2.1\twww.example.com example.com # again\n\
                    2001:db8::1  WWW.Example.com.\r\n192.0.2.2 example.org www.example.com";
        let (hosts, diagnostics) = read(text);
        assert_eq!(diagnostics, []);
        for (domain, expected) in [
            ("example.com", "192.0.2.1"),
            ("www.example.com", "192.0.2.1 192.0.2.2 2001:db8::1"),
            ("*.example.com", "192.0.2.1 192.0.2.2 2001:db8::1"),
            ("example.net", ""),
        ] {
            let domain = DomainName::parse(domain).unwrap();
            let addresses = hosts.addresses(&domain);
            let found: Vec<_> = addresses.iter().map(IpAddr::to_string).collect();
            assert_eq!(found.join(" "), expected, "{domain}");
        }
    }

    #[test]
    fn what_cannot_be_used_is_reported_where_it_stands() {
        let text = "www.example.com 192.0.2.1\n192.0.2.1\n192.0.2.1 a.example.com *.example.com\nfe80::1%lo host.example.com\n";
        let (hosts, diagnostics) = read(text);
        let found: Vec<_> = diagnostics
            .iter()
            .map(|found| {
                let span = &found.labels[0].span;
                format!("{}:{} {}", span.line, span.column, found.message)
            })
            .collect();
        let expected = [
            "1:1 `www.example.com` is no IP address, with which a line of hosts begins",
            "2:1 no name follows the address `192.0.2.1`",
            "3:25 `*.example.com` is no name of a host",
            "4:1 `fe80::1%lo` is no IP address, with which a line of hosts begins",
        ];
        assert_eq!(found, expected);
        let only = DomainName::parse("*.example.com").unwrap();
        assert_eq!(hosts.addresses(&only).len(), 1);
    }
}
