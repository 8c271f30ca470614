//! No test waits for time to pass, or measures it.

use std::path::Path;

use crate::assert_none;
use crate::modules::modules;
use crate::safety::words;

/// What a test would use for it.
const CLOCKS: [&str; 5] = ["sleep", "Instant", "SystemTime", "elapsed", "park_timeout"];

/// Files with a test that looks again and again for what nothing announces, and gives up after a bound far beyond it.
const POLLING: [&str; 14] = [
    // A controller says how it goes only when it is asked.
    "crates/picket-controller/tests/lease.rs",
    "crates/picket-controller/tests/neutron/openstack/two.rs",
    "crates/picket/tests/cluster/apiserver/openstack.rs",
    "crates/picket/tests/controller/openstack/told.rs",
    // A proxy does not say when its fault has come about.
    "crates/picket/tests/controller/openstack/killed.rs",
    // The kernel takes the cables of a dropped namespace down in the background.
    "crates/picket-linux/tests/namespaces.rs",
    // An agent says how it goes only when it is asked.
    "crates/picket/tests/cluster/agents.rs",
    "crates/picket/tests/cluster/pods.rs",
    "crates/picket/tests/vpp/agent.rs",
    // So does a reflector.
    "crates/picket/tests/cluster/reflectors.rs",
    // kube-proxy does not say when a service works.
    "crates/picket/tests/cluster/node/kube_proxy.rs",
    // It sends at a rate that sockets take in.
    "crates/picket/tests/cluster/prober.rs",
    // So does this one, which also says how long a table was away.
    "crates/picket/tests/cluster/watched/flows.rs",
    // And this one, of which a connection that is denied never answers.
    "crates/picket/tests/cluster/watched/connections.rs",
];

#[test]
fn no_test_is_timed() {
    let mut findings = Vec::new();
    let excepted = |path: &Path| {
        path.ends_with("tidy/timing.rs")
            || path.iter().any(|folder| folder == "benches")
            || POLLING.iter().any(|polling| path == Path::new(polling))
    };
    for module in modules().iter().filter(|module| !excepted(&module.path)) {
        let tests = module.test_lines();
        for (word, line) in words(module.source.parse().expect("it was parsed before")) {
            if CLOCKS.contains(&word.as_str()) && tests.iter().any(|range| range.contains(&line)) {
                findings.push(format!("{}: `{word}`", module.place(line)));
            }
        }
    }
    assert_none(
        "wait for what must happen instead (a pipe, a poll, a process that ends)",
        &findings,
    );
}
