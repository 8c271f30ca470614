//! Proof of what is rendered for VPP.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::Path;

use anyhow::{Context, bail};
use picket_analysis::directory::{Directory, Party};
use picket_analysis::eval::EndAnswer;
use picket_cluster::{Endpoint, Flow};
use picket_engine::{PodRef, Program};
use picket_net::{Family, Protocol};
use picket_node::{installed_lists, installed_rules};
use picket_policy::ObjectRef;
use picket_source::Loaded;
use picket_vpp::acl::meaning::{Packet, Way};
use picket_vpp::proof::Report;
use picket_vpp::session::verify::Except;
use picket_vpp::{acl, session};
use serde::Serialize;
use smol_str::SmolStr;

use super::Arguments;
use super::answer::protocol;
use crate::command::eval;
use crate::input;
use crate::ruleset::Target;

/// The answer; its JSON form is described in `docs/schema/verify-vpp.schema.json`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Answer {
    pub(super) proved: bool,
    target: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    /// Pairs of an address and a range of addresses that were compared.
    pairs: usize,
    /// The ports of Neutron that let more, or less, pass than they must.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) ports: Vec<WrongPort>,
    counterexamples: Vec<Example>,
    /// Whether there may be more counter-examples.
    stopped: bool,
    /// What VPP does differently from the policies whatever it is told.
    exceptions: Vec<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    notes: Vec<String>,
}

/// One packet or connection that is treated wrongly.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Example {
    /// Where it is judged.
    place: String,
    source: IpAddr,
    destination: IpAddr,
    from: String,
    to: String,
    protocol: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    port: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    icmp_type: Option<u16>,
    fault: Fault,
    /// The security groups that let it pass.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) groups: Vec<String>,
    egress: EndAnswer,
    ingress: EndAnswer,
}

/// A port of Neutron that lets more, or less, pass than it must.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct WrongPort {
    /// Its id.
    pub(super) port: String,
    /// Its pod.
    pub(super) pod: String,
    pub(super) direction: String,
    pub(super) fault: Fault,
}

/// How it is treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Fault {
    /// It passes, and must not.
    Passes,
    /// It is dropped, and must not be.
    Dropped,
    /// It passes, as it must, and what answers it does not.
    NoAnswer,
    /// It is dropped further on, as it must be, and what answers it passes all the same.
    Answered,
}

/// VPP compares of a later fragment nothing but the protocol.
const FRAGMENTS: &str = "of fragments that are not the first VPP compares only addresses and protocol: where one port is allowed, \
                         later fragments to every port pass, and so do those that answer them";
/// Addresses of services are translated after input lists.
const SERVICES: &str = "what a pod sends to an address of a service is judged where it arrives; before that, what answers from \
                        the same address and ports may come back to the pod";
/// VPP's plugin takes every packet of SCTP for one with ports 0.
const SCTP: &str = "of SCTP VPP reads no ports: while an association that may begin lasts, or what would begin it is remembered, each \
                    of its two ends may send SCTP to the other";
/// Lists on the way out are behind the translation of sources.
const SOURCES: &str = "what leaves the node with another source than the pod's is judged by what the pod may send only where it was sent \
                       to no service: VPP translates sources before the lists on the way out, so give other sources only to what goes \
                       to addresses that are no pods'. Who may create services with external addresses opens these to every pod where \
                       that is not so";
/// A list reflects before the list to another pod has judged.
const BOTH_SEND: &str = "what a pod sends to another may be answered before it is judged there: two pods that may send to each other, and \
                         receive nothing, exchange what both send between the same two ports";
/// A table of what is opened knows nothing of what the other node lets arrive.
const OPENED_BY_BOTH: &str = "what a pod opens to a pod of another node is judged there when it arrives: what the other opens between the \
                              same two ports meanwhile belongs to what this one has opened, and is not judged";
/// Tables of what is opened have the address that an application names.
const TRANSLATED: &str = "what a pod opens is judged by the address that its application names: that of a service is one outside the cluster, \
                          whoever is behind it, and what that pod may receive it judges itself";

pub(super) fn answer(arguments: &Arguments, loaded: &mut Loaded) -> anyhow::Result<Answer> {
    arguments.custom.none_for_others()?;
    let node = arguments.place.vpp_node(loaded)?;
    arguments.vpp.add_nat_loopback(&mut loaded.snapshot)?;
    let engine = input::compile(loaded, arguments.semantics.semantics());
    let program = engine.program();
    let directory = Directory::new(&loaded.snapshot);
    let ends = Ends {
        program,
        directory,
        others: BTreeMap::new(),
    };
    match arguments.place.target() {
        Target::VppSession => of_rules(arguments, &ends, node),
        Target::VppAcl | Target::Nftables | Target::Neutron => of_lists(arguments, &ends, node),
    }
}

fn of_lists(arguments: &Arguments, ends: &Ends<'_>, node: Option<String>) -> anyhow::Result<Answer> {
    let program = ends.program;
    let options = arguments.vpp.acl(program)?;
    let rendered = || acl::render(program, node.as_deref(), &options);
    let lists = match &arguments.rules {
        Some(path) => Lists::by_name(given(path)?),
        None if arguments.live.live => Lists::installed(arguments, program, node.as_deref(), &rendered())?,
        None => Lists::by_name(rendered()),
    };
    let limit = usize::from(arguments.limit);
    let report = lists.verify(program, node.as_deref(), limit);
    let examples = report.counterexamples.iter().map(|found| {
        let way = match found.way {
            Way::In => "into VPP from",
            Way::Out => "out of VPP to",
        };
        let fault = match found.fault {
            acl::verify::Fault::Passes => Fault::Passes,
            acl::verify::Fault::Dropped => Fault::Dropped,
            acl::verify::Fault::NoAnswer => Fault::NoAnswer,
            acl::verify::Fault::Answered => Fault::Answered,
        };
        ends.example(format!("{way} {}", found.interface), &found.packet, fault)
    });
    let shortfalls = acl::shortfalls(program, node.as_deref());
    let notes = shortfalls
        .iter()
        .map(|shortfall| format!("{}; {}", shortfall.what, shortfall.instead));
    let found = Found {
        target: "vpp-acl",
        examples: examples.collect(),
        exceptions: vec![FRAGMENTS, SERVICES, SCTP, SOURCES, BOTH_SEND],
        notes: lists.notes.into_iter().chain(notes).collect(),
    };
    Ok(found.answer(&report, node))
}

/// Lists, and which interfaces are whose.
struct Lists {
    acls: acl::Acls,
    /// The interfaces of each pod; `None` where they have the pods' names.
    pods: Option<BTreeMap<ObjectRef, Vec<SmolStr>>>,
    notes: Vec<String>,
}

impl Lists {
    fn by_name(acls: acl::Acls) -> Self {
        Self {
            acls,
            pods: None,
            notes: Vec::new(),
        }
    }

    fn installed(
        arguments: &Arguments,
        program: &Program,
        node: Option<&str>,
        rendered: &acl::Acls,
    ) -> anyhow::Result<Self> {
        let live = &arguments.live;
        let uplinks = arguments.vpp.uplinks()?;
        let live = &live.located;
        let pods = program.pods().map(|pod| &**pod.pod());
        let pods = pods.filter(|pod| node.is_none_or(|node| pod.node.as_deref() == Some(node)));
        let installed = installed_lists(
            &live.vpp_socket,
            &live.vpp_pod_interface,
            &uplinks,
            rendered,
            &pods.collect(),
        )?;
        if installed.pods.is_empty() && !installed.pending.is_empty() {
            bail!(
                "VPP at `{}` has no interface of any pod: `{}` finds none (--vpp-pod-interface)",
                live.vpp_socket.display(),
                live.vpp_pod_interface
            );
        }
        let pending = installed.pending.iter();
        let pending = pending.map(|pending| format!("nothing is proved of {}: {}", pending.pod, pending.why));
        Ok(Self {
            acls: installed.acls,
            pods: Some(installed.pods),
            notes: pending.chain(installed.remarks).collect(),
        })
    }

    fn verify(&self, program: &Program, node: Option<&str>, limit: usize) -> acl::verify::Report {
        let interfaces = |pod: PodRef<'_>| match &self.pods {
            Some(pods) => pods.get(&pod.pod().object).cloned().unwrap_or_default(),
            None => vec![pod.pod().id().into()],
        };
        acl::verify::verify(&self.acls, program, node, interfaces, limit)
    }
}

fn of_rules(arguments: &Arguments, ends: &Ends<'_>, node: Option<String>) -> anyhow::Result<Answer> {
    if arguments.rules.is_some() {
        bail!("`--rules` is for `--target nftables` and `--target vpp-acl`");
    }
    let program = ends.program;
    let mut renderer = session::Renderer::new(node.as_deref(), arguments.vpp.session());
    renderer.advance(program);
    let missing = renderer.missing();
    let rules = match arguments.live.live {
        true => Rules::installed(arguments, &renderer.tables())?,
        false => Rules::rendered(&renderer),
    };
    let except = Except {
        narrower: missing.iter().map(|missing| missing.pod.clone()).collect(),
        unknown: rules.unknown.clone(),
    };
    let limit = usize::from(arguments.limit);
    let report = rules.verify(program, node.as_deref(), &except, limit);
    let examples = report.counterexamples.iter().map(|found| {
        let connection = &found.connection;
        let protocol = connection.transport.protocol();
        let (place, packet) = match &found.namespace {
            Some(pod) => (
                format!("the namespace of {}/{}", pod.namespace, pod.name),
                Packet::opening(
                    connection.local,
                    connection.remote,
                    protocol,
                    connection.remote_port,
                ),
            ),
            None => (
                "the global table".to_owned(),
                Packet::opening(
                    connection.remote,
                    connection.local,
                    protocol,
                    connection.local_port,
                ),
            ),
        };
        ends.example(place, &packet, Fault::of(found.passes))
    });
    let notes = missing.iter().map(|missing| {
        format!(
            "{} ({}): its table has no room for {} rules; it is only proved that nothing more passes than the policies allow",
            missing.pod, missing.direction, missing.missing
        )
    });
    let found = Found {
        target: "vpp-session",
        examples: examples.collect(),
        exceptions: vec![OPENED_BY_BOTH, TRANSLATED],
        notes: rules.notes.iter().cloned().chain(notes).collect(),
    };
    Ok(found.answer(&report, node))
}

/// Session rules, once or with another namespace of each pod every time.
struct Rules {
    each: Vec<session::SessionRules>,
    /// Pods of whose namespaces nothing is known.
    unknown: BTreeSet<ObjectRef>,
    notes: Vec<String>,
}

impl Rules {
    fn rendered(renderer: &session::Renderer) -> Self {
        Self {
            each: vec![renderer.rules()],
            unknown: BTreeSet::new(),
            notes: Vec::new(),
        }
    }

    fn installed(arguments: &Arguments, wanted: &session::Tables) -> anyhow::Result<Self> {
        let located = &arguments.live.located;
        let installed = installed_rules(&located.vpp_socket, located.needed_namespaces()?, wanted)?;
        if !installed.pending.is_empty() && installed.unknown.len() == wanted.local.len() {
            let why = installed
                .remarks
                .first()
                .or(installed.pending.first().map(|pending| &pending.why));
            bail!(
                "nobody says which namespace is that of any pod: {}",
                why.map(String::as_str).unwrap_or_default()
            );
        }
        let pending = installed.pending.iter();
        let pending = pending
            .map(|pending| format!("nothing is proved of what {} opens: {}", pending.pod, pending.why));
        Ok(Self {
            notes: pending.chain(installed.remarks).collect(),
            each: installed.each,
            unknown: installed.unknown,
        })
    }

    fn verify(
        &self,
        program: &Program,
        node: Option<&str>,
        except: &Except,
        limit: usize,
    ) -> session::verify::Report {
        let each = self.each.iter();
        let reports = each.map(|rules| session::verify::verify(rules, program, node, except, limit));
        // INVARIANT: there is at least one.
        let all = reports.reduce(|mut all, one| {
            all.pairs += one.pairs;
            all.stopped |= one.stopped;
            all.counterexamples.extend(one.counterexamples);
            all.counterexamples.truncate(limit);
            all
        });
        all.unwrap_or_else(|| {
            session::verify::verify(&session::SessionRules::default(), program, node, except, limit)
        })
    }
}

/// What is said of a target.
pub(super) struct Found {
    pub(super) target: &'static str,
    pub(super) examples: Vec<Example>,
    pub(super) exceptions: Vec<&'static str>,
    pub(super) notes: Vec<String>,
}

impl Found {
    fn answer<C>(self, report: &Report<C>, node: Option<String>) -> Answer {
        self.of(report.is_proof(), report.pairs, report.stopped, node)
    }

    /// With what a proof came to.
    pub(super) fn of(self, proved: bool, pairs: usize, stopped: bool, node: Option<String>) -> Answer {
        Answer {
            proved,
            target: self.target,
            node,
            pairs,
            ports: Vec::new(),
            counterexamples: self.examples,
            stopped,
            exceptions: self.exceptions,
            notes: self.notes,
        }
    }
}

/// Lists as `picket render --target vpp-acl -o json` prints them.
fn given(path: &Path) -> anyhow::Result<acl::Acls> {
    let (title, text) = super::text_of(path)?;
    acl::parse(&text).with_context(|| format!("the lists in {title} cannot be verified"))
}

/// Who is at the ends of what a proof finds.
pub(super) struct Ends<'a> {
    pub(super) program: &'a Program,
    pub(super) directory: Directory<'a>,
    /// Pods by addresses that the cluster does not know of.
    pub(super) others: BTreeMap<IpAddr, ObjectRef>,
}

impl Ends<'_> {
    fn example(&self, place: String, packet: &Packet, fault: Fault) -> Example {
        let port = packet.protocol.has_ports().then_some(packet.second);
        let is_icmp = matches!(packet.protocol, Protocol::ICMP | Protocol::ICMPV6);
        let ends = (packet.source, packet.destination);
        Example {
            icmp_type: is_icmp.then_some(packet.first),
            ..self.connection(place, ends, packet.protocol, port, fault)
        }
    }

    /// A connection that is judged wrongly at `place`.
    pub(super) fn connection(
        &self,
        place: String,
        ends: (IpAddr, IpAddr),
        with: Protocol,
        port: Option<u16>,
        fault: Fault,
    ) -> Example {
        let end = |address: IpAddr| match self.directory.find(&address.to_string()) {
            Ok(Party::Pod(pod)) => (pod.id(), Endpoint::Pod(pod.object.clone())),
            Ok(Party::Node { name, .. }) => (name.to_string(), Endpoint::Node { name, address }),
            Ok(Party::External(_)) | Err(_) => match self.others.get(&address) {
                Some(pod) => (
                    format!("{}/{}", pod.namespace, pod.name),
                    Endpoint::Pod(pod.clone()),
                ),
                None => (address.to_string(), Endpoint::External(address)),
            },
        };
        let (from, source) = end(ends.0);
        let (to, destination) = end(ends.1);
        let judgement = self.program.judge(&Flow {
            source,
            destination,
            family: Family::of(ends.0),
            protocol: with,
            port: port.unwrap_or_default(),
        });
        Example {
            place,
            source: ends.0,
            destination: ends.1,
            from,
            to,
            protocol: protocol(with),
            port,
            icmp_type: None,
            fault,
            groups: Vec::new(),
            egress: EndAnswer::from(&judgement.egress),
            ingress: EndAnswer::from(&judgement.ingress),
        }
    }
}

impl Answer {
    /// For people.
    pub(super) fn text(&self) -> String {
        let place = self
            .node
            .as_ref()
            .map(|node| format!(" of node {node}"))
            .unwrap_or_default();
        let what = match self.target {
            "vpp-acl" => "lists",
            "neutron" => "security groups",
            _ => "session rules",
        };
        let mut text = match self.proved {
            true => format!(
                "proved: the {what}{place} mean what the policies say ({} pairs of ends)\n",
                self.pairs
            ),
            false => format!("refuted: the {what}{place} do not mean what the policies say\n"),
        };
        for wrong in &self.ports {
            text += &wrong.text();
        }
        for example in &self.counterexamples {
            text += &example.text();
        }
        if self.stopped {
            text += "\nThere may be more; --limit shows more of them.\n";
        }
        for exception in &self.exceptions {
            text += &format!("exception: {exception}\n");
        }
        for note in &self.notes {
            text += &format!("note: {note}\n");
        }
        text
    }
}

impl Fault {
    /// Of what passes, or does not, where it must be the other way round.
    pub(super) fn of(passes: bool) -> Self {
        if passes { Self::Passes } else { Self::Dropped }
    }

    /// For people.
    fn words(self) -> &'static str {
        match self {
            Self::Passes => "passes, and must not",
            Self::Dropped => "is dropped, and must not be",
            Self::NoAnswer => "passes, as it must, and what answers it does not",
            Self::Answered => "is dropped further on, as it must be, and what answers it passes",
        }
    }
}

impl Example {
    fn text(&self) -> String {
        let end = |name: &str, address: IpAddr| match name == address.to_string() {
            true => name.to_owned(),
            false => format!("{name} ({address})"),
        };
        let detail = match (self.port, self.icmp_type) {
            (Some(port), _) => format!(" port {port}"),
            (None, Some(kind)) => format!(" type {kind}"),
            (None, None) => String::new(),
        };
        let fault = self.fault.words();
        let mut text = format!(
            "\n{} → {}, {}{detail}\n  {}: {fault}\n",
            end(&self.from, self.source),
            end(&self.to, self.destination),
            self.protocol,
            self.place
        );
        if !self.groups.is_empty() {
            text += &format!("  allowed by {}\n", self.groups.join(", "));
        }
        text += &eval::ends("  ", &self.egress, &self.ingress);
        text
    }
}

impl WrongPort {
    fn text(&self) -> String {
        let what = match self.fault {
            Fault::Passes | Fault::Answered => "more",
            Fault::Dropped | Fault::NoAnswer => "less",
        };
        format!(
            "port {} of {}: {} lets {what} pass than the policies\n",
            self.port, self.pod, self.direction
        )
    }
}
