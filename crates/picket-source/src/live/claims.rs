//! Which pods say that an address is theirs.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::facts::Name;

/// The pods that claim each address of a network.
#[derive(Default)]
pub(super) struct Claims(BTreeMap<IpAddr, Claimants>);

/// Nearly always one.
enum Claimants {
    One(Name),
    Several(Vec<Name>),
}

impl Claims {
    /// A pod says that an address is its own.
    pub(super) fn add(&mut self, address: IpAddr, pod: &Name) {
        match self.0.get_mut(&address) {
            None => drop(self.0.insert(address, Claimants::One(pod.clone()))),
            Some(Claimants::Several(pods)) if !pods.contains(pod) => pods.push(pod.clone()),
            Some(Claimants::One(one)) if one != pod => {
                let pods = vec![one.clone(), pod.clone()];
                self.0.insert(address, Claimants::Several(pods));
            }
            Some(_) => {}
        }
    }

    /// It says so no longer.
    pub(super) fn remove(&mut self, address: IpAddr, pod: &Name) {
        match self.0.get_mut(&address) {
            Some(Claimants::One(one)) if one == pod => drop(self.0.remove(&address)),
            Some(Claimants::Several(pods)) => {
                pods.retain(|other| other != pod);
                if let [last] = pods.as_slice() {
                    let last = Claimants::One(last.clone());
                    self.0.insert(address, last);
                }
            }
            _ => {}
        }
    }

    /// The pods that claim an address.
    pub(super) fn of(&self, address: IpAddr) -> &[Name] {
        match self.0.get(&address) {
            None => &[],
            Some(Claimants::One(pod)) => std::slice::from_ref(pod),
            Some(Claimants::Several(pods)) => pods,
        }
    }

    /// Whether nobody claims any.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
