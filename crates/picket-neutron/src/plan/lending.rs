//! Ports that would lend addresses of others to what rules mean.
//!
//! A rule about a group means all addresses of the ports that have it, by address alone: whoever else sends from one of them is let in
//! too. What the cluster knows of addresses is taken into account where groups are rendered; here it is what only Neutron knows.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use picket_net::Prefix;
use picket_policy::ObjectRef;

use super::Wanted;
use super::installed::{Id, Installed, InstalledPort};
use crate::model::Name;

type Pods<'a> = BTreeMap<IpAddr, BTreeSet<&'a ObjectRef>>;

/// Who has which addresses.
pub(super) struct Lending<'a> {
    wanted: &'a Wanted<'a>,
    /// What the groups begin with that stand for pods.
    peers: String,
    /// As the cluster says.
    known: Pods<'a>,
    /// Those that ports of pods have besides, and those of others that they may send from.
    more: Pods<'a>,
}

impl<'a> Lending<'a> {
    pub(super) fn of(
        installed: &'a Installed,
        wanted: &'a Wanted<'a>,
        owners: &BTreeMap<&'a Id, &'a ObjectRef>,
    ) -> Self {
        let mut lending = Self {
            wanted,
            peers: format!("{}/peers/", wanted.cluster),
            known: Pods::new(),
            more: Pods::new(),
        };
        for (pod, port) in &wanted.objects.ports {
            for address in &port.fixed_ips {
                lending.known.entry(*address).or_default().insert(pod);
            }
        }
        for (id, pod) in owners {
            let port = installed.ports.get(*id);
            for address in port.into_iter().flat_map(|port| &port.fixed_ips) {
                if !lending.is_own(*address, pod) {
                    lending.more.entry(*address).or_default().insert(pod);
                }
            }
        }
        lending.add_pairs(installed, owners);
        lending
    }

    /// Whoever may send from an address that somebody has is let in where that one is. A range of addresses says as little about
    /// whose they are as a port without port security does: it is reported, and takes nothing from all others.
    fn add_pairs(&mut self, installed: &Installed, owners: &BTreeMap<&'a Id, &'a ObjectRef>) {
        for (id, pod) in owners {
            let port = installed.ports.get(*id);
            let pairs = port.into_iter().flat_map(|port| &port.allowed_address_pairs);
            for prefix in pairs {
                let address = prefix.first();
                if *prefix == Prefix::host(address) && !self.is_own(address, pod) {
                    self.more.entry(address).or_default().insert(pod);
                }
            }
        }
    }

    /// Takes the groups that stand for pods from those that a port of a pod is to have, where it would lend them addresses of others;
    /// which addresses of it others have.
    pub(super) fn take_from(
        &self,
        groups: &mut BTreeSet<Name>,
        pod: &ObjectRef,
        port: &InstalledPort,
    ) -> BTreeSet<IpAddr> {
        let may_be_anyone = self.strangers(port, pod).next().is_some();
        let mut shared = BTreeSet::new();
        groups.retain(|group| {
            if !group.starts_with(&self.peers) {
                return true;
            }
            let pairs = port.allowed_address_pairs.iter().map(Prefix::first);
            // Pairs are looked at where each of them is an address of the pod.
            let own = port
                .fixed_ips
                .iter()
                .copied()
                .chain(pairs.filter(|_| !may_be_anyone));
            let lent: Vec<_> = own.filter(|address| self.lends(*address, pod, group)).collect();
            shared.extend(lent.iter().copied());
            !may_be_anyone && lent.is_empty()
        });
        shared
    }

    /// What a port of a pod may send from besides its own addresses and those of the pod.
    pub(super) fn strangers<'p>(
        &'p self,
        port: &'p InstalledPort,
        pod: &'p ObjectRef,
    ) -> impl Iterator<Item = &'p Prefix> {
        let is_known = move |address| port.fixed_ips.contains(&address) || self.is_own(address, pod);
        let is_own =
            move |prefix: &Prefix| *prefix == Prefix::host(prefix.first()) && is_known(prefix.first());
        let pairs = port.allowed_address_pairs.iter();
        pairs.filter(move |prefix| !is_own(prefix))
    }

    fn is_own(&self, address: IpAddr, pod: &ObjectRef) -> bool {
        self.known.get(&address).is_some_and(|pods| pods.contains(pod))
    }

    /// Whether somebody else has an address of a port of a pod who is not to have a group.
    fn lends(&self, address: IpAddr, pod: &ObjectRef, group: &Name) -> bool {
        let is_own = self.is_own(address, pod);
        let of_cluster = self.known.get(&address).filter(|_| !is_own);
        let of_ports = self.more.get(&address);
        let mut others = of_cluster.into_iter().chain(of_ports).flatten();
        let lacks = |other: &&ObjectRef| {
            let port = self.wanted.objects.ports.get(*other);
            *other != pod && !port.is_some_and(|port| port.security_groups.contains(group))
        };
        self.wanted.nodes.contains(&address) || others.any(lacks)
    }
}
