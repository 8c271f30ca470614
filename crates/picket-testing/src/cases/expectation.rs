//! What must hold in a step of a case.

use std::net::IpAddr;
use std::sync::Arc;

use picket_cluster::{Endpoint, Flow, Snapshot, Verdict};
use picket_net::{Family, Protocol, parse_address};
use picket_policy::Position;
use smol_str::SmolStr;

use super::{CaseError, error};

/// One verdict that must be given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// Who opens the connection: `namespace/name`, `namespace/Kind/name` or an address.
    pub source: String,
    /// To whom, written alike.
    pub destination: String,
    /// With what.
    pub probe: Probe,
    /// The verdict.
    pub verdict: Verdict,
    /// The line that says so.
    pub position: Position,
}

/// What is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The protocol.
    pub protocol: Protocol,
    /// The destination port; [`Port::None`] for protocols without ports.
    pub port: Port,
}

/// A destination port as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Port {
    /// The protocol has none.
    None,
    /// By number.
    Number(u16),
    /// By the name of a container port of the destination.
    Named(SmolStr),
}

impl Expectation {
    /// The flows it speaks of: one for each family that both ends have and number that the port stands for. Empty when
    /// an end does not exist.
    pub fn flows(&self, snapshot: &Snapshot) -> Vec<Flow> {
        let (sources, destinations) = (ends(snapshot, &self.source), ends(snapshot, &self.destination));
        let mut flows = Vec::new();
        for (family, source) in &sources {
            for (_, destination) in destinations.iter().filter(|(other, _)| other == family) {
                for port in self.probe.numbers(snapshot, destination) {
                    flows.push(Flow {
                        source: source.clone(),
                        destination: destination.clone(),
                        family: *family,
                        protocol: self.probe.protocol,
                        port,
                    });
                }
            }
        }
        flows
    }
}

impl Probe {
    fn numbers(&self, snapshot: &Snapshot, destination: &Endpoint) -> Vec<u16> {
        match (&self.port, destination) {
            (Port::None, _) => vec![0],
            (Port::Number(number), _) => vec![*number],
            (Port::Named(name), Endpoint::Pod(object)) => {
                let ports = snapshot.pods.get(object).into_iter().flat_map(|pod| &*pod.ports);
                ports
                    .filter(|port| port.name == *name && port.protocol == self.protocol)
                    .map(|port| port.port)
                    .collect()
            }
            (Port::Named(_), _) => Vec::new(),
        }
    }
}

/// The end that `text` names, once for each family of its addresses.
fn ends(snapshot: &Snapshot, text: &str) -> Vec<(Family, Endpoint)> {
    if let Some(address) = parse_address(text) {
        return vec![(Family::of(address), snapshot.endpoint_at(address))];
    }
    let parts: Vec<_> = text.split('/').collect();
    let pod = match parts[..] {
        [namespace, name] => snapshot.pod("Pod", namespace, name),
        [namespace, kind, name] => snapshot.pod(kind, namespace, name),
        _ => None,
    };
    let Some(pod) = pod else { return Vec::new() };
    let family = |address: IpAddr| (Family::of(address), Endpoint::Pod(pod.object.clone()));
    pod.addresses.iter().map(family).collect()
}

/// Reads a `verdicts` block: `probes` stand behind the word, `line` is that of the fence.
pub(super) fn read(
    file: &Arc<str>,
    probes: &str,
    line: u32,
    lines: &[(u32, &str)],
) -> Result<Vec<Expectation>, CaseError> {
    let at = |line| Position {
        file: Arc::clone(file),
        line,
    };
    let mut content = lines
        .iter()
        .filter(|(_, text)| !text.trim().is_empty())
        .peekable();
    match content.peek() {
        None => Err(error(&at(line), "a `verdicts` block must say something")),
        Some((_, first)) if first.contains("->") => {
            let mut expectations = Vec::new();
            for (line, text) in content {
                expectations.extend(read_line(&at(*line), text)?);
            }
            Ok(expectations)
        }
        Some(&&(_, header)) => {
            let probes = read_probes(&at(line), probes)?;
            let destinations: Vec<_> = header.split_whitespace().collect();
            let mut expectations = Vec::new();
            for (line, row) in content.skip(1) {
                expectations.extend(read_row(&at(*line), &destinations, row, &probes)?);
            }
            Ok(expectations)
        }
    }
}

/// `allow|deny sources -> destinations : probes`.
fn read_line(position: &Position, text: &str) -> Result<Vec<Expectation>, CaseError> {
    let shape = || {
        error(
            position,
            format!("`{text}` is not `allow|deny sources -> destinations : probes`"),
        )
    };
    let (sources, rest) = text.split_once("->").ok_or_else(shape)?;
    let (destinations, probes) = rest.split_once(" : ").ok_or_else(shape)?;
    let (verdict, sources) = sources.trim().split_once(' ').ok_or_else(shape)?;
    let verdict = match verdict {
        "allow" => Verdict::Allow,
        "deny" => Verdict::Deny,
        _ => return Err(shape()),
    };
    let mut expectations = Vec::new();
    for source in sources.split_whitespace() {
        for destination in destinations.split_whitespace() {
            for probe in read_probes(position, probes)? {
                expectations.push(Expectation {
                    source: source.to_owned(),
                    destination: destination.to_owned(),
                    probe,
                    verdict,
                    position: position.clone(),
                });
            }
        }
    }
    Ok(expectations)
}

fn read_row(
    position: &Position,
    destinations: &[&str],
    row: &str,
    probes: &[Probe],
) -> Result<Vec<Expectation>, CaseError> {
    let mut cells = row.split_whitespace();
    let source = cells.next().unwrap_or_default();
    let cells: Vec<_> = cells.collect();
    if cells.len() != destinations.len() {
        let message = format!(
            "{} cells stand below {} destinations",
            cells.len(),
            destinations.len()
        );
        return Err(error(position, message));
    }
    let mut expectations = Vec::new();
    for (destination, cell) in destinations.iter().zip(cells) {
        let verdict = match cell {
            "." => Verdict::Allow,
            "X" => Verdict::Deny,
            "-" => continue,
            _ => return Err(error(position, format!("`{cell}` is none of `.`, `X` and `-`"))),
        };
        expectations.extend(probes.iter().map(|probe| Expectation {
            source: source.to_owned(),
            destination: (*destination).to_owned(),
            probe: probe.clone(),
            verdict,
            position: position.clone(),
        }));
    }
    Ok(expectations)
}

fn read_probes(position: &Position, text: &str) -> Result<Vec<Probe>, CaseError> {
    let probes: Option<Vec<_>> = text.split_whitespace().map(read_probe).collect();
    match probes {
        Some(probes) if !probes.is_empty() => Ok(probes),
        _ => Err(error(
            position,
            format!("`{text}` is no list of probes such as `TCP/80 ICMP`"),
        )),
    }
}

fn read_probe(text: &str) -> Option<Probe> {
    let portless = |protocol| Probe {
        protocol,
        port: Port::None,
    };
    match (text, text.split_once('/')) {
        ("ICMP", _) => Some(portless(Protocol::ICMP)),
        ("ICMPv6", _) => Some(portless(Protocol::ICMPV6)),
        (_, Some((protocol, port))) => Some(Probe {
            protocol: Protocol::from_api_name(protocol)?,
            port: port
                .parse()
                .map_or_else(|_| Port::Named(port.into()), Port::Number),
        }),
        _ => {
            let number = text.strip_prefix("proto:")?.parse().ok()?;
            Some(portless(Protocol::from_number(number)))
        }
    }
}
