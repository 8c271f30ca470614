//! What there is, held against the policies, however little of it can be read.

use std::collections::{BTreeMap, BTreeSet};

use picket_cluster::Semantics;
use picket_engine::Engine;
use picket_neutron::verify::{InstalledPorts, Report, verify_installed};
use picket_neutron::{Options, Remote};
use picket_policy::{Direction, ObjectRef};
use picket_testing::build::ip;

use super::fake::{Fake, port_of};
use super::world::{and, everything, id_of, port, with};

fn verified(fake: &Fake) -> Report {
    let engine = Engine::compile(&and([]), Semantics::default());
    let pods = ["db", "web", "other"].map(|name| ObjectRef::new("Pod", "x", name));
    let ports: BTreeMap<_, _> = pods
        .into_iter()
        .map(|pod| (pod.clone(), BTreeSet::from([port_of(&pod)])))
        .collect();
    let installed = InstalledPorts {
        installed: &fake.installed,
        ports: &ports,
        enforced_vnic_types: &["normal".into()].into(),
    };
    verify_installed(installed, engine.program(), &Options::default(), 1)
}

/// Which pods are wrong in which direction, and how.
fn wrong(fake: &Fake) -> Vec<String> {
    let report = verified(fake);
    let wrong = report.wrong.iter().map(|wrong| {
        assert_eq!(wrong.at, Some(port_of(&wrong.pod)));
        let how = if wrong.passes { "more" } else { "less" };
        format!("{} {} {how}", wrong.pod.name, wrong.direction)
    });
    let wrong: Vec<_> = wrong.collect();
    assert_eq!(report.is_proof(), wrong.is_empty());
    assert_eq!(report.counterexamples.is_empty(), wrong.is_empty());
    wrong
}

const POLICY: &str = "picket/policy/x/p/ingress";

type Damage = fn(&mut Fake);

#[test]
fn what_cannot_be_read_may_let_everything_pass_and_nothing() {
    let cases: [(&str, Damage, &[&str]); 16] = [
        ("nothing", |_| {}, &[]),
        (
            "a peer that is not there",
            |fake| drop(fake.installed.ports.remove(&port("web"))),
            &[],
        ),
        (
            "no state",
            |fake| {
                let id = id_of(fake, POLICY);
                fake.group(&id).stateful = false;
            },
            &["db ingress less"],
        ),
        (
            "a group of another project",
            |fake| {
                let id = id_of(fake, POLICY);
                fake.installed.security_groups.remove(&id);
            },
            &["db ingress less", "db ingress more"],
        ),
        (
            "a rule that picket never writes",
            |fake| {
                let id = id_of(fake, POLICY);
                fake.add_strange(&id, everything(Direction::Ingress, Remote::Anyone));
            },
            &["db ingress more"],
        ),
        (
            "the same in the other direction, which nothing isolates",
            |fake| {
                let id = id_of(fake, POLICY);
                fake.add_strange(&id, everything(Direction::Egress, Remote::Anyone));
            },
            &[],
        ),
        (
            "a rule about a group that cannot be read",
            |fake| {
                let id = id_of(fake, POLICY);
                fake.add_rule(&id, everything(Direction::Ingress, Remote::Group("far".into())));
            },
            &["db ingress more"],
        ),
        (
            "a rule about addresses that cannot be read",
            |fake| {
                let id = id_of(fake, POLICY);
                let remote = Remote::AddressGroup("far".into());
                fake.add_rule(&id, everything(Direction::Ingress, remote));
            },
            &["db ingress more"],
        ),
        (
            "a port with port security off",
            |fake| {
                let port = fake.installed.ports.get_mut(&port("db")).expect("a port");
                port.port_security_enabled = false;
                port.security_groups.clear();
            },
            &["db ingress more"],
        ),
        (
            "a port that is attached in another way",
            |fake| {
                fake.installed
                    .ports
                    .get_mut(&port("db"))
                    .expect("a port")
                    .vnic_type = "direct".into();
            },
            &["db ingress more"],
        ),
        (
            "a peer that may send from other addresses",
            |fake| {
                let port = fake.installed.ports.get_mut(&port("web")).expect("a port");
                port.allowed_address_pairs
                    .insert("10.0.0.9/32".parse().expect("a prefix"));
            },
            &["db ingress more"],
        ),
        (
            "a peer that may send from its own address",
            |fake| {
                let port = fake.installed.ports.get_mut(&port("web")).expect("a port");
                port.allowed_address_pairs
                    .insert("10.0.0.2/32".parse().expect("a prefix"));
            },
            &[],
        ),
        (
            "a peer with one address more",
            |fake| {
                let port = fake.installed.ports.get_mut(&port("web")).expect("a port");
                port.fixed_ips.insert(ip("10.7.0.2"));
            },
            &[],
        ),
        (
            "somebody who is no peer with one address more",
            |fake| {
                let group = fake.installed.ports[&port("web")].security_groups.clone();
                let port = fake.installed.ports.get_mut(&port("other")).expect("a port");
                port.fixed_ips = [ip("10.7.0.3")].into();
                port.security_groups.extend(group);
            },
            &["db ingress more"],
        ),
        (
            "a peer at another address than its own",
            |fake| {
                let port = fake.installed.ports.get_mut(&port("web")).expect("a port");
                port.fixed_ips = [ip("10.7.0.2")].into();
            },
            &["db ingress less"],
        ),
        (
            "a port of nobody that has the peers' group",
            |fake| {
                let groups: Vec<_> = fake.installed.ports[&port("web")]
                    .security_groups
                    .iter()
                    .cloned()
                    .collect();
                fake.add_port(&"left".into(), [ip("10.0.0.9")].into(), &groups);
            },
            &["db ingress more"],
        ),
    ];
    for (what, damage, expected) in cases {
        let mut fake = with(&and([]));
        damage(&mut fake);
        assert_eq!(wrong(&fake), expected, "{what}");
    }
}

#[test]
fn what_lets_a_connection_pass_is_named() {
    let mut fake = with(&and([]));
    let other = fake.add_group("others", &[]);
    fake.add_rule(&other, everything(Direction::Ingress, Remote::Anyone));
    let db = fake.installed.ports.get_mut(&port("db")).expect("a port");
    db.security_groups.insert(other.clone());
    let report = verified(&fake);
    assert!(report.stopped);
    assert_eq!(report.counterexamples[0].groups, [other].into());
}
