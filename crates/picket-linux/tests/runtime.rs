//! Sandboxes of real container runtimes. These need root.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot set itself up fails"
)]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use picket_linux::NetworkNamespace;
use picket_linux::runtime::{Follower, Learned, Problem, Runtime, RuntimeError, Sandbox};
use picket_testing::runtime::{ContainerRuntime, Kind, SOCKET};
use picket_testing::with_every_runtime;

/// More events than a runtime has room for, with those that its connection holds.
const EVENTS: usize = 200;

/// Longer than any test.
const LONG: Duration = Duration::from_secs(3600);

fn runtime(node: &ContainerRuntime) -> Runtime {
    Runtime::at(SOCKET, &node.prefix()).unwrap()
}

/// The addresses of an interface, as `ip` shows them.
fn addresses(namespace: &NetworkNamespace, interface: &str) -> String {
    let mut command = Command::new("ip");
    command.args(["-o", "-4", "address", "show", "dev", interface]);
    let output = namespace.run(|| command.output()).unwrap().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn problem(result: Result<NetworkNamespace, RuntimeError>) -> Problem {
    match result {
        Err(RuntimeError::Sandbox { problem, .. }) => problem,
        other => panic!("{other:?}"),
    }
}

with_every_runtime!(
    each_sandbox_has_its_own_namespace_and_the_nodes_is_nobodys,
    a_sandbox_that_is_gone_or_of_another_pod_is_not_entered,
    changes_are_followed_over_restarts_of_the_runtime,
    what_a_runtime_tells_is_heard,
    a_namespace_that_was_mounted_after_the_agent_has_looked_is_found,
);

/// A process to which the node is visible as to an agent in a container: with the mounts of when it began.
struct Container(Child);

impl Container {
    fn start(node: &ContainerRuntime) -> Self {
        let mounts = node.prefix().with_file_name("ns").join("mnt");
        let mut child = Command::new("nsenter")
            .arg(format!("--mount={}", mounts.display()))
            .args(["unshare", "--mount", "--propagation", "private"])
            .args(["sh", "-c", "echo ready; read -r end"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert_eq!(line, "ready\n");
        Self(child)
    }

    /// The root of the node as this process sees it.
    fn prefix(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root", self.0.id()))
    }
}

impl Drop for Container {
    fn drop(&mut self) {
        // It ends with its standard input.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

fn names(sandboxes: &[Sandbox]) -> Vec<&str> {
    let mut names: Vec<_> = sandboxes.iter().map(|sandbox| sandbox.name.as_str()).collect();
    names.sort_unstable();
    names
}

fn each_sandbox_has_its_own_namespace_and_the_nodes_is_nobodys(kind: Kind) {
    let node = ContainerRuntime::start(kind);
    let web = node.run_pod("shop", "web", "uid-1");
    node.run_pod("shop", "db", "uid-2");
    node.run_host_pod("kube-system", "proxy", "uid-3");
    let runtime = runtime(&node);
    let sandboxes = runtime.sandboxes().unwrap();
    assert_eq!(names(&sandboxes), ["db", "proxy", "web"]);
    let [db, proxy, web] = ["db", "proxy", "web"].map(|name| {
        let found = sandboxes.iter().find(|sandbox| sandbox.name == name);
        assert_eq!(found.unwrap().id.as_str() == web, name == "web");
        found.unwrap()
    });
    assert_eq!((web.namespace.as_str(), web.pod_uid.as_str()), ("shop", "uid-1"));
    assert!(web.created < db.created && db.created < proxy.created);

    let first = runtime.namespace(web).unwrap();
    let second = runtime.namespace(db).unwrap();
    assert_ne!(first.identity().unwrap(), second.identity().unwrap());
    assert!(addresses(&first, "eth0").contains("10.123.0.2/16"));
    assert!(addresses(&second, "eth0").contains("10.123.0.3/16"));
    // Once more is the same.
    let again = runtime.namespace(web).unwrap();
    assert_eq!(first.identity().unwrap(), again.identity().unwrap());
    let refused = problem(runtime.namespace(proxy));
    assert!(matches!(refused, Problem::Host), "{refused}");
}

fn a_sandbox_that_is_gone_or_of_another_pod_is_not_entered(kind: Kind) {
    let node = ContainerRuntime::start(kind);
    let id = node.run_pod("shop", "web", "uid-1");
    let runtime = runtime(&node);
    let sandboxes = runtime.sandboxes().unwrap();
    let [web] = sandboxes.as_slice() else {
        panic!("{sandboxes:?}");
    };
    let other = Sandbox {
        pod_uid: "uid-2".to_owned(),
        ..web.clone()
    };
    let refused = problem(runtime.namespace(&other));
    assert!(matches!(refused, Problem::OtherPod), "{refused}");
    node.remove_pod(&id);
    let refused = runtime.namespace(web).unwrap_err().to_string();
    assert!(refused.contains("PodSandboxStatus"), "{refused}");
    // The same pod gets another sandbox.
    node.run_pod("shop", "web", "uid-1");
    let sandboxes = runtime.sandboxes().unwrap();
    assert_eq!(names(&sandboxes), ["web"]);
    assert!(!sandboxes.contains(web));
    for sandbox in &sandboxes {
        runtime.namespace(sandbox).unwrap();
    }
}

/// Whether anything is mounted at the files that stand for namespaces, as it is seen below a prefix.
fn has_namespaces(prefix: &Path) -> bool {
    let folder = prefix.join("run/netns");
    let own = fs::metadata(&folder).unwrap().dev();
    let mut files = fs::read_dir(&folder).unwrap().map(Result::unwrap);
    files.any(|file| fs::metadata(file.path()).unwrap().dev() != own)
}

fn a_namespace_that_was_mounted_after_the_agent_has_looked_is_found(kind: Kind) {
    let node = ContainerRuntime::start(kind);
    let container = Container::start(&node);
    let web = node.run_pod("shop", "web", "uid-1");
    node.run_host_pod("kube-system", "proxy", "uid-2");
    assert!(has_namespaces(&node.prefix()) && !has_namespaces(&container.prefix()));
    let (there, here) = (runtime(&node), Runtime::at(SOCKET, &container.prefix()).unwrap());
    for sandbox in here.sandboxes().unwrap() {
        let found = here.namespace(&sandbox);
        if sandbox.id.as_str() == web {
            let expected = there.namespace(&sandbox).unwrap().identity().unwrap();
            assert_eq!(found.unwrap().identity().unwrap(), expected);
        } else {
            let refused = problem(found);
            assert!(matches!(refused, Problem::Host), "{refused}");
        }
    }
}

fn changes_are_followed_over_restarts_of_the_runtime(kind: Kind) {
    let mut node = ContainerRuntime::start(kind);
    let runtime = runtime(&node);
    let mut follower = Follower::default();
    assert!(follower.next(&runtime, LONG).unwrap().is_empty());
    let web = node.run_pod("shop", "web", "uid-1");
    let sandboxes = follower.next(&runtime, LONG).unwrap();
    assert_eq!(names(&sandboxes), ["web"]);
    node.kill();
    let failure = follower.next(&runtime, LONG).unwrap_err().to_string();
    assert!(failure.contains("does not answer `ListPodSandbox`"), "{failure}");
    node.restart();
    let db = node.run_pod("shop", "db", "uid-2");
    // The first call may still find the connection broken.
    let sandboxes = std::iter::repeat_with(|| follower.next(&runtime, LONG)).find_map(Result::ok);
    let sandboxes = sandboxes.unwrap();
    assert_eq!(names(&sandboxes), ["db", "web"]);
    for sandbox in &sandboxes {
        runtime.namespace(sandbox).unwrap();
    }
    node.remove_pod(&web);
    assert_eq!(names(&follower.next(&runtime, LONG).unwrap()), ["db"]);
    node.remove_pod(&db);
    assert!(follower.next(&runtime, LONG).unwrap().is_empty());
}

fn what_a_runtime_tells_is_heard(kind: Kind) {
    let node = ContainerRuntime::start(kind);
    let runtime = runtime(&node);
    let mut follower = Follower::default();
    follower.next(&runtime, LONG).unwrap();
    // Until it has told something it is asked too, and whichever is first counts.
    let mut learned = (0..5).map(|number| {
        std::thread::scope(|scope| {
            scope.spawn(|| node.run_pod("shop", &format!("web-{number}"), &format!("uid-{number}")));
            let sandboxes = follower.next(&runtime, LONG).unwrap();
            assert_eq!(sandboxes.len(), number + 1);
            follower.learned()
        })
    });
    let has_told = learned.any(|learned| learned == Learned::Event);
    assert_eq!(has_told, kind.has_events());
}

/// containerd 2 has room for some events that nobody takes, and then waits, whatever it is asked to do.
#[test]
fn who_hears_of_changes_and_is_busy_holds_up_nobody() {
    let node = ContainerRuntime::start(Kind::Containerd2);
    let runtime = runtime(&node);
    let mut follower = Follower::default();
    follower.next(&runtime, LONG).unwrap();
    // Events hold what is said of the sandbox, and so much of it that few have room.
    let annotation = ("long", "x".repeat(250_000));
    let id = node.run_annotated_pod("shop", "web", "uid-1", (annotation.0, &annotation.1));
    assert_eq!(names(&follower.next(&runtime, LONG).unwrap()), ["web"]);
    for _ in 0..EVENTS / 2 {
        let container = node.create_container(&id, "shop", "web", "uid-1");
        node.remove_container(&container);
    }
    node.remove_pod(&id);
    assert!(follower.next(&runtime, LONG).unwrap().is_empty());
}

#[test]
fn whoever_is_no_runtime_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("runtime.sock");
    let endpoint = socket.to_str().unwrap().to_owned();
    let runtime = Runtime::at(&endpoint, Path::new("")).unwrap();
    let nobody = runtime.sandboxes().unwrap_err().to_string();
    assert!(
        nobody.contains(&endpoint) && nobody.contains("ListPodSandbox"),
        "{nobody}"
    );

    let listener = UnixListener::bind(&socket).unwrap();
    let liar = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.write_all(b"HTTP/1.1 200 OK\r\n\r\nnothing").unwrap();
    });
    let nonsense = runtime.sandboxes().unwrap_err().to_string();
    assert!(nonsense.contains("ListPodSandbox"), "{nonsense}");
    liar.join().unwrap();

    for wrong in ["", "tcp://10.0.0.1:80", "run/containerd.sock", "unix://run.sock"] {
        let error = Runtime::at(wrong, Path::new("")).err().unwrap();
        assert!(matches!(error, RuntimeError::Endpoint { .. }), "{wrong}: {error}");
    }
}
