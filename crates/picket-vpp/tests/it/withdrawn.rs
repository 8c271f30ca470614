//! What a change takes away beside lists of others, and where VPP refuses what is to remember it.

use picket_cluster::Snapshot;
use picket_net::{Family, Prefix, Protocol};
use picket_policy::Direction;
use picket_testing::build::{accept, block, policy};
use picket_vpp::acl::{ACK, SYN};
use picket_vpp::fake;

use crate::cut::{End, SERVER, Scene, UPLINK, at, with};

/// The server may send to these blocks only, each at its ports.
fn server_sends(to: &[(&str, &[u16])]) -> Snapshot {
    let mut policy = policy("x/server")
        .selects("name=server")
        .isolates(Direction::Egress);
    for (peer, ports) in to {
        let mut rule = accept().peer(block(peer, &[]));
        for &port in *ports {
            rule = rule.port(Protocol::TCP, port);
        }
        policy = policy.egress(rule);
    }
    with(policy.build())
}

/// What others deny behind picket's lists is not let pass so that an answer may be.
#[test]
fn what_lists_of_others_deny_is_denied_after_something_was_cut() {
    let mut scene = Scene::start(&server_sends(&[("0.0.0.0/0", &[80, 443])]));
    let all = |action| fake::AclRule::all(action, Family::Ipv4);
    let denied = fake::AclRule {
        source: "203.0.113.0/24".parse::<Prefix>().expect("a prefix"),
        ..all(fake::AclAction::Deny)
    };
    scene.put_behind(SERVER.0, vec![denied, all(fake::AclAction::Reflect)]);
    let stranger: End = (UPLINK, "203.0.113.7", 9999);
    let own = at(SERVER, 5000);
    scene.change(&server_sends(&[("0.0.0.0/0", &[443]), ("203.0.113.0/24", &[80])]));
    assert!(scene.cuts() > 0);
    for flags in [ACK, SYN] {
        assert!(!scene.sends(stranger, own, flags), "{flags}");
    }
    assert!(!scene.is_taken_up((UPLINK, "192.0.2.1", 80), own));
    assert!(scene.opens((UPLINK, "192.0.2.1", 9999), own));
}
