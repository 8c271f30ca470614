//! ACLs over the wire: what is kept, and what is refused with which number.

use super::super::{AclAction, Lists};
use super::{ANY4, ANY6, NEW, Wire, fake, hex, prefix, rule, text, wide};

#[test]
fn rules_that_are_none_are_refused() {
    let fake = fake();
    let mut wire = Wire::connect(&fake);
    for (rule, expected) in [
        (wide(1, "10.0.0.1/8", ANY4, 0), -57),
        (wide(1, ANY4, "10.0.0.1/8", 0), -58),
        (wide(1, "10.0.0.1/32", ANY4, 0), 0),
        (wide(1, "10.0.0.0/33", ANY4, 0), -57),
        (wide(1, "fd00::1/64", ANY6, 0), -57),
        (wide(1, ANY6, "fd00::/129", 0), -58),
        (wide(1, ANY4, ANY6, 0), -58),
        (wide(1, ANY6, ANY4, 0), -58),
        (rule(1, ANY4, ANY4, 6, (2, 1), (0, 65535)), -8),
        (rule(1, ANY4, ANY4, 6, (0, 65535), (81, 80)), -8),
        (rule(1, ANY4, ANY4, 6, (1, 1), (80, 80)), 0),
    ] {
        let before = fake.state().acls().count();
        let (index, retval) = wire.acl(NEW, &text("a"), std::slice::from_ref(&rule));
        assert_eq!(retval, expected, "{rule}");
        assert_eq!(index == NEW, retval != 0, "{rule}");
        assert_eq!(fake.state().acls().count() > before, retval == 0, "{rule}");
    }
    let (_, retval) = wire.acl(
        NEW,
        &text("a"),
        &[format!("01 02{}", &wide(1, ANY4, ANY4, 0)[5..])],
    );
    assert_eq!(retval, -57, "a family that is none");
}

#[test]
fn tags_end_within_their_field() {
    let fake = fake();
    let mut wire = Wire::connect(&fake);
    for (length, expected) in [(0, 0), (63, 0), (64, -7)] {
        let tag = "a".repeat(length);
        let (index, retval) = wire.acl(NEW, &text(&tag), &[]);
        assert_eq!(retval, expected, "{length}");
        let kept = fake.state().acl(index).map(|acl| acl.tag.clone());
        assert_eq!(kept, (expected == 0).then_some(tag));
    }
}

#[test]
fn indices_are_reused_and_unknown_ones_refused() {
    let fake = fake();
    let mut wire = Wire::connect(&fake);
    let indices: Vec<u32> = (0..4).map(|_| wire.new_acl(&[])).collect();
    assert_eq!(indices, [0, 1, 2, 3]);
    for index in [1, 2] {
        assert_eq!(wire.ask("acl_del_ef34fea4", &format!("{index:08x}")), 0);
    }
    assert_eq!(wire.ask("acl_del_ef34fea4", "00000001"), -6);
    assert_eq!(wire.acl(2, &text("a"), &[]), (2, -6));
    assert_eq!(
        (wire.new_acl(&[]), wire.new_acl(&[]), wire.new_acl(&[])),
        (2, 1, 4)
    );
    assert_eq!(wire.acl(3, &text("other"), &[wide(0, ANY4, ANY4, 0)]), (3, 0));
    let state = fake.state();
    let acl = state.acl(3).unwrap();
    assert_eq!((acl.tag.as_str(), acl.rules.len()), ("other", 1));
    assert_eq!(acl.rules[0].action, AclAction::Deny);
}

#[test]
fn an_acl_in_a_list_stays() {
    let fake = fake();
    let mut wire = Wire::connect(&fake);
    let interface = fake.add_interface("tap1", "");
    let (input, output) = (wire.new_acl(&[]), wire.new_acl(&[]));
    assert_eq!(wire.set_list(interface, &[input], &[output]), 0);
    assert_eq!(wire.ask("acl_del_ef34fea4", &format!("{input:08x}")), -142);
    assert_eq!(wire.ask("acl_del_ef34fea4", &format!("{output:08x}")), -143);
    assert_eq!(wire.set_list(interface, &[], &[]), 0);
    assert_eq!(wire.ask("acl_del_ef34fea4", &format!("{input:08x}")), 0);
}

#[test]
fn lists_that_cannot_be_are_refused() {
    let fake = fake();
    let mut wire = Wire::connect(&fake);
    let interface = fake.add_interface("tap1", "");
    let (one, other) = (wire.new_acl(&[]), wire.new_acl(&[]));
    assert_eq!(wire.set_list(99, &[one], &[]), -2);
    assert_eq!(wire.set_list(interface, &[one, 99], &[]), -6);
    assert_eq!(wire.set_list(interface, &[one], &[99]), -6);
    assert_eq!(fake.state().lists(interface), Lists::default());
    assert_eq!(wire.set_list(interface, &[one], &[one]), 0, "in both lists");
    assert_eq!(
        wire.set_list(interface, &[other], &[one, one]),
        1,
        "twice in the output list"
    );
    assert_eq!(fake.state().lists(interface).output, [one]);
    assert_eq!(
        wire.set_list(interface, &[one, one], &[other]),
        1,
        "twice in the input list"
    );
    let half = Lists {
        input: vec![one],
        output: vec![other],
    };
    assert_eq!(fake.state().lists(interface), half, "the output list was first");
}

#[test]
fn a_list_has_at_most_255() {
    let fake = fake();
    let mut wire = Wire::connect(&fake);
    let interface = fake.add_interface("tap1", "");
    let acls: Vec<u32> = (0..256).map(|_| wire.new_acl(&[])).collect();
    assert_eq!(wire.set_list(interface, &acls[..200], &acls[200..255]), 0);
    let lists = fake.state().lists(interface);
    assert_eq!((lists.input.len(), lists.output.len()), (200, 55));
    // 256 is 0 in one byte, so that 256 indices are more bytes than there should be.
    let all: String = acls.iter().map(|index| format!("{index:08x}")).collect();
    wire.send(
        "acl_interface_set_acl_list_473982bd",
        &format!("{interface:08x} 00 00 {all}"),
    );
    assert_eq!(wire.read(), None);
    assert_eq!(fake.complaints().len(), 1);
}

#[test]
fn dumps_say_what_was_written() {
    let fake = fake();
    let mut wire = Wire::connect(&fake);
    let rules = [
        format!(
            "02 {} {} 06 0001 0002 0003 0004 12 02",
            prefix("10.1.0.0/16"),
            prefix("10.2.0.1/32")
        ),
        format!(
            "00 {} {} 3a 0080 0080 0000 00ff 00 00",
            prefix("fd00::/64"),
            prefix(ANY6)
        ),
    ];
    let (first, second) = (wire.new_acl(&rules), wire.new_acl(&[]));
    let details = |index: u32, rules: &[String]| {
        let count = rules.len();
        hex(&format!(
            "{index:08x} {} {count:08x} {}",
            text("test"),
            rules.concat()
        ))
    };
    let name = "acl_details_95babae0";
    let all = wire.dump("acl_dump_ef34fea4", "ffffffff", name);
    assert_eq!(all, [details(first, &rules), details(second, &[])]);
    let one = wire.dump("acl_dump_ef34fea4", &format!("{second:08x}"), name);
    assert_eq!(one, [details(second, &[])]);
    assert!(wire.dump("acl_dump_ef34fea4", "00000063", name).is_empty());
}

#[test]
fn dumps_of_lists_say_every_interface() {
    let fake = fake();
    let mut wire = Wire::connect(&fake);
    let interface = fake.add_interface("tap1", "");
    let (one, other) = (wire.new_acl(&[]), wire.new_acl(&[]));
    wire.set_list(interface, &[other], &[other, one]);
    let name = "acl_interface_list_details_e695d256";
    let all = wire.dump("acl_interface_list_dump_f9e6675e", "ffffffff", name);
    let bound = hex("00000001 03 01 00000001 00000001 00000000");
    assert_eq!(all, [hex("00000000 00 00"), bound.clone()]);
    let one = wire.dump("acl_interface_list_dump_f9e6675e", "00000001", name);
    assert_eq!(one, [bound]);
    assert!(
        wire.dump("acl_interface_list_dump_f9e6675e", "00000009", name)
            .is_empty()
    );
}

#[test]
fn settings_of_the_plugin_are_taken() {
    let fake = fake();
    let mut wire = Wire::connect(&fake);
    assert_eq!(wire.ask("acl_plugin_use_hash_lookup_set_b3e225d2", "01"), 0);
    assert_eq!(wire.ask("acl_stats_intf_counters_enable_b3e225d2", "01"), 0);
}
