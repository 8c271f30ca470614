//! One line: conditions, then what becomes of packets that meet them.

use std::collections::BTreeSet;
use std::ops::Range;

use picket_dataplane::State;
use picket_net::{AddressRange, AddressSet, Family, PortRange, Prefix, Protocol};
use picket_policy::{Block, Direction, List, PortMatch};

use super::token::{Token, tokens};
use super::value::{interface, one_or_set, ports, protocol, range};
use super::{CustomRule, Own};
use crate::model::{End, Field, Match, Name, Relation, Statement, Transport, Value, Verdict};

/// Why a line is no rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// The bytes of the line that are at fault.
    pub(super) range: Range<usize>,
    pub(super) message: String,
}

type Read<T> = Result<T, Refusal>;

/// Reads line `number` of a file for one direction and family.
pub(super) fn read(line: &str, number: u32, direction: Direction, family: Family) -> Read<CustomRule> {
    let tokens = tokens(line).map_err(|range| Refusal {
        range,
        message: "a quoted text has no end".to_owned(),
    })?;
    let end = line.trim_end().len();
    let mut reader = Line {
        tokens: tokens.into_iter().peekable(),
        end: end.saturating_sub(1)..end,
        number,
        direction,
        family,
        statements: Vec::new(),
        own: Own::default(),
        peers: Vec::new(),
        protocols: None,
        ports: None,
        states: None,
        counted: false,
        addressed: false,
    };
    let end = reader.conditions()?;
    reader.finish(end)
}

struct Line<'a> {
    tokens: std::iter::Peekable<std::vec::IntoIter<Token<'a>>>,
    /// The place of what is missing at the end.
    end: Range<usize>,
    number: u32,
    direction: Direction,
    family: Family,
    statements: Vec<Statement>,
    own: Own,
    peers: Vec<Block>,
    protocols: Option<Vec<Protocol>>,
    ports: Option<(Option<Protocol>, Vec<PortRange>)>,
    /// The states that are looked at, with their place.
    states: Option<(BTreeSet<State>, Range<usize>)>,
    counted: bool,
    /// Whether an address is looked at, and with it the family.
    addressed: bool,
}

fn refuse<T>(range: Range<usize>, message: impl Into<String>) -> Read<T> {
    Err(Refusal {
        range,
        message: message.into(),
    })
}

impl<'a> Line<'a> {
    fn next(&mut self, expected: &str) -> Read<Token<'a>> {
        match self.tokens.next() {
            Some(token) => Ok(token),
            None => refuse(
                self.end.clone(),
                format!("the rule ends where {expected} is expected"),
            ),
        }
    }

    fn conditions(&mut self) -> Read<End> {
        loop {
            let token = self.next("`accept`, `drop` or `reject`")?;
            match token.text {
                _ if token.quoted => {
                    return refuse(token.range, "a quoted text stands behind `comment` only");
                }
                "ip" => self.address(&token, Family::Ipv4)?,
                "ip6" => self.address(&token, Family::Ipv6)?,
                "tcp" => self.port(&token, Some((Protocol::TCP, Transport::Tcp)))?,
                "udp" => self.port(&token, Some((Protocol::UDP, Transport::Udp)))?,
                "sctp" => self.port(&token, Some((Protocol::SCTP, Transport::Sctp)))?,
                "th" => self.port(&token, None)?,
                "meta" => self.meta()?,
                "ct" => self.state()?,
                "iifname" | "oifname" => self.interface(&token)?,
                "counter" => self.counter(&token)?,
                "accept" => return self.ended(End::Verdict(Verdict::Accept)),
                "drop" => return self.ended(End::Verdict(Verdict::Drop)),
                "reject" => return self.ended(End::Reject),
                other => return refuse(token.range, not_of_the_grammar(other)),
            }
        }
    }

    /// What may stand behind the verdict.
    fn ended(&mut self, end: End) -> Read<End> {
        let Some(token) = self.tokens.next() else {
            return Ok(end);
        };
        if token.text == "with" && end == End::Reject {
            let message = "`reject` has nothing behind it: whoever is denied gets `port unreachable`";
            return refuse(token.range, message);
        }
        if token.text != "comment" || token.quoted {
            return refuse(token.range, "only `comment \"…\"` may stand behind the verdict");
        }
        let comment = self.next("a text in quotes")?;
        if !comment.quoted {
            return refuse(comment.range, "a comment stands in quotes");
        }
        match self.tokens.next() {
            Some(token) => refuse(token.range, "nothing may stand behind the comment"),
            None => Ok(end),
        }
    }

    fn address(&mut self, keyword: &Token<'a>, family: Family) -> Read<()> {
        if family != self.family {
            let message = format!(
                "this is the file for {}, which no `{}` is",
                self.family, keyword.text
            );
            return refuse(keyword.range.clone(), message);
        }
        let side = self.next("`saddr` or `daddr`")?;
        let (is_source, field) = match (side.text, family) {
            ("saddr", Family::Ipv4) => (true, Field::Ipv4Source),
            ("daddr", Family::Ipv4) => (false, Field::Ipv4Destination),
            ("saddr", Family::Ipv6) => (true, Field::Ipv6Source),
            ("daddr", Family::Ipv6) => (false, Field::Ipv6Destination),
            _ => return refuse(side.range, "expected `saddr` or `daddr`"),
        };
        let is_peer = is_source == (self.direction == Direction::Ingress);
        if (is_peer && !self.peers.is_empty()) || (!is_peer && self.own.addresses.is_some()) {
            return refuse(side.range, "the address is looked at twice");
        }
        let relation = self.relation();
        let values = self.values("an address", |token| range(token, family))?;
        let set: AddressSet = values.into_iter().collect();
        let ranges: Vec<AddressRange> = set.ranges().collect();
        let prefixes = || ranges.iter().flat_map(AddressRange::prefixes);
        match (is_peer, relation) {
            (true, Relation::Is) => {
                self.peers = prefixes().map(|prefix| block(prefix, Vec::new())).collect();
            }
            (true, Relation::IsNot) => self.peers = vec![block(Prefix::all(family), prefixes().collect())],
            (false, Relation::Is) => self.own.addresses = Some(set),
            (false, Relation::IsNot) => {
                self.own.addresses = Some(AddressSet::from(Prefix::all(family)).difference(&set));
            }
        }
        let values = ranges.into_iter().map(Value::addresses).collect();
        let Some(condition) = one_or_set(field, relation, values) else {
            return refuse(side.range, "`!=` takes one address, prefix or range");
        };
        self.statements.push(condition.into());
        self.addressed = true;
        Ok(())
    }

    /// The pod's interface. Rules of a file hold for every interface that is isolated, unless they say so.
    fn interface(&mut self, keyword: &Token<'a>) -> Read<()> {
        let (field, here) = match self.direction {
            Direction::Ingress => (Field::InputInterface, "iifname"),
            Direction::Egress => (Field::OutputInterface, "oifname"),
        };
        if keyword.text != here {
            let message = format!("in a file for {} the pod's interface is `{here}`", self.direction);
            return refuse(keyword.range.clone(), message);
        }
        if self.own.interfaces.is_some() {
            return refuse(keyword.range.clone(), "the interface is looked at twice");
        }
        let relation = self.relation();
        let names = self.listed("an interface", interface)?;
        let names: BTreeSet<_> = names.into_iter().collect();
        let values = names.iter().cloned().map(Value::Interface).collect();
        let Some(condition) = one_or_set(field, relation, values) else {
            return refuse(keyword.range.clone(), "`!=` takes one interface");
        };
        self.statements.push(condition.into());
        self.own.interfaces = Some((relation, names));
        Ok(())
    }

    /// A counter, which gets a name: nft then shows it with `list counters`.
    fn counter(&mut self, keyword: &Token<'a>) -> Read<()> {
        if self.counted {
            return refuse(keyword.range.clone(), "a rule has one counter");
        }
        // What a listing has behind the word.
        for word in ["packets", "bytes"] {
            if self.tokens.next_if(|token| token.text == word).is_some() {
                let count = self.next("a number")?;
                if count.text.parse::<u64>().is_err() {
                    return refuse(count.range, "expected a number");
                }
            }
        }
        let family = match self.family {
            Family::Ipv4 => "v4",
            Family::Ipv6 => "v6",
        };
        let name = Name::new(&format!("custom-{family}-{}-{}", self.direction, self.number));
        self.statements.extend(name.map(Statement::Count));
        self.counted = true;
        Ok(())
    }

    fn port(&mut self, keyword: &Token<'a>, transport: Option<(Protocol, Transport)>) -> Read<()> {
        let side = self.next("`dport`")?;
        match side.text {
            "dport" => {}
            "sport" => {
                return refuse(
                    side.range,
                    "`sport` is not supported: no verdict depends on the port of the sender",
                );
            }
            _ => return refuse(side.range, "expected `dport`"),
        }
        if self.ports.is_some() {
            return refuse(side.range, "the port is looked at twice");
        }
        self.check_transport(keyword, transport.map(|(protocol, _)| protocol))?;
        self.equal("the port: write the ranges on both sides")?;
        let ports = self.values("a port", ports)?;
        let set = ports.iter().fold(picket_net::PortSet::empty(), |set, &range| {
            set.union(&range.into())
        });
        let ranges: Vec<PortRange> = set.ranges().collect();
        let field = Field::DestinationPort(self.transport(transport));
        let values = ranges.iter().copied().map(Value::ports).collect();
        self.statements
            .extend(one_or_set(field, Relation::Is, values).map(Statement::from));
        self.ports = Some((transport.map(|(protocol, _)| protocol), ranges));
        Ok(())
    }

    /// How nft writes whose port it is: a single protocol needs no match of its own.
    fn transport(&mut self, written: Option<(Protocol, Transport)>) -> Transport {
        let Some([protocol]) = self.protocols.as_deref() else {
            return written.map_or(Transport::Any, |(_, transport)| transport);
        };
        let known = Match::is(Field::Protocol, Value::protocol(*protocol)).into();
        self.statements.retain(|statement| *statement != known);
        match *protocol {
            Protocol::TCP => Transport::Tcp,
            Protocol::UDP => Transport::Udp,
            _ => Transport::Sctp,
        }
    }

    fn meta(&mut self) -> Read<()> {
        let key = self.next("`l4proto` or `nfproto`")?;
        match key.text {
            "l4proto" => self.protocol(&key),
            "nfproto" => {
                self.equal("the family")?;
                let value = self.next("`ipv4` or `ipv6`")?;
                let family = match value.text {
                    "ipv4" => Family::Ipv4,
                    "ipv6" => Family::Ipv6,
                    _ => return refuse(value.range, "expected `ipv4` or `ipv6`"),
                };
                if family != self.family {
                    return refuse(value.range, format!("this is the file for {}", self.family));
                }
                Ok(())
            }
            _ => refuse(key.range, "expected `l4proto` or `nfproto`"),
        }
    }

    fn protocol(&mut self, key: &Token<'a>) -> Read<()> {
        if self.protocols.is_some() {
            return refuse(key.range.clone(), "the protocol is looked at twice");
        }
        if self.ports.is_some() {
            return refuse(key.range.clone(), "`meta l4proto` stands before the port");
        }
        self.equal("the protocol")?;
        let found = self.values("a protocol", protocol)?;
        let protocols: BTreeSet<Protocol> = found.into_iter().collect();
        let values = protocols.iter().copied().map(Value::protocol).collect();
        self.statements
            .extend(one_or_set(Field::Protocol, Relation::Is, values).map(Statement::from));
        self.protocols = Some(protocols.into_iter().collect());
        Ok(())
    }

    fn state(&mut self) -> Read<()> {
        let key = self.next("`state`")?;
        if key.text != "state" {
            return refuse(key.range, "expected `state`");
        }
        if self.states.is_some() {
            return refuse(key.range, "the state is looked at twice");
        }
        self.equal("the state")?;
        let in_braces = self.tokens.next_if(|token| token.text == "{").is_some();
        let mut states = BTreeSet::new();
        loop {
            let token = self.next("a state")?;
            states.insert(match token.text {
                "new" => State::New,
                "established" => State::Established,
                "related" => State::Related,
                "invalid" => State::Invalid,
                "untracked" => State::Untracked,
                _ => {
                    let message = "expected `new`, `established`, `related`, `invalid` or `untracked`, separated by commas";
                    return refuse(token.range, message);
                }
            });
            if self.tokens.next_if(|token| token.text == ",").is_none() {
                break;
            }
        }
        if in_braces {
            let token = self.next("`,` or `}`")?;
            if token.text != "}" {
                return refuse(token.range, "expected `,` or `}`");
            }
        }
        self.statements.push(Match::State(states.clone()).into());
        self.states = Some((states, key.range));
        Ok(())
    }

    /// `==`, `!=` or nothing.
    fn relation(&mut self) -> Relation {
        if self.tokens.next_if(|token| token.text == "!=").is_some() {
            return Relation::IsNot;
        }
        self.tokens.next_if(|token| token.text == "==");
        Relation::Is
    }

    /// `==` or nothing, where nothing else is supported.
    fn equal(&mut self, what: &str) -> Read<()> {
        if let Some(token) = self.tokens.next_if(|token| token.text == "!=") {
            return refuse(token.range, format!("`!=` is not supported for {what}"));
        }
        self.relation();
        Ok(())
    }

    /// One value, or several in braces, without quotes.
    fn values<T>(&mut self, expected: &str, read: impl Fn(&Token<'a>) -> Result<T, String>) -> Read<Vec<T>> {
        self.listed(expected, |token| match read(token) {
            Ok(_) if token.quoted => Err(format!("{expected} stands without quotes")),
            read => read,
        })
    }

    /// The same, in quotes or not.
    fn listed<T>(&mut self, expected: &str, read: impl Fn(&Token<'a>) -> Result<T, String>) -> Read<Vec<T>> {
        let one = |token: Token<'a>| read(&token).or_else(|message| refuse(token.range, message));
        if self.tokens.next_if(|token| token.text == "{").is_none() {
            return Ok(vec![one(self.next(expected)?)?]);
        }
        let mut values = Vec::new();
        loop {
            values.push(one(self.next(expected)?)?);
            let token = self.next("`,` or `}`")?;
            match token.text {
                "," => {}
                "}" => return Ok(values),
                _ => return refuse(token.range, "expected `,` or `}`"),
            }
        }
    }

    fn finish(mut self, end: End) -> Read<CustomRule> {
        let new = self.whole_states(&end)?;
        self.look_at_family();
        let ports = match (self.protocols, self.ports) {
            _ if !new => List::Items(Vec::new()),
            (None, None) => List::Absent,
            (Some(protocols), None) => List::Items(protocols.into_iter().map(PortMatch::Protocol).collect()),
            (protocols, Some((transport, ranges))) => {
                let with_ports = Protocol::WITH_PORTS.into_iter().filter(|protocol| {
                    transport.is_none_or(|transport| transport == *protocol)
                        && protocols
                            .as_ref()
                            .is_none_or(|protocols| protocols.contains(protocol))
                });
                let items = with_ports
                    .flat_map(|protocol| ranges.iter().map(move |&range| PortMatch::Range(protocol, range)));
                List::Items(items.collect())
            }
        };
        if self.peers.is_empty() {
            self.peers = vec![block(Prefix::all(self.family), Vec::new())];
        }
        Ok(CustomRule {
            line: self.number,
            end,
            statements: self.statements,
            own: self.own,
            peers: self.peers,
            ports,
        })
    }

    /// A file for one family opens nothing to the other.
    fn look_at_family(&mut self) {
        if self.addressed {
            return;
        }
        let own_icmp = match self.family {
            Family::Ipv4 => Protocol::ICMP,
            Family::Ipv6 => Protocol::ICMPV6,
        };
        let own_icmp = Match::is(Field::Protocol, Value::protocol(own_icmp)).into();
        // Where it stands before a match of the family's own ICMP, nft lists the rule without it.
        let behind = self
            .statements
            .iter()
            .position(|statement| *statement == own_icmp);
        let family = Match::is(Field::Family, Value::Family(self.family));
        self.statements
            .insert(behind.map_or(0, |at| at + 1), family.into());
    }

    /// Whether the rule is about packets that open connections. Policies know these, and packets of none: a rule about
    /// `new` packets is about untracked ones too, and if it denies them about invalid ones.
    fn whole_states(&mut self, end: &End) -> Read<bool> {
        let Some((states, place)) = &mut self.states else {
            return Ok(true);
        };
        let accepts = *end == End::Verdict(Verdict::Accept);
        if states.contains(&State::New) {
            states.insert(State::Untracked);
            if !accepts {
                states.insert(State::Invalid);
            }
            let is_state =
                |statement: &&mut Statement| matches!(statement, Statement::Match(Match::State(_)));
            if let Some(written) = self.statements.iter_mut().find(is_state) {
                *written = Match::State(states.clone()).into();
            }
            return Ok(true);
        }
        if states.contains(&State::Untracked) {
            let message = "`untracked` stands with `new`: policies do not tell them apart";
            return refuse(place.clone(), message);
        }
        if accepts && states.contains(&State::Invalid) {
            let message =
                "`invalid` packets are of no connection: they cannot be accepted without `new` ones";
            return refuse(place.clone(), message);
        }
        Ok(false)
    }

    /// Whether the packets that are looked at have ports where the rule looks for one.
    fn check_transport(&self, keyword: &Token<'a>, transport: Option<Protocol>) -> Read<()> {
        match (&self.protocols, transport) {
            (None, None) => {
                let message = "`th` needs `meta l4proto` before it: other protocols have something else in the place of a port";
                refuse(keyword.range.clone(), message)
            }
            (Some(protocols), None) if !protocols.iter().all(|protocol| protocol.has_ports()) => refuse(
                keyword.range.clone(),
                "`th` needs `meta l4proto` with `tcp`, `udp` and `sctp` only: others have no ports",
            ),
            (Some(protocols), Some(transport)) if *protocols != [transport] => {
                let message = format!("no packet is `{}` and all that `meta l4proto` says", keyword.text);
                refuse(keyword.range.clone(), message)
            }
            _ => Ok(()),
        }
    }
}

fn not_of_the_grammar(word: &str) -> String {
    match word {
        "iif" | "oif" => {
            format!("`{word}` is not supported, because numbers of interfaces change: write `{word}name`")
        }
        "log" => "`log` is not supported: nobody reads the kernel's log of a pod; write `counter`".to_owned(),
        "return" | "jump" | "goto" | "continue" | "queue" => {
            format!("`{word}` is not supported: a rule ends in `accept`, `drop` or `reject`")
        }
        other => format!(
            "`{other}` is no part of a custom rule: these are `ip` and `ip6`, `tcp`, `udp`, `sctp` and `th dport`, \
             `meta l4proto`, `meta nfproto`, `ct state`, `iifname` and `oifname`, `counter`, `accept`, `drop`, `reject` \
             and `comment`"
        ),
    }
}

fn block(prefix: Prefix, mut except: Vec<Prefix>) -> Block {
    except.sort_unstable();
    Block { prefix, except }
}
