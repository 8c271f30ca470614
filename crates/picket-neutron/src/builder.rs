//! From what is compiled to groups and ports.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use picket_dataplane::Shortfall;
use picket_engine::{Blocks, PodRef, Program, SubjectId};
use picket_net::{AddressSet, Family, Prefix, Protocol, TrafficSet};
use picket_policy::{Direction, ObjectRef};
use rustc_hash::FxHashMap;
use smol_str::SmolStr;

use crate::model::{Name, Objects, Port, Remote, SecurityGroup, SecurityGroupRule};
use crate::name::name;
use crate::traffic;

/// What groups depend on besides the policies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// What every name begins with: the cluster, where several share a project.
    pub cluster: SmolStr,
    /// Whether Neutron has address groups (extension `address-group`). Without them each of several prefixes takes rules of
    /// its own.
    pub address_groups: bool,
    /// Networks of nodes from which, and to which, everything passes besides what policies say.
    pub node_subnets: Vec<Prefix>,
    /// Networks of Services to which everything passes besides what policies say.
    pub service_subnets: Vec<Prefix>,
    /// The uids of policies whose objects do not carry them, as those from files.
    pub uids: BTreeMap<ObjectRef, SmolStr>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cluster: "picket".into(),
            address_groups: true,
            node_subnets: Vec::new(),
            service_subnets: Vec::new(),
            uids: BTreeMap::new(),
        }
    }
}

/// What policies are in Neutron.
#[derive(Clone, Debug, Default)]
pub struct Rendered {
    /// The groups of all policies, and the ports of all pods that policies can be about.
    pub objects: Objects,
    /// What of the policies groups cannot say.
    pub shortfalls: Vec<Shortfall>,
    /// The groups of each policy that nothing but what policies allow together counts for: ingress first.
    pub policies: BTreeMap<ObjectRef, Vec<Name>>,
    /// The rules of groups that are there because of ports by name.
    pub named: BTreeMap<Name, BTreeSet<SecurityGroupRule>>,
}

/// What the policies of a program are in Neutron.
pub fn render(program: &Program, options: &Options) -> Rendered {
    let mut builder = Builder::new(program, options);
    for pod in program.pods().filter(PodRef::is_managed) {
        builder.pod(pod);
    }
    builder.without_pods();
    builder.finish()
}

/// What is built, and what is known by then.
pub(crate) struct Builder<'a> {
    pub(crate) program: &'a Program,
    pub(crate) options: &'a Options,
    pub(crate) objects: Objects,
    /// The pods whose addresses a group stands for, by the name of the group.
    members: BTreeMap<Name, BTreeSet<ObjectRef>>,
    /// The groups of all pods with the same subject.
    subjects: FxHashMap<SubjectId, Vec<Name>>,
    /// The own addresses of each node with isolated pods.
    pub(crate) nodes: BTreeMap<SmolStr, BTreeSet<IpAddr>>,
    /// The addresses that several have, who may do only what all may.
    pub(crate) shared: BTreeSet<IpAddr>,
    pub(crate) blocks: Blocks,
    /// Policies and directions of which groups cannot say all.
    pub(crate) shortfalls: BTreeSet<(ObjectRef, Direction)>,
    /// The groups of each policy.
    pub(crate) policies: BTreeMap<ObjectRef, BTreeSet<(Direction, Name)>>,
    pub(crate) named: BTreeMap<Name, BTreeSet<SecurityGroupRule>>,
}

impl<'a> Builder<'a> {
    fn new(program: &'a Program, options: &'a Options) -> Self {
        let managed = || program.pods().filter(PodRef::is_managed);
        let addresses = |pod: PodRef<'a>| pod.pod().addresses.iter().collect::<Vec<_>>();
        let (mut seen, mut shared) = (BTreeSet::new(), BTreeSet::new());
        let of_nodes = program.nodes().flat_map(|node| node.addresses.iter().copied());
        for address in of_nodes
            .collect::<BTreeSet<_>>()
            .into_iter()
            .chain(managed().flat_map(addresses))
        {
            if !seen.insert(address) {
                shared.insert(address);
            }
        }
        Self {
            program,
            options,
            objects: Objects::default(),
            members: BTreeMap::new(),
            subjects: FxHashMap::default(),
            nodes: BTreeMap::new(),
            shared,
            blocks: program.blocks(),
            shortfalls: BTreeSet::new(),
            policies: BTreeMap::new(),
            named: BTreeMap::new(),
        }
    }

    fn pod(&mut self, pod: PodRef<'a>) {
        let mut groups = BTreeSet::new();
        for direction in Direction::BOTH {
            let Some(subject) = pod.subject(direction) else {
                groups.insert(self.open(direction));
                continue;
            };
            groups.extend(self.of_subject(pod, subject, direction));
            groups.extend(self.own_node(pod, subject, direction));
            groups.extend(self.besides(direction));
        }
        let port = Port {
            fixed_ips: pod.pod().addresses.iter().collect(),
            security_groups: groups,
        };
        self.objects.ports.insert(pod.pod().object.clone(), port);
    }

    fn of_subject(&mut self, pod: PodRef<'a>, subject: SubjectId, direction: Direction) -> Vec<Name> {
        if let Some(known) = self.subjects.get(&subject) {
            return known.clone();
        }
        let groups = match self.enforced_policies(subject, direction) {
            Some(policies) => {
                let mut groups = self.of_policies(pod, &policies, direction);
                groups.extend(self.icmp(direction));
                groups
            }
            None => vec![self.of_allow_set(subject, direction)],
        };
        self.subjects.insert(subject, groups.clone());
        groups
    }

    /// A group, unless there is one of this name.
    pub(crate) fn group(&mut self, name: Name, make: impl FnOnce(&mut Self) -> SecurityGroup) -> Name {
        if !self.objects.security_groups.contains_key(&name) {
            let mut group = make(self);
            group.description = described(group.description);
            group.tags.insert(self.options.cluster.clone());
            self.objects.security_groups.insert(name.clone(), group);
        }
        name
    }

    /// What a pod has that nothing isolates in a direction.
    pub(crate) fn open(&mut self, direction: Direction) -> Name {
        let name = self.name(&["open", &direction.to_string()]);
        self.group(name, |_| SecurityGroup {
            description: format!("{direction} of pods that no policy isolates"),
            tags: BTreeSet::new(),
            rules: rules(direction, &[Remote::Anyone], &Family::BOTH, &TrafficSet::all()),
        })
    }

    /// What pods that policies isolate exchange because flags ask for it.
    fn icmp(&mut self, direction: Direction) -> Option<Name> {
        let semantics = self.program.semantics();
        let flags = [
            (Family::Ipv4, semantics.accept_icmp, Protocol::ICMP),
            (Family::Ipv6, semantics.accept_icmpv6, Protocol::ICMPV6),
        ];
        let mut all = BTreeSet::new();
        for (family, _, icmp) in flags.into_iter().filter(|(_, accepted, _)| *accepted) {
            all.extend(rules(
                direction,
                &[Remote::Anyone],
                &[family],
                &TrafficSet::from(icmp),
            ));
        }
        self.unless_empty("icmp", all, direction)
    }

    /// What isolated pods exchange with networks that the options open.
    fn besides(&mut self, direction: Direction) -> Option<Name> {
        let mut all = BTreeSet::new();
        for subnet in self.subnets(direction) {
            let remote = match subnet.length() {
                0 => Remote::Anyone,
                _ => Remote::Prefix(subnet),
            };
            all.extend(rules(
                direction,
                &[remote],
                &[subnet.family()],
                &TrafficSet::all(),
            ));
        }
        self.unless_empty("subnets", all, direction)
    }

    fn unless_empty(
        &mut self,
        kind: &str,
        rules: BTreeSet<SecurityGroupRule>,
        direction: Direction,
    ) -> Option<Name> {
        if rules.is_empty() {
            return None;
        }
        let name = self.name(&[kind, &direction.to_string()]);
        Some(self.group(name, |_| SecurityGroup {
            description: format!("{direction} of isolated pods that no policy has to allow ({kind})"),
            tags: BTreeSet::new(),
            rules,
        }))
    }

    /// The networks with which everything passes.
    fn subnets(&self, direction: Direction) -> Vec<Prefix> {
        let services = match direction {
            Direction::Ingress => &[][..],
            Direction::Egress => &self.options.service_subnets,
        };
        self.options
            .node_subnets
            .iter()
            .chain(services)
            .copied()
            .collect()
    }

    /// A policy with its uid, if that is known.
    pub(crate) fn with_uid(&self, policy: &ObjectRef) -> ObjectRef {
        let mut policy = policy.clone();
        if let Some(uid) = self.options.uids.get(&policy) {
            policy.uid = uid.clone();
        }
        policy
    }

    pub(crate) fn name(&self, parts: &[&str]) -> Name {
        name(&self.options.cluster, parts)
    }

    /// The rules of a direction that let `traffic` pass with these addresses.
    pub(crate) fn address_rules(
        &mut self,
        direction: Direction,
        addresses: &AddressSet,
        traffic: &TrafficSet,
    ) -> BTreeSet<SecurityGroupRule> {
        let mut all = BTreeSet::new();
        if traffic.is_empty() {
            return all;
        }
        for family in Family::BOTH {
            let (cluster, groups) = (&self.options.cluster, self.options.address_groups);
            let remotes = self.objects.remotes(addresses, family, cluster, groups);
            all.extend(rules(direction, &remotes, &[family], traffic));
        }
        all
    }

    /// A group without rules that stands for pods: each that is among them has it. `parts` end its name, of which the first is a
    /// hash of who they are; that is its tag too.
    pub(crate) fn peers(
        &mut self,
        parts: &[impl AsRef<str>],
        description: impl FnOnce() -> String,
        pods: impl FnOnce() -> BTreeSet<ObjectRef>,
    ) -> Name {
        let name = self.peers_name(parts);
        if !self.members.contains_key(&name) {
            self.members.insert(name.clone(), pods());
        }
        self.group(name, |_| SecurityGroup {
            description: description(),
            tags: parts
                .first()
                .map(|hash| hash.as_ref().into())
                .into_iter()
                .collect(),
            rules: BTreeSet::new(),
        })
    }

    /// What [`Builder::peers`] calls a group.
    pub(crate) fn peers_name(&self, parts: &[impl AsRef<str>]) -> Name {
        let parts = parts.iter().map(AsRef::as_ref);
        self.name(&["peers"].into_iter().chain(parts).collect::<Vec<_>>())
    }

    /// The pods of [`Builder::peers`] of this name, if there are any.
    pub(crate) fn members(&self, name: &Name) -> Option<&BTreeSet<ObjectRef>> {
        self.members.get(name)
    }

    /// Whether a pod has an address that others have too.
    pub(crate) fn shares(&self, pod: PodRef<'_>) -> bool {
        pod.pod()
            .addresses
            .iter()
            .any(|address| self.shared.contains(&address))
    }

    fn finish(mut self) -> Rendered {
        for (group, pods) in std::mem::take(&mut self.members) {
            for pod in pods {
                if let Some(port) = self.objects.ports.get_mut(&pod) {
                    port.security_groups.insert(group.clone());
                }
            }
        }
        let names =
            |groups: &BTreeSet<(Direction, Name)>| groups.iter().map(|(_, name)| name.clone()).collect();
        let policies = self.policies.iter();
        let policies = policies.map(|(policy, groups)| (self.with_uid(policy), names(groups)));
        let policies: BTreeMap<_, _> = policies.collect();
        let shortfalls = self.shortfalls.into_iter().map(|(policy, direction)| Shortfall {
            target: "neutron",
            what: format!(
                "{policy} ({direction}) denies some ports of a protocol and leaves others to all protocols"
            ),
            policy,
            direction,
            instead: "a rule of a security group is about one protocol or about every protocol: where some ports of one are \
                      denied and all else is allowed, only TCP, UDP, SCTP and ICMP pass"
                .to_owned(),
        });
        Rendered {
            objects: self.objects,
            shortfalls: shortfalls.collect(),
            policies,
            named: self.named,
        }
    }
}

/// What Neutron takes of a description: 255 characters.
fn described(whole: String) -> String {
    match whole.char_indices().nth(254) {
        Some((end, last)) if end + last.len_utf8() < whole.len() => {
            format!("{}…", whole.get(..end).unwrap_or_default())
        }
        _ => whole,
    }
}

/// The rules that let `traffic` pass with each of `remotes`.
pub(crate) fn rules(
    direction: Direction,
    remotes: &[Remote],
    families: &[Family],
    traffic: &TrafficSet,
) -> BTreeSet<SecurityGroupRule> {
    let mut all = BTreeSet::new();
    for remote in remotes {
        for &ethertype in families {
            for (protocol, ports) in traffic::selected(traffic, ethertype) {
                all.insert(SecurityGroupRule {
                    direction,
                    ethertype,
                    protocol,
                    ports,
                    remote: remote.clone(),
                });
            }
        }
    }
    all
}
