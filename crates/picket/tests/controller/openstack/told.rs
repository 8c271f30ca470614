//! What a controller says of itself.

use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread::sleep;
use std::time::Duration;

use picket_testing::http;
use picket_testing::neutron::Neutron;
use picket_testing::ran::Ran;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::openstack::once::{expect_enforced, manifests, ports};
use crate::openstack::{command, expect_schema};

/// A controller that goes on until it is dropped.
struct Running<'a> {
    process: Child,
    socket: &'a Path,
}

impl<'a> Running<'a> {
    fn start(folder: &Path, endpoint: &str, socket: &'a Path) -> Self {
        let arguments = [
            "--source",
            folder.to_str().unwrap(),
            "--endpoint",
            endpoint,
            "--project",
            "fake_project_id",
            "--socket",
            socket.to_str().unwrap(),
        ];
        let mut command = command(&arguments);
        let process = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        Self {
            process: process.unwrap(),
            socket,
        }
    }

    /// Waits until its status is such.
    fn until(&self, what: &str, holds: &dyn Fn(&Value) -> bool) {
        let status = ["--status", "--socket", self.socket.to_str().unwrap()];
        let is_such = || {
            let ran: Ran = command(&status).output().unwrap().into();
            let said = (ran.status == 0).then(|| ran.json());
            said.inspect(|said| expect_schema("controller-status", said))
                .is_some_and(|said| holds(&said))
        };
        let looks = |_| {
            let found = is_such();
            if !found {
                sleep(Duration::from_millis(100));
            }
            found
        };
        assert!((0..2400).any(looks), "never {what}");
    }

    /// What it answers at a path.
    fn get(&self, path: &str) -> (u16, String) {
        http::get(UnixStream::connect(self.socket).unwrap(), path).unwrap()
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        // Whatever has ended already is gone.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_policy_that_a_quota_forbids_says_so_until_it_fits() {
    let (server, folder) = (Neutron::start(), manifests());
    let ports = ports(&server);
    let quota = |count: i32| {
        let body = json!({"quota": {"security_group": count}});
        server.ask("PUT", "quotas/fake_project_id", &body);
    };
    // The default group, both open ones, and one more.
    quota(3);
    let socket = server.folder().join("socket");
    let running = Running::start(folder.path(), &server.endpoint(), &socket);
    running.until("refused", &|status| {
        let policy = &status["policies"][0];
        let why = policy["failures"][0].as_str().unwrap_or_default();
        policy["ready"] == json!(false)
            && why.contains("quota")
            && status["notes"][0]
                .as_str()
                .unwrap_or_default()
                .contains("the quota `security_group`")
    });
    // All else is in force.
    assert_eq!(running.get("/readyz"), (200, "ok\n".to_owned()));
    let (code, metrics) = running.get("/metrics");
    assert_eq!(code, 200);
    assert!(
        metrics.contains("\npicket_controller_policies_waiting 1\n"),
        "{metrics}"
    );
    quota(-1);
    running.until("in force", &|status| {
        status["policies"][0]["ready"] == json!(true) && status["failures"] == json!([])
    });
    expect_enforced(&server, &ports);
    let (_, metrics) = running.get("/metrics");
    assert!(
        metrics.contains("\npicket_controller_policies_waiting 0\n"),
        "{metrics}"
    );
}

#[test]
fn one_whose_cloud_is_away_is_healthy_and_not_ready_and_ends_in_order() {
    // Nobody listens at this port.
    const AWAY: &str = "127.0.0.1:1";
    let (folder, other) = (manifests(), tempfile::tempdir().unwrap());
    let socket = other.path().join("socket");
    let mut running = Running::start(folder.path(), &format!("http://{AWAY}"), &socket);
    running.until("without a cloud", &|status| status["trouble"].is_string());
    assert_eq!(running.get("/healthz"), (200, "ok\n".to_owned()));
    let (code, why) = running.get("/readyz");
    assert_eq!(code, 503);
    assert!(why.contains("no connection: "), "{why}");
    assert_eq!(running.get("/nothing").0, 404);
    kill_process(Pid::from_child(&running.process), Signal::TERM).unwrap();
    assert!(running.process.wait().unwrap().success());
}
