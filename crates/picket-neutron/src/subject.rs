//! The group of pods about which more decides than what policies allow together: tiers that deny, and audited policies.
//!
//! It says what is allowed in the end. Policies are not told apart in it; its tags say which they are.

use std::collections::BTreeSet;
use std::net::IpAddr;

use picket_engine::{Identity, IdentitySet, PodRef, SubjectId};
use picket_net::{AddressSet, Family, TrafficSet};
use picket_policy::{Direction, ObjectRef};

use crate::builder::{Builder, rules};
use crate::digest::Digest;
use crate::model::{Name, Remote, SecurityGroup, SecurityGroupRule};
use crate::name::tag;
use crate::node::node_addresses;
use crate::traffic::is_expressible;

/// What Neutron takes: a group has at most 50 tags, and one says whose it is.
const MOST_TAGS: usize = 49;

/// Whom something is allowed with.
struct Peers {
    /// Addresses, those of some pods among them.
    addresses: AddressSet,
    /// The pods all of whose addresses are meant, and not all among the addresses.
    pods: BTreeSet<ObjectRef>,
}

impl<'a> Builder<'a> {
    /// The group of pods of a subject.
    pub(crate) fn of_allow_set(&mut self, subject: SubjectId, direction: Direction) -> Name {
        let allowed = self.program.allow_set(subject);
        if allowed.is_everything() {
            return self.open(direction);
        }
        let policies: BTreeSet<_> = self
            .program
            .deciding_policies(subject)
            .map(|policy| &policy.object)
            .collect();
        let mut all = BTreeSet::new();
        for (traffic, peers) in allowed.entries() {
            if !is_expressible(traffic) {
                self.note(subject, direction);
            }
            all.extend(self.allowed_with(&policies, traffic, peers, direction));
        }
        let shown = all.iter().map(|rule| format!("{rule:?}"));
        let hash = Digest::of("subject").texts(shown).digits();
        let name = self.name(&["pods", &hash, &direction.to_string()]);
        let tags = policies
            .iter()
            .take(MOST_TAGS)
            .map(|policy| tag(&self.with_uid(policy), direction));
        let tags = tags.collect();
        let names: Vec<_> = policies.iter().map(ToString::to_string).collect();
        self.group(name, |_| SecurityGroup {
            description: format!("{direction} of pods as {} say", names.join(", ")),
            tags,
            rules: all,
        })
    }

    /// Notes that less passes than the policies of a subject say.
    pub(crate) fn note(&mut self, subject: SubjectId, direction: Direction) {
        let policies = self.program.denying_policies(subject);
        self.shortfalls
            .extend(policies.map(|policy| (policy.object.clone(), direction)));
    }

    fn allowed_with(
        &mut self,
        policies: &BTreeSet<&ObjectRef>,
        traffic: &TrafficSet,
        peers: &IdentitySet,
        direction: Direction,
    ) -> BTreeSet<SecurityGroupRule> {
        if peers.is_all() {
            return rules(direction, &[Remote::Anyone], &Family::BOTH, traffic);
        }
        let Peers { addresses, pods } = self.meant(peers);
        let mut all = self.address_rules(direction, &addresses, traffic);
        if !pods.is_empty() {
            let group = self.peers_of(policies, traffic, pods);
            all.extend(rules(direction, &[Remote::Group(group)], &Family::BOTH, traffic));
        }
        all
    }

    /// Whom some identities are.
    fn meant(&self, peers: &IdentitySet) -> Peers {
        let mut addresses = AddressSet::empty();
        for identity in peers.iter() {
            addresses = addresses.union(&self.program.region(Identity::from_number(identity)));
        }
        let is_meant = |address: IpAddr| peers.contains(self.program.identity_of(address).number());
        let taken = self.program.taken_addresses();
        let each = |family| hosts(&taken, family);
        let others = Family::BOTH
            .into_iter()
            .flat_map(each)
            .filter(|&address| !is_meant(address));
        addresses = addresses.difference(&others.collect());
        let (mut pods, mut more) = (BTreeSet::new(), Vec::new());
        for pod in self.program.pods().filter(PodRef::is_managed) {
            let own: Vec<_> = pod.pod().addresses.iter().collect();
            if own.iter().all(|&address| addresses.contains(address)) {
                continue;
            }
            if own.iter().all(|&address| is_meant(address)) {
                pods.insert(pod.pod().object.clone());
            } else {
                more.extend(own.into_iter().filter(|&address| is_meant(address)));
            }
        }
        more.extend(node_addresses(self.program).filter(|&address| is_meant(address)));
        Peers {
            addresses: addresses.union(&more.into_iter().collect()),
            pods,
        }
    }

    /// A group that stands for `pods`, by what some policies allow them. Two that mean different pods never share a name.
    fn peers_of(
        &mut self,
        policies: &BTreeSet<&ObjectRef>,
        traffic: &TrafficSet,
        pods: BTreeSet<ObjectRef>,
    ) -> Name {
        let of_policies = policies
            .iter()
            .map(|policy| format!("{}/{}/{}", policy.kind, policy.namespace, policy.name));
        let hash = Digest::of("allowed")
            .text(&traffic.to_string())
            .texts(of_policies)
            .digits();
        let mut parts = vec![hash];
        let mut number = 1;
        while self
            .members(&self.peers_name(&parts))
            .is_some_and(|known| *known != pods)
        {
            number += 1;
            parts.truncate(1);
            parts.push(number.to_string());
        }
        self.peers(&parts, || format!("Peers that may exchange {traffic}"), || pods)
    }
}

/// Every address of a set of single ones.
fn hosts(addresses: &AddressSet, family: Family) -> Vec<IpAddr> {
    match family {
        Family::Ipv4 => addresses.v4.iter().map(|bits| IpAddr::V4(bits.into())).collect(),
        Family::Ipv6 => addresses.v6.iter().map(|bits| IpAddr::V6(bits.into())).collect(),
    }
}
