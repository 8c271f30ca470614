//! What a controller says of itself.

use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use picket_testing::neutron::Neutron;
use picket_testing::ran::Ran;
use serde_json::{Value, json};

use crate::openstack::command;
use crate::openstack::once::{expect_enforced, manifests, ports};

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
    let socket = socket.to_str().unwrap();
    let arguments = [
        "--source",
        folder.path().to_str().unwrap(),
        "--endpoint",
        &server.endpoint(),
        "--project",
        "fake_project_id",
    ];
    let mut process = command(&arguments)
        .args(["--socket", socket])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let until = |what: &str, holds: &dyn Fn(&Value) -> bool| {
        for _ in 0..2400 {
            let ran: Ran = command(&["--status", "--socket", socket])
                .output()
                .unwrap()
                .into();
            if ran.status == 0 && holds(&ran.json()) {
                return;
            }
            sleep(Duration::from_millis(100));
        }
        panic!("never {what}");
    };
    until("refused", &|status| {
        let policy = &status["policies"][0];
        let why = policy["failures"][0].as_str().unwrap_or_default();
        policy["ready"] == json!(false)
            && why.contains("quota")
            && status["notes"][0]
                .as_str()
                .unwrap_or_default()
                .contains("the quota `security_group`")
    });
    quota(-1);
    until("in force", &|status| {
        status["policies"][0]["ready"] == json!(true) && status["failures"] == json!([])
    });
    expect_enforced(&server, &ports);
    process.kill().unwrap();
    process.wait().unwrap();
}
