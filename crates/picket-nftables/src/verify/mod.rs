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
use cell::{Cell, Numbers, Scratch};
use class::{Atoms, Classes, interfaces};
use list::{List, Memory};
use lookup::Tables;
use program::{Program, STATES, state_bit};
use run::{Run, Sink};

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
}

impl Report {
    /// Whether the ruleset means what the policies mean.
    pub fn is_proof(&self) -> bool {
        self.counterexamples.is_empty() && !self.stopped
    }
}

/// Why there is no answer: two ways to run the same rules disagree, which is a mistake in picket.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the proof and the interpreter of rulesets disagree about {packet:?}")]
pub struct VerifyError {
    /// A packet that they treat differently.
    pub packet: Box<Packet>,
}

/// The ways that packets take: the hooks that they pass one after the other.
const WAYS: [(Way, &[Hook]); 3] = [
    (Way::Receive, &[Hook::Prerouting, Hook::Input]),
    (
        Way::Forward,
        &[Hook::Prerouting, Hook::Forward, Hook::Postrouting],
    ),
    (Way::Send, &[Hook::Output, Hook::Postrouting]),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Receive,
    Forward,
    Send,
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
    let atoms = Atoms::of(demands);
    let interpreter = Interpreter::new(table);
    let mut report = Report::default();
    for (way, path) in WAYS {
        let program = Program::of(table, path);
        let tables = Tables {
            classes: Family::BOTH.map(|family| Classes::of(&atoms, &program, family)),
            interfaces: interfaces(&program, interface),
            memory: Memory::default(),
            program: &program,
        };
        for family in Family::BOTH {
            let check = Check {
                way,
                tables: &tables,
                demands,
                interpreter: &interpreter,
                report,
                limit,
                known: FxHashMap::default(),
                ends: Ends::new(demands, tables.classes(family).ends()),
                wrong: None,
            };
            let check = Run::new(&tables, check).path(everything(way, family, &tables));
            if let Some(packet) = check.wrong {
                return Err(VerifyError { packet });
            }
            report = check.report;
            if report.stopped {
                return Ok(report);
            }
        }
    }
    Ok(report)
}

/// Every packet of one way and family.
fn everything(way: Way, family: Family, tables: &Tables<'_, '_>) -> Cell {
    let up_to = |last: u32| -> Numbers { Rc::new(Interval::new(0, last).into_iter().collect()) };
    let count = |length| List::from((0..).take(length).collect::<BitSet>());
    let addresses = count(tables.classes(family).members.len());
    let interfaces = count(tables.interfaces.len());
    let none = List::from(BitSet::empty());
    let (inputs, outputs) = match way {
        Way::Receive => (interfaces, none),
        Way::Send => (none, interfaces),
        Way::Forward => (interfaces.clone(), interfaces),
    };
    Cell {
        family,
        sources: addresses.clone(),
        destinations: addresses,
        inputs,
        outputs,
        states: 0x1f,
        reverse_path: 3,
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
    way: Way,
    tables: &'c Tables<'a, 'd>,
    demands: &'c Demands<'d>,
    interpreter: &'c Interpreter<'c>,
    report: Report,
    limit: usize,
    /// What is demanded between lists of classes.
    known: FxHashMap<(Crossing, List, List), Demanded>,
    /// The ends of the classes.
    ends: Ends<'c>,
    wrong: Option<Box<Packet>>,
}

/// Everything that is demanded, each with the classes of a pair of which it is.
type Demanded = Rc<[(Demand, u32, u32)]>;

impl Sink for Check<'_, '_, '_> {
    fn ended(&mut self, cell: &Cell, pass: bool) -> bool {
        self.report.cells += 1;
        // Nobody demands that packets of known connections are dropped.
        let known = state_bit(State::Established) | state_bit(State::Related);
        if pass && cell.states & !known == 0 {
            return true;
        }
        for crossing in self.crossings(cell) {
            let demanded = self.demanded(cell, &crossing);
            if let Some(packet) = self.broken(cell, &crossing, &demanded, pass) {
                let required = self.demands.required(&packet);
                let passage = self.interpreter.pass(&packet);
                if passage.outcome.is_accept() != pass || required.is_met_by(&passage.outcome) {
                    self.wrong = Some(Box::new(packet));
                    return false;
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

impl Check<'_, '_, '_> {
    fn crossings(&self, cell: &Cell) -> Vec<Crossing> {
        let name = |number: u32| {
            self.tables
                .interfaces
                .get(number as usize)
                .map_or("", String::as_str)
                .into()
        };
        match self.way {
            Way::Receive => cell
                .inputs
                .iter()
                .map(|input| Crossing::Receive { input: name(input) })
                .collect(),
            Way::Send => cell
                .outputs
                .iter()
                .map(|output| Crossing::Send { output: name(output) })
                .collect(),
            Way::Forward => {
                // Interfaces of forwarded packets are nothing that policies are about.
                let ends = cell.inputs.first().zip(cell.outputs.first());
                ends.map(|(input, output)| Crossing::Forward {
                    input: name(input),
                    output: name(output),
                })
                .into_iter()
                .collect()
            }
        }
    }

    /// What is demanded of new connections in a cell. Cells that differ in headers alone share it.
    fn demanded(&mut self, cell: &Cell, crossing: &Crossing) -> Demanded {
        let key = (crossing.clone(), cell.sources.clone(), cell.destinations.clone());
        let ends = &mut self.ends;
        let known = self.known.entry(key).or_insert_with(|| {
            let demanded = ends.between(crossing, &cell.sources, &cell.destinations);
            demanded.into()
        });
        Rc::clone(known)
    }

    /// A packet of the cell for which passing, or not, is wrong.
    fn broken(
        &self,
        cell: &Cell,
        crossing: &Crossing,
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
                let demand = headers.demanded(demand.in_state(state));
                if before.replace(demand) == Some(demand) {
                    continue;
                }
                if let Some(header) = self.demands.broken(demand, cell.family, &headers, pass) {
                    return Some(Packet {
                        crossing: crossing.clone(),
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
        reverse_path: cell.reverse_path & 2 != 0,
        ..Packet::opening(Crossing::Send { output: "".into() }, any, any, header.protocol, 0)
    })
}
