//! What a runtime may say that is not so. What a real one says is in `tests/runtime.rs`.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use super::error::Problem;
use super::message::{
    LinuxPodSandboxStatus, NODE, Namespace, NamespaceOption, PodSandbox, PodSandboxMetadata,
    PodSandboxStatus, PodSandboxStatusResponse,
};
use super::open::open;
use super::place::Place;
use super::{Runtime, Sandbox, SandboxId, read};

const ID: &str = "0123456789abcdef";

fn metadata(uid: &str) -> PodSandboxMetadata {
    PodSandboxMetadata {
        name: "web".to_owned(),
        uid: uid.to_owned(),
        namespace: "shop".to_owned(),
    }
}

fn item(id: &str, uid: &str, state: i32) -> PodSandbox {
    PodSandbox {
        id: id.to_owned(),
        metadata: Some(metadata(uid)),
        state,
        created_at: 1,
    }
}

fn id() -> SandboxId {
    SandboxId::read(ID).unwrap()
}

fn status(id: &str, uid: &str, state: i32, info: &[(&str, &str)]) -> PodSandboxStatusResponse {
    let info: HashMap<_, _> = info
        .iter()
        .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
        .collect();
    PodSandboxStatusResponse {
        status: Some(PodSandboxStatus {
            id: id.to_owned(),
            metadata: Some(metadata(uid)),
            state,
            linux: None,
        }),
        info,
    }
}

/// The same of a sandbox that is said to be in some network.
fn status_in(network: i32, info: (&str, &str)) -> PodSandboxStatusResponse {
    let mut answer = status(ID, "u", 0, &[info]);
    let options = Some(NamespaceOption { network });
    let namespaces = Some(Namespace { options });
    answer.status.as_mut().unwrap().linux = Some(LinuxPodSandboxStatus { namespaces });
    answer
}

#[test]
fn only_ready_sandboxes_of_pods_with_usable_names_are_taken() {
    assert_eq!(Sandbox::read(item(ID, "u", 0)).unwrap().id, id());
    for (item, why) in [
        (item(ID, "u", 1), "not ready"),
        (item(ID, "", 0), "no uid"),
        (item("", "u", 0), "no id"),
        (item("../../proc/1", "u", 0), "a path for an id"),
        (item("a", "u", 0), "an id that is part of any control group"),
        (item(&"a".repeat(129), "u", 0), "a long id"),
        (
            PodSandbox {
                metadata: None,
                ..item(ID, "u", 0)
            },
            "no pod",
        ),
    ] {
        assert_eq!(Sandbox::read(item), None, "{why}");
    }
}

#[test]
fn a_status_must_be_of_the_same_sandbox_and_pod() {
    let sandbox = Sandbox::read(item(ID, "u", 0)).unwrap();
    let good = ("info", r#"{"pid":7}"#);
    assert_eq!(
        read(&sandbox, status(ID, "u", 0, &[good])).unwrap().process,
        Some(7)
    );
    let of_pod = read(&sandbox, status_in(0, good));
    assert_eq!(of_pod.unwrap().process, Some(7));
    type Is = fn(&Problem) -> bool;
    let not_ready: Is = |problem| matches!(problem, Problem::NotReady);
    let other_pod: Is = |problem| matches!(problem, Problem::OtherPod);
    let unknown: Is = |problem| matches!(problem, Problem::Unknown(_));
    let host: Is = |problem| matches!(problem, Problem::Host);
    for (answer, expected) in [
        (PodSandboxStatusResponse::default(), not_ready),
        (status(ID, "u", 1, &[good]), not_ready),
        (status("another", "u", 0, &[good]), not_ready),
        (status(ID, "v", 0, &[good]), other_pod),
        (status(ID, "u", 0, &[]), unknown),
        (status(ID, "u", 0, &[("other", "{}")]), unknown),
        (status(ID, "u", 0, &[("info", "\u{0}\n{")]), unknown),
        (
            status(
                ID,
                "u",
                0,
                &[("info", r#"{"pid":7,"runtimeSpec":{"linux":{"namespaces":[]}}}"#)],
            ),
            host,
        ),
        (status_in(NODE, good), host),
    ] {
        let problem = read(&sandbox, answer.clone()).unwrap_err();
        assert!(expected(&problem), "{answer:?}: {problem}");
    }
}

#[test]
fn what_is_no_namespace_of_a_sandbox_is_not_entered() {
    let node = tempfile::tempdir().unwrap();
    let run = node.path().join("run");
    fs::create_dir(&run).unwrap();
    // As a mount of the node that does not reach the agent.
    fs::write(run.join("file"), "").unwrap();
    symlink("/run/file", run.join("link")).unwrap();
    symlink("/proc/self/ns/net", run.join("magic")).unwrap();
    let pipe = Command::new("mkfifo").arg(run.join("pipe")).status().unwrap();
    assert!(pipe.success());
    for (path, expected) in [
        ("/run/file", "is no network namespace"),
        // A link is followed below the root of the node.
        ("/run/link", "is no network namespace"),
        ("/run/../../../../run/file", "is no network namespace"),
        ("/run/pipe", "is no network namespace"),
        ("/run", "is no network namespace"),
        ("/run/magic", "cannot open"),
        ("/run/nothing", "cannot open"),
        ("", "cannot open"),
        ("/run/\u{0}", "cannot open"),
    ] {
        let place = Place {
            path: Some(path.to_owned()),
            process: None,
        };
        let problem = open(&id(), &place, node.path()).unwrap_err().to_string();
        assert!(problem.contains(expected), "{path}: {problem}");
    }
}

#[test]
fn a_process_that_is_not_of_the_sandbox_is_not_followed() {
    let root = Path::new("");
    let place = |process| Place {
        path: None,
        process: Some(process),
    };
    let own = std::process::id();
    let problem = open(&id(), &place(own), root).unwrap_err();
    assert!(
        matches!(problem, Problem::OtherProcess(process) if process == own),
        "{problem}"
    );
    let problem = open(&id(), &place(u32::MAX), root).unwrap_err();
    assert!(matches!(problem, Problem::Open(..)), "{problem}");
    // A namespace of another kind, which no process stands for.
    let place = Place {
        path: Some("/proc/self/ns/mnt".to_owned()),
        process: None,
    };
    let problem = open(&id(), &place, root).unwrap_err();
    assert!(matches!(problem, Problem::Open(..)), "{problem}");
}

#[test]
fn the_namespace_of_the_node_or_of_another_sandbox_is_not_entered() {
    let namespace = crate::NetworkNamespace::current().unwrap();
    let root = Path::new("");
    let runtime = Runtime::at("/run/nobody.sock", root).unwrap();
    let mut known = runtime.known();
    let problem = known.hold(&id(), &namespace, root).unwrap_err();
    assert!(matches!(problem, Problem::Host), "{problem}");
    // As if the node were elsewhere.
    known.node.clear();
    known.hold(&id(), &namespace, root).unwrap();
    known.hold(&id(), &namespace, root).unwrap();
    let other = SandboxId::read("fedcba9876543210").unwrap();
    let problem = known.hold(&other, &namespace, root).unwrap_err();
    assert!(
        matches!(problem, Problem::Shared(ref shared) if *shared == id()),
        "{problem}"
    );
    assert!(!known.held.contains_key(&other));
}

#[test]
fn without_that_of_the_node_no_namespace_is_entered() {
    let nowhere = tempfile::tempdir().unwrap();
    let runtime = Runtime::at("/run/nobody.sock", nowhere.path()).unwrap();
    let mut known = runtime.known();
    known.node.clear();
    let current = crate::NetworkNamespace::current().unwrap();
    let problem = known
        .hold(&id(), &current, nowhere.path())
        .unwrap_err()
        .to_string();
    assert!(problem.contains("proc/1/ns/net"), "{problem}");
}
