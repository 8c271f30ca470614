//! What a table does with packets, worked out from nftables' own semantics (`nft(8)`; where that is silent, the
//! kernel's `net/netfilter/nf_tables_core.c` and the expressions beside it).

use std::cell::Cell;
use std::collections::BTreeMap;

use picket_dataplane::{Crossing, Meaning, Outcome, Packet, State};
use picket_net::{Family, Interval, Protocol};

use crate::model::{
    Assigned, Base, Chain, Datum, End, Field, Hook, InterfaceName, Key, Map, Match, Name, Policy, Relation,
    Rule, Set, Slot, Statement, Table, Transport, Value, Verdict,
};

/// Runs packets through a table.
#[derive(Clone, Debug)]
pub struct Interpreter<'a> {
    containers: Containers<'a>,
    /// Where another table comes into force meanwhile: after how many lookups, and what can be looked up then.
    overtaken: Option<(usize, Containers<'a>)>,
    chains: BTreeMap<&'a Name, &'a Chain>,
    /// Base chains by hook and priority; those of equal priority in the order in which they were made.
    hooks: Vec<(Base, &'a Chain)>,
}

/// What can be looked up.
#[derive(Clone, Debug)]
struct Containers<'a> {
    sets: BTreeMap<&'a Name, &'a Set>,
    maps: BTreeMap<&'a Name, &'a Map>,
}

/// What happened to a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passage {
    /// What became of it.
    pub outcome: Outcome,
    /// The packet as it left, with the marks and priority that rules wrote.
    pub packet: Packet,
    /// The named counters that counted it, in order.
    pub counted: Vec<Name>,
}

/// How the evaluation of a chain ended.
enum Ended {
    Accepted,
    Dropped {
        place: String,
        counter: Option<Name>,
    },
    /// No rule decided, or one returned.
    Undecided,
}

/// What reading a field gave.
enum Read {
    /// The packet does not have it: the kernel's `NFT_BREAK` ends the rule.
    Break,
    /// A value that equals nothing a ruleset can write: no interface.
    Unlike,
    Value(Value),
}

/// What evaluation knows besides the packet.
struct Position {
    hook: Hook,
    /// Conntrack looks at packets at priority -200 of prerouting and output; before that none is known.
    tracked: bool,
}

impl Position {
    fn of(base: Base) -> Self {
        let first = matches!(base.hook, Hook::Prerouting | Hook::Output);
        Self {
            hook: base.hook,
            tracked: !(first && base.priority <= -200),
        }
    }

    fn state(&self, packet: &Packet) -> State {
        if self.tracked {
            packet.state
        } else {
            State::Invalid
        }
    }

    /// Whether the packet has a connection: `ct mark` breaks the rule where it has none.
    fn connected(&self, packet: &Packet) -> bool {
        !matches!(self.state(packet), State::Invalid | State::Untracked)
    }
}

impl<'a> Interpreter<'a> {
    /// An interpreter of `table`.
    pub fn new(table: &'a Table) -> Self {
        let mut hooks: Vec<_> = table
            .chains()
            .iter()
            .filter_map(|chain| chain.base.map(|base| (base, chain)))
            .collect();
        hooks.sort_by_key(|(base, _)| (base.hook, base.priority));
        Self {
            containers: Containers::of(table),
            overtaken: None,
            chains: table.chains().iter().map(|chain| (&chain.name, chain)).collect(),
            hooks,
        }
    }

    /// An interpreter of what `table` does with packets that are on their way while the kernel puts `after` in its place, in one
    /// transaction: they go on by the rules of before, and find in sets and maps what is in them, for so many `lookups` what was.
    /// A set that goes is as it was to them, and a map is empty. What is made anew under the same name is taken for what was there.
    pub fn overtaken(table: &'a Table, after: &'a Table, lookups: usize) -> Self {
        let mut interpreter = Self::new(table);
        let mut now = Containers::of(after);
        for (name, set) in &interpreter.containers.sets {
            now.sets.entry(name).or_insert(set);
        }
        interpreter.overtaken = Some((lookups, now));
        interpreter
    }

    /// Runs one packet through every hook that it passes.
    pub fn pass(&self, packet: &Packet) -> Passage {
        let path: &[Hook] = match packet.crossing {
            Crossing::Receive { .. } => &[Hook::Prerouting, Hook::Input],
            Crossing::Forward { .. } => &[Hook::Prerouting, Hook::Forward, Hook::Postrouting],
            Crossing::Send { .. } | Crossing::Relay { .. } => &[Hook::Output, Hook::Postrouting],
        };
        let mut run = Run {
            tables: self,
            packet: packet.clone(),
            counted: Vec::new(),
            lookups: Cell::new(0),
        };
        for hook in path {
            for (base, chain) in self.hooks.iter().filter(|(base, _)| base.hook == *hook) {
                let dropped = match run.chain(&Position::of(*base), chain) {
                    Ended::Accepted => None,
                    Ended::Undecided if base.policy == Policy::Accept => None,
                    Ended::Undecided => Some((format!("the policy of chain {}", chain.name), None)),
                    Ended::Dropped { place, counter } => Some((place, counter)),
                };
                if let Some((place, counter)) = dropped {
                    let counter = counter.map(|name| name.as_str().into());
                    return run.ended(Outcome::Drop { place, counter });
                }
            }
        }
        run.ended(Outcome::Accept)
    }
}

impl<'a> Containers<'a> {
    fn of(table: &'a Table) -> Self {
        Self {
            sets: table.sets().iter().map(|set| (set.name(), set)).collect(),
            maps: table.maps().iter().map(|map| (map.name(), map)).collect(),
        }
    }

    fn in_set(&self, set: &Name, key: Vec<Value>) -> bool {
        self.sets.get(set).is_some_and(|set| set.holds(&Key::of(key)))
    }

    fn in_map(&self, map: &Name, key: Vec<Value>) -> Option<&'a Datum> {
        self.maps.get(map)?.get(&Key::of(key))
    }
}

impl Meaning for Interpreter<'_> {
    fn outcome(&self, packet: &Packet) -> Outcome {
        self.pass(packet).outcome
    }
}

/// One packet on its way.
struct Run<'i, 'a> {
    tables: &'i Interpreter<'a>,
    packet: Packet,
    counted: Vec<Name>,
    /// How often something was looked up.
    lookups: Cell<usize>,
}

impl<'a> Run<'_, 'a> {
    fn ended(self, outcome: Outcome) -> Passage {
        Passage {
            outcome,
            packet: self.packet,
            counted: self.counted,
        }
    }

    /// What can be looked up now.
    fn containers(&self) -> &Containers<'a> {
        let before = self.lookups.replace(self.lookups.get() + 1);
        match &self.tables.overtaken {
            Some((lookups, now)) if before >= *lookups => now,
            _ => &self.tables.containers,
        }
    }

    fn chain(&mut self, position: &Position, chain: &'a Chain) -> Ended {
        for (index, rule) in chain.rules.iter().enumerate() {
            let before = self.counted.len();
            let Some(verdict) = self.rule(position, rule) else {
                continue;
            };
            match verdict {
                Verdict::Accept => return Ended::Accepted,
                Verdict::Drop => {
                    let counter = self.counted.get(before..).and_then(|names| names.last()).cloned();
                    return Ended::Dropped {
                        place: format!("rule {index} of chain {}", chain.name),
                        counter,
                    };
                }
                Verdict::Return => return Ended::Undecided,
                Verdict::Jump(target) => match self.target(position, target) {
                    Ended::Undecided => {}
                    decided => return decided,
                },
                Verdict::Goto(target) => return self.target(position, target),
            }
        }
        Ended::Undecided
    }

    fn target(&mut self, position: &Position, name: &Name) -> Ended {
        match self.tables.chains.get(name) {
            Some(&chain) => self.chain(position, chain),
            // INVARIANT: a checked table has every chain that it names.
            None => Ended::Undecided,
        }
    }

    /// The verdict of a rule; `None` when a match failed, a lookup gave nothing, or the rule only had effects.
    fn rule(&mut self, position: &Position, rule: &'a Rule) -> Option<&'a Verdict> {
        for statement in &rule.statements {
            match statement {
                Statement::Match(condition) => self.matches(position, condition).then_some(())?,
                Statement::Set(slot, assigned) => self.write(position, *slot, assigned)?,
                Statement::Count(counter) => self.counted.push(counter.clone()),
                // Behind a limit nothing is decided or counted.
                Statement::Log(_) | Statement::Limit(_) => {}
            }
        }
        match &rule.end {
            End::Next => None,
            End::Reject => Some(&Verdict::Drop),
            End::Verdict(verdict) => Some(verdict),
            End::VerdictMap { key, map } => match self.containers().in_map(map, self.key(position, key)?)? {
                Datum::Verdict(verdict) => Some(verdict),
                Datum::Mark(_) | Datum::Priority(_) => None,
            },
        }
    }

    /// The values of a key that is looked up; `None` when one is missing, or such that no element can hold it.
    fn key(&self, position: &Position, fields: &[Field]) -> Option<Vec<Value>> {
        fields
            .iter()
            .map(|&field| match self.read(position, field) {
                Read::Value(value) => Some(value),
                Read::Break | Read::Unlike => None,
            })
            .collect()
    }

    fn matches(&self, position: &Position, condition: &Match) -> bool {
        match condition {
            Match::Compare {
                field,
                relation,
                value,
            } => match self.read(position, *field) {
                Read::Break => false,
                Read::Unlike => *relation == Relation::IsNot,
                Read::Value(read) => read.overlaps(value) == (*relation == Relation::Is),
            },
            Match::AnyOf { field, values } => match self.read(position, *field) {
                Read::Break | Read::Unlike => false,
                Read::Value(read) => values.iter().any(|value| value.overlaps(&read)),
            },
            Match::Lookup { key, relation, set } => {
                if key
                    .iter()
                    .any(|&field| matches!(self.read(position, field), Read::Break))
                {
                    return false;
                }
                let found = self
                    .key(position, key)
                    .is_some_and(|key| self.containers().in_set(set, key));
                found == (*relation == Relation::Is)
            }
            Match::State(states) => states.contains(&position.state(&self.packet)),
            Match::TcpFlags {
                mask,
                relation,
                value,
            } => match (self.packet.protocol, self.packet.tcp_flags) {
                (Protocol::TCP, Some(flags)) => (flags & mask == *value) == (*relation == Relation::Is),
                _ => false,
            },
            // The expression may be used where there is an input interface; elsewhere it breaks the rule.
            Match::NoReversePath => self.interface_in(position).is_some() && !self.packet.reverse_path,
            Match::LocalSource => matches!(self.packet.crossing, Crossing::Send { .. }),
        }
    }

    /// Writes a field; `None` when the rule ends because nothing was there to write.
    fn write(&mut self, position: &Position, slot: Slot, assigned: &Assigned) -> Option<()> {
        let value = match assigned {
            Assigned::Constant(value) => *value,
            Assigned::Field(field) => match self.read(position, *field) {
                Read::Value(Value::Mark(value) | Value::Priority(value)) => value.first(),
                Read::Value(_) | Read::Break | Read::Unlike => return None,
            },
            Assigned::Map { key, map } => match self.containers().in_map(map, self.key(position, key)?)? {
                Datum::Mark(value) | Datum::Priority(value) => *value,
                Datum::Verdict(_) => return None,
            },
        };
        match slot {
            Slot::Priority => self.packet.priority = value,
            Slot::Mark => self.packet.mark = value,
            // `nft_ct_set_eval` goes on without a word where there is no connection.
            Slot::ConnectionMark if position.connected(&self.packet) => self.packet.connection_mark = value,
            Slot::ConnectionMark => {}
        }
        Some(())
    }

    fn interface_in(&self, position: &Position) -> Option<&str> {
        match position.hook {
            Hook::Output => None,
            _ => self.packet.crossing.input().map(|name| name.as_str()),
        }
    }

    fn interface_out(&self, position: &Position) -> Option<&str> {
        match position.hook {
            Hook::Prerouting | Hook::Input => None,
            _ => self.packet.crossing.output().map(|name| name.as_str()),
        }
    }

    fn read(&self, position: &Position, field: Field) -> Read {
        let packet = &self.packet;
        // Where there is no interface the kernel compares with an empty name.
        let interface = |name: Option<&str>| {
            name.and_then(InterfaceName::new)
                .map_or(Read::Unlike, |name| Read::Value(Value::Interface(name)))
        };
        let address = |family, address| {
            if packet.family() == family {
                Read::Value(Value::address(address))
            } else {
                Read::Break
            }
        };
        let kind = |protocol, value: fn(Interval<u8>) -> Value| match packet.icmp_type {
            Some(kind) if packet.protocol == protocol => Read::Value(value(Interval::single(kind))),
            _ => Read::Break,
        };
        match field {
            Field::InputInterface => interface(self.interface_in(position)),
            Field::OutputInterface => interface(self.interface_out(position)),
            Field::Ipv4Source => address(Family::Ipv4, packet.source),
            Field::Ipv4Destination => address(Family::Ipv4, packet.destination),
            Field::Ipv6Source => address(Family::Ipv6, packet.source),
            Field::Ipv6Destination => address(Family::Ipv6, packet.destination),
            Field::Family => Read::Value(Value::Family(packet.family())),
            Field::Protocol => Read::Value(Value::protocol(packet.protocol)),
            Field::DestinationPort(transport) => {
                let applies = match transport {
                    Transport::Any => true,
                    Transport::Tcp => packet.protocol == Protocol::TCP,
                    Transport::Udp => packet.protocol == Protocol::UDP,
                    Transport::Sctp => packet.protocol == Protocol::SCTP,
                };
                packet
                    .port
                    .filter(|_| applies)
                    .map_or(Read::Break, |port| Read::Value(Value::port(port)))
            }
            Field::IcmpType => kind(Protocol::ICMP, Value::IcmpType),
            Field::Icmpv6Type => kind(Protocol::ICMPV6, Value::Icmpv6Type),
            Field::Priority => Read::Value(Value::priority(packet.priority)),
            Field::Mark => Read::Value(Value::mark(packet.mark)),
            Field::ConnectionMark if position.connected(packet) => {
                Read::Value(Value::mark(packet.connection_mark))
            }
            Field::ConnectionMark => Read::Break,
        }
    }
}

#[cfg(test)]
mod tests;
