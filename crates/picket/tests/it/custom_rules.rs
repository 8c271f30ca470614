//! Files of custom rules.

use crate::{Ran, run, shop};

/// Renders the table of `shop/db` with a file of rules for what it receives over IPv4.
fn render(rules: &str) -> Ran {
    let manifests = shop();
    let rules_folder = tempfile::tempdir().unwrap();
    let file = rules_folder.path().join("rules.txt");
    std::fs::write(&file, rules).unwrap();
    manifests.picket(
        "render",
        &[
            "--target",
            "nftables",
            "--layout",
            "documented",
            "--pod",
            "shop/db",
            "--custom-v4-ingress-rule-file",
            file.to_str().unwrap(),
        ],
    )
}

#[test]
fn custom_rules_stand_in_the_common_chain_of_their_direction() {
    let ran = render("# for the monitoring\ntcp dport 9999 accept\nip saddr 10.0.0.0/8 drop\n");
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
    let chain = "
    chain common-ingress {
        comment \"Common Policies\"
        meta nfproto ipv4 tcp dport 9999 accept comment \"Custom Rule\"
        ip saddr 10.0.0.0/8 drop comment \"Custom Rule\"
    }

    chain common-egress {
        comment \"Common Policies\"
    }
";
    assert!(ran.stdout.contains(chain), "{}", ran.stdout);
}

#[test]
fn a_line_that_is_no_rule_is_shown_and_nothing_is_rendered() {
    let ran = render("tcp dport 9999 accept\ntcp sport 80 accept; add table inet x\n");
    assert_eq!((ran.status, ran.stdout.as_str()), (2, ""));
    for part in [
        "error[T002]",
        "rules.txt:2:5",
        "no verdict depends on the port of the sender",
    ] {
        assert!(ran.stderr.contains(part), "{part}\n{}", ran.stderr);
    }
}

#[test]
fn the_indexed_layout_has_no_place_for_them() {
    let arguments = [
        "render",
        "-f",
        ".",
        "--target",
        "nftables",
        "--custom-v6-egress-rule-file",
        "x",
    ];
    let ran = run(shop().path(), &arguments, "");
    assert_eq!(ran.status, 2);
    assert!(
        ran.stderr
            .contains("custom rules belong to `--layout documented`"),
        "{}",
        ran.stderr
    );
}
