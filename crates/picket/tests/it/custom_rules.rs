//! Files of custom rules.

use std::path::Path;

use crate::{Manifests, Ran, run, shop};

/// Files of custom rules, each with the option that names it.
struct Rules {
    folder: tempfile::TempDir,
    options: Vec<String>,
}

impl Rules {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let option = |(file, text): &(&str, &str)| {
            let path = folder.path().join(file);
            std::fs::write(&path, text).unwrap();
            [
                format!("--custom-{file}-rule-file"),
                path.to_str().unwrap().to_owned(),
            ]
        };
        let options = files.iter().flat_map(option).collect();
        Self { folder, options }
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// A question about the table of a pod.
fn ask(manifests: &Manifests, command: &str, pod: &str, rules: &Rules, more: &[&str]) -> Ran {
    let place = ["--target", "nftables", "--layout", "documented", "--pod", pod];
    let options: Vec<_> = rules.options.iter().map(String::as_str).collect();
    manifests.picket(command, &[&place[..], &options, more].concat())
}

/// Renders the table of `shop/db` with a file of rules for what it receives over IPv4.
fn render(rules: &str) -> Ran {
    ask(
        &shop(),
        "render",
        "shop/db",
        &Rules::new(&[("v4-ingress", rules)]),
        &[],
    )
}

#[test]
fn custom_rules_stand_in_the_common_chain_of_their_direction() {
    let ran = render("# for the monitoring\ntcp dport 9999 counter accept\nip saddr 10.0.0.0/8 reject\n");
    assert_eq!((ran.status, ran.stderr.as_str()), (0, ""));
    for part in [
        "
    chain common-ingress {
        comment \"Common Policies\"
        meta nfproto ipv4 tcp dport 9999 counter name \"custom-v4-ingress-2\" accept comment \"Custom Rule\"
        ip saddr 10.0.0.0/8 reject with icmpx port-unreachable comment \"Custom Rule\"
    }

    chain common-egress {
        comment \"Common Policies\"
    }
",
        "counter custom-v4-ingress-2 {",
    ] {
        assert!(ran.stdout.contains(part), "{part}\n{}", ran.stdout);
    }
}

#[test]
fn a_line_that_is_no_rule_is_shown_and_nothing_is_rendered() {
    let ran = render("tcp dport 9999 accept\ntcp sport 80 accept; add table inet x\n");
    assert_eq!((ran.status, ran.stdout.as_str()), (2, ""));
    for part in [
        "error[T002]",
        "v4-ingress:2:5",
        "no verdict depends on the port of the sender",
    ] {
        assert!(ran.stderr.contains(part), "{part}\n{}", ran.stderr);
    }
}

#[test]
fn the_indexed_layout_has_no_place_for_them() {
    for command in [
        &["render", "--target", "nftables"][..],
        &["verify", "--target", "nftables"],
        &["lab", "run"],
        &["lab", "up"],
    ] {
        let arguments = [command, &["-f", ".", "--custom-v6-egress-rule-file", "x"]].concat();
        let ran = run(shop().path(), &arguments, "");
        assert_eq!(ran.status, 2, "{command:?}");
        let message = "custom rules belong to `--layout documented`";
        assert!(ran.stderr.contains(message), "{command:?}\n{}", ran.stderr);
    }
}

/// Every kind of rule in every file.
fn every_file() -> Rules {
    let text = |peer: &str, own: &str, keyword: &str, some: &str, interface: &str| {
        format!(
            "tcp dport 9999 accept\nmeta l4proto icmp drop\n{keyword} {peer} {some} udp dport {{ 53, 80-90 }} reject\n\
             ct state invalid drop\nct state new meta l4proto {{ tcp, sctp }} th dport 81 counter accept\n\
             {keyword} {own} {some} tcp dport 22 accept\n{interface} eth0 tcp dport 23 accept\n\
             {interface} net1 tcp dport 24 accept\n"
        )
    };
    Rules::new(&[
        (
            "v4-ingress",
            &text("saddr", "daddr", "ip", "10.0.0.0/8", "iifname"),
        ),
        (
            "v4-egress",
            &text("daddr", "saddr", "ip", "10.0.0.0/8", "oifname"),
        ),
        (
            "v6-ingress",
            &text("saddr", "daddr", "ip6", "2001:db8::/32", "iifname"),
        ),
        (
            "v6-egress",
            &text("daddr", "saddr", "ip6", "2001:db8::/32", "oifname"),
        ),
    ])
}

/// What `render` says, changed, in a file.
fn rendered(manifests: &Manifests, pod: &str, rules: &Rules, change: impl Fn(String) -> String) -> String {
    let ran = ask(manifests, "render", pod, rules, &[]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let path = rules.path().join("rules.nft");
    std::fs::write(&path, change(ran.stdout)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_ruleset_is_proved_with_the_custom_rules_that_it_was_rendered_with() {
    let manifests = shop();
    let none = Rules::new(&[]);
    let rules = every_file();
    for flags in [&[][..], &["--accept-icmp", "--accept-icmpv6"]] {
        let ran = ask(&manifests, "verify", "shop/db", &rules, flags);
        assert!(
            ran.status == 0 && ran.stdout.starts_with("proved: "),
            "{}{}",
            ran.stdout,
            ran.stderr
        );
    }
    let text = rendered(&manifests, "shop/db", &rules, |text| text);
    let ran = ask(&manifests, "verify", "shop/db", &rules, &["--rules", &text]);
    assert_eq!(ran.status, 0, "{}{}", ran.stdout, ran.stderr);
    for (options, more) in [(&none, &[][..]), (&rules, &["--accept-icmp"])] {
        let ran = ask(
            &manifests,
            "verify",
            "shop/db",
            options,
            &[&["--rules", &text], more].concat(),
        );
        // The flag is of no consequence here: the custom rules deny what it accepts.
        assert_eq!(
            ran.status,
            i32::from(more.is_empty()),
            "{}{}",
            ran.stdout,
            ran.stderr
        );
    }
}

#[test]
fn a_ruleset_with_another_custom_rule_is_refuted_with_the_line_that_says_otherwise() {
    let manifests = shop();
    let rules = every_file();
    for (rule, other) in [
        ("tcp dport 9999 accept", "tcp dport 9998 accept"),
        ("meta l4proto icmp drop", "meta l4proto icmp accept"),
        (
            "iifname \"eth0\" tcp dport 23 accept",
            "iifname \"eth0\" tcp dport 23 drop",
        ),
        ("ct state new,untracked", "ct state established"),
    ] {
        let text = rendered(&manifests, "shop/db", &rules, |text| {
            assert!(text.contains(rule), "{text}");
            text.replace(rule, other)
        });
        let ran = ask(&manifests, "verify", "shop/db", &rules, &["--rules", &text]);
        assert_eq!(ran.status, 1, "{rule}\n{}{}", ran.stdout, ran.stderr);
        assert!(ran.stdout.contains("CustomRules "), "{rule}\n{}", ran.stdout);
    }
    let same = rendered(&manifests, "shop/db", &rules, |text| {
        text.replace("reject with icmpx port-unreachable", "drop")
    });
    let ran = ask(&manifests, "verify", "shop/db", &rules, &["--rules", &same]);
    assert_eq!(ran.status, 0, "{}{}", ran.stdout, ran.stderr);
}

#[test]
fn they_hold_over_the_interfaces_of_secondary_networks() {
    let manifests = Manifests::new(&[("storage.yaml", STORAGE)]);
    let rules = every_file();
    let ran = ask(&manifests, "verify", "shop/db", &rules, &[]);
    assert_eq!(ran.status, 0, "{}{}", ran.stdout, ran.stderr);
    // net1 is isolated, and of eth0 no policy says anything.
    let text = rendered(&manifests, "shop/db", &rules, |text| {
        text.replace(
            "iifname \"net1\" tcp dport 24 accept",
            "iifname \"eth0\" tcp dport 24 accept",
        )
    });
    let ran = ask(&manifests, "verify", "shop/db", &rules, &["--rules", &text]);
    assert_eq!(ran.status, 1, "{}{}", ran.stdout, ran.stderr);
    assert!(ran.stdout.contains("received on net1"), "{}", ran.stdout);
}

#[test]
fn what_policies_cannot_say_of_an_address_is_not_judged() {
    let manifests = Manifests::new(&[("storage.yaml", STORAGE)]);
    let rules = Rules::new(&[("v4-ingress", "tcp dport 1 accept\nip saddr 128.0.0.0/1 accept\n")]);
    let ran = ask(
        &manifests,
        "verify",
        "shop/db",
        &rules,
        &["--ipblock-matches-pods=false"],
    );
    let message = "custom rules match pods by their addresses";
    assert!(ran.status == 2 && ran.stderr.contains(message), "{}", ran.stderr);
    let ran = ask(&manifests, "verify", "shop/db", &rules, &[]);
    assert_eq!(ran.status, 0, "{}{}", ran.stdout, ran.stderr);
    let manifests = Manifests::new(&[(
        "storage.yaml",
        &STORAGE.replace("status: {podIP: 10.0.0.2}\n", ""),
    )]);
    let ran = ask(&manifests, "verify", "shop/db", &rules, &[]);
    let message = "v4-ingress:2: a custom rule names 198.1";
    assert!(ran.status == 2 && ran.stderr.contains(message), "{}", ran.stderr);
}

const STORAGE: &str = r#"
apiVersion: v1
kind: Pod
metadata:
  name: db
  namespace: shop
  annotations:
    k8s.v1.cni.cncf.io/network-status: '[{"name": "infra/storage", "interface": "net1", "ips": ["10.7.0.2"]}]'
status: {podIP: 10.0.0.2}
---
apiVersion: k8s.cni.cncf.io/v1beta1
kind: MultiNetworkPolicy
metadata:
  name: db
  namespace: shop
  annotations: {k8s.v1.cni.cncf.io/policy-for: infra/storage}
spec:
  podSelector: {}
  ingress: [{from: [{ipBlock: {cidr: 10.7.0.0/24}}], ports: [{port: 5432}]}]
"#;
