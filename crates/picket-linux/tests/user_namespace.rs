//! A user namespace wants a process with one thread, so this test is a program of its own: as root it starts itself
//! again as an ordinary user.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test that is its own program"
)]

use std::process::Command;

use picket_linux::{Netlink, NetworkNamespace, UserNamespace, can_administer_network, enter_user_namespace};

fn main() {
    if std::env::args().nth(1).as_deref() == Some("as-ordinary-user") {
        return ordinary_user_gets_networks_of_their_own();
    }
    assert!(can_administer_network(), "this test needs root");
    // The build folder may be closed to others.
    let copy = std::env::temp_dir().join(format!("picket-user-namespace-{}", std::process::id()));
    std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    let status = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
        .arg(&copy)
        .arg("as-ordinary-user")
        .status();
    std::fs::remove_file(&copy).unwrap();
    assert!(status.unwrap().success());
    println!("test ordinary_user_gets_networks_of_their_own ... ok");
}

fn ordinary_user_gets_networks_of_their_own() {
    assert!(!can_administer_network());
    enter_user_namespace().unwrap();
    assert!(can_administer_network());
    let namespace = NetworkNamespace::create().unwrap();
    let mut netlink = Netlink::open(&namespace).unwrap();
    netlink.set_up("lo").unwrap();
    namespace.set(&[("ipv4/ip_forward", "1")]).unwrap();
    let output = namespace
        .run(|| {
            Command::new("nft")
                .args(["add", "table", "inet", "x"])
                .status()
                .unwrap()
        })
        .unwrap();
    assert!(output.success());
    UserNamespace::current().unwrap();
}
