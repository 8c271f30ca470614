//! The picture of `docs/vpp.md` shows the lists that picket renders, and packets as they fare.

use std::collections::BTreeMap;
use std::path::Path;

use crate::run;

const PICTURE: &str = include_str!("../../../../docs/pictures/vpp.svg");

/// The pods, each with its address and where the picture has what its interface does: how far from the left.
const PODS: [(&str, &str, &str); 2] = [
    ("shop/web", "10.244.1.10", "214"),
    ("shop/db", "10.244.1.30", "522"),
];

/// A text of the picture, and how far from the left it is.
fn texts() -> Vec<(&'static str, &'static str)> {
    let lines = PICTURE.lines().filter_map(|line| line.strip_prefix("<text x=\""));
    let texts = lines.map(|line| {
        let (left, rest) = line.split_once('"').unwrap();
        let text = rest.split_once('>').unwrap().1.strip_suffix("</text>").unwrap();
        (left, text)
    });
    texts.collect()
}

/// The rules of each interface's lists, by the interface and `input` or `output`.
fn lists(printed: &str) -> BTreeMap<(String, String), Vec<String>> {
    let mut rules: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut of_interfaces = BTreeMap::new();
    let (mut index, mut interface) = (String::new(), String::new());
    for line in printed.lines() {
        let words: Vec<_> = line.split_whitespace().collect();
        match words.as_slice() {
            ["acl-index", number, ..] => index = (*number).to_owned(),
            ["interface", name] => interface = name.trim_end_matches(':').to_owned(),
            [way @ ("input" | "output"), "acl(s):", list] => {
                let own = rules.get(*list).unwrap().clone();
                of_interfaces.insert((interface.clone(), (*way).to_owned()), own);
            }
            [_, "acl(s):", ..] => {}
            _ => rules
                .entry(index.clone())
                .or_default()
                .push(line.trim().to_owned()),
        }
    }
    of_interfaces
}

#[test]
fn the_picture_quotes_rules_that_are_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let asked = [
        "render",
        "-f",
        "examples/vpp",
        "--target",
        "vpp-acl",
        "--node",
        "worker-1",
    ];
    let ran = run(&root, &asked, "");
    let lists = lists(&ran.stdout);
    let texts = texts();
    let mut quoted = 0;
    for (at, (left, text)) in texts.iter().enumerate() {
        let Some((way, rest)) = text.split_once(", ").filter(|(_, rest)| rest.contains(", rule ")) else {
            continue;
        };
        let (pod, ..) = PODS.iter().find(|(.., of_pod)| of_pod == left).unwrap();
        let number = rest.split_once(", rule ").unwrap().1;
        let number = number.split(':').next().unwrap();
        let rules = &lists[&((*pod).to_owned(), way.to_owned())];
        let start = format!("{number}: ipv4 ");
        let rule = rules.iter().find(|rule| rule.starts_with(&start)).unwrap();
        let words = texts[at + 1..].iter().take_while(|(other, words)| {
            other == left
                && ["permit", "deny", "dst", "proto"]
                    .iter()
                    .any(|word| words.starts_with(word))
        });
        for (_, words) in words {
            // `proto 6 dport 5432` leaves out what is between them.
            for part in words.split(" dport ") {
                assert!(rule.contains(part), "{pod} {way} {number}: {part}: {rule}");
            }
            quoted += 1;
        }
    }
    assert_eq!(quoted, 6, "{texts:?}");
}

#[test]
fn the_packets_of_the_picture_fare_as_policies_say() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let name = |end: &str| {
        let address = end.split(':').next().unwrap();
        PODS.iter().find(|(_, own, _)| *own == address).unwrap().0
    };
    // Each packet, and whether it comes to an end on its way.
    let mut packets = Vec::new();
    for (_, text) in texts() {
        if let Some((_, ends)) = text.split_once(": tcp ") {
            packets.push((ends, false));
        } else if let Some((_, is_denied)) = packets.last_mut() {
            *is_denied |= text == "✗";
        }
    }
    let fates: Vec<_> = packets.iter().map(|(_, is_denied)| *is_denied).collect();
    assert_eq!(fates, [false, false, true, true]);
    for (at, (ends, is_denied)) in packets.iter().enumerate() {
        let (from, to) = ends.split_once(" → ").unwrap();
        // The second is the answer to the first.
        if at == 1 {
            let (asked_from, asked_to) = packets[0].0.split_once(" → ").unwrap();
            assert_eq!((from, to), (asked_to, asked_from));
            continue;
        }
        let port = to.rsplit(':').next().unwrap();
        let question = ["--from", name(from), "--to", name(to), "--port", port];
        let ran = run(
            &root,
            &[&["eval", "-f", "examples/vpp"], &question[..]].concat(),
            "",
        );
        assert_eq!(ran.status, i32::from(*is_denied), "{ends}: {}", ran.stdout);
    }
}
