//! Verdicts side by side: expected by the engine, observed on the wire.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};

use picket_cluster::{Cause, EndJudgement, Judgement, Reason, Verdict};
use picket_net::{Family, Protocol};
use picket_policy::NetworkName;
use serde::Serialize;
use smol_str::SmolStr;

use crate::{Host, HostKind, Observation, Probe};

/// The outcome of a run of probes.
#[derive(Clone, Debug)]
pub struct Grid {
    hosts: Vec<Host>,
    cells: Vec<Cell>,
}

/// One probe with what was expected and what was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The probe.
    pub probe: Probe,
    /// What policies say.
    pub expected: Verdict,
    /// What the wire said.
    pub seen: Observation,
    /// Why policies say so; only for cells that differ.
    pub judgement: Option<Judgement>,
}

impl Cell {
    /// Whether the wire obeys.
    pub fn agrees(&self) -> bool {
        self.seen.verdict() == Some(self.expected)
    }

    fn mark(&self) -> char {
        match (self.expected, self.seen.verdict()) {
            (Verdict::Allow, Some(Verdict::Allow)) => ALLOWED,
            (Verdict::Deny, Some(Verdict::Deny)) => DENIED,
            (Verdict::Deny, Some(Verdict::Allow)) => LEAKING,
            (Verdict::Allow, Some(Verdict::Deny)) => BLOCKED,
            (_, None) => BROKEN,
        }
    }
}

const ALLOWED: char = '.';
const DENIED: char = 'X';
const LEAKING: char = '+';
const BLOCKED: char = '-';
const BROKEN: char = '?';
/// Differences explained before the rest is only counted.
const EXPLAINED: usize = 20;

impl Grid {
    /// A grid of `cells` over `hosts`.
    pub fn new(hosts: &[Host], cells: Vec<Cell>) -> Self {
        Self {
            hosts: hosts.to_vec(),
            cells,
        }
    }

    /// Every cell.
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// The cells whose expectation and observation differ.
    pub fn differences(&self) -> impl Iterator<Item = &Cell> {
        self.cells.iter().filter(|cell| !cell.agrees())
    }

    /// What was probed.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    fn host_id(&self, index: usize) -> &str {
        self.hosts.get(index).map_or("", |host| host.id.as_str())
    }

    /// The grid as text: for each network that was probed one table for all protocols, ports and families whose verdicts
    /// are the same, then every difference with its reason.
    pub fn to_text(&self, colour: bool) -> String {
        let paint = Paint { colour };
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _infallible = self
            .write_tables(&mut text, paint)
            .and_then(|()| self.write_summary(&mut text, paint));
        text
    }

    /// The grid for machines: see `docs/lab.md`.
    pub fn to_json(&self) -> serde_json::Value {
        let hosts: Vec<_> = self
            .hosts
            .iter()
            .map(|host| HostJson {
                id: &host.id,
                kind: host.kind,
                network: host.network.as_ref().map(NetworkName::to_string),
                interface: host.interface.as_ref().filter(|_| host.network.is_some()),
                addresses: host.addresses.iter().map(|address| address.to_string()).collect(),
            })
            .collect();
        let results: Vec<_> = self.cells.iter().map(|cell| self.cell_json(cell)).collect();
        let differences = self.differences().count();
        serde_json::json!({
            "hosts": hosts,
            "probes": results.len(),
            "differences": differences,
            "results": results,
        })
    }

    fn cell_json<'a>(&'a self, cell: &'a Cell) -> CellJson<'a> {
        CellJson {
            from: self.host_id(cell.probe.source),
            to: self.host_id(cell.probe.destination),
            network: cell.probe.network(&self.hosts).map(NetworkName::to_string),
            family: cell.probe.family,
            protocol: cell.probe.protocol.to_string(),
            port: cell.probe.protocol.has_ports().then_some(cell.probe.port),
            expected: cell.expected,
            observed: match &cell.seen {
                Observation::Answered => "allow",
                Observation::Silent => "deny",
                Observation::Refused => "refused",
                Observation::Broken(_) => "broken",
            },
            detail: match &cell.seen {
                Observation::Broken(text) => Some(text),
                _ => None,
            },
            agrees: cell.agrees(),
        }
    }

    /// The networks that were probed, the cluster network (`None`) first.
    fn networks(&self) -> BTreeSet<Option<&NetworkName>> {
        let probed = self.cells.iter().map(|cell| cell.probe.network(&self.hosts));
        probed.collect()
    }

    fn write_tables(&self, text: &mut String, paint: Paint) -> fmt::Result {
        let networks = self.networks();
        for network in &networks {
            if let Some(network) = network {
                writeln!(text, "{}\n", paint.bold(&format!("Network {network}")))?;
            } else if networks.len() > 1 {
                writeln!(text, "{}\n", paint.bold("The cluster network"))?;
            }
            self.write_tables_of(*network, text, paint)?;
        }
        Ok(())
    }

    fn write_tables_of(&self, network: Option<&NetworkName>, text: &mut String, paint: Paint) -> fmt::Result {
        let hosts: Vec<(usize, String)> = self
            .hosts
            .iter()
            .enumerate()
            .filter(|(_, host)| host.network.as_ref() == network)
            .map(|(index, host)| (index, host.label()))
            .collect();
        let width = hosts.iter().map(|(_, label)| label.len()).max().unwrap_or(0);
        let digits = hosts.len().to_string().len();
        for (marks, slices) in self.tables(network) {
            writeln!(text, "{}", paint.bold(&headline(&slices)))?;
            // Numbers of destinations, read downwards.
            for digit in 0..digits {
                write!(text, "{:indent$}", "", indent = width + digits + 3)?;
                for number in 1..=hosts.len() {
                    let number = format!("{number:>digits$}");
                    write!(text, " {}", number.get(digit..=digit).unwrap_or(" "))?;
                }
                writeln!(text)?;
            }
            for (number, (source, label)) in (1..).zip(&hosts) {
                let row: Vec<_> = hosts
                    .iter()
                    .map(|(destination, _)| marks.get(&(*source, *destination)).copied())
                    .collect();
                if row.iter().all(Option::is_none) {
                    continue;
                }
                write!(text, " {number:>digits$} {label:<width$} ")?;
                for mark in row {
                    write!(text, " {}", paint.mark(mark.unwrap_or(' ')))?;
                }
                writeln!(text)?;
            }
            writeln!(text)?;
        }
        Ok(())
    }

    fn write_summary(&self, text: &mut String, paint: Paint) -> fmt::Result {
        writeln!(
            text,
            "{} allowed   {} denied   {} open, should be denied   {} blocked, should be allowed   {} broken",
            paint.mark(ALLOWED),
            paint.mark(DENIED),
            paint.mark(LEAKING),
            paint.mark(BLOCKED),
            paint.mark(BROKEN),
        )?;
        writeln!(text, "rows send, columns receive, by number")?;
        let differences: Vec<_> = self.differences().collect();
        for cell in differences.iter().take(EXPLAINED) {
            self.write_difference(text, cell, paint)?;
        }
        if differences.len() > EXPLAINED {
            writeln!(text, "… and {} more", differences.len() - EXPLAINED)?;
        }
        let networks: BTreeSet<Option<&NetworkName>> = self.networks();
        let hosts: Vec<_> = self
            .hosts
            .iter()
            .filter(|host| networks.contains(&host.network.as_ref()))
            .collect();
        let verdict = match differences.len() {
            0 => paint.good("the wire obeys the policies"),
            count => paint.bad(&format!("{count} differ")),
        };
        writeln!(
            text,
            "{} probes between {} hosts{}: {verdict}",
            self.cells.len(),
            hosts.len(),
            match networks.iter().flatten().count() {
                0 => String::new(),
                1 if networks.len() == 1 => " on one secondary network".to_owned(),
                count => format!(" on {} networks", count + usize::from(networks.contains(&None))),
            }
        )
    }

    fn write_difference(&self, text: &mut String, cell: &Cell, paint: Paint) -> fmt::Result {
        let seen = match &cell.seen {
            Observation::Answered => "allowed",
            Observation::Silent => "dropped",
            Observation::Refused => "refused",
            Observation::Broken(text) => text,
        };
        writeln!(
            text,
            "{} {}: expected {}, seen: {seen}",
            paint.bad("differs"),
            cell.probe.describe(&self.hosts),
            cell.expected,
        )?;
        if let Some(judgement) = &cell.judgement {
            writeln!(text, "    egress:  {}", because(&judgement.egress))?;
            writeln!(text, "    ingress: {}", because(&judgement.ingress))?;
        }
        Ok(())
    }

    /// Tables of marks of one network, each with every slice of traffic that fits: hosts without an address of its family have no mark
    /// in a slice, and take that of another.
    fn tables(&self, network: Option<&NetworkName>) -> Vec<(Marks, Vec<Slice>)> {
        let mut slices: BTreeMap<Slice, Marks> = BTreeMap::new();
        let on_it = |cell: &&Cell| cell.probe.network(&self.hosts) == network;
        for cell in self.cells.iter().filter(on_it) {
            let slice = (rank(cell.probe.protocol), cell.probe.port, cell.probe.family);
            let place = (cell.probe.source, cell.probe.destination);
            slices.entry(slice).or_default().insert(place, cell.mark());
        }
        let mut tables: Vec<(Marks, Vec<Slice>)> = Vec::new();
        for (slice, marks) in slices {
            let contradicts = |known: &Marks| {
                marks
                    .iter()
                    .any(|(place, mark)| known.get(place).is_some_and(|other| other != mark))
            };
            match tables.iter_mut().find(|(known, _)| !contradicts(known)) {
                Some((known, with)) => {
                    known.extend(marks);
                    with.push(slice);
                }
                None => tables.push((marks, vec![slice])),
            }
        }
        tables
    }
}

type Marks = BTreeMap<(usize, usize), char>;
/// A protocol by its rank, a port and a family.
type Slice = (usize, u16, Family);

/// Protocols in the order in which people expect them.
const ORDER: [Protocol; 5] = [
    Protocol::TCP,
    Protocol::UDP,
    Protocol::SCTP,
    Protocol::ICMP,
    Protocol::ICMPV6,
];

fn rank(protocol: Protocol) -> usize {
    ORDER
        .iter()
        .position(|other| *other == protocol)
        .unwrap_or(ORDER.len())
}

#[derive(Serialize)]
struct HostJson<'a> {
    id: &'a str,
    kind: HostKind,
    #[serde(skip_serializing_if = "Option::is_none")]
    network: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    interface: Option<&'a SmolStr>,
    addresses: Vec<String>,
}

#[derive(Serialize)]
struct CellJson<'a> {
    from: &'a str,
    to: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    network: Option<String>,
    family: Family,
    protocol: String,
    port: Option<u16>,
    expected: Verdict,
    observed: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    detail: Option<&'a String>,
    agrees: bool,
}

/// `TCP 80,443, UDP 53 over IPv4`: what a table is about.
fn headline(slices: &[Slice]) -> String {
    let mut families: BTreeMap<(usize, u16), Vec<Family>> = BTreeMap::new();
    for (protocol, port, family) in slices {
        families.entry((*protocol, *port)).or_default().push(*family);
    }
    let mut traffic: BTreeMap<Vec<Family>, BTreeMap<usize, Vec<String>>> = BTreeMap::new();
    for ((protocol, port), families) in families {
        // ICMP is one thing to people, though each family has its own.
        let protocol = protocol.min(rank(Protocol::ICMP));
        let ports = traffic.entry(families).or_default().entry(protocol).or_default();
        if port > 0 {
            ports.push(port.to_string());
        }
    }
    let parts = traffic.into_iter().map(|(families, traffic)| {
        let traffic: Vec<String> = traffic
            .into_iter()
            .map(|(protocol, ports)| {
                let protocol = ORDER.get(protocol).map_or(String::new(), Protocol::to_string);
                format!("{protocol} {}", ports.join(",")).trim_end().to_owned()
            })
            .collect();
        let families: Vec<_> = families.iter().map(|family| name_of(*family)).collect();
        format!("{} over {}", traffic.join(", "), families.join(" and "))
    });
    parts.collect::<Vec<_>>().join("; ")
}

pub(crate) fn name_of(family: Family) -> &'static str {
    match family {
        Family::Ipv4 => "IPv4",
        Family::Ipv6 => "IPv6",
    }
}

/// `80/TCP`, or the name of a protocol without ports.
pub(crate) fn traffic(protocol: Protocol, port: u16) -> String {
    if protocol.has_ports() {
        format!("{port}/{protocol}")
    } else {
        protocol.to_string()
    }
}

fn because(end: &EndJudgement) -> String {
    let reason = match end.reason {
        Reason::SamePod => "a pod reaches itself",
        Reason::NotAPod => "policies do not apply to this end",
        Reason::LocalNode => "the other end is the pod's own node",
        Reason::ClusterDefault => "nothing isolates the pod, and the cluster default is to deny",
        Reason::NotIsolated => "no policy isolates the pod",
        Reason::AllowedByRule => "allowed by",
        Reason::DeniedByRule => "denied by",
        Reason::NoRuleMatches => "no rule matches; isolated by",
        Reason::IcmpAccepted => "the ICMP flags accept it",
        Reason::UnresolvedPortName => "no port of that name",
        Reason::NoCommonFamily => "no common address family",
    };
    let causes: Vec<String> = end.causes.iter().map(cause).collect();
    format!("{}, {reason} {}", end.verdict, causes.join(", "))
        .trim_end()
        .to_owned()
}

fn cause(cause: &Cause) -> String {
    let rule = cause
        .rule
        .map_or(String::new(), |rule| format!(" {} rule {rule}", cause.direction));
    let place = if cause.position.line == 0 {
        String::new()
    } else {
        format!(" ({})", cause.position)
    };
    format!("{}{rule}{place}", cause.object)
}

#[derive(Clone, Copy)]
struct Paint {
    colour: bool,
}

impl Paint {
    fn with(self, code: &str, text: &str) -> String {
        if self.colour {
            format!("\u{1b}[{code}m{text}\u{1b}[0m")
        } else {
            text.to_owned()
        }
    }

    fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    fn good(self, text: &str) -> String {
        self.with("32", text)
    }

    fn bad(self, text: &str) -> String {
        self.with("1;31", text)
    }

    fn mark(self, mark: char) -> String {
        let text = mark.to_string();
        match mark {
            ALLOWED => self.with("32", &text),
            DENIED => self.with("2", &text),
            LEAKING | BLOCKED | BROKEN => self.with("1;37;41", &text),
            _ => text,
        }
    }
}
