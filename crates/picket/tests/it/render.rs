use crate::{CLUSTER, Manifests, shop};

#[test]
fn the_indexed_layout_needs_a_node_when_there_are_several() {
    let manifests = shop();
    let render = |more: &[&str]| manifests.picket("render", &[&["--target", "nftables"], more].concat());
    let ran = render(&[]);
    assert_eq!(ran.status, 2);
    assert!(
        ran.stderr
            .contains("the input has 2 nodes: name one with `--node`, such as `n1` or `n2`"),
        "{}",
        ran.stderr
    );
    let ran = render(&["--node", "n3"]);
    assert!(
        ran.status == 2 && ran.stderr.contains("no node is called `n3`; did you mean"),
        "{}",
        ran.stderr
    );
    let ran = render(&["--node", "n2", "--layout", "indexed", "-o", "nft"]);
    assert!(
        ran.status == 0 && ran.stdout.contains("table inet picket"),
        "{}",
        ran.stderr
    );
    let without_nodes = Manifests::new(&[("p.yaml", crate::POLICIES)]);
    assert_eq!(
        without_nodes.picket("render", &["--target", "nftables"]).status,
        0
    );
}

#[test]
fn the_documented_layout_needs_a_pod() {
    let manifests = shop();
    let render = |more: &[&str]| {
        manifests.picket(
            "render",
            &[&["--target", "nftables", "--layout", "documented"], more].concat(),
        )
    };
    assert_eq!(render(&[]).status, 2);
    let ran = render(&["--pod", "shop/bd"]);
    assert!(
        ran.status == 2 && ran.stderr.contains("did you mean `shop/db`?"),
        "{}",
        ran.stderr
    );
    let ran = render(&["--pod", "10.9.0.1"]);
    assert!(
        ran.status == 2 && ran.stderr.contains("`10.9.0.1` is no pod"),
        "{}",
        ran.stderr
    );
    let ran = render(&["--pod", "shop/db", "--interface", "net1"]);
    assert!(
        ran.status == 0 && ran.stdout.contains("table inet multi_networkpolicy"),
        "{}",
        ran.stderr
    );
    assert!(ran.stdout.contains("net1") && !ran.stdout.contains("eth0"));
    let ran = render(&["--pod", "shop/web", "-o", "json"]);
    assert!(ran.json()["nftables"].is_array());
}

#[test]
fn what_is_wrong_never_stands_between_the_rules() {
    let manifests = Manifests::new(&[("a.yaml", "metadata: {name: x}\n"), ("c.yaml", CLUSTER)]);
    let ran = manifests.picket("render", &["--target", "nftables", "--node", "n1", "-o", "json"]);
    assert!(ran.status == 0 && ran.stderr.contains("P011") && ran.json().get("diagnostics").is_none());
}
