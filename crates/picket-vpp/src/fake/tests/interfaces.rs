//! Interfaces: dumps, tags and events.

use picket_net::Protocol;

use super::super::{Direction, Fake, Lists, Options, Packet, Verdict};
use super::{ANY4, Wire, fake, hex, text, wide};

const DETAILS: &str = "sw_interface_details_6c221fc7";

/// Index, flags, name and tag at their offsets in the whole message, which count the number and the context.
fn read(details: &[u8]) -> (u32, u32, String, String) {
    let number = |at: usize| u32::from_be_bytes(details[at - 6..at - 2].try_into().unwrap());
    let field = |at: usize| {
        let bytes = &details[at - 6..at + 58];
        String::from_utf8(bytes.split(|byte| *byte == 0).next().unwrap().to_vec()).unwrap()
    };
    assert_eq!(details.len(), 295 - 6);
    assert_eq!(number(10), number(6), "its own `sup_sw_if_index`");
    (number(6), number(20), field(103), field(231))
}

fn dump(wire: &mut Wire, fields: &str) -> Vec<(u32, u32, String, String)> {
    let all = wire.dump("sw_interface_dump_aa610c27", fields, DETAILS);
    all.iter().map(|details| read(details)).collect()
}

#[test]
fn interfaces_are_dumped_with_names_and_tags() {
    let options = Options::new(3).interface("tap1", "default/web");
    let fake = Fake::start(options).unwrap();
    let mut wire = Wire::connect(&fake);
    fake.add_interface("Tap22", "");
    let row = |index, flags, name: &str, tag: &str| (index, flags, name.to_owned(), tag.to_owned());
    let local0 = row(0, 0, "local0", "");
    let (tap1, tap22) = (row(1, 3, "tap1", "default/web"), row(2, 0, "Tap22", ""));
    for (fields, expected) in [
        ("ffffffff 00 00000000", vec![&local0, &tap1, &tap22]),
        ("00000002 00 00000000", vec![&tap22]),
        ("00000009 00 00000000", vec![]),
        // The filter `tap`, which is part of a name in whatever case.
        ("ffffffff 01 00000003 746170", vec![&tap1, &tap22]),
        ("ffffffff 00 00000003 746170", vec![&local0, &tap1, &tap22]),
    ] {
        assert_eq!(
            dump(&mut wire, fields).iter().collect::<Vec<_>>(),
            expected,
            "{fields}"
        );
    }
}

#[test]
fn tags_of_interfaces_are_set_and_taken() {
    let fake = fake();
    let mut wire = Wire::connect(&fake);
    let index = fake.add_interface("tap1", "");
    let tagged = |wire: &mut Wire, add: u8, index: u32, tag: &str| {
        wire.ask(
            "sw_interface_tag_add_del_426f8bc1",
            &format!("{add:02x} {index:08x} {}", text(tag)),
        )
    };
    assert_eq!(tagged(&mut wire, 1, index, "web"), 0);
    assert_eq!(dump(&mut wire, "00000001 00 00000000")[0].3, "web");
    assert_eq!(tagged(&mut wire, 1, 99, "web"), -2);
    assert_eq!(tagged(&mut wire, 1, index, ""), -7);
    assert_eq!(tagged(&mut wire, 0, index, ""), 0);
    assert_eq!(dump(&mut wire, "00000001 00 00000000")[0].3, "");
}

/// Turns events on or off for pid 0x4d2.
fn want(wire: &mut Wire, on: u32) {
    let fields = format!("{on:08x} 000004d2");
    assert_eq!(wire.ask("want_interface_events_476f5a08", &fields), 0);
}

#[test]
fn events_come_to_those_who_asked() {
    let fake = fake();
    let (mut wire, mut other) = (Wire::connect(&fake), Wire::connect(&fake));
    want(&mut wire, 1);
    let index = fake.add_interface("tap1", "");
    fake.set_up(index, true);
    fake.set_up(index, false);
    assert!(fake.remove_interface(index));
    assert!(!fake.remove_interface(index));
    let events = wire.until_ping();
    let id = wire.ids["sw_interface_event_2d3d95a7"];
    let expected = ["00000003 00", "00000000 00", "00000000 01"].map(|rest| {
        let mut event = id.to_be_bytes().to_vec();
        event.extend(&wire.client);
        event.extend(hex(&format!("000004d2 {index:08x} {rest}")));
        event
    });
    assert_eq!(events, expected, "no event of an interface that is added");
    assert!(other.until_ping().is_empty());
    want(&mut wire, 0);
    let index = fake.add_interface("tap2", "");
    fake.set_up(index, true);
    assert!(wire.until_ping().is_empty());
}

#[test]
fn an_interface_that_is_removed_takes_its_lists_with_it() {
    let fake = fake();
    let mut wire = Wire::connect(&fake);
    let index = fake.add_interface("tap1", "");
    let acl = wire.new_acl(&[wide(2, ANY4, ANY4, 0)]);
    wire.set_list(index, &[acl], &[]);
    fake.set_up(index, true);
    let nowhere = "0.0.0.0".parse().unwrap();
    let packet = Packet::new(Protocol::UDP, (nowhere, 1), (nowhere, 2));
    assert_eq!(fake.packet(index, Direction::In, &packet), Verdict::Passed);
    assert_eq!(fake.state().sessions(), 1);
    fake.remove_interface(index);
    assert_eq!(fake.state().sessions(), 0);
    assert_eq!(fake.add_interface("tap2", ""), index, "the index is reused");
    assert_eq!(fake.state().lists(index), Lists::default());
    assert_eq!(
        wire.ask("acl_del_ef34fea4", &format!("{acl:08x}")),
        0,
        "in no list any more"
    );
    assert_eq!(fake.state().interface("tap2"), Some(index));
}
