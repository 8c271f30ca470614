//! `picket verify`.

use serde_json::Value;

use crate::{Manifests, Ran, schema::assert_valid, shop};

fn verify(manifests: &Manifests, more: &[&str]) -> Ran {
    manifests.picket("verify", &[&["--target", "nftables"], more].concat())
}

/// What `render` prints for the same place, in a file beside the manifests.
fn rendered(manifests: &Manifests, more: &[&str], change: impl Fn(String) -> String) -> String {
    let ran = manifests.picket("render", &[&["--target", "nftables"], more].concat());
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let path = manifests.path().join("rules.nft");
    std::fs::write(&path, change(ran.stdout)).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn what_is_rendered_is_proved() {
    let manifests = shop();
    for place in [
        &["--node", "n1"][..],
        &["--node", "n2"],
        &["--layout", "documented", "--pod", "shop/db"],
    ] {
        let ran = verify(&manifests, place);
        assert!(
            ran.status == 0 && ran.stdout.starts_with("proved: table inet "),
            "{}{}",
            ran.stdout,
            ran.stderr
        );
        let rules = rendered(&manifests, place, |text| text + "table ip other {\n}\n");
        let ran = verify(&manifests, &[place, &["--rules", &rules]].concat());
        let note = "note: table ip other (no hook) is set aside";
        assert!(
            ran.status == 0 && ran.stdout.contains(note),
            "{}{}",
            ran.stdout,
            ran.stderr
        );
    }
}

#[test]
fn a_changed_rule_is_refuted_with_a_packet_and_its_policies() {
    let manifests = shop();
    let place = ["--layout", "documented", "--pod", "shop/db"];
    let rules = rendered(&manifests, &place, |text| {
        text.replace("drop comment \"Drop rule\"", "accept")
    });
    let ran = verify(&manifests, &[&place[..], &["--rules", &rules]].concat());
    assert_eq!(ran.status, 1, "{}{}", ran.stdout, ran.stderr);
    for part in [
        "refuted: table inet multi_networkpolicy of pod shop/db does not mean what the policies say\n",
        "must not pass: the policies at both ends say so\n",
        "NetworkPolicy shop/db, isolates",
        "rules: nothing drops it\n",
    ] {
        assert!(ran.stdout.contains(part), "{part}\n{}", ran.stdout);
    }
    let ran = verify(
        &manifests,
        &[&place[..], &["--rules", &rules, "-o", "json", "--limit", "1"]].concat(),
    );
    let answer = ran.json();
    assert_eq!((ran.status, &answer["proved"]), (1, &Value::Bool(false)));
    assert_eq!(answer["counterexamples"].as_array().unwrap().len(), 1);
    assert_valid("verify", &[answer]);
}

#[test]
fn answers_are_as_the_schema_says() {
    let manifests = shop();
    let dropped = rendered(&manifests, &["--node", "n1"], |text| {
        text.replace("policy accept", "policy drop")
    });
    let answers = [
        &["--node", "n1"][..],
        &["--node", "n1", "--rules", &dropped],
        &["--layout", "documented", "--pod", "shop/web"],
    ]
    .map(|place| verify(&manifests, &[place, &["-o", "json"]].concat()).json());
    assert_eq!(answers[1]["proved"], Value::Bool(false));
    assert_eq!(
        answers[1]["counterexamples"][0]["rules"]["place"],
        "the policy of chain forward"
    );
    assert_valid("verify", &answers);
}

#[test]
fn what_cannot_be_verified_is_an_input_error_with_its_place() {
    let manifests = shop();
    let path = manifests.path().join("broken.nft");
    for (text, message) in [
        ("table ip nat {\n}\n", "there is no table `inet picket` in"),
        ("", "there is no other"),
        (
            "table inet picket {\n chain c {\n  quota over 1 mbytes\n }\n}\n",
            "line 3: picket writes no `quota` into rules",
        ),
        ("{\"nftables\": 3}", "list of objects"),
        ("hello", "line 1: expected `table`, found `hello`"),
    ] {
        std::fs::write(&path, text).unwrap();
        let ran = verify(&manifests, &["--node", "n1", "--rules", path.to_str().unwrap()]);
        assert!(
            ran.status == 2 && ran.stderr.contains(message),
            "{message}\n{}",
            ran.stderr
        );
    }
    let ran = verify(&manifests, &["--node", "n1", "--rules", "nowhere.nft"]);
    assert!(
        ran.status == 2 && ran.stderr.contains("cannot read `nowhere.nft`"),
        "{}",
        ran.stderr
    );
}
