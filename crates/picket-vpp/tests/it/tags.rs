//! What is put into VPP has the same name where it says the same, and another one where it says something else.

use picket_net::Prefix;
use picket_vpp::acl::{ACK, Acl, AclAction, AclRule, Role};
use picket_vpp::session::{self, SessionRule, Transport};
use proptest::prelude::*;

/// Networks of one family that differ in little: in an address or a length alone.
fn networks() -> impl Strategy<Value = [Prefix; 2]> {
    let prefix = |text: &str| text.parse::<Prefix>().expect("a prefix");
    let of = |texts: [&str; 5]| {
        let networks = texts.map(prefix).to_vec();
        [(); 2].map(|()| prop::sample::select(networks.clone()))
    };
    prop_oneof![
        of([
            "0.0.0.0/0",
            "0.0.0.0/32",
            "10.0.0.0/8",
            "10.0.0.0/16",
            "10.0.0.1/32"
        ]),
        of(["::/0", "::/32", "2001:db8::/32", "2001:db8::/64", "::1/128"]),
    ]
}

/// Two ports, of which one may be the first and one the last.
fn ports() -> impl Strategy<Value = (u16, u16)> {
    prop::sample::select(vec![(0, 0), (0, u16::MAX), (0, 1), (1, 256), (256, 256), (1, 1)])
}

fn rule() -> impl Strategy<Value = AclRule> {
    let action = prop::sample::select(vec![AclAction::Deny, AclAction::Permit, AclAction::PermitReflect]);
    let protocol = prop::sample::select(vec![0, 1, 6]);
    let flags = prop::sample::select(vec![(0, 0), (ACK, ACK), (ACK, 0), (0, ACK)]);
    let parts = (action, networks(), protocol, ports(), ports(), flags);
    parts.prop_map(
        |(action, [source, destination], protocol, first, second, tcp_flags)| AclRule {
            action,
            source,
            destination,
            protocol,
            first,
            second,
            tcp_flags,
        },
    )
}

/// A list, and another one that differs in one rule, in one part of a rule, in the order of rules, in what it is for, or not at
/// all.
fn lists() -> impl Strategy<Value = [(Role, Vec<AclRule>); 2]> {
    let role = || prop::sample::select(Role::ALL.to_vec());
    let rules = prop::collection::vec(rule(), 0..200);
    (
        role(),
        role(),
        rules,
        any::<prop::sample::Index>(),
        rule(),
        0..10_u8,
    )
        .prop_map(|(role, other, rules, at, with, edit)| {
            let mut edited = rules.clone();
            let at = at.index(rules.len().max(1));
            let count = edited.len();
            match edited.get_mut(at) {
                Some(rule) => match edit {
                    0 => rule.action = with.action,
                    1 if with.family() == rule.family() => rule.source = with.source,
                    2 if with.family() == rule.family() => rule.destination = with.destination,
                    3 => rule.protocol = with.protocol,
                    4 => rule.first = with.first,
                    5 => rule.second = with.second,
                    6 => std::mem::swap(&mut rule.first, &mut rule.second),
                    7 => edited.swap(at, count - 1),
                    8 => drop(edited.remove(at)),
                    _ => {}
                },
                None => edited.push(with),
            }
            let other = if edit == 9 { other } else { role };
            [(role, rules), (other, edited)]
        })
}

fn session_rule() -> impl Strategy<Value = SessionRule> {
    let transport = prop::sample::select(Transport::BOTH.to_vec());
    let action = prop::sample::select(vec![session::Action::Drop, session::Action::Allow]);
    let port = || prop::sample::select(vec![0, 1, 256]);
    let parts = (transport, networks(), port(), port(), action);
    parts.prop_map(
        |(transport, [local, remote], local_port, remote_port, action)| SessionRule {
            transport,
            local,
            remote,
            local_port,
            remote_port,
            action,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn lists_have_one_name_where_they_are_the_same_and_nowhere_else(lists in lists()) {
        let tags = lists.clone().map(|(role, rules)| Acl::new(role, rules).tag);
        let [one, other] = &tags;
        prop_assert_eq!(lists[0] == lists[1], one == other, "{:?}", lists);
        for tag in &tags {
            // With the zero behind it, VPP has room for 64 bytes.
            prop_assert!(tag.as_str().len() <= 63 && tag.as_str().is_ascii());
        }
    }

    #[test]
    fn session_rules_have_one_name_where_they_are_the_same_and_nowhere_else(
        one in session_rule(),
        other in session_rule(),
        of_other in prop::sample::subsequence(vec![0, 1, 2, 3, 4], 0..3),
    ) {
        let mut edited = one;
        for part in of_other {
            match part {
                0 => edited.transport = other.transport,
                1 if one.family() == other.family() => (edited.local, edited.remote) = (other.local, other.remote),
                2 => edited.local_port = other.local_port,
                3 => edited.remote_port = other.remote_port,
                4 => edited.action = other.action,
                _ => (edited.local_port, edited.remote_port) = (edited.remote_port, edited.local_port),
            }
        }
        prop_assert_eq!(one == edited, one.tag() == edited.tag(), "{:?} {:?}", one, edited);
        prop_assert!(one.tag().as_str().len() <= 63);
    }
}
