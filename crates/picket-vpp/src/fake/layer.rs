//! The session layer: namespaces of applications and their tables of rules.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use picket_net::{Family, Protocol};

use super::packet::Packet;
use super::pool::Pool;
use super::retval;
use super::rules::{Connection, Crash, RuleChange, Rules, SessionRule};

/// A namespace of applications.
#[derive(Clone, Debug)]
pub struct Namespace {
    /// Its name.
    pub id: String,
    /// Its interface, if it has one: then its FIBs are those of the interface.
    pub sw_if_index: Option<u32>,
    /// Its FIBs, by their ids: of IPv4 and of IPv6.
    pub fibs: (u32, u32),
    local: Tables,
}

/// The transports that have rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP, 0.
    Tcp,
    /// UDP, 1.
    Udp,
}

impl Transport {
    /// What is not UDP is TCP.
    pub(super) fn from_wire(number: u8) -> Self {
        if number == 1 { Self::Udp } else { Self::Tcp }
    }

    fn of(packet: &Packet) -> Option<Self> {
        match packet.protocol {
            Protocol::TCP => Some(Self::Tcp),
            Protocol::UDP => Some(Self::Udp),
            _ => None,
        }
    }
}

/// The rules of one scope, by transport.
#[derive(Clone, Debug, Default)]
struct Tables {
    tcp: Rules,
    udp: Rules,
}

impl Tables {
    fn of(&self, transport: Transport) -> &Rules {
        match transport {
            Transport::Tcp => &self.tcp,
            Transport::Udp => &self.udp,
        }
    }

    fn of_mut(&mut self, transport: Transport) -> &mut Rules {
        match transport {
            Transport::Tcp => &mut self.tcp,
            Transport::Udp => &mut self.udp,
        }
    }
}

/// A rule as a dump says it.
pub(super) struct Dumped {
    /// Number of the transport. Tables have a rule for everything for transports too that have no rules.
    pub(super) transport: u8,
    pub(super) local_scope: bool,
    /// The namespaces that the table belongs to; the first generation of dumps says the last of them.
    pub(super) namespaces: Vec<u32>,
    pub(super) rule: SessionRule,
}

/// Why a rule is refused.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RuleError {
    /// With this number.
    Refused(i32),
    /// VPP would have died.
    Crash,
}

impl From<Crash> for RuleError {
    fn from(_: Crash) -> Self {
        Self::Crash
    }
}

/// A session layer that is enabled.
#[derive(Clone, Debug)]
pub(super) struct Layer {
    /// Whether it keeps rules: only with the engine RULE_TABLE.
    has_rules: bool,
    namespaces: Pool<Namespace>,
    /// By the FIB and whether it is of IPv4.
    global: BTreeMap<(u32, bool), Tables>,
}

impl Layer {
    /// An enabled layer has a namespace `default` with index 0, in FIB 0.
    pub(super) fn new(has_rules: bool) -> Self {
        let mut layer = Self {
            has_rules,
            namespaces: Pool::default(),
            global: BTreeMap::new(),
        };
        layer.put("default", None, (0, 0));
        layer
    }

    fn put(&mut self, id: &str, sw_if_index: Option<u32>, fibs: (u32, u32)) -> u32 {
        self.global.entry((fibs.0, true)).or_default();
        self.global.entry((fibs.1, false)).or_default();
        let known = self.namespaces.iter_mut().find(|(_, known)| known.id == id);
        if let Some((index, known)) = known {
            known.sw_if_index = sw_if_index;
            known.fibs = fibs;
            return index;
        }
        self.namespaces.insert(Namespace {
            id: id.to_owned(),
            sw_if_index,
            fibs,
            local: Tables::default(),
        })
    }

    /// Adds a namespace, or changes the one of that name.
    pub(super) fn add_namespace(
        &mut self,
        id: &str,
        interface: Option<(u32, u32)>,
        fibs: (u32, u32),
        known_fibs: &BTreeSet<u32>,
    ) -> Result<u32, i32> {
        let (sw_if_index, fibs) = match interface {
            Some((index, fib)) => (Some(index), (fib, fib)),
            None => (None, fibs),
        };
        if !known_fibs.contains(&fibs.0) || !known_fibs.contains(&fibs.1) {
            return Err(retval::NO_SUCH_FIB);
        }
        Ok(self.put(id, sw_if_index, fibs))
    }

    /// Removes a namespace with its local rules.
    pub(super) fn delete_namespace(&mut self, id: &str) -> Result<(), i32> {
        let index = self.namespaces.iter().find(|(_, known)| known.id == id);
        let index = index.map(|(index, _)| index).ok_or(retval::UNSPECIFIED)?;
        self.namespaces.remove(index);
        Ok(())
    }

    pub(super) fn namespaces(&self) -> impl Iterator<Item = (u32, &Namespace)> {
        self.namespaces.iter()
    }

    /// Adds or removes a rule. `scope` is the first byte of the field, which is what VPP makes of it: 0 and 1 are global, 2 is
    /// local, 3 is both.
    pub(super) fn change_rule(
        &mut self,
        namespace: u32,
        scope: u8,
        transport: Transport,
        add: bool,
        change: RuleChange,
    ) -> Result<(), RuleError> {
        let refused = RuleError::Refused(retval::UNSPECIFIED);
        let Some(owner) = self.namespaces.get_mut(namespace) else {
            return Err(refused);
        };
        if scope > 3 || !self.has_rules {
            return Err(refused);
        }
        if scope & 1 != 0 || scope == 0 {
            let fib = if change.ipv4 { owner.fibs.0 } else { owner.fibs.1 };
            let table = self.global.entry((fib, change.ipv4)).or_default();
            apply(table.of_mut(transport), add, change.clone())?;
        }
        if scope & 2 != 0 {
            apply(owner.local.of_mut(transport), add, change.without_local_side())?;
        }
        Ok(())
    }

    /// Every rule, as dumps have them. Another engine has no tables of rules.
    pub(super) fn dump(&self) -> Vec<Dumped> {
        let mut dumped = Vec::new();
        if !self.has_rules {
            return dumped;
        }
        for ((fib, ipv4), tables) in &self.global {
            let members = self.namespaces.iter().filter(|(_, member)| {
                let own = if *ipv4 { member.fibs.0 } else { member.fibs.1 };
                own == *fib
            });
            let namespaces: Vec<u32> = members.map(|(index, _)| index).collect();
            dump_tables(tables, &[*ipv4], false, &namespaces, &mut dumped);
        }
        for (index, namespace) in self.namespaces.iter() {
            dump_tables(&namespace.local, &[true, false], true, &[index], &mut dumped);
        }
        dumped
    }

    /// The rules of a local table, or of the global one of FIB 0, with their true tags.
    pub(super) fn rules(
        &self,
        namespace: Option<u32>,
        transport: Transport,
        family: Family,
    ) -> Vec<SessionRule> {
        let ipv4 = family == Family::Ipv4;
        let tables = match namespace {
            Some(index) => self.namespaces.get(index).map(|namespace| &namespace.local),
            None => self.global.get(&(0, ipv4)),
        };
        let rules = tables.map(|tables| tables.of(transport).list(ipv4, false).collect());
        rules.unwrap_or_default()
    }

    /// What the local table says when an application of the namespace connects.
    pub(super) fn connects(&self, namespace: u32, packet: &Packet) -> Connection {
        let (Some(transport), Some(namespace)) = (Transport::of(packet), self.namespaces.get(namespace))
        else {
            return Connection::Allowed;
        };
        let nowhere = match packet.destination {
            IpAddr::V4(_) => IpAddr::from(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::from(Ipv6Addr::UNSPECIFIED),
        };
        let rules = namespace.local.of(transport);
        Connection::of(rules.action((nowhere, 0), (packet.destination, packet.destination_port)))
    }

    /// What the global table of FIB 0 says of a packet that begins a connection from outside.
    pub(super) fn accepts(&self, packet: &Packet) -> Connection {
        let table = self.global.get(&(0, packet.source.is_ipv4()));
        let (Some(transport), Some(table)) = (Transport::of(packet), table) else {
            return Connection::Allowed;
        };
        Connection::of(table.of(transport).action(
            (packet.destination, packet.destination_port),
            (packet.source, packet.source_port),
        ))
    }
}

fn apply(rules: &mut Rules, add: bool, change: RuleChange) -> Result<(), RuleError> {
    if add {
        rules.add(change).map_err(RuleError::Refused)
    } else {
        Ok(rules.remove(&change)?)
    }
}

/// Of the transports without rules one is enough: it has only the rule for everything.
fn dump_tables(
    tables: &Tables,
    families: &[bool],
    local_scope: bool,
    namespaces: &[u32],
    into: &mut Vec<Dumped>,
) {
    let unused = Rules::default();
    for (transport, rules) in [(0, &tables.tcp), (1, &tables.udp), (2, &unused)] {
        for ipv4 in families {
            into.extend(rules.list(*ipv4, true).map(|rule| Dumped {
                transport,
                local_scope,
                namespaces: namespaces.to_vec(),
                rule,
            }));
        }
    }
}
