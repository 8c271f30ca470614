//! A controller that is killed at any of its calls leaves nothing that the next one does not mend.

use std::fs;
use std::process::Stdio;
use std::thread::sleep;
use std::time::Duration;

use picket_testing::faults::{Fault, Proxy};
use picket_testing::neutron::Neutron;
use serde_json::json;

use crate::openstack::live::proof;
use crate::openstack::once::{CLUSTER, expect_enforced, groups_of, manifests, ports};
use crate::openstack::{command, controller};

#[test]
fn at_every_call_of_a_sequence() {
    let (server, folder) = (Neutron::start(), manifests());
    let ports = ports(&server);
    let proxy = Proxy::to(server.port());
    let endpoint = proxy.endpoint();
    let file = folder.path().join("cluster.yaml");
    let other = CLUSTER.replace(
        "app: web}}}]",
        "app: web}}}, {ipBlock: {cidr: 10.0.0.0/8, except: [10.0.0.0/24]}}]",
    );
    let other = other.replace(
        "name: db, namespace: shop}\nspec",
        "name: other, namespace: shop}\nspec",
    );
    assert_ne!(other, CLUSTER);
    let path = folder.path().to_str().unwrap();
    let arguments = [
        "--source",
        path,
        "--endpoint",
        &endpoint,
        "--project",
        "fake_project_id",
    ];
    let (mut killed, mut ended) = (0, 0);
    while ended < 2 {
        let is_first = (killed + ended) % 2 == 0;
        fs::write(&file, if is_first { CLUSTER } else { &other }).unwrap();
        // The call is made, and nobody hears how it ends.
        proxy.plan_write(killed / 2, Fault::SilenceAfter);
        let mut process = command(&arguments)
            .args(["--once", "--call-timeout", "600"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        while proxy.has_write() && process.try_wait().unwrap().is_none() {
            sleep(Duration::from_millis(20));
        }
        if proxy.take_write() {
            process.kill().unwrap();
            killed += 1;
        } else {
            ended += 1;
        }
        process.wait().unwrap();
        let go = |how: &str| controller(folder.path(), &[&arguments[2..], &[how]].concat());
        let mended = go("--once");
        assert_eq!(mended.status, 0, "{}", mended.stderr);
        assert_eq!(go("--dry-run").stdout, "");
        let proved = proof(&folder, &server);
        assert_eq!(proved["proved"], json!(true), "{proved:#}");
        match is_first {
            true => expect_enforced(&server, &ports),
            false => assert_eq!(
                groups_of(&server, &ports[1]),
                ["picket/open/egress", "picket/policy/shop/other/ingress"]
            ),
        }
    }
    assert!(killed > 10, "{killed}");
}
