//! By which interface of a pod a connection goes.

use std::collections::BTreeSet;
use std::net::IpAddr;

use picket_dataplane::Crossing;
use picket_linux::InterfaceAddress;
use picket_net::Prefix;

/// The addresses of a pod.
pub(super) struct Interfaces(Vec<Address>);

struct Address {
    interface: String,
    address: IpAddr,
    /// Who is reached there without a gateway.
    neighbours: Option<Prefix>,
}

impl Interfaces {
    pub(super) fn new(addresses: Vec<InterfaceAddress>) -> Self {
        let addresses = addresses.into_iter().map(|one| Address {
            interface: one.interface,
            address: one.address,
            neighbours: Prefix::new(one.network.0, one.network.1),
        });
        Self(addresses.collect())
    }

    /// How the first packet of a connection may have come into the pod or gone out of it; in no way where neither end is the
    /// pod's, or both are: what a pod sends to itself goes over `lo`.
    pub(super) fn crossings(&self, source: IpAddr, destination: IpAddr) -> Vec<Crossing> {
        match [source, destination].map(|end| self.is_own(end)) {
            [false, true] => {
                let inputs = self.between(destination, source).into_iter();
                let receive = |input: &str| Crossing::Receive { input: input.into() };
                inputs.map(receive).collect()
            }
            [true, false] => {
                let outputs = self.between(source, destination).into_iter();
                let send = |output: &str| Crossing::Send {
                    output: output.into(),
                };
                outputs.map(send).collect()
            }
            [true, true] | [false, false] => Vec::new(),
        }
    }

    fn is_own(&self, address: IpAddr) -> bool {
        self.0.iter().any(|own| own.address == address)
    }

    /// The interfaces with this own address of which the other is a neighbour; where there is none, all with this address and
    /// all of which the other is a neighbour.
    fn between(&self, own: IpAddr, other: IpAddr) -> BTreeSet<&str> {
        let is_own = |one: &Address| one.address == own;
        let is_near = |one: &Address| one.neighbours.is_some_and(|near| near.contains(other));
        let of = |which: &dyn Fn(&Address) -> bool| -> BTreeSet<&str> {
            let found = self.0.iter().filter(|one| which(one));
            found.map(|one| one.interface.as_str()).collect()
        };
        let certain = of(&|one| is_own(one) && is_near(one));
        if certain.is_empty() {
            of(&|one| is_own(one) || is_near(one))
        } else {
            certain
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(interface: &str, address: &str, length: u8) -> InterfaceAddress {
        let address: IpAddr = address.parse().unwrap();
        InterfaceAddress {
            interface: interface.to_owned(),
            address,
            network: (address, length),
        }
    }

    #[test]
    fn a_connection_goes_where_its_own_address_is_and_its_peer_near() {
        let interfaces = Interfaces::new(vec![
            at("lo", "127.0.0.1", 8),
            at("eth0", "10.0.0.5", 32),
            at("net1", "10.1.0.1", 24),
            at("net2", "10.1.0.1", 16),
            at("net2", "10.2.0.1", 24),
            at("net1", "fd00::1", 64),
        ]);
        for (source, destination, expected) in [
            ("10.2.0.7", "10.2.0.1", "< net2"),
            ("10.2.0.1", "10.2.0.7", "> net2"),
            ("fd00::2", "fd00::1", "< net1"),
            // Both networks have this address and both peers.
            ("10.1.0.2", "10.1.0.1", "< net1 < net2"),
            ("10.1.5.2", "10.1.0.1", "< net2"),
            // By a gateway of the network, or by an interface whose address it is not.
            ("8.8.8.8", "10.2.0.1", "< net2"),
            ("10.2.0.7", "10.0.0.5", "< eth0 < net2"),
            // To itself, and through it.
            ("10.2.0.1", "10.0.0.5", ""),
            ("10.1.0.2", "10.2.0.2", ""),
        ] {
            let crossings = interfaces.crossings(source.parse().unwrap(), destination.parse().unwrap());
            let read = crossings.iter().map(|crossing| match crossing {
                Crossing::Receive { input } => format!("< {input}"),
                Crossing::Send { output } => format!("> {output}"),
                Crossing::Forward { .. } => "forwarded".to_owned(),
                Crossing::Relay { .. } => "relayed".to_owned(),
            });
            let read: Vec<_> = read.collect();
            assert_eq!(read.join(" "), expected, "{source} to {destination}");
        }
    }
}
