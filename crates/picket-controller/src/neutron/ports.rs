//! Which port is whose.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::str::FromStr;

use picket_cluster::Pod;
use picket_engine::Program;
use picket_neutron::client::Port;
use picket_neutron::plan::Id;
use picket_policy::ObjectRef;
use smol_str::SmolStr;

/// By what a port is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PortRule {
    /// A tag of the port, in which `{namespace}`, `{name}` and `{uid}` stand for those of the pod.
    Tag(String),
    /// Its name, with the same in it.
    Name(String),
    /// Its id, which the annotation `picket.dev/neutron-ports` of the pod names, and of no other pod. A port of the network itself,
    /// as that of a router, is nobody's by that.
    Annotation,
    /// A fixed address of it, which is one of the pod's, and of no other port.
    Address,
}

/// Why something is no rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PortRuleError {
    /// Several pods would have the port.
    #[error(
        "the pattern is the same for several pods: write {{uid}}, or {{namespace}} and {{name}} with something between them that \
         is in no name of either, as `/`"
    )]
    Ambiguous,
    /// It is written otherwise.
    #[error("write `tag=PATTERN`, `name=PATTERN`, `annotation` or `address`")]
    Unknown,
}

impl FromStr for PortRule {
    type Err = PortRuleError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.split_once('=') {
            None if text == "address" => Ok(Self::Address),
            None if text == "annotation" => Ok(Self::Annotation),
            Some(("tag", pattern)) if names_a_pod(pattern) => Ok(Self::Tag(pattern.to_owned())),
            Some(("name", pattern)) if names_a_pod(pattern) => Ok(Self::Name(pattern.to_owned())),
            Some(("tag" | "name", _)) => Err(PortRuleError::Ambiguous),
            _ => Err(PortRuleError::Unknown),
        }
    }
}

/// Whether a pattern is another one for every pod. Letters, digits and `-` may be in the names of namespaces and of pods, and a dot in
/// those of pods alone, so that it tells where that of the namespace ends.
fn names_a_pod(pattern: &str) -> bool {
    const NAMESPACE: &str = "{namespace}";
    const NAME: &str = "{name}";
    let ends = |between: &str| {
        let may_be_in_both = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        !between.contains(['{', '}']) && !between.bytes().all(may_be_in_both)
    };
    let is_divided = |first: &str, second: &str| {
        pattern.match_indices(first).any(|(at, _)| {
            let rest = pattern.get(at + first.len()..).unwrap_or_default();
            rest.split_once(second).is_some_and(|(between, _)| ends(between))
        })
    };
    pattern.contains("{uid}") || is_divided(NAMESPACE, NAME) || is_divided(NAME, NAMESPACE)
}

/// What is written for a pod; nothing where it has no uid and one is asked for.
fn written(pattern: &str, pod: &ObjectRef) -> Option<String> {
    let is_known = !pattern.contains("{uid}") || !pod.uid.is_empty();
    let text = || {
        let text = pattern.replace("{namespace}", &pod.namespace);
        text.replace("{name}", &pod.name).replace("{uid}", &pod.uid)
    };
    is_known.then(text)
}

/// The ports there are, by what they are found by.
struct Index<'a> {
    all: &'a BTreeMap<Id, Port>,
    by_tag: BTreeMap<&'a str, BTreeSet<&'a Id>>,
    by_name: BTreeMap<&'a str, BTreeSet<&'a Id>>,
    by_address: BTreeMap<IpAddr, BTreeSet<&'a Id>>,
}

impl<'a> Index<'a> {
    fn of(ports: &'a BTreeMap<Id, Port>) -> Self {
        let mut index = Self {
            all: ports,
            by_tag: BTreeMap::new(),
            by_name: BTreeMap::new(),
            by_address: BTreeMap::new(),
        };
        for (id, port) in ports {
            for tag in &port.tags {
                index.by_tag.entry(tag).or_default().insert(id);
            }
            index.by_name.entry(&port.name).or_default().insert(id);
            for address in &port.fixed_ips {
                index.by_address.entry(*address).or_default().insert(id);
            }
        }
        index
    }

    fn find(&self, rule: &PortRule, pod: &Pod) -> BTreeSet<Id> {
        let all =
            |found: Option<&BTreeSet<&Id>>| found.into_iter().flatten().map(|id| (*id).clone()).collect();
        match rule {
            PortRule::Tag(pattern) => {
                let tag = written(pattern, &pod.object);
                all(tag.and_then(|tag| self.by_tag.get(tag.as_str())))
            }
            PortRule::Name(pattern) => {
                let name = written(pattern, &pod.object);
                all(name.and_then(|name| self.by_name.get(name.as_str())))
            }
            PortRule::Annotation => {
                let named = pod.neutron_ports().iter();
                let may_be_its = |id: &&Id| self.all.get(*id).is_some_and(|port| !is_of_network(port));
                named.filter(may_be_its).cloned().collect()
            }
            // Of two networks with one address nobody knows which the pod is in.
            PortRule::Address if !pod.synthetic => {
                let found = pod.addresses.iter().filter_map(|ip| self.by_address.get(&ip));
                let one = found.filter(|ports| ports.len() == 1);
                one.flatten().map(|id| (*id).clone()).collect()
            }
            PortRule::Address => BTreeSet::new(),
        }
    }
}

/// Whether a port is one of the network itself, as that of a router or of what gives addresses: never that of a pod that only says so.
fn is_of_network(port: &Port) -> bool {
    port.device_owner.starts_with("network:")
}

/// Whose the ports are.
#[derive(Debug, Default)]
pub(super) struct Ports {
    /// The ports of each pod: those that the first rule finds by which any is found.
    pub(super) of: BTreeMap<ObjectRef, BTreeSet<Id>>,
    /// Those that several pods would have, and that are nobody's: one of these would get what another may do.
    pub(super) disputed: BTreeMap<Id, Vec<ObjectRef>>,
}

impl Ports {
    /// Finds those of these pods.
    pub(super) fn find<'a>(
        rules: &[PortRule],
        ports: &BTreeMap<Id, Port>,
        program: &Program,
        pods: impl Iterator<Item = &'a ObjectRef>,
    ) -> Self {
        let index = Index::of(ports);
        let pods = pods.filter(|object| object.kind == "Pod");
        let pods: Vec<&Pod> = pods
            .filter_map(|object| Some(&**program.pod(object)?.pod()))
            .collect();
        let claims = match rules.contains(&PortRule::Annotation) {
            true => Claims::of(rules, &index, &pods),
            false => Claims::default(),
        };
        // The pods of each port, and whether each has it by more than an address, which may have been another's.
        let mut holders: BTreeMap<Id, Vec<(&ObjectRef, bool)>> = BTreeMap::new();
        for pod in pods {
            let mut each = rules.iter().map(|rule| match rule {
                PortRule::Annotation => (rule, claims.granted(pod, index.find(rule, pod))),
                rule => (rule, index.find(rule, pod)),
            });
            if let Some((rule, ports)) = each.find(|(_, ports)| !ports.is_empty()) {
                for id in ports {
                    let holder = (&pod.object, *rule != PortRule::Address);
                    holders.entry(id).or_default().push(holder);
                }
            }
        }
        let mut found = Self::default();
        for (id, holders) in holders {
            let surer = holders.iter().any(|(_, is_sure)| *is_sure);
            let holders: Vec<_> = holders
                .into_iter()
                .filter(|(_, is_sure)| *is_sure == surer)
                .map(|(pod, _)| pod.clone())
                .collect();
            match <[ObjectRef; 1]>::try_from(holders) {
                Ok([pod]) => _ = found.of.entry(pod).or_default().insert(id),
                Err(holders) => _ = found.disputed.insert(id, holders),
            }
        }
        found
    }

    /// The pod of each port.
    pub(super) fn owners(&self) -> BTreeMap<SmolStr, ObjectRef> {
        let each = |(pod, ports): (&ObjectRef, &BTreeSet<Id>)| {
            let owned = ports.iter().map(|port| (port.clone(), pod.clone()));
            owned.collect::<Vec<_>>()
        };
        self.of.iter().flat_map(each).collect()
    }

    /// What is wrong with those that several would have.
    pub(super) fn disputes(&self) -> impl Iterator<Item = String> {
        self.disputed.iter().map(|(id, pods)| {
            let pods: Vec<_> = pods.iter().map(ToString::to_string).collect();
            format!(
                "port {id} would be that of {} by --port-by, and is nobody's while that is so",
                pods.join(" and of ")
            )
        })
    }
}

/// Whose ports are by what pods say, and by what Neutron says. Users write annotations: nobody gets the port of another by one.
#[derive(Default)]
struct Claims<'a> {
    /// How many pods name a port.
    named: BTreeMap<&'a Id, usize>,
    /// The pods that have a port by another rule.
    others: BTreeMap<Id, BTreeSet<&'a ObjectRef>>,
}

impl<'a> Claims<'a> {
    fn of(rules: &[PortRule], index: &Index<'_>, pods: &[&'a Pod]) -> Self {
        let mut claims = Self::default();
        for pod in pods {
            for id in pod.neutron_ports() {
                *claims.named.entry(id).or_default() += 1;
            }
            for rule in rules.iter().filter(|rule| **rule != PortRule::Annotation) {
                for id in index.find(rule, pod) {
                    claims.others.entry(id).or_default().insert(&pod.object);
                }
            }
        }
        claims
    }

    /// Those of the ports that a pod names that no other pod names or has.
    fn granted(&self, pod: &Pod, mut ports: BTreeSet<Id>) -> BTreeSet<Id> {
        let is_own = |id: &Id| {
            let others = self.others.get(id).into_iter().flatten();
            self.named.get(id) == Some(&1) && others.into_iter().all(|other| **other == pod.object)
        };
        ports.retain(is_own);
        ports
    }
}

#[cfg(test)]
mod tests {
    use picket_cluster::Semantics;
    use picket_engine::Engine;
    use picket_testing::build::pod;
    use picket_testing::snapshot;

    use super::*;

    /// A port by its id, and what it is for.
    fn port(id: &str, owner: &str) -> (Id, Port) {
        let port = Port {
            id: id.into(),
            project: SmolStr::default(),
            name: format!("x/{id}").into(),
            description: String::new(),
            network_id: SmolStr::default(),
            device_owner: owner.into(),
            device_id: SmolStr::default(),
            fixed_ips: BTreeSet::new(),
            allowed_address_pairs: BTreeSet::new(),
            security_groups: BTreeSet::new(),
            port_security_enabled: true,
            vnic_type: "normal".into(),
            status: SmolStr::default(),
            tags: BTreeSet::new(),
            revision_number: None,
        };
        (port.id.clone(), port)
    }

    #[test]
    fn the_ports_that_a_pod_names_are_its_own_if_nothing_speaks_against_it() {
        let ports: BTreeMap<_, _> = [
            port("own", "compute:kuryr"),
            port("other-own", ""),
            port("shared", "compute:kuryr"),
            port("named", "compute:kuryr"),
            port("router", "network:router_interface"),
            port("dhcp", "network:dhcp"),
        ]
        .into();
        let snapshot = snapshot![
            pod("x/web").at_neutron(&["own", "other-own", "shared", "named", "router", "dhcp", "gone"]),
            pod("x/other").at_neutron(&["shared"]),
            // By its name.
            pod("x/named"),
            pod("x/router").at_neutron(&["router"]),
        ];
        let engine = Engine::compile(&snapshot, Semantics::default());
        let found = |rules: &[&str]| {
            let rules: Vec<_> = rules.iter().map(|rule| rule.parse().unwrap()).collect();
            let found = Ports::find(&rules, &ports, engine.program(), snapshot.pods.keys());
            let texts = found.of.iter().map(|(pod, ports)| {
                let ports: Vec<_> = ports.iter().map(SmolStr::as_str).collect();
                format!("{}: {}", pod.name, ports.join(" "))
            });
            texts.collect::<Vec<_>>()
        };
        assert_eq!(found(&["annotation"]), ["web: named other-own own"]);
        // Whoever makes ports may give a pod any by its name.
        assert_eq!(
            found(&["annotation", "name={namespace}/{name}"]),
            ["named: named", "router: router", "web: other-own own"]
        );
    }

    #[test]
    fn a_port_that_two_pods_would_have_is_nobodys_unless_one_has_it_by_more_than_an_address() {
        let at = |id: &str, address: &str, tag: &str| {
            let (id, mut port) = port(id, "compute:kuryr");
            port.fixed_ips.insert(address.parse().unwrap());
            port.tags.insert(tag.into());
            (id, port)
        };
        let ports: BTreeMap<_, _> = [
            at("shared", "10.0.0.1", ""),
            at("said", "fd00::2", "x/now"),
            at("own", "10.0.0.3", ""),
        ]
        .into();
        // Of a node that is lost, whose addresses others have by now.
        let snapshot = snapshot![
            pod("x/before").ip("10.0.0.1").ip("fd00::2"),
            pod("x/after").ip("10.0.0.1"),
            pod("x/now").ip("fd00::2"),
            pod("x/own").ip("10.0.0.3"),
        ];
        let engine = Engine::compile(&snapshot, Semantics::default());
        let rules = ["tag={namespace}/{name}", "address"].map(|rule| rule.parse().unwrap());
        let found = Ports::find(&rules, &ports, engine.program(), snapshot.pods.keys());
        let owners = found.owners();
        let owner = |id: &str| owners.get(id).map(|pod| pod.name.as_str());
        assert_eq!(
            ["shared", "said", "own"].map(owner),
            [None, Some("now"), Some("own")]
        );
        let disputes: Vec<_> = found.disputes().collect();
        assert_eq!(
            disputes,
            [
                "port shared would be that of Pod x/after and of Pod x/before by --port-by, and is nobody's while that is so"
            ]
        );
    }

    #[test]
    fn ports_are_found_by_what_is_another_for_every_pod() {
        for (text, expected) in [
            ("address", Ok(PortRule::Address)),
            ("annotation", Ok(PortRule::Annotation)),
            ("annotation=x", Err(PortRuleError::Unknown)),
            ("tag={uid}", Ok(PortRule::Tag("{uid}".to_owned()))),
            (
                "name={namespace}/{name}",
                Ok(PortRule::Name("{namespace}/{name}".to_owned())),
            ),
            ("tag=pod", Err(PortRuleError::Ambiguous)),
            ("name={name}", Err(PortRuleError::Ambiguous)),
            ("name={namespace}-{name}", Err(PortRuleError::Ambiguous)),
            ("tag={name}{namespace}", Err(PortRuleError::Ambiguous)),
            ("tag={namespace}-pod-{name}", Err(PortRuleError::Ambiguous)),
            (
                "tag={name}.{namespace}",
                Ok(PortRule::Tag("{name}.{namespace}".to_owned())),
            ),
            (
                "name=k8s-{namespace}_{name}",
                Ok(PortRule::Name("k8s-{namespace}_{name}".to_owned())),
            ),
            ("address=10.0.0.1", Err(PortRuleError::Unknown)),
            ("", Err(PortRuleError::Unknown)),
        ] {
            assert_eq!(text.parse(), expected, "{text}");
        }
    }

    #[test]
    fn a_pattern_that_asks_for_a_uid_is_nothing_without_one() {
        let mut pod = ObjectRef::new("Pod", "x", "web");
        assert_eq!(written("{namespace}/{name}", &pod).as_deref(), Some("x/web"));
        assert_eq!(written("{uid}", &pod), None);
        pod.uid = "u".into();
        assert_eq!(written("pod-{uid}", &pod).as_deref(), Some("pod-u"));
    }
}
