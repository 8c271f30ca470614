//! Expectations that a person writes down: one per line, checked against the wire.
//!
//! ```text
//! # who may reach the database
//! allow shop/api -> shop/db 5432/tcp
//! deny  shop/*   -> shop/db 5432
//! deny  203.0.113.9 -> * icmp
//! allow shop/api -> shop/db 3260 on infra/storage
//! ```
//! A line is `allow` or `deny`, who asks, `->`, who is asked, and optionally a port (`80`, `80/tcp`, `53/udp`,
//! `132/sctp`) or `icmp`. Without a port it speaks of everything that is probed. Who: a host as the grid names it,
//! `namespace/*`, `*`, or an address. Then `on namespace/name` when it is about a secondary network; without, it is about
//! the cluster network. A pod with several interfaces there is one host with each, `namespace/name@interface`; its name
//! alone means all of them. The first line that speaks of a probe decides it.

use std::net::IpAddr;

use picket_cluster::Verdict;
use picket_net::{Protocol, parse_address};
use picket_policy::NetworkName;

use crate::grid::Cell;
use crate::{Host, HostKind, Topology};

/// One line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// Where it is, counted from 1.
    pub line: usize,
    /// The line as written, without comment.
    pub text: String,
    /// What should happen.
    pub verdict: Verdict,
    from: Who,
    to: Who,
    traffic: Option<Traffic>,
    network: Option<NetworkName>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Who {
    Anyone,
    Namespace(String),
    Host(String),
    Address(IpAddr),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Traffic {
    Icmp,
    Port(Protocol, u16),
}

/// A line that says nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct ExpectationError {
    /// Which, counted from 1.
    pub line: usize,
    /// What is wrong with it, and what would be right.
    pub message: String,
}

/// How an expectation fared.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Outcome {
    /// The line.
    pub line: usize,
    /// As written.
    pub text: String,
    /// How many probes it decides.
    pub probes: usize,
    /// Those that went otherwise, as `a -> b 80/TCP IPv4`, on a secondary network with its name.
    pub violations: Vec<String>,
}

impl Outcome {
    /// Whether it decides something and nothing went otherwise.
    pub fn holds(&self) -> bool {
        self.probes > 0 && self.violations.is_empty()
    }
}

/// Reads a file of expectations.
///
/// # Errors
/// The first line that cannot be read.
pub fn parse_expectations(text: &str) -> Result<Vec<Expectation>, ExpectationError> {
    let lines = (1..).zip(text.lines()).filter_map(|(number, line)| {
        let line = line.split('#').next().unwrap_or_default().trim();
        (!line.is_empty()).then_some((number, line))
    });
    lines
        .map(|(line, text)| parse_line(line, text).map_err(|message| ExpectationError { line, message }))
        .collect()
}

fn parse_line(line: usize, text: &str) -> Result<Expectation, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let (words, network) = match words.as_slice() {
        [rest @ .., "on", network] => (rest, Some(parse_network(network)?)),
        all => (all, None),
    };
    let (verdict, from, to, traffic) = match words {
        [verdict, from, "->", to] => (verdict, from, to, None),
        [verdict, from, "->", to, traffic] => (verdict, from, to, Some(*traffic)),
        _ => {
            return Err(format!(
                "`{text}` is not of the form `allow|deny FROM -> TO [PORT[/PROTOCOL]|icmp] [on NETWORK]`"
            ));
        }
    };
    Ok(Expectation {
        line,
        text: text.to_owned(),
        verdict: match *verdict {
            "allow" => Verdict::Allow,
            "deny" => Verdict::Deny,
            other => return Err(format!("`{other}` is neither `allow` nor `deny`")),
        },
        from: parse_who(from),
        to: parse_who(to),
        traffic: traffic.map(parse_traffic).transpose()?,
        network,
    })
}

fn parse_network(text: &str) -> Result<NetworkName, String> {
    let with_namespace = text.contains('/').then(|| NetworkName::parse(text, "")).flatten();
    with_namespace.ok_or_else(|| format!("`{text}` is no network: write `namespace/name`"))
}

fn parse_who(text: &str) -> Who {
    if text == "*" {
        Who::Anyone
    } else if let Some(namespace) = text.strip_suffix("/*") {
        Who::Namespace(namespace.to_owned())
    } else if let Some(address) = parse_address(text) {
        Who::Address(address)
    } else {
        Who::Host(text.to_owned())
    }
}

fn parse_traffic(text: &str) -> Result<Traffic, String> {
    if text == "icmp" {
        return Ok(Traffic::Icmp);
    }
    let (port, protocol) = text.split_once('/').unwrap_or((text, "tcp"));
    let protocol = Protocol::from_api_name(&protocol.to_uppercase())
        .ok_or_else(|| format!("`{protocol}` is none of `tcp`, `udp` and `sctp`"))?;
    match port.parse() {
        Ok(port) if port > 0 => Ok(Traffic::Port(protocol, port)),
        _ => Err(format!("`{port}` is no port: 1 to 65535, or `icmp`")),
    }
}

impl Expectation {
    /// Lets it be about the hosts of the wire that its network is on.
    pub(crate) fn place(&mut self, topology: &Topology) {
        if let Some(network) = &mut self.network {
            *network = topology.wire(network);
        }
    }

    /// The secondary network that it is about; `None` for the cluster network.
    pub fn network(&self) -> Option<&NetworkName> {
        self.network.as_ref()
    }

    /// The addresses that it names, with its network: those that belong to nothing there need a host in the lab.
    pub fn addresses(&self) -> impl Iterator<Item = (Option<NetworkName>, IpAddr)> {
        [&self.from, &self.to].into_iter().filter_map(|who| match who {
            Who::Address(address) => Some((self.network.clone(), *address)),
            _ => None,
        })
    }

    /// The port that it names, which has to be probed.
    pub fn port(&self) -> Option<(Protocol, u16)> {
        match self.traffic {
            Some(Traffic::Port(protocol, port)) => Some((protocol, port)),
            _ => None,
        }
    }

    fn speaks_of(&self, hosts: &[Host], cell: &Cell) -> bool {
        let probe = &cell.probe;
        let (Some(from), Some(to)) = (hosts.get(probe.source), hosts.get(probe.destination)) else {
            return false;
        };
        let traffic = match self.traffic {
            None => true,
            Some(Traffic::Icmp) => !probe.protocol.has_ports(),
            Some(Traffic::Port(protocol, port)) => (protocol, port) == (probe.protocol, probe.port),
        };
        let address = |host: &Host| host.addresses.of(probe.family);
        let network = from.network == self.network;
        network && traffic && self.from.is(from, address(from)) && self.to.is(to, address(to))
    }
}

impl Who {
    fn is(&self, host: &Host, address: Option<IpAddr>) -> bool {
        match self {
            Self::Anyone => true,
            Self::Namespace(namespace) => {
                matches!(host.kind, HostKind::Pod | HostKind::Workload)
                    && host.id.split_once('/').is_some_and(|(own, _)| own == namespace)
            }
            Self::Host(id) => host.id == *id || host.pod_id() == Some(id),
            Self::Address(wanted) => address == Some(*wanted),
        }
    }
}

/// Holds what was seen against what is expected. Each probe is decided by the first line that speaks of it.
pub fn check_expectations(expectations: &[Expectation], hosts: &[Host], cells: &[Cell]) -> Vec<Outcome> {
    let mut outcomes: Vec<Outcome> = expectations
        .iter()
        .map(|expectation| Outcome {
            line: expectation.line,
            text: expectation.text.clone(),
            probes: 0,
            violations: Vec::new(),
        })
        .collect();
    for cell in cells {
        let decides = expectations
            .iter()
            .zip(&mut outcomes)
            .find(|(line, _)| line.speaks_of(hosts, cell));
        let Some((expectation, outcome)) = decides else {
            continue;
        };
        outcome.probes += 1;
        if cell.seen.verdict() != Some(expectation.verdict) {
            outcome.violations.push(cell.probe.describe(hosts));
        }
    }
    outcomes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_say_nothing_are_named() {
        for (text, expected) in [
            ("allow a/b c/d", "line 1: `allow a/b c/d` is not of the form"),
            ("\n# x\nmaybe a -> b", "line 3: `maybe` is neither"),
            ("allow a -> b 80/icmp", "line 1: `icmp` is none of"),
            ("deny a -> b 0", "line 1: `0` is no port"),
            ("deny a -> b http", "line 1: `http` is no port"),
            ("deny a -> b 70000/udp", "line 1: `70000` is no port"),
            ("deny a -> b on storage", "line 1: `storage` is no network"),
            ("deny a -> b 80 on a/b/c", "line 1: `a/b/c` is no network"),
            (
                "deny a -> b 80 on",
                "line 1: `deny a -> b 80 on` is not of the form",
            ),
        ] {
            let error = parse_expectations(text).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn a_line_names_a_verdict_two_ends_and_perhaps_traffic() {
        let text = "allow a/b -> c/* 80 # note\n\ndeny 2001:db8::1 -> * icmp\ndeny * -> node/n 53/UDP\nallow a/b -> c/d";
        let read = parse_expectations(text).unwrap();
        let [first, second, third, fourth] = read.as_slice() else {
            panic!("{read:?}")
        };
        assert_eq!(first.to, Who::Namespace("c".to_owned()));
        assert_eq!(first.port(), Some((Protocol::TCP, 80)));
        assert_eq!(
            second.addresses().collect::<Vec<_>>(),
            [(None, "2001:db8::1".parse::<IpAddr>().unwrap())]
        );
        assert_eq!((second.line, second.traffic), (3, Some(Traffic::Icmp)));
        assert_eq!(third.port(), Some((Protocol::UDP, 53)));
        assert_eq!((fourth.verdict, fourth.traffic), (Verdict::Allow, None));
    }

    #[test]
    fn a_line_may_be_about_a_secondary_network() {
        let read = parse_expectations("deny 10.7.0.9 -> shop/db@data0 3260 on infra/storage").unwrap();
        let network = NetworkName::parse("infra/storage", "").unwrap();
        assert_eq!(read[0].network(), Some(&network));
        assert_eq!(read[0].port(), Some((Protocol::TCP, 3260)));
        let addresses: Vec<_> = read[0].addresses().collect();
        assert_eq!(addresses, [(Some(network), "10.7.0.9".parse().unwrap())]);
    }
}
