//! `picket verify --live`: proof of what VPP and the kernel have.

use std::process::Command;

use picket_linux::NetworkNamespace;
use picket_vpp::client::SessionAction;
use picket_vpp::fake::{AclAction, AclRule, Lists, Options};

use picket_testing::ran::Ran;

use crate::agent::{Agent, run};
use crate::scene::{Scene, no_egress, only_from};
use crate::sockets::Sockets;

fn verify(scene: &Scene, more: &[&str]) -> Ran {
    let mut command = Command::new(env!("CARGO_BIN_EXE_picket"));
    command.args(["verify", "--live", "--node", "n1", "-f"]);
    command.arg(scene.manifests()).args(more);
    command.output().unwrap().into()
}

fn verify_lists(scene: &Scene) -> Ran {
    let socket = scene.vpp.socket().to_str().unwrap();
    verify(scene, &["--target", "vpp-acl", "--vpp-socket", socket])
}

fn enforced(policy: &str) -> Scene {
    let scene = Scene::new(policy);
    let ran = run(scene.manifests(), &[&scene.arguments()[..], &["--once"]].concat());
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    scene
}

#[test]
fn lists_that_vpp_has_are_proved() {
    let scene = enforced(&[only_from("one", "db", "web"), no_egress("two", "api")].join("---\n"));
    scene.vpp.clear_record();
    let ran = verify_lists(&scene);
    assert_eq!(ran.status, 0, "{}{}", ran.stdout, ran.stderr);
    assert!(
        ran.stdout.starts_with("proved: the lists of node n1 mean"),
        "{}",
        ran.stdout
    );
    assert_eq!(scene.changes(), 0);
    // What they were to say before is refuted.
    scene.put(&only_from("one", "db", "api"));
    let ran = verify_lists(&scene);
    assert_eq!(ran.status, 1, "{}{}", ran.stdout, ran.stderr);
    assert!(
        ran.stdout.contains("shop/api (10.0.0.3) → shop/db (10.0.0.2)"),
        "{}",
        ran.stdout
    );
}

#[test]
fn an_interface_whose_pod_nobody_knows_is_noted_and_refutes_nothing() {
    let scene = Scene::new(&only_from("one", "db", "web"));
    let up = scene.vpp.add_interface("tap4", "shop/unheard-of");
    assert!(scene.vpp.set_up(up, true));
    let ran = run(scene.manifests(), &[&scene.arguments()[..], &["--once"]].concat());
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let ran = verify_lists(&scene);
    assert_eq!(ran.status, 0, "{}{}", ran.stdout, ran.stderr);
    let note =
        "interface `tap4` looks like that of a pod, and no pod is known that has it: nothing passes there";
    assert!(ran.stdout.contains(note), "{}", ran.stdout);
}

#[test]
fn interfaces_are_those_that_annotations_name() {
    let scene = Scene::new(&only_from("one", "db", "web"));
    scene.annotate(&[("web", "tap1"), ("db", "tap2"), ("api", "ge0")]);
    let rule = ["--vpp-pod-interface", "annotation=tap*"];
    let ran = run(
        scene.manifests(),
        &[&scene.arguments()[..], &rule, &["--once"]].concat(),
    );
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let socket = scene.vpp.socket().to_str().unwrap();
    let ran = verify(
        &scene,
        &[&["--target", "vpp-acl", "--vpp-socket", socket][..], &rule].concat(),
    );
    assert_eq!(ran.status, 0, "{}{}", ran.stdout, ran.stderr);
    let note = "nothing is proved of shop/api: no pod may have interface `ge0`, only such as `tap*`";
    assert!(ran.stdout.contains(note), "{}", ran.stdout);
}

#[test]
fn what_others_put_into_vpp_counts() {
    let scene = enforced(&only_from("one", "db", "web"));
    scene
        .vpp
        .change("somebody denies what picket leaves open", |state| {
            let rules = vec![AclRule::all(AclAction::Deny, picket_net::Family::Ipv4)];
            let theirs = state.add_acl(None, "theirs", rules).unwrap();
            let of_web = state.interface("tap1").unwrap();
            let output = [state.lists(of_web).output, vec![theirs]].concat();
            let input = state.lists(of_web).input;
            state.set_acl_list(of_web, &Lists { input, output }).unwrap();
        });
    let ran = verify_lists(&scene);
    assert_eq!(ran.status, 1, "{}{}", ran.stdout, ran.stderr);
    let text = ran.stdout;
    assert!(
        text.contains("out of VPP to tap1: is dropped, and must not be"),
        "{text}"
    );
    let note = "note: tap1, output: ";
    let note = text.lines().find(|line| line.starts_with(note));
    assert!(
        note.is_some_and(|note| note.ends_with(" `theirs`; they decide alone")),
        "{text}"
    );
    scene.vpp.change("somebody takes the lists away", |state| {
        let of_db = state.interface("tap2").unwrap();
        state.set_acl_list(of_db, &Lists::default()).unwrap();
    });
    let text = verify_lists(&scene).stdout;
    assert!(
        text.contains("out of VPP to tap2: passes, and must not"),
        "{text}"
    );
}

#[test]
fn what_either_side_cannot_decide_is_noted_by_where_lists_of_others_stand() {
    let scene = enforced(&only_from("one", "db", "web"));
    let [before, behind, alone] = scene
        .vpp
        .change("somebody puts lists around those of picket", |state| {
            let permit = |source: &str| AclRule {
                source: source.parse().unwrap(),
                ..AclRule::all(AclAction::Permit, picket_net::Family::Ipv4)
            };
            let [before, behind, alone] = [
                ("before", "10.0.0.3/32"),
                ("behind", "0.0.0.0/0"),
                ("alone", "0.0.0.0/0"),
            ]
            .map(|(tag, source)| state.add_acl(None, tag, vec![permit(source)]).unwrap());
            for (name, first, last) in [("tap2", Some(before), behind), ("tap1", None, alone)] {
                let interface = state.interface(name).unwrap();
                let Lists { input, output } = state.lists(interface);
                let output = first.into_iter().chain(output).chain([last]).collect();
                state.set_acl_list(interface, &Lists { input, output }).unwrap();
            }
            [before, behind, alone]
        });
    let ran = verify_lists(&scene);
    // What stands before picket's lists lets in what they would not, and what stands behind them changes nothing.
    assert_eq!(ran.status, 1, "{}{}", ran.stdout, ran.stderr);
    let text = ran.stdout;
    assert!(
        text.contains("out of VPP to tap2: passes, and must not"),
        "{text}"
    );
    let from_api = "shop/api (10.0.0.3) → shop/db (10.0.0.2)";
    let mut pairs = text.lines().filter(|line| line.contains(" → "));
    assert!(pairs.all(|line| line.starts_with(from_api)), "{text}");
    let notes: Vec<_> = text
        .lines()
        .filter(|line| line.starts_with("note: tap"))
        .collect();
    assert_eq!(
        notes,
        [
            format!("note: tap1, output: {alone} `alone`; they decide alone"),
            format!(
                "note: tap2, output: {before} `before`; they decide before picket's lists behind them, which judge only what they \
                 leave open"
            ),
            format!(
                "note: tap2, output: {behind} `behind`; they decide nothing: what picket's lists before them do not let pass is denied"
            ),
        ],
        "{text}"
    );
}

#[test]
fn of_pods_without_an_interface_nothing_is_proved() {
    let options = Options::new(7).interface("tap2", "shop/db").interface("ge0", "");
    let scene = Scene::with(&only_from("one", "db", "web"), options);
    run(scene.manifests(), &[&scene.arguments()[..], &["--once"]].concat());
    let ran = verify_lists(&scene);
    assert_eq!(ran.status, 0, "{}{}", ran.stdout, ran.stderr);
    for pod in ["web", "api"] {
        let note = format!("note: nothing is proved of shop/{pod}: no interface has the tag `shop/{pod}`\n");
        assert!(ran.stdout.contains(&note), "{}", ran.stdout);
    }
    let socket = scene.vpp.socket().to_str().unwrap();
    let by_name = ["--target", "vpp-acl", "--vpp-socket", socket];
    let by_name = [&by_name[..], &["--vpp-pod-interface", "name={namespace}_{name}"]].concat();
    let ran = verify(&scene, &by_name);
    assert_eq!(ran.status, 2, "{}{}", ran.stdout, ran.stderr);
    assert!(
        ran.stderr
            .contains("has no interface of any pod: `name={namespace}_{name}` finds none"),
        "{}",
        ran.stderr
    );
}

#[test]
fn a_vpp_that_is_not_there_is_no_proof() {
    let scene = enforced("");
    scene.vpp.down();
    let ran = verify_lists(&scene);
    assert_eq!(ran.status, 2, "{}", ran.stdout);
    assert!(ran.stderr.contains("cannot connect to VPP at"), "{}", ran.stderr);
}

/// The rules of sockets that an agent has put into VPP.
fn ruled(policy: &str) -> Sockets {
    let sockets = Sockets::new(policy);
    let arguments = sockets.arguments();
    let words = arguments.iter().map(String::as_str).chain(["--once"]);
    let ran = run(sockets.scene.manifests(), &words.collect::<Vec<_>>());
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    sockets.vpp().clear_record();
    sockets
}

fn verify_rules(sockets: &Sockets) -> Ran {
    let arguments = sockets.arguments();
    let words: Vec<_> = arguments.iter().map(String::as_str).collect();
    verify(&sockets.scene, &words)
}

#[test]
fn session_rules_that_vpp_has_are_proved() {
    let policies = [only_from("one", "db", "web"), no_egress("two", "api")].join("---\n");
    let sockets = ruled(&policies);
    let ran = verify_rules(&sockets);
    assert_eq!(ran.status, 0, "{}{}", ran.stdout, ran.stderr);
    assert!(
        ran.stdout
            .starts_with("proved: the session rules of node n1 mean")
            && !ran.stdout.contains("note: "),
        "{}",
        ran.stdout
    );
    assert_eq!(sockets.changes(), 0);
    // What they were to say before is refuted.
    sockets.scene.put(&only_from("one", "db", "api"));
    let ran = verify_rules(&sockets);
    assert_eq!(ran.status, 1, "{}{}", ran.stdout, ran.stderr);
    assert!(
        ran.stdout.contains("shop/api (10.0.0.3) → shop/db (10.0.0.2)")
            && ran
                .stdout
                .contains("the namespace of shop/api: is dropped, and must not be"),
        "{}",
        ran.stdout
    );
}

#[test]
fn rules_of_others_count() {
    let sockets = ruled(&no_egress("one", "db"));
    sockets.add(Some(2), "192.0.2.0/24", SessionAction::Allow, "theirs");
    let ran = verify_rules(&sockets);
    assert_eq!(ran.status, 1, "{}{}", ran.stdout, ran.stderr);
    for text in [
        "the namespace of shop/db: passes, and must not",
        "note: rules of others, namespace 2: 1 rule, as `tcp 0.0.0.0/0 0 192.0.2.0/24 0 allow`",
        "note: rules are read in the order in which VPP lists them",
    ] {
        assert!(ran.stdout.contains(text), "{text}: {}", ran.stdout);
    }
}

#[test]
fn each_namespace_of_a_pod_is_proved() {
    let sockets = ruled(&no_egress("one", "db"));
    sockets.name("shop/web 1\nshop/db 2\nshop/db 3\n");
    let ran = verify_rules(&sockets);
    assert_eq!(ran.status, 1, "{}{}", ran.stdout, ran.stderr);
    let note = format!(
        "note: nothing is proved of what shop/api opens: `{}` does not name it\n",
        sockets.file().display()
    );
    assert!(ran.stdout.contains(&note), "{}", ran.stdout);
    // An agent gives both the same.
    let arguments = sockets.arguments();
    let words = arguments.iter().map(String::as_str).chain(["--once"]);
    assert_eq!(
        run(sockets.scene.manifests(), &words.collect::<Vec<_>>()).status,
        0
    );
    assert_eq!(verify_rules(&sockets).status, 0);
}

#[test]
fn what_cannot_be_read_is_no_proof_of_rules() {
    let sockets = ruled(&no_egress("one", "db"));
    let socket = sockets.vpp().socket().to_str().unwrap().to_owned();
    let ran = verify(
        &sockets.scene,
        &["--target", "vpp-session", "--vpp-socket", &socket],
    );
    assert_eq!(ran.status, 2, "{}", ran.stdout);
    assert!(
        ran.stderr.contains("needs `--vpp-pod-namespace file=PATH`"),
        "{}",
        ran.stderr
    );
    std::fs::remove_file(sockets.file()).unwrap();
    let ran = verify_rules(&sockets);
    assert_eq!(ran.status, 2, "{}", ran.stdout);
    assert!(
        ran.stderr
            .contains("nobody says which namespace is that of any pod: `"),
        "{}",
        ran.stderr
    );
    assert!(ran.stderr.contains("No such file"), "{}", ran.stderr);
    let off = Sockets::with("", Options::new(3));
    let ran = verify_rules(&off);
    assert_eq!(ran.status, 2, "{}", ran.stdout);
    assert!(
        ran.stderr.contains("VPP has no table of session rules"),
        "{}",
        ran.stderr
    );
}

#[test]
fn where_vpp_is_matters_only_to_what_is_installed() {
    let sockets = Sockets::new("");
    let mut command = Command::new(env!("CARGO_BIN_EXE_picket"));
    command
        .args(["verify", "--node", "n1", "-f"])
        .arg(sockets.scene.manifests());
    let ran: Ran = command.args(sockets.arguments()).output().unwrap().into();
    assert_eq!(ran.status, 2, "{}", ran.stdout);
    assert!(ran.stderr.contains("--live"), "{}", ran.stderr);
}

mod kernel {
    use super::*;

    #[test]
    fn the_table_that_the_kernel_has_is_proved() {
        let scene = Scene::new(&only_from("one", "db", "web"));
        let node = NetworkNamespace::create().unwrap();
        let live = || {
            let of_node = || verify(&scene, &["--target", "nftables"]);
            node.run(of_node).unwrap()
        };
        let ran = live();
        assert_eq!(ran.status, 2, "{}", ran.stdout);
        assert!(
            ran.stderr
                .contains("there is no table `inet picket` in this network namespace"),
            "{}",
            ran.stderr
        );
        let agent = Agent::start_in(&node, scene.manifests(), &["--log-denied", "off"]);
        agent.until("the table", |status| status.ready);
        let ran = live();
        assert_eq!(ran.status, 0, "{}{}", ran.stdout, ran.stderr);
        scene.put(&only_from("two", "db", "api"));
        agent.until("the next policy", |status| {
            status.host.policies == ["NetworkPolicy shop/two"]
        });
        assert_eq!(live().status, 0);
        drop(agent);
        scene.put("");
        assert_eq!(live().status, 1);
    }
}
