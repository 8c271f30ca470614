use serde_json::json;

use crate::{Manifests, shop};

#[test]
fn the_map_has_the_documented_shape() {
    let ran = shop().picket("matrix", &["-o", "json"]);
    let map = ran.json();
    assert_eq!(ran.status, 0);
    let ids: Vec<_> = map["endpoints"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| {
            format!(
                "{} {}",
                one["kind"].as_str().unwrap(),
                one["id"].as_str().unwrap()
            )
        })
        .collect();
    let external = [
        "external 0.0.0.0-10.0.0.0",
        "external 203.0.113.0-203.0.113.127",
        "external ::-2001:2:0:bce1:c5df:3d72:daf4:bace",
    ];
    let inside = [
        "node n1",
        "node n2",
        "pod shop/agent",
        "pod shop/db",
        "pod shop/web",
        "workload shop/Deployment/api",
    ];
    assert_eq!(ids, [&external[..], &inside[..]].concat());
    let between = |from: &str, to: &str| {
        let all = map["connections"].as_array().unwrap().iter();
        let found = all.filter(|one| one["from"] == from && one["to"] == to);
        found
            .map(|one| json!([one["family"], one["allow"]]))
            .collect::<Vec<_>>()
    };
    for (from, to, expected) in [
        (
            "shop/web",
            "shop/db",
            vec![json!(["any", {"TCP": [[5432, 5432]]}])],
        ),
        (
            "203.0.113.0-203.0.113.127",
            "shop/db",
            vec![json!(["any", {"TCP": [[5432, 5432]], "UDP": [[9000, 9010]]}])],
        ),
        ("0.0.0.0-10.0.0.0", "shop/db", vec![]),
        ("shop/db", "shop/web", vec![json!(["any", "all"])]),
        (
            "shop/Deployment/api",
            "shop/Deployment/api",
            vec![json!(["any", "all"])],
        ),
        ("shop/web", "shop/web", vec![]),
        ("n2", "shop/db", vec![json!(["any", "all"])]),
        ("n1", "shop/db", vec![]),
        ("shop/agent", "shop/web", vec![json!(["any", "all"])]),
        ("n1", "n2", vec![json!(["any", "all"])]),
        ("0.0.0.0-10.0.0.0", "203.0.113.0-203.0.113.127", vec![]),
    ] {
        assert_eq!(between(from, to), expected, "{from} → {to}");
    }
}

#[test]
fn every_format_is_written_twice_alike() {
    let manifests = shop();
    for (format, start) in [
        ("table", "1  "),
        ("json", "{\"endpoints\":["),
        ("csv", "from,to,family,allow\r\n"),
        ("md", "| from | to | family | allowed |\n"),
        ("dot", "digraph "),
        ("html", "<!DOCTYPE html>"),
        ("svg", "<svg "),
    ] {
        for by in ["pod", "workload"] {
            let write = || manifests.picket("matrix", &["-o", format, "--by", by]);
            let (one, other) = (write(), write());
            assert!(
                one.status == 0 && one.stdout.starts_with(start),
                "{format}: {}",
                one.stdout
            );
            assert_eq!(one.stdout, other.stdout);
        }
    }
}

#[test]
fn the_order_of_files_and_documents_changes_nothing() {
    let swapped = Manifests::new(&[("a.yaml", crate::POLICIES), ("b.yaml", crate::CLUSTER)]);
    let map = |manifests: &Manifests| manifests.picket("matrix", &["-o", "json"]).stdout;
    assert_eq!(map(&shop()), map(&swapped));
}
