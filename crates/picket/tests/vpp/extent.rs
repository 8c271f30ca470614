//! `--once` and `--dry-run`, and what cannot be asked.

use std::fs;

use picket_net::Protocol;
use picket_vpp::fake::Packet;

use crate::agent::{Agent, run};
use crate::scene::{ACL, API, DB, Scene, WEB, WORLD, only_from};

#[test]
fn once_enforces_and_ends() {
    let scene = Scene::new(&only_from("one", "db", "web"));
    let ran = run(scene.manifests(), &[&scene.arguments()[..], &["--once"]].concat());
    assert_eq!((ran.status, ran.stdout.as_str()), (0, ""), "{}", ran.stderr);
    assert!(scene.reaches(WEB, DB) && !scene.reaches(API, DB));
    scene.vpp.clear_record();
    let ran = run(scene.manifests(), &[&scene.arguments()[..], &["--once"]].concat());
    assert_eq!((ran.status, scene.changes()), (0, 0));
}

#[test]
fn a_dry_run_says_what_would_be_done() {
    let scene = Scene::new(&only_from("one", "db", "web"));
    let dry = || {
        run(
            scene.manifests(),
            &[&scene.arguments()[..], &["--dry-run"]].concat(),
        )
    };
    let ran = dry();
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(
        ran.stdout.contains("create acl `picket-to-pod-"),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stdout
            .contains("    ipv4 permit src 10.0.0.1/32 dst 0.0.0.0/0"),
        "{}",
        ran.stdout
    );
    assert!(
        ran.stdout
            .contains("set interface `tap2`\n    input: new `picket-from-pod-")
    );
    assert_eq!(scene.changes(), 0);
    assert!(scene.reaches(WORLD, DB));
    assert_eq!(
        run(scene.manifests(), &[&scene.arguments()[..], &["--once"]].concat()).status,
        0
    );
    assert_eq!(dry().stdout, "");
}

#[test]
fn nobody_there_is_an_error() {
    let scene = Scene::new("");
    let arguments = ["--target", ACL, "--vpp-socket", "/nowhere/api.sock"];
    for extent in ["--once", "--dry-run"] {
        let ran = run(scene.manifests(), &[&arguments[..], &[extent]].concat());
        assert_eq!(ran.status, 2);
        assert!(
            ran.stderr
                .contains("vpp-acl: cannot connect to VPP at `/nowhere/api.sock`: No such file"),
            "{}",
            ran.stderr
        );
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let scene = Scene::new("");
    for (more, why) in [
        (
            &["--vpp-pod-interface", "tag={namespace}-{name}"][..],
            "two pods can be meant by one text",
        ),
        (
            &["--vpp-pod-interface", "label=x"],
            "write `tag=TEMPLATE`, `name=TEMPLATE`, `annotation=PATTERN` or `file=PATH`",
        ),
        (&["--uplink", ""], "a pattern is missing"),
        (&["--container-runtime-endpoint", "/x"], "is for nftables"),
        (
            &["--target", "vpp-session"],
            "needs `--vpp-pod-namespace file=PATH`",
        ),
        (
            &["--vpp-pod-namespace", "tag={namespace}/{name}"],
            "write `file=PATH`",
        ),
        (
            &["--established", "keep"],
            "`--established keep` is for no target that is given: vpp-acl cuts established connections",
        ),
    ] {
        let ran = run(scene.manifests(), &[&scene.arguments()[..], more].concat());
        assert_eq!(ran.status, 2, "{more:?}");
        assert!(
            ran.stderr
                .split_whitespace()
                .collect::<Vec<_>>()
                .join(" ")
                .contains(why),
            "{}",
            ran.stderr
        );
    }
}

/// Whoever denies a connection that has begun ends it.
#[test]
fn a_connection_that_lists_deny_from_now_on_is_cut() {
    let scene = Scene::new(&only_from("one", "db", "web"));
    let cut = [&scene.arguments()[..], &["--once", "--established", "cut"]].concat();
    assert_eq!(run(scene.manifests(), &cut).status, 0);
    let state = scene.vpp.state();
    let [from, to] = [WEB, DB].map(|(name, _)| state.interface(name).unwrap());
    let [source, destination] = [WEB, DB].map(|(_, address)| address.parse().unwrap());
    let packet = Packet::new(Protocol::TCP, (source, 40_000), (destination, 5432));
    let answers = || scene.vpp.journey(to, from, &packet.reply(), None).reaches();
    assert!(scene.vpp.journey(from, to, &packet, None).reaches() && answers());
    scene.put(&only_from("two", "db", "api"));
    assert_eq!(run(scene.manifests(), &cut).status, 0);
    assert!(!scene.vpp.journey(from, to, &packet, None).reaches());
}

#[test]
fn interfaces_are_found_by_name_and_by_file() {
    let scene = Scene::with(
        &only_from("one", "db", "web"),
        picket_vpp::fake::Options::new(5)
            .interface("shop_web", "")
            .interface("shop_db", "")
            .interface("host", "")
            .interface("ge0", ""),
    );
    let arguments = scene.arguments();
    let name = [
        "--vpp-pod-interface",
        "name={namespace}_{name}",
        "--uplink",
        "g*0",
    ];
    let agent = Agent::start(scene.manifests(), &[&arguments[..], &name].concat());
    let status = agent.until_in_force(ACL, &["NetworkPolicy shop/one"]);
    assert_eq!(
        (status.uplinks, status.pending.len()),
        (vec!["ge0".to_owned()], 1)
    );
    assert!(!scene.reaches(WORLD, ("shop_db", DB.1)));
    drop(agent);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pods");
    fs::write(&file, "shop/db ge0\n").unwrap();
    let rule = format!("file={}", file.display());
    let agent = Agent::start(
        scene.manifests(),
        &[&arguments[..], &["--vpp-pod-interface", &rule]].concat(),
    );
    let status = agent.until_in_force(ACL, &["NetworkPolicy shop/one"]);
    assert_eq!(status.interfaces["shop/db"], ["ge0"]);
    assert_eq!(status.uplinks, ["host", "shop_db", "shop_web"]);
    assert!(!scene.reaches(("host", "192.0.2.1"), ("ge0", DB.1)));
    fs::write(&file, "shop/db ge0\nshop/web ge0\n").unwrap();
    // What it said holds, and everybody is told.
    let status = agent.until_vpp(ACL, "trouble", |vpp| vpp.trouble.is_some());
    assert!(
        status
            .trouble
            .unwrap()
            .why
            .contains("line 2: `ge0` is already that of shop/db")
    );
    assert_eq!(status.interfaces["shop/db"], ["ge0"]);
    fs::write(&file, "shop/db shop_db\n").unwrap();
    let status = agent.until_vpp(ACL, "the other", |vpp| vpp.is_well() && vpp.uplinks.len() == 3);
    assert_eq!(status.interfaces["shop/db"], ["shop_db"]);
    assert!(!scene.reaches(WORLD, ("shop_db", DB.1)));
    // Somebody is writing it.
    fs::write(&file, "shop/api host\n").unwrap();
    let status = agent.until_vpp(ACL, "half of a file", |vpp| {
        vpp.interfaces.contains_key("shop/api")
    });
    assert_eq!(status.interfaces["shop/db"], ["shop_db"]);
    assert_eq!(status.uplinks, ["ge0", "shop_web"]);
    assert!(!scene.reaches(WORLD, ("shop_db", DB.1)));
    // The pod is deleted, and what is behind its interface still runs.
    scene.have(&["web", "api"]);
    let status = agent.until_vpp(ACL, "a pod less", |vpp| !vpp.unknown.is_empty());
    assert_eq!(
        (status.unknown, status.uplinks),
        (
            vec!["shop_db".to_owned()],
            vec!["ge0".to_owned(), "shop_web".to_owned()]
        )
    );
    assert!(!scene.reaches(WORLD, ("shop_db", DB.1)));
    scene.have(&["web", "db", "api"]);
    agent.until_in_force(ACL, &["NetworkPolicy shop/one"]);
    drop(agent);
    // Who begins without the file leaves everything as it is.
    fs::remove_file(&file).unwrap();
    scene.vpp.clear_record();
    let words = [&arguments[..], &["--vpp-pod-interface", &rule]].concat();
    let ran = run(scene.manifests(), &[&words[..], &["--dry-run"]].concat());
    assert!(
        ran.stdout.starts_with("# `") && ran.stdout.lines().count() == 1,
        "{}",
        ran.stdout
    );
    let ran = run(scene.manifests(), &[&words[..], &["--once"]].concat());
    assert_eq!((ran.status, scene.changes()), (2, 0), "{}", ran.stdout);
    assert!(ran.stderr.contains("No such file"), "{}", ran.stderr);
    assert!(!scene.reaches(WORLD, ("shop_db", DB.1)));
}
