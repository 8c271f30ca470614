//! Proof that a ruleset means the policies, or a packet with which it does not.
//!
//! The rules are run with sets of packets instead of single ones. A set is split wherever a rule tells its packets apart,
//! and nowhere else, until every packet of a set has gone the same way to the same end. Each end is then held against what
//! the policies demand of all packets of the set. `docs/verify.md` says why no packet is left out.

mod cell;
mod class;
mod container;
mod list;
mod lookup;
mod program;
mod run;
mod slice;
mod values;

use std::rc::Rc;

use picket_dataplane::demand::{
    ABSENT_FLAGS, ABSENT_PORT, ABSENT_TYPE, Demand, Demands, Ends, Header, Headers, Required, Split,
};
use picket_dataplane::{Crossing, Packet, State};
use picket_net::{BitSet, Family, Interval, IntervalSet};
use rustc_hash::FxHashMap;

use crate::meaning::{Interpreter, Passage};
use crate::model::{Hook, Table};
use cell::{Cell, Numbers, Scratch, Way};
use class::{Atoms, Classes, interfaces};
use list::{List, Memory};
use lookup::Tables;
use program::{ALL_STATES, Program, STATES, state_bit};
use run::{REMEMBERED, Run, Sink};

/// A packet that a ruleset treats otherwise than the policies demand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counterexample {
    /// The packet.
    pub packet: Packet,
    /// What the policies demand.
    pub required: Required,
    /// What the rules do.
    pub passage: Passage,
}

/// What was found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Sets of packets that were told apart and checked.
    pub cells: usize,
    /// Packets that are treated wrongly, each from another set; none is the proof.
    pub counterexamples: Vec<Counterexample>,
    /// Whether there may be more, because enough were found.
    pub stopped: bool,
    /// Whether there may be any, because not everything was looked at.
    pub given_up: bool,
}

impl Report {
    /// Whether the ruleset means what the policies mean.
    pub fn is_proof(&self) -> bool {
        self.counterexamples.is_empty() && !self.stopped && !self.given_up
    }

    /// Whether it neither proves nor refutes anything.
    pub fn is_open(&self) -> bool {
        self.given_up && self.counterexamples.is_empty()
    }
}

/// Why there is no answer: two ways to run the same rules disagree, which is a mistake in picket.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the proof and the interpreter of rulesets disagree about {packet:?}")]
pub struct VerifyError {
    /// A packet that they treat differently.
    pub packet: Box<Packet>,
}

/// The paths that packets take: the hooks that they pass one after the other.
const PATHS: [(Path, &[Hook]); 4] = [
    (Path::Receive, &[Hook::Prerouting, Hook::Input]),
    (
        Path::Forward,
        &[Hook::Prerouting, Hook::Forward, Hook::Postrouting],
    ),
    (Path::Send, &[Hook::Output, Hook::Postrouting]),
    (Path::Relay, &[Hook::Output, Hook::Postrouting]),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Path {
    Receive,
    Forward,
    Send,
    Relay,
}

/// Holds `table` against what `demands` says, and gives up to `limit` packets that are treated wrongly. `interface` is
/// the one that the demands are about.
///
/// # Errors
/// When the proof itself is at fault.
pub fn verify(
    table: &Table,
    demands: &Demands<'_>,
    interface: &str,
    limit: usize,
) -> Result<Report, VerifyError> {
    verify_while(table, demands, interface, limit, &|| true)
}

/// The same for as long as `goes_on` says so, which is asked again and again.
///
/// # Errors
/// As [`verify`].
pub fn verify_while(
    table: &Table,
    demands: &Demands<'_>,
    interface: &str,
    limit: usize,
    goes_on: &dyn Fn() -> bool,
) -> Result<Report, VerifyError> {
    let atoms = Atoms::of(demands);
    let interpreter = Interpreter::new(table);
    let mut report = Report::default();
    let known: Vec<&str> = demands.uplinks().chain([interface]).collect();
    for (path, hooks) in PATHS {
        let program = Program::of(table, hooks, path == Path::Send);
        let tables = Tables {
            classes: Family::BOTH.map(|family| Classes::of(&atoms, &program, family)),
            interfaces: interfaces(&program, known.iter().copied()),
            memory: Memory::default(),
            program: &program,
        };
        for family in Family::BOTH {
            let check = Check {
                path,
                tables: &tables,
                demands,
                interpreter: &interpreter,
                report,
                limit,
                goes_on,
                known: FxHashMap::default(),
                ends: Ends::new(demands, tables.classes(family).ends()),
                wrong: None,
            };
            let check = Run::new(&tables, check).path(everything(path, family, &tables));
            if let Some(packet) = check.wrong {
                return Err(VerifyError { packet });
            }
            report = check.report;
            if report.stopped || report.given_up {
                return Ok(report);
            }
        }
    }
    Ok(report)
}

/// Every packet of one path and family.
fn everything(path: Path, family: Family, tables: &Tables<'_, '_>) -> Cell {
    let up_to = |last: u32| -> Numbers { Rc::new(Interval::new(0, last).into_iter().collect()) };
    let count = |length| List::from((0..).take(length).collect::<BitSet>());
    let addresses = count(tables.classes(family).members.len());
    let ways: BitSet = (0..).take(2 * tables.interfaces.len()).collect();
    let out: BitSet = ways.iter().filter(|&way| Way::of(way).leads_back).collect();
    let (none, inputs, outputs) = (List::from(BitSet::empty()), List::from(ways), List::from(out));
    let (inputs, outputs) = match path {
        Path::Receive => (inputs, none),
        Path::Send | Path::Relay => (none, outputs),
        Path::Forward => (inputs, outputs),
    };
    Cell {
        family,
        sources: addresses.clone(),
        destinations: addresses,
        inputs,
        outputs,
        states: ALL_STATES,
        protocols: up_to(0xff),
        ports: up_to(ABSENT_PORT),
        types: up_to(ABSENT_TYPE),
        flags: up_to(ABSENT_FLAGS),
        initial: [0, 1, 2].map(|_| up_to(u32::MAX)),
        scratch: [Scratch::Initial(0), Scratch::Initial(1), Scratch::Initial(2)],
    }
}

/// Holds the ends of cells against the demands.
struct Check<'c, 'a, 'd> {
    path: Path,
    tables: &'c Tables<'a, 'd>,
    demands: &'c Demands<'d>,
    interpreter: &'c Interpreter<'c>,
    report: Report,
    limit: usize,
    goes_on: &'c dyn Fn() -> bool,
    /// What is demanded between lists of classes.
    known: FxHashMap<(Crossing, List, List), Demanded>,
    /// The ends of the classes.
    ends: Ends<'c>,
    wrong: Option<Box<Packet>>,
}

/// Everything that is demanded, each with the classes of a pair of which it is.
type Demanded = Rc<[(Demand, u32, u32)]>;

impl Sink for Check<'_, '_, '_> {
    fn goes_on(&mut self) -> bool {
        self.report.given_up = !(self.goes_on)();
        !self.report.given_up
    }

    fn ended(&mut self, cell: &Cell, pass: bool) -> bool {
        self.report.cells += 1;
        for passing in self.passings(cell) {
            let demanded = self.demanded(cell, &passing, pass);
            if let Some(packet) = self.broken(cell, &passing, &demanded, pass) {
                let required = self.demands.required(&packet);
                let passage = self.interpreter.pass(&packet);
                if passage.outcome.is_accept() != pass || required.is_met_by(&passage.outcome) {
                    self.wrong = Some(Box::new(packet));
                    return false;
                }
                // An end that was forgotten may be told again.
                let known = &self.report.counterexamples;
                if known.iter().any(|known| known.packet == packet) {
                    break;
                }
                self.report.counterexamples.push(Counterexample {
                    packet,
                    required,
                    passage,
                });
                if self.report.counterexamples.len() >= self.limit {
                    self.report.stopped = true;
                    return false;
                }
                break;
            }
        }
        true
    }
}

/// How the packets of a cell pass, as far as something else is demanded of them for that.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Passing {
    crossing: Crossing,
    /// Whether the route back to the source leads through the interface of arrival.
    leads_back: bool,
    /// What is demanded whatever the policies say.
    always: Option<Demand>,
}

impl Check<'_, '_, '_> {
    fn passings(&self, cell: &Cell) -> Vec<Passing> {
        let name = |way: Way| {
            let name = self.tables.interfaces.get(way.interface as usize);
            name.map_or("", String::as_str).into()
        };
        let ways = |list: &List| -> Vec<Way> { list.iter().map(Way::of).collect() };
        let passing = |crossing, way: Way| Passing {
            crossing,
            leads_back: way.leads_back,
            always: None,
        };
        match self.path {
            Path::Receive => {
                let ways = ways(&cell.inputs);
                let each = ways.chunk_by(|one, other| one.interface == other.interface);
                let each = each.filter_map(|alike| alike.last());
                each.map(|&way| passing(Crossing::Receive { input: name(way) }, way))
                    .collect()
            }
            Path::Send => {
                let ways = ways(&cell.outputs).into_iter();
                ways.map(|way| passing(Crossing::Send { output: name(way) }, way))
                    .collect()
            }
            Path::Relay => {
                // Policies are not about the interface.
                let way = cell.outputs.first().map(Way::of);
                way.map(|way| passing(Crossing::Relay { output: name(way) }, way))
                    .into_iter()
                    .collect()
            }
            Path::Forward => {
                let Some(output) = cell.outputs.first().map(Way::of) else {
                    return Vec::new();
                };
                let forward = |input: Way| {
                    let crossing = Crossing::Forward {
                        input: name(input),
                        output: name(output),
                    };
                    passing(crossing, input)
                };
                self.forwarded(ways(&cell.inputs).into_iter().map(forward))
            }
        }
    }

    /// One way of each kind: policies are not about the interfaces of forwarded packets, but the node may be.
    fn forwarded(&self, ways: impl Iterator<Item = Passing>) -> Vec<Passing> {
        let [mut back, mut elsewhere, mut spoofed] = [None, None, None];
        for way in ways {
            let demand = self.demands.without_way_back(&way.crossing, Demand::Accept);
            if way.leads_back {
                back.get_or_insert(way);
            } else if demand.is_nothing() {
                spoofed.get_or_insert(Passing {
                    always: Some(demand),
                    ..way
                });
            } else {
                elsewhere.get_or_insert(way);
            }
        }
        // What is demanded where the way leads back is never less.
        back.or(elsewhere).into_iter().chain(spoofed).collect()
    }

    /// What is demanded of new connections in a cell. Cells that differ in headers alone share it.
    fn demanded(&mut self, cell: &Cell, passing: &Passing, pass: bool) -> Demanded {
        if let Some(always) = passing.always {
            let ends = cell.sources.first().zip(cell.destinations.first());
            return ends.map(|(from, to)| (always, from, to)).into_iter().collect();
        }
        // Nobody demands that other packets of known connections are dropped.
        let known = state_bit(State::Established) | state_bit(State::Related);
        if pass && cell.states & !known == 0 {
            return Rc::new([]);
        }
        let key = (
            passing.crossing.clone(),
            cell.sources.clone(),
            cell.destinations.clone(),
        );
        if self.known.len() >= REMEMBERED {
            self.known = FxHashMap::default();
        }
        let ends = &mut self.ends;
        let known = self.known.entry(key).or_insert_with(|| {
            let demanded = ends.between(&passing.crossing, &cell.sources, &cell.destinations);
            demanded.into()
        });
        Rc::clone(known)
    }

    /// A packet of the cell for which passing, or not, is wrong.
    fn broken(
        &self,
        cell: &Cell,
        passing: &Passing,
        demanded: &[(Demand, u32, u32)],
        pass: bool,
    ) -> Option<Packet> {
        let classes = self.tables.classes(cell.family);
        let states: Vec<_> = STATES
            .into_iter()
            .filter(|&state| cell.states & state_bit(state) != 0)
            .collect();
        let headers = Split::of(Headers {
            protocols: &cell.protocols,
            ports: &cell.ports,
            types: &cell.types,
            flags: &cell.flags,
        });
        for &(demand, from, to) in demanded {
            let mut before = None;
            for &state in &states {
                let demand = match (passing.always, passing.leads_back) {
                    (Some(always), _) => always,
                    (None, true) => demand.in_state(state),
                    (None, false) => {
                        let demands = self.demands;
                        demands.without_way_back(&passing.crossing, demand.in_state(state))
                    }
                };
                let demand = headers.demanded(demand);
                if before.replace(demand) == Some(demand) {
                    continue;
                }
                if let Some(header) = self.demands.broken(demand, cell.family, &headers, pass) {
                    return Some(Packet {
                        crossing: passing.crossing.clone(),
                        reverse_path: passing.leads_back,
                        source: classes.address(from)?,
                        destination: classes.address(to)?,
                        state,
                        ..packet_of(cell, header)?
                    });
                }
            }
        }
        None
    }
}

/// A packet of the cell with this header.
fn packet_of(cell: &Cell, header: Header) -> Option<Packet> {
    let preferred = |numbers: &IntervalSet<u32>, wanted: u32| {
        Some(wanted)
            .filter(|&wanted| numbers.contains(wanted))
            .or_else(|| numbers.first())
    };
    let [priority, mark, connection_mark] = &cell.initial;
    let any = std::net::IpAddr::from([0; 4]);
    Some(Packet {
        port: header.port,
        icmp_type: header.icmp_type,
        tcp_flags: header.tcp_flags,
        priority: preferred(priority, 0)?,
        mark: preferred(mark, 0)?,
        connection_mark: preferred(connection_mark, 0)?,
        ..Packet::opening(Crossing::Send { output: "".into() }, any, any, header.protocol, 0)
    })
}
