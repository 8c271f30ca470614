//! Tags of session rules, and what VPP does with those that it loses.

use picket_net::Family;

use super::super::super::Transport;
use super::super::{ANY4, ANY6, prefix, text};
use super::{ALLOW, GLOBAL, LOCAL, RULE, Rule, change, enabled};

#[test]
fn a_tag_is_of_one_rule_of_a_table_and_transport() {
    let (fake, mut wire) = enabled();
    let tagged = |remote, tag| Rule { remote, tag, ..RULE };
    assert_eq!(change(&mut wire, &tagged("10.0.0.0/8", "a")), 0);
    assert_eq!(change(&mut wire, &tagged("11.0.0.0/8", "a")), -1);
    assert_eq!(
        change(&mut wire, &tagged("10.0.0.0/8", "a")),
        -1,
        "not even for the same rule"
    );
    assert_eq!(change(&mut wire, &tagged("11.0.0.0/8", "")), 0);
    assert_eq!(change(&mut wire, &tagged("12.0.0.0/8", "")), 0, "no tag is none");
    let other = [
        Rule {
            transport: 1,
            ..tagged("10.0.0.0/8", "a")
        },
        Rule {
            scope: GLOBAL,
            ..tagged("10.0.0.0/8", "a")
        },
        Rule {
            scope: GLOBAL,
            local: ANY6,
            ..tagged("fd00::/8", "a")
        },
    ];
    for rule in &other {
        assert_eq!(
            change(&mut wire, rule),
            0,
            "another table, transport or global family"
        );
    }
    let six = Rule {
        local: ANY6,
        ..tagged("fd00::/8", "a")
    };
    assert_eq!(change(&mut wire, &six), -1, "a local table has both families");
    // A tag that is known decides what is removed, whatever the tuple.
    assert_eq!(
        change(
            &mut wire,
            &Rule {
                add: false,
                ..tagged("99.0.0.0/8", "a")
            }
        ),
        0
    );
    let left = fake.state().session_rules(Some(0), Transport::Tcp, Family::Ipv4);
    let left: Vec<_> = left.iter().map(|rule| rule.remote.to_string()).collect();
    assert_eq!(left, [ANY4, "11.0.0.0/8", "12.0.0.0/8"]);
    assert_eq!(
        change(&mut wire, &tagged("13.0.0.0/8", "a")),
        0,
        "the tag is free again"
    );
}

#[test]
fn a_rule_is_removed_by_its_tuple_where_the_tag_is_unknown() {
    let (fake, mut wire) = enabled();
    assert_eq!(
        change(
            &mut wire,
            &Rule {
                remote: "10.0.0.0/8",
                tag: "a",
                ..RULE
            }
        ),
        0
    );
    let gone = Rule {
        remote: "10.0.0.0/8",
        tag: "b",
        add: false,
        ..RULE
    };
    assert_eq!(change(&mut wire, &gone), 0);
    assert_eq!(
        change(&mut wire, &gone),
        0,
        "what is not there is removed without a word"
    );
    let rules = || fake.state().session_rules(Some(0), Transport::Tcp, Family::Ipv4);
    assert_eq!(rules().len(), 1);
    // The tag of the rule stays taken, and VPP dies of removing what it was for.
    assert_eq!(
        change(
            &mut wire,
            &Rule {
                remote: "11.0.0.0/8",
                tag: "a",
                ..RULE
            }
        ),
        -1
    );
    wire.send(
        "session_rule_add_del_82a90af5",
        &format!(
            "00 {} {} 0000 0000 00000000 00 00000000 {LOCAL} {}",
            prefix(ANY4),
            prefix(ANY4),
            text("a")
        ),
    );
    assert_eq!(wire.read(), None);
    assert_eq!(fake.crashes().len(), 1);
    assert!(!fake.state().session_layer());
}

#[test]
fn overwriting_gives_the_rule_the_new_tag_and_of_ipv6_keeps_the_old_one_taken() {
    let (fake, mut wire) = enabled();
    for (any, remote) in [(ANY4, "10.0.0.0/8"), (ANY6, "fd00::/8")] {
        let rule = Rule {
            local: any,
            remote,
            tag: "old",
            scope: GLOBAL,
            ..RULE
        };
        assert_eq!(change(&mut wire, &rule), 0);
        assert_eq!(
            change(
                &mut wire,
                &Rule {
                    tag: "new",
                    action: ALLOW,
                    ..rule
                }
            ),
            0
        );
        let family = if any == ANY4 { Family::Ipv4 } else { Family::Ipv6 };
        let rules = fake.state().session_rules(None, Transport::Tcp, family);
        assert_eq!(
            (rules.len(), rules[1].action, rules[1].tag.as_deref()),
            (2, ALLOW, Some("new"))
        );
        let elsewhere = if any == ANY4 { "11.0.0.0/8" } else { "fe00::/8" };
        let again = Rule {
            local: any,
            remote: elsewhere,
            tag: "old",
            scope: GLOBAL,
            ..RULE
        };
        assert_eq!(
            change(&mut wire, &again),
            if any == ANY4 { 0 } else { -1 },
            "{any}"
        );
    }
}
