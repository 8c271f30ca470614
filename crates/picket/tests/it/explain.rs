use serde_json::json;

use crate::{Ran, shop};

fn explain(from: &str, to: &str, port: &str, more: &[&str]) -> Ran {
    let arguments = [&["--from", from, "--to", to, "--port", port], more].concat();
    shop().picket("explain", &arguments)
}

#[test]
fn the_exit_status_is_the_verdict() {
    for (from, to, port, status) in [
        ("shop/web", "shop/db", "sql", 0),
        ("shop/web", "shop/db", "80", 1),
        ("shop/web", "shop/db", "none", 1),
        ("192.0.2.1", "2001:db8::1", "80", 1),
        ("shop/wed", "shop/db", "80", 2),
        ("shop/web", "shop/db", "80/x", 2),
    ] {
        let ran = explain(from, to, port, &[]);
        assert_eq!(ran.status, status, "{from} → {to} {port}: {}", ran.stderr);
    }
}

#[test]
fn people_get_both_ends_the_nearest_rule_and_a_change() {
    let text = explain("shop/web", "shop/db", "80", &[]).stdout;
    for part in [
        "deny: shop/web → shop/db, TCP 80\n",
        "\negress of shop/web: allow, no policy isolates the pod for egress\n",
        "\ningress of shop/db: deny, the pod is isolated and no rule matches\n",
        "      ✗ rule 0 (./policies.yaml:7): does not match\n          ✓ from pods app=web in namespace shop\n          \
         ✗ on TCP sql  that is 5432 there, and the port is 80\n",
        "  nearest miss: rule 0 of NetworkPolicy shop/db (./policies.yaml:7): that is 5432 there, and the port is 80\n",
        "\nTo allow it:\n  - add the port TCP 80 to ingress rule 0 of NetworkPolicy shop/db (./policies.yaml:7)\n",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn programs_get_the_answer_of_eval_and_more() {
    let question = [
        "--from", "shop/web", "--to", "shop/db", "--port", "80", "-o", "json",
    ];
    let mut explained = shop().picket("explain", &question).json();
    let more = explained
        .as_object_mut()
        .and_then(|fields| fields.remove("explained"))
        .unwrap();
    assert_eq!(explained, shop().picket("eval", &question).json());
    let change = &more["ipv6"]["flip"]["changes"][0];
    assert_eq!(
        (&change["change"], &change["rule"], &change["line"]),
        (&json!("add-port"), &json!(0), &json!(7))
    );
}

#[test]
fn colour_is_for_those_who_ask() {
    for (colour, expected) in [("always", true), ("never", false), ("auto", false)] {
        let text = explain("shop/web", "shop/db", "80", &["--color", colour]).stdout;
        assert_eq!(text.contains('\u{1b}'), expected, "{colour}");
    }
}

#[test]
fn a_pod_is_explained_with_its_policies_and_connections() {
    let ran = shop().picket("explain", &["--pod", "shop/db"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    for part in [
        "shop/db: 10.0.0.2, fd00::2; labels app=db\n",
        "\ningress: isolated: only what a rule accepts\n  NetworkPolicy shop/db (./policies.yaml:1)\n",
        "    rule 0 (./policies.yaml:7): accept from pods app=web in namespace shop on TCP sql\n",
        "    TCP 5432                shop/web\n",
        "    everything              n2\n",
        "\negress: not isolated\n  what it can reach:\n    everything  every other pod (3), n1, n2, every IPv4 address \
         outside the cluster, every IPv6 address outside the cluster\n",
    ] {
        assert!(ran.stdout.contains(part), "{part}\n{}", ran.stdout);
    }
}

#[test]
fn a_pod_has_the_connections_of_the_matrix() {
    let map = shop().picket("matrix", &["-o", "json"]).json();
    let all = map["connections"].as_array().unwrap();
    for pod in ["shop/db", "shop/web", "shop/agent", "shop/Deployment/api"] {
        let explained = shop().picket("explain", &["--pod", pod, "-o", "json"]).json();
        for (direction, own, other) in [("egress", "from", "to"), ("ingress", "to", "from")] {
            let expected: Vec<_> = all
                .iter()
                .filter(|connection| connection[own] == pod)
                .map(|connection| (&connection[other], &connection["family"], &connection["allow"]))
                .collect();
            let found = explained[direction]["connections"].as_array().unwrap();
            let found: Vec<_> = found
                .iter()
                .map(|connection| (&connection["id"], &connection["family"], &connection["allow"]))
                .collect();
            assert_eq!(found, expected, "{direction} of {pod}");
        }
    }
}

#[test]
fn only_pods_can_be_asked_about_alone() {
    for (arguments, part) in [
        (vec!["--pod", "n1"], "`n1` is no pod"),
        (vec!["--pod", "shop/dc"], "did you mean `shop/db`?"),
        (vec!["--pod", "shop/db", "--port", "80"], "cannot be used with"),
        (vec!["--from", "shop/db", "--to", "shop/web"], "--port <PORT>"),
    ] {
        let ran = shop().picket("explain", &arguments);
        assert_eq!(ran.status, 2, "{arguments:?}");
        assert!(ran.stderr.contains(part), "{arguments:?}: {}", ran.stderr);
    }
}
