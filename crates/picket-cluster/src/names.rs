//! Whether what policies name exists.

use std::collections::{BTreeMap, BTreeSet};

use picket_net::Protocol;
use picket_policy::document::{Manifest, Node};
use picket_policy::{
    Code, Diagnostic, Direction, List, NamespaceScope, NetworkName, Peer, Policy, PortMatch, Position,
    Requirement, Rule, Selector, Severity, Span, Tier,
};
use smol_str::{SmolStr, ToSmolStr};

use crate::NAMESPACE_NAME_LABEL;
use crate::codes;
use crate::written::{Spec, Written};

/// Namespaces that every cluster has, in the input or not.
const IN_EVERY_CLUSTER: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Warnings about policies that are in a namespace, name a namespace by its label, or name a container port that the
/// input does not have. Each has a meaning: nothing is selected. An input without pods and namespaces gets none.
///
/// `line` gives the place to show for a line of a file; without one, the policy is shown.
pub fn check_names(objects: &[Written], line: &dyn Fn(&Position) -> Option<Span>) -> Vec<Diagnostic> {
    let known = Known::of(objects);
    let mut checker = Checker {
        known: &known,
        line,
        diagnostics: Vec::new(),
    };
    for written in objects {
        if let Spec::Policy(policy) = &written.spec {
            checker.policy(written, policy);
        }
    }
    checker.diagnostics
}

/// Where the fields of a policy stand that [`check_names`] may have something to say about, by their paths.
pub fn places(manifest: &Manifest, policy: &Policy) -> BTreeMap<String, Span> {
    let spec = manifest.root().get("spec");
    let mut places = BTreeMap::new();
    if policy.tier != Tier::NetworkPolicy {
        return places;
    }
    for direction in Direction::BOTH {
        let written = spec.and_then(|spec| spec.get(&direction.to_string()));
        for rule in &policy.side(direction).rules {
            let place = usize::try_from(rule.index).ok();
            let written = place.and_then(|place| written?.items().get(place));
            for named in named(policy.tier, direction, rule) {
                let (list, at) = named.item();
                let node = written.and_then(|rule| named.within(rule.get(list)?.items().get(at)?));
                if let Some(node) = node {
                    places.insert(named.field, manifest.source().span(node.range.clone()));
                }
            }
        }
    }
    places
}

/// A field of a rule that names something.
struct Named<'a> {
    field: String,
    peers: &'static str,
    at: usize,
    what: What<'a>,
}

enum What<'a> {
    Namespaces(&'a Selector),
    Port(Option<Protocol>, &'a SmolStr),
}

impl Named<'_> {
    /// The list of the rule and the place in it.
    fn item(&self) -> (&'static str, usize) {
        match self.what {
            What::Namespaces(_) => (self.peers, self.at),
            What::Port(..) => ("ports", self.at),
        }
    }

    /// The text that is the name, in the item of the list.
    fn within<'n>(&self, item: &'n Node) -> Option<&'n Node> {
        match self.what {
            What::Namespaces(_) => {
                let selector = item.get("namespaceSelector")?;
                let labels = selector.get("matchLabels");
                let label = labels.and_then(|labels| labels.get(NAMESPACE_NAME_LABEL));
                label.or_else(|| {
                    selector
                        .get("matchExpressions")?
                        .items()
                        .first()?
                        .get("values")?
                        .items()
                        .first()
                })
            }
            What::Port(..) => item.get("port"),
        }
    }
}

/// What a rule names. Its lists are as written: a rule with an item that cannot be read has none. In the other tiers,
/// where one item may be many peers, the field is the whole rule.
fn named(tier: Tier, direction: Direction, rule: &Rule) -> Vec<Named<'_>> {
    let rule_field = format!("spec.{direction}[{}]", rule.index);
    let field = |item: String| match tier {
        Tier::NetworkPolicy => format!("{rule_field}.{item}"),
        Tier::Custom | Tier::Admin | Tier::ClusterDefault | Tier::Baseline => rule_field.clone(),
    };
    let peers = match direction {
        Direction::Ingress => "from",
        Direction::Egress => "to",
    };
    let mut found = Vec::new();
    if let List::Items(items) = &rule.peers {
        for (at, peer) in items.iter().enumerate() {
            if let Peer::Pods(pods) = peer
                && let NamespaceScope::Matching(selector) = &pods.namespaces
            {
                found.push(Named {
                    field: field(format!("{peers}[{at}].namespaceSelector")),
                    peers,
                    at,
                    what: What::Namespaces(selector),
                });
            }
        }
    }
    if let List::Items(items) = &rule.ports {
        for (at, port) in items.iter().enumerate() {
            if let PortMatch::Named { protocol, name } = port {
                found.push(Named {
                    field: field(format!("ports[{at}].port")),
                    peers,
                    at,
                    what: What::Port(*protocol, name),
                });
            }
        }
    }
    found
}

struct Known {
    /// Those that were written or that a pod is in; empty when nothing says which there are.
    namespaces: BTreeSet<SmolStr>,
    /// The protocols that each port name is declared for.
    ports: BTreeMap<SmolStr, BTreeSet<Protocol>>,
    pods: bool,
    networks: BTreeSet<NetworkName>,
}

impl Known {
    fn of(objects: &[Written]) -> Self {
        let mut known = Self {
            networks: BTreeSet::new(),
            namespaces: BTreeSet::new(),
            ports: BTreeMap::new(),
            pods: false,
        };
        for written in objects {
            match &written.spec {
                Spec::Namespace(_) => {
                    known.namespaces.insert(written.object.name.clone());
                }
                Spec::Pod(pod) => {
                    known.pods = true;
                    known.namespaces.insert(written.object.namespace.clone());
                    let attachments = pod.attachments.iter();
                    known.networks.extend(attachments.map(|own| own.network.clone()));
                    for port in pod.ports.iter().filter(|_| !pod.finished) {
                        known
                            .ports
                            .entry(port.name.clone())
                            .or_default()
                            .insert(port.protocol);
                    }
                }
                Spec::Network(network) => drop(known.networks.insert(network.name.clone())),
                Spec::Node(_) | Spec::Service(_) | Spec::Policy(_) => {}
            }
        }
        known
    }

    fn lacks_namespace(&self, name: &str) -> bool {
        !self.namespaces.is_empty() && !self.namespaces.contains(name) && !IN_EVERY_CLUSTER.contains(&name)
    }
}

struct Checker<'a> {
    known: &'a Known,
    line: &'a dyn Fn(&Position) -> Option<Span>,
    diagnostics: Vec<Diagnostic>,
}

impl Checker<'_> {
    fn policy(&mut self, written: &Written, policy: &Policy) {
        let namespace = &written.object.namespace;
        if !namespace.is_empty() && self.known.lacks_namespace(namespace) {
            let message = format!(
                "{} is in the namespace `{namespace}`, which the input does not have",
                written.object
            );
            self.warn(
                codes::UNKNOWN_NAMESPACE,
                written,
                message,
                "metadata.namespace".to_owned(),
                None,
            );
        }
        if let NamespaceScope::Matching(selector) = &policy.subject.namespaces {
            self.scope(written, selector, "spec.subject".to_owned(), None);
        }
        for network in policy.networks.attached() {
            self.network(written, network);
        }
        for direction in Direction::BOTH {
            for rule in &policy.side(direction).rules {
                self.rule(written, policy.tier, direction, rule);
            }
        }
    }

    fn rule(&mut self, written: &Written, tier: Tier, direction: Direction, rule: &Rule) {
        for Named { field, what, .. } in named(tier, direction, rule) {
            match what {
                What::Namespaces(selector) => self.scope(written, selector, field, Some(&rule.position)),
                What::Port(protocol, name) => self.port(written, protocol, name, field, &rule.position),
            }
        }
    }

    fn scope(&mut self, written: &Written, selector: &Selector, field: String, position: Option<&Position>) {
        for requirement in selector.requirements() {
            let Requirement::In(key, values) = requirement else {
                continue;
            };
            for value in values.iter().filter(|_| key == NAMESPACE_NAME_LABEL) {
                if self.known.lacks_namespace(value) {
                    let message = format!(
                        "{} names the namespace `{value}`, which the input does not have",
                        written.object
                    );
                    self.warn(
                        codes::UNKNOWN_NAMESPACE,
                        written,
                        message,
                        field.clone(),
                        position,
                    );
                }
            }
        }
    }

    fn network(&mut self, written: &Written, network: &NetworkName) {
        if !self.known.pods || self.known.networks.contains(network) {
            return;
        }
        let message = format!(
            "{} is about the network `{network}`, which the input does not have",
            written.object
        );
        let field = "metadata.annotations.k8s.v1.cni.cncf.io/policy-for".to_owned();
        self.warn(codes::UNKNOWN_NETWORK, written, message, field, None);
        let names: Vec<_> = self
            .known
            .networks
            .iter()
            .map(|network| network.to_smolstr())
            .collect();
        let hint = match names.len() {
            0 => "no pod of the input is on a secondary network".to_owned(),
            _ => format!("the networks of the input are {}", quoted(&names)),
        };
        if let Some(last) = self.diagnostics.last_mut() {
            last.notes.push(hint);
        }
    }

    fn port(
        &mut self,
        written: &Written,
        protocol: Option<Protocol>,
        name: &SmolStr,
        field: String,
        position: &Position,
    ) {
        let declared = self.known.ports.get(name);
        let found =
            declared.is_some_and(|protocols| protocol.is_none_or(|wanted| protocols.contains(&wanted)));
        if found || !self.known.pods {
            return;
        }
        let wanted = protocol
            .map(|protocol| format!("{protocol} "))
            .unwrap_or_default();
        let message = format!(
            "no pod has a {wanted}port called `{name}`, which {} names",
            written.object
        );
        self.warn(codes::UNKNOWN_PORT_NAME, written, message, field, Some(position));
        let hint = match declared {
            Some(protocols) => {
                let protocols: Vec<_> = protocols.iter().map(Protocol::to_string).collect();
                format!("pods have a port of this name for {}", protocols.join(" and "))
            }
            None => match self.known.ports.len() {
                0 => "no container port of the input has a name".to_owned(),
                _ => format!(
                    "the names of container ports are {}",
                    quoted(self.known.ports.keys())
                ),
            },
        };
        if let Some(last) = self.diagnostics.last_mut() {
            last.notes.push(hint);
            last.notes
                .push("a name that no pod has matches no connection".to_owned());
        }
    }

    fn warn(
        &mut self,
        code: Code,
        written: &Written,
        message: String,
        field: String,
        position: Option<&Position>,
    ) {
        let place = written.places.get(&field).cloned();
        let span = place.or_else(|| position.and_then(|position| (self.line)(position)));
        let mut diagnostic = Diagnostic::new(code, Severity::Warning, message)
            .on(&written.object)
            .mark(span.unwrap_or_else(|| written.span.clone()), "");
        diagnostic.field = field;
        if code == codes::UNKNOWN_NAMESPACE {
            let known = format!(
                "the namespaces of the input are {}",
                quoted(&self.known.namespaces)
            );
            diagnostic.notes.push(known);
        }
        self.diagnostics.push(diagnostic);
    }
}

/// Up to eight names in backticks.
fn quoted<'a>(names: impl IntoIterator<Item = &'a SmolStr>) -> String {
    let mut names = names.into_iter();
    let some: Vec<_> = names.by_ref().take(8).map(|name| format!("`{name}`")).collect();
    let rest = names.count();
    let rest = if rest > 0 {
        format!(" and {rest} more")
    } else {
        String::new()
    };
    some.join(", ") + &rest
}

#[cfg(test)]
mod tests {
    use picket_policy::{Action, Networks, ObjectRef, PodSelector, Selector, Side};

    use super::*;
    use crate::NamedPort;
    use crate::written::{WrittenNamespace, WrittenPod};

    fn written(object: ObjectRef, spec: Spec) -> Written {
        let span = Span {
            file: "cluster.yaml".into(),
            start: 0,
            end: 1,
            line: 1,
            column: 1,
            end_line: 1,
            end_column: 2,
        };
        Written {
            object,
            span,
            places: BTreeMap::new(),
            spec,
        }
    }

    fn namespace(name: &str) -> Written {
        written(
            ObjectRef::new("Namespace", "", name),
            Spec::Namespace(WrittenNamespace::default()),
        )
    }

    fn pod(namespace: &str, port: &str, protocol: Protocol) -> Written {
        let ports = vec![NamedPort {
            name: port.into(),
            protocol,
            port: 80,
        }];
        let pod = WrittenPod {
            ports,
            ..WrittenPod::default()
        };
        written(ObjectRef::new("Pod", namespace, "a"), Spec::Pod(pod))
    }

    fn policy(namespace: &str, peer: &str, port: &str) -> Written {
        let object = ObjectRef::new("NetworkPolicy", namespace, "p");
        let named = Requirement::In(NAMESPACE_NAME_LABEL.into(), vec![peer.into()]);
        let rule = Rule {
            index: 2,
            position: Position::unknown(),
            action: Action::Accept,
            peers: List::Items(vec![Peer::Pods(PodSelector {
                namespaces: NamespaceScope::Matching([named].into_iter().collect()),
                pods: Selector::everything(),
            })]),
            ports: List::Items(vec![PortMatch::Named {
                protocol: Some(Protocol::TCP),
                name: port.into(),
            }]),
        };
        let policy = Policy {
            object: object.clone(),
            position: Position::unknown(),
            mode: picket_policy::Mode::Enforce,
            tier: Tier::NetworkPolicy,
            priority: 0,
            networks: Networks::Cluster,
            subject: PodSelector {
                namespaces: NamespaceScope::Named(namespace.into()),
                pods: Selector::everything(),
            },
            ingress: Side {
                isolates: true,
                rules: vec![rule],
            },
            egress: Side::default(),
        };
        written(object, Spec::Policy(policy))
    }

    #[test]
    fn what_the_input_does_not_have_is_named() {
        let (tcp, udp) = (Protocol::TCP, Protocol::UDP);
        for (objects, expected) in [
            (vec![policy("x", "x", "web"), pod("x", "web", tcp)], vec![]),
            (
                vec![policy("x", "z", "web"), pod("x", "web", tcp), namespace("y")],
                vec!["NetworkPolicy x/p names the namespace `z`, which the input does not have"],
            ),
            (
                vec![policy("z", "x", "web"), pod("x", "web", tcp)],
                vec!["NetworkPolicy z/p is in the namespace `z`, which the input does not have"],
            ),
            (
                vec![policy("x", "kube-system", "web"), pod("x", "web", tcp)],
                vec![],
            ),
            (
                vec![policy("x", "x", "wbe"), pod("x", "web", tcp)],
                vec!["no pod has a TCP port called `wbe`, which NetworkPolicy x/p names"],
            ),
            (
                vec![policy("x", "x", "web"), pod("x", "web", udp)],
                vec!["no pod has a TCP port called `web`, which NetworkPolicy x/p names"],
            ),
            (vec![policy("x", "z", "web")], vec![]),
        ] {
            let found = check_names(&objects, &|_| None);
            let messages: Vec<_> = found.iter().map(|found| found.message.as_str()).collect();
            assert_eq!(messages, expected);
        }
    }

    #[test]
    fn a_port_of_another_protocol_is_pointed_out() {
        let objects = [policy("x", "x", "web"), pod("x", "web", Protocol::UDP)];
        let found = check_names(&objects, &|_| None);
        assert_eq!(found[0].notes[0], "pods have a port of this name for UDP");
        assert_eq!(found[0].field, "spec.ingress[2].ports[0].port");
    }
}
