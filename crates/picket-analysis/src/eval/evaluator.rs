//! From a question to its answer.

use std::cell::OnceCell;
use std::net::IpAddr;
use std::sync::Arc;

use picket_cluster::{EndJudgement, Endpoint, Flow, Interface, Judgement, Pod, Reason, Snapshot, Verdict};
use picket_engine::{Engine, Program};
use picket_net::{Family, Protocol};
use picket_policy::ObjectRef;

use super::answer::{Answer, EndAnswer, Families, FamilyAnswer, Overall};
use super::question::{PortQuestion, Question, QuestionError};
use crate::directory::{Directory, Party};

/// Answers questions about one snapshot.
#[derive(Debug)]
pub struct Evaluator<'a> {
    directory: Directory<'a>,
    program: &'a Program,
    /// The same cluster with a second pod of every workload, compiled when somebody asks about a workload and itself.
    with_twins: OnceCell<Engine>,
}

/// What both ends say to one flow, in whatever form an answer is made of.
#[derive(Clone, Debug)]
pub(super) struct Ends<E> {
    pub(super) verdict: Verdict,
    pub(super) egress: E,
    pub(super) ingress: E,
}

impl<'a> Evaluator<'a> {
    /// `program` is `snapshot`, compiled.
    pub fn new(snapshot: &'a Snapshot, program: &'a Program) -> Self {
        Self {
            directory: Directory::new(snapshot),
            program,
            with_twins: OnceCell::new(),
        }
    }

    /// The names of what can be asked about.
    pub fn directory(&self) -> &Directory<'a> {
        &self.directory
    }

    /// Reads a question as people write it.
    ///
    /// # Errors
    /// When an end or the port cannot be told.
    pub fn question(
        &self,
        from: &str,
        to: &str,
        port: &str,
        family: Option<Family>,
    ) -> Result<Question, QuestionError> {
        Ok(Question {
            from: self.directory.find(from).map_err(QuestionError::From)?,
            to: self.directory.find(to).map_err(QuestionError::To)?,
            port: PortQuestion::parse(port).map_err(QuestionError::Port)?,
            family,
        })
    }

    /// Answers a question.
    ///
    /// A workload and itself are two different pods of it. A node by name, and a port name with several numbers, are
    /// allowed only if all addresses and all numbers are; then, as in every other such case, the ends speak of the
    /// first that is not.
    pub fn answer(&self, question: &Question) -> Answer {
        let end = |end: &EndJudgement| EndAnswer::from(end);
        self.answer_by(question, end, |flow| {
            let judgement = self.judge(flow);
            Ends {
                verdict: judgement.verdict(),
                egress: end(&judgement.egress),
                ingress: end(&judgement.ingress),
            }
        })
    }

    /// Answers a question with ends of any form: `end` makes those that rest on no flow, `judge` all others.
    pub(super) fn answer_by<E: Clone + PartialEq>(
        &self,
        question: &Question,
        end: impl Fn(&EndJudgement) -> E,
        mut judge: impl FnMut(&Flow) -> Ends<E>,
    ) -> Answer<E> {
        let denied = |reason| {
            let end = end(&EndJudgement::without_cause(Verdict::Deny, reason));
            Ends {
                verdict: Verdict::Deny,
                egress: end.clone(),
                ingress: end,
            }
        };
        let numbers = numbers(question);
        let mut denied_port: Option<u16> = None;
        let [ipv4, ipv6] = Family::BOTH.map(|family| {
            let (ends, port) = first_denied(question, family, &numbers, &mut judge)?;
            denied_port = denied_port.into_iter().chain(port).min();
            Some(ends.unwrap_or_else(|| denied(Reason::UnresolvedPortName)))
        });
        let port = denied_port.or(numbers.first().copied().flatten());
        let agreed = match (&ipv4, &ipv6) {
            (Some(one), Some(other)) => {
                (one.egress == other.egress && one.ingress == other.ingress).then(|| one.clone())
            }
            (Some(only), None) | (None, Some(only)) => Some(only.clone()),
            (None, None) => Some(denied(Reason::NoCommonFamily)),
        };
        let answer = |ends: Ends<E>| FamilyAnswer {
            verdict: ends.verdict,
            egress: ends.egress,
            ingress: ends.ingress,
        };
        let (egress, ingress) = agreed.map(|ends| (ends.egress, ends.ingress)).unzip();
        let families = Families {
            ipv4: ipv4.map(answer),
            ipv6: ipv6.map(answer),
        };
        let (from, to) = (question.from.interface(), question.to.interface());
        Answer {
            from: question.from.id(),
            to: question.to.id(),
            network: from.or(to).map(|interface| interface.network.to_string()),
            from_interface: from.map(|interface| interface.name.clone()),
            to_interface: to.map(|interface| interface.name.clone()),
            protocol: question.port.protocol().to_string(),
            port,
            port_name: match &question.port {
                PortQuestion::Name(_, name) => Some(name.clone()),
                PortQuestion::Number(..) | PortQuestion::Portless(_) => None,
            },
            verdict: Overall::of(families.iter().map(|family| family.verdict)),
            families,
            egress,
            ingress,
        }
    }

    /// The connection that the answer about one family is about; `None` when it is about none.
    pub fn deciding_flow(&self, question: &Question, family: Family) -> Option<Flow> {
        let mut judge = |flow: &Flow| Ends {
            verdict: self.judge(flow).verdict(),
            egress: flow.clone(),
            ingress: flow.clone(),
        };
        let (ends, _) = first_denied(question, family, &numbers(question), &mut judge)?;
        ends.map(|ends| ends.egress)
    }

    /// Judges a flow; a workload and itself as two different pods.
    pub(crate) fn judge(&self, flow: &Flow) -> Judgement {
        match (&flow.source, &flow.destination) {
            (Endpoint::Pod(one), Endpoint::Pod(other)) if one == other && one.kind != "Pod" => {
                let doubled = self.with_twins.get_or_init(|| {
                    let snapshot = with_twins(self.directory.snapshot());
                    Engine::compile(&snapshot, self.program.semantics().clone())
                });
                doubled.program().judge(&Flow {
                    destination: Endpoint::Pod(twin(other)),
                    ..flow.clone()
                })
            }
            _ => self.program.judge(flow),
        }
    }

    pub(crate) fn program(&self) -> &'a Program {
        self.program
    }
}

/// What one family says: the ends of the first flow that is denied, with its port, or else of the first flow. `None`
/// when it is not asked about or one end does not have it; no ends when no port is asked about.
fn first_denied<E>(
    question: &Question,
    family: Family,
    numbers: &[Option<u16>],
    judge: &mut impl FnMut(&Flow) -> Ends<E>,
) -> Option<(Option<Ends<E>>, Option<u16>)> {
    let (sources, destinations) = (question.from.addresses(family), question.to.addresses(family));
    let asked = question.family.is_none_or(|only| only == family);
    if !asked || sources.is_empty() || destinations.is_empty() {
        return None;
    }
    let mut first = None;
    for &port in numbers {
        for &source in &sources {
            for &destination in &destinations {
                let ends = judge(&flow(question, (source, destination), family, port.unwrap_or(0)));
                if !ends.verdict.is_allow() {
                    return Some((Some(ends), port));
                }
                first.get_or_insert(ends);
            }
        }
    }
    Some((first, None))
}

/// The destination ports that are asked about, ascending; `None` for a protocol without ports.
fn numbers(question: &Question) -> Vec<Option<u16>> {
    match &question.port {
        PortQuestion::Number(_, number) => vec![Some(*number)],
        PortQuestion::Portless(_) => vec![None],
        PortQuestion::Name(protocol, name) => match &question.to {
            Party::Pod(pod) => {
                let named =
                    |port: &&picket_cluster::NamedPort| port.name == *name && port.protocol == *protocol;
                let mut numbers: Vec<_> = pod
                    .ports
                    .iter()
                    .filter(named)
                    .map(|port| Some(port.port))
                    .collect();
                numbers.sort_unstable();
                numbers.dedup();
                numbers
            }
            Party::Node { .. } | Party::External(_) => Vec::new(),
        },
    }
}

fn flow(question: &Question, (source, destination): (IpAddr, IpAddr), family: Family, port: u16) -> Flow {
    let protocol: Protocol = question.port.protocol();
    Flow {
        source: endpoint(&question.from, source),
        destination: endpoint(&question.to, destination),
        family,
        protocol,
        port,
    }
}

fn endpoint(party: &Party, address: IpAddr) -> Endpoint {
    match party {
        Party::Pod(pod) => Endpoint::Pod(pod.object.clone()),
        Party::Node { name, .. } => Endpoint::Node {
            name: name.clone(),
            address,
        },
        Party::External(address) => Endpoint::External(*address),
    }
}

/// The object of the second pod of a workload. No name in a cluster holds a slash.
fn twin(workload: &ObjectRef) -> ObjectRef {
    ObjectRef {
        name: format!("{}/other", workload.name).into(),
        ..workload.clone()
    }
}

fn with_twins(snapshot: &Snapshot) -> Snapshot {
    let mut doubled = snapshot.clone();
    for pod in snapshot.live_pods().filter(|pod| pod.is_workload()) {
        let object = twin(&pod.object);
        let other = Pod {
            object: object.clone(),
            interface: pod.interface.as_ref().map(|interface| {
                Arc::new(Interface {
                    pod: interface.pod.as_ref().map(twin),
                    ..Interface::clone(interface)
                })
            }),
            ..Pod::clone(pod)
        };
        doubled.pods.insert(object, Arc::new(other));
    }
    doubled
}
