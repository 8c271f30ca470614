//! What there is in Neutron, held against the policies.
//!
//! Not everything there can be read: rules that picket never writes, groups of other projects, groups that keep no state. So it
//! is worked out what passes at most and at least, and where nothing passes that must not by the one, and nothing is missing by the
//! other, the policies hold whatever those do.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use picket_engine::{PodRef, Program};
use picket_net::{AddressSet, Family};
use picket_policy::{Direction, ObjectRef};
use smol_str::SmolStr;

use super::{Known, Place, Proof, Report};
use crate::builder::Options;
use crate::meaning::Meaning;
use crate::model::{AddressGroup, Name, Objects, Port, Remote, SecurityGroup, SecurityGroupRule};
use crate::plan::{Id, Installed, InstalledGroup, InstalledPort, InstalledRule};

/// Stands for a group that cannot be read. No id is written so.
const UNREAD: Name = Name::new_static("?");

/// What there is, and which of the ports are whose.
#[derive(Clone, Copy, Debug)]
pub struct InstalledPorts<'a> {
    /// All groups that ports have, as far as they can be read, and all ports.
    pub installed: &'a Installed,
    /// The ports of each pod.
    pub ports: &'a BTreeMap<ObjectRef, BTreeSet<Id>>,
    /// By what ports must be attached so that their groups count.
    pub enforced_vnic_types: &'a BTreeSet<SmolStr>,
}

impl<'a> InstalledPorts<'a> {
    fn of(&self, pod: &ObjectRef) -> impl Iterator<Item = (&'a Id, &'a InstalledPort)> {
        let (ports, all) = (self.ports.get(pod), &self.installed.ports);
        ports.into_iter().flatten().filter_map(|id| all.get_key_value(id))
    }

    /// Whether groups count at a port.
    fn is_enforced(&self, port: &InstalledPort) -> bool {
        port.port_security_enabled && self.enforced_vnic_types.contains(&port.vnic_type)
    }
}

/// Addresses that only Neutron says are pods': those of their ports that the cluster knows nobody to have.
pub fn other_addresses(of: InstalledPorts<'_>, program: &Program) -> BTreeMap<IpAddr, ObjectRef> {
    let pods = program.pods().flat_map(|pod| pod.pod().addresses.iter());
    let nodes = program.nodes().flat_map(|node| node.addresses.iter().copied());
    let taken: BTreeSet<IpAddr> = pods.chain(nodes).collect();
    let mut found = BTreeMap::new();
    for pod in of.ports.keys() {
        for address in of.of(pod).flat_map(|(_, port)| &port.fixed_ips) {
            if !taken.contains(address) {
                found.entry(*address).or_insert_with(|| pod.clone());
            }
        }
    }
    found
}

/// Compares what there is with what a program demands, at each port of each pod. Shows at most `limit` connections.
///
/// A port at which no group counts is open, and shown as such. Of pods without a port nothing is said, and nobody has to let them in.
/// All addresses of all ports of a pod are the pod's. Where several have one address, the groups may let less pass than the policies do.
pub fn verify_installed(
    of: InstalledPorts<'_>,
    program: &Program,
    options: &Options,
    limit: usize,
) -> Report {
    let [most, least] = [Bound::Most, Bound::Least].map(|bound| objects(of.installed, bound));
    let pairs = of.installed.ports.values().flat_map(|port| {
        let pairs = port.allowed_address_pairs.iter();
        let addresses: AddressSet = pairs.map(|prefix| prefix.range()).collect();
        port.security_groups
            .iter()
            .map(move |group| (group, addresses.clone()))
    });
    let meanings = vec![Meaning::of(&most).with_addresses(pairs), Meaning::of(&least)];
    let others = other_addresses(of, program).into_iter();
    let others = others.filter_map(|(address, pod)| {
        let pod = program.pod(&pod)?;
        let of_family = pod.identity(Family::of(address));
        let identity = of_family.or_else(|| Family::BOTH.into_iter().find_map(|family| pod.identity(family)));
        Some((address, identity?))
    });
    let managed = program.pods().filter(PodRef::is_managed);
    let absent = managed.filter(|pod| of.of(&pod.pod().object).next().is_none());
    let known = Known {
        others: others.collect(),
        absent: absent
            .flat_map(|pod| pod.pod().addresses.iter().collect::<Vec<_>>())
            .collect(),
    };
    let mut proof = Proof::new(program, options, limit, meanings, known);
    for pod in program.pods().filter(PodRef::is_managed) {
        let object = &pod.pod().object;
        let own: BTreeSet<IpAddr> = of
            .of(object)
            .flat_map(|(_, port)| port.fixed_ips.clone())
            .collect();
        for (id, port) in of.of(object) {
            let judged = most.ports.get(&key(id)).filter(|_| of.is_enforced(port));
            let place = Place {
                at: Some(id),
                port: judged,
                own: &port.fixed_ips,
                others: &own,
            };
            proof.pod(pod, &place);
        }
    }
    proof.report
}

/// How to take what cannot be read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Bound {
    /// It lets everything pass.
    Most,
    /// It lets nothing pass.
    Least,
}

/// What a port is found by among [`Objects`], which knows those of pods alone.
fn key(port: &Id) -> ObjectRef {
    ObjectRef::new("Port", "", port)
}

/// What there is, with ids for names.
fn objects(installed: &Installed, bound: Bound) -> Objects {
    let groups = installed.security_groups.iter();
    let groups = groups.map(|(id, group)| (id.clone(), of_group(group, installed, bound)));
    let unread = SecurityGroup {
        rules: match bound {
            Bound::Most => Direction::BOTH.into_iter().flat_map(everything).collect(),
            Bound::Least => BTreeSet::new(),
        },
        ..SecurityGroup::default()
    };
    let address_groups = installed.address_groups.iter();
    let address_groups = address_groups.map(|(id, group)| {
        let addresses = group.addresses.clone();
        (id.clone(), AddressGroup { addresses })
    });
    let ports = installed.ports.iter().map(|(id, port)| {
        let mut groups = port.security_groups.clone();
        if groups
            .iter()
            .any(|id| !installed.security_groups.contains_key(id))
        {
            groups.insert(UNREAD);
        }
        let port = Port {
            fixed_ips: port.fixed_ips.clone(),
            security_groups: groups,
        };
        (key(id), port)
    });
    Objects {
        security_groups: groups.chain([(UNREAD, unread)]).collect(),
        address_groups: address_groups.collect(),
        ports: ports.collect(),
    }
}

fn of_group(group: &InstalledGroup, installed: &Installed, bound: Bound) -> SecurityGroup {
    let mut rules = BTreeSet::new();
    // Where no state is kept, what answers a connection is dropped unless something else lets it pass.
    let counts = group.stateful || bound == Bound::Most;
    for rule in group.rules.values().filter(|_| counts) {
        match (rule, bound) {
            (InstalledRule::Known(rule), _) if is_known(&rule.remote, installed) => {
                rules.insert(rule.clone());
            }
            (InstalledRule::Known(rule), Bound::Most) => {
                let remote = Remote::Anyone;
                rules.insert(SecurityGroupRule {
                    remote,
                    ..rule.clone()
                });
            }
            (InstalledRule::Other(direction), Bound::Most) => {
                let directions = Direction::BOTH.into_iter();
                let meant = directions.filter(|one| direction.is_none_or(|of| of == *one));
                rules.extend(meant.flat_map(everything));
            }
            (_, Bound::Least) => {}
        }
    }
    SecurityGroup {
        rules,
        ..SecurityGroup::default()
    }
}

fn is_known(remote: &Remote, installed: &Installed) -> bool {
    match remote {
        Remote::Anyone | Remote::Prefix(_) => true,
        Remote::Group(id) => installed.security_groups.contains_key(id),
        Remote::AddressGroup(id) => installed.address_groups.contains_key(id),
    }
}

fn everything(direction: Direction) -> [SecurityGroupRule; 2] {
    Family::BOTH.map(|ethertype| SecurityGroupRule {
        direction,
        ethertype,
        protocol: None,
        ports: None,
        remote: Remote::Anyone,
    })
}
