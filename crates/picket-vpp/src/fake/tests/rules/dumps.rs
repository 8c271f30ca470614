//! Dumps of session rules, of both generations.

use picket_net::Family;

use super::super::super::Transport;
use super::super::{ANY4, ANY6, Wire, hex, prefix, text};
use super::{DROP, GLOBAL, RULE, Rule, change, enabled, namespace};

/// What a rule is, without its scope, its namespaces and its tag.
fn details(transport: u8, local: &str, remote: &str, ports: &str, action: u32) -> String {
    format!(
        "{transport:02x} {} {} {ports} {action:08x}",
        prefix(local),
        prefix(remote)
    )
}

#[test]
fn both_generations_of_dumps_say_every_rule_and_those_for_everything() {
    let (_fake, mut wire) = enabled();
    let (_, web) = namespace(&mut wire, 1, u32::MAX, 0, "web");
    let rule = Rule {
        remote: "10.0.0.0/8",
        ports: (0, 80),
        tag: "tag",
        namespace: web,
        ..RULE
    };
    assert_eq!(change(&mut wire, &rule), 0);
    let global = Rule {
        local: "10.0.0.1/32",
        ports: (80, 0),
        tag: "all",
        scope: GLOBAL,
        ..RULE
    };
    assert_eq!(change(&mut wire, &global), 0);
    let first = wire.dump(
        "session_rules_dump_51077d14",
        "",
        "session_rules_details_4ef746e7",
    );
    let second = wire.dump(
        "session_rules_v2_dump_51077d14",
        "",
        "session_rules_v2_details_f91993dc",
    );
    // Two global tables of one family and two local ones of both, each with three transports, and two rules.
    assert_eq!((first.len(), second.len()), (2 * 3 + 2 * 2 * 3 + 2, 20));
    let local = details(0, ANY4, "10.0.0.0/8", "0000 0050", DROP);
    let outside = details(0, "10.0.0.1/32", ANY4, "0050 0000", DROP);
    let (tag, all) = (text("tag"), text("all"));
    assert!(first.contains(&hex(&format!("{local} 00000001 01000000 {tag}"))));
    assert!(second.contains(&hex(&format!("{local} 01000000 {tag} 00000001 00000001"))));
    // The first generation says the last of the namespaces that share the global table.
    assert!(first.contains(&hex(&format!("{outside} 00000001 00000000 {all}"))));
    assert!(second.contains(&hex(&format!(
        "{outside} 00000000 {all} 00000002 00000000 00000001"
    ))));
    let root = details(2, ANY6, ANY6, "0000 0000", u32::MAX);
    assert!(second.contains(&hex(&format!("{root} 01000000 {} 00000001 00000000", text("")))));
}

#[test]
fn dumps_look_the_tags_of_ipv6_up_among_those_of_ipv4() {
    let (fake, mut wire) = enabled();
    let six = Rule {
        local: ANY6,
        remote: "fd00::/8",
        tag: "six",
        ..RULE
    };
    assert_eq!(change(&mut wire, &six), 0);
    let tags = |wire: &mut Wire| -> Vec<String> {
        let name = "session_rules_details_4ef746e7";
        let details = wire.dump("session_rules_dump_51077d14", "", name);
        let of_rule = details
            .iter()
            .filter(|details| details[1] == 1 && details[36] == 8);
        let tag = |details: &Vec<u8>| details[53..].split(|byte| *byte == 0).next().unwrap().to_vec();
        of_rule
            .map(|details| String::from_utf8(tag(details)).unwrap())
            .collect()
    };
    assert_eq!(tags(&mut wire), [""]);
    // A rule of IPv4 with the same index in the same table: its tag is said for both.
    assert_eq!(
        change(
            &mut wire,
            &Rule {
                remote: "10.0.0.0/8",
                tag: "four",
                ..RULE
            }
        ),
        0
    );
    assert_eq!(tags(&mut wire), ["four"]);
    let kept = fake.state().session_rules(Some(0), Transport::Tcp, Family::Ipv6);
    assert_eq!(kept[1].tag.as_deref(), Some("six"));
}
