//! Whatever goes wrong while the agent changes lists: in the end they are right, and meanwhile nothing passes that passes neither
//! before nor after.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use picket_net::Protocol;
use picket_vpp::fake::{Fault, Options, Packet, State, When};

use crate::agent::Agent;
use crate::scene::{ACL, Scene, would_reach};

/// Who sends and receives: an interface, and an address of each family there.
type End = (&'static str, [&'static str; 2]);

/// Three pods and the world outside.
const ENDS: [End; 4] = [
    ("tap4", ["10.0.0.11", "fd00::11"]),
    ("tap5", ["10.0.0.12", "fd00::12"]),
    ("tap6", ["10.0.0.13", "fd00::13"]),
    ("ge0", ["192.0.2.1", "2001:db8::1"]),
];

/// What may be sent from one end to another, of one family.
const SENT: usize = 24;

/// Each of those.
fn sent() -> impl Iterator<Item = [(&'static str, &'static str); 2]> {
    ENDS.into_iter().flat_map(|(from, sources)| {
        let others = ENDS.into_iter().filter(move |(to, _)| *to != from);
        others.flat_map(move |(to, destinations)| {
            [0, 1].map(|family| [(from, sources[family]), (to, destinations[family])])
        })
    })
}

/// Whether each of them passes.
fn passing(state: &State) -> Vec<bool> {
    sent().map(|[from, to]| would_reach(state, from, to)).collect()
}

/// The pods, of both families, and a policy: what `b` may exchange with whom, and that another may send nothing.
fn cluster(name: &str, other: &str, silent: &str) -> String {
    let pod = |(name, [v4, v6]): (&str, [&str; 2])| {
        format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: dual, labels: {{app: {name}}}}}\n\
             spec: {{nodeName: n1, containers: []}}\nstatus: {{podIPs: [{{ip: {v4}}}, {{ip: \"{v6}\"}}]}}\n---\n"
        )
    };
    let pods = ["a", "b", "c"]
        .iter()
        .zip(ENDS)
        .map(|(name, (_, addresses))| pod((name, addresses)));
    let peers = format!("[{{podSelector: {{matchLabels: {{app: {other}}}}}}}]");
    let policy = |name: &str, of: &str, ways: &str| {
        format!(
            "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{name: {name}, namespace: dual}}\n\
             spec: {{podSelector: {{matchLabels: {{app: {of}}}}}, {ways}}}\n---\n"
        )
    };
    let both =
        format!("policyTypes: [Ingress, Egress], ingress: [{{from: {peers}}}], egress: [{{to: {peers}}}]");
    pods.chain([
        policy(name, "b", &both),
        policy("silent", silent, "policyTypes: [Egress]"),
    ])
    .collect()
}

/// Two clusters, and the policies that are in force in each.
fn clusters() -> [(String, [&'static str; 2]); 2] {
    [
        (
            cluster("one", "a", "c"),
            ["NetworkPolicy dual/one", "NetworkPolicy dual/silent"],
        ),
        (
            cluster("two", "c", "a"),
            ["NetworkPolicy dual/silent", "NetworkPolicy dual/two"],
        ),
    ]
}

fn scene() -> Scene {
    let interfaces = [
        ("tap4", "dual/a"),
        ("tap5", "dual/b"),
        ("tap6", "dual/c"),
        ("ge0", ""),
    ];
    let options = interfaces.iter().fold(Options::new(23), |options, (name, tag)| {
        options.interface(name, tag)
    });
    Scene::with(&clusters()[0].0, options)
}

/// Sends what passes, and what answers it, so that sessions are there.
fn send(scene: &Scene) {
    let state = scene.vpp.state();
    for [(from, source), (to, destination)] in sent() {
        let [from, to] = [from, to].map(|name| state.interface(name).unwrap());
        let ends = (source.parse().unwrap(), destination.parse().unwrap());
        let packet = Packet::new(Protocol::TCP, (ends.0, 40_000), (ends.1, 5432));
        if scene.vpp.journey(from, to, &packet, None).reaches() {
            assert!(scene.vpp.journey(to, from, &packet.reply(), None).reaches());
        }
    }
}

/// Looks after every change of a VPP whether something passes that passes with neither of these policies; not where it was started
/// again, until it has lists again.
fn watch(scene: &Scene, each: [Vec<bool>; 2], wanted: &Arc<Mutex<usize>>) {
    let wanted = Arc::clone(wanted);
    let mut was_restarted = false;
    scene.vpp.observe(move |state, change| {
        let now = passing(state);
        was_restarted |= change.contains("restart");
        was_restarted &= now != each[*wanted.lock().unwrap()];
        let is_open = |at: &usize| now[*at] && !each.iter().any(|passing| passing[*at]);
        match (0..SENT).find(is_open).filter(|_| !was_restarted) {
            Some(at) => Err(format!("after {change}: {:?}", sent().nth(at))),
            None => Ok(()),
        }
    });
}

#[test]
fn nothing_opens_whatever_goes_wrong_while_lists_change() {
    let scene = scene();
    let clusters = clusters();
    let agent = Agent::start(scene.manifests(), &scene.arguments());
    let each = [0, 1].map(|number| {
        let (manifests, policies) = &clusters[number];
        scene.put(manifests);
        agent.until_in_force(ACL, policies);
        passing(&scene.vpp.state())
    });
    for passing in &each {
        // Of both families alike: b and its one peer, and what is nobody's business.
        assert_eq!(passing.len(), SENT);
        assert!(passing.chunks(2).all(|both| both[0] == both[1]), "{passing:?}");
        assert!(passing.contains(&true) && passing.contains(&false));
    }
    let (wanted, mut current) = (Arc::new(Mutex::new(1)), 1);
    watch(&scene, each.clone(), &wanted);
    for fault in Fault::each_kind(Duration::from_millis(20)) {
        for (message, place) in [
            ("acl_add_replace", 0),
            ("acl_add_replace", 2),
            ("acl_interface_set_acl_list", 0),
            ("acl_interface_set_acl_list", 1),
            ("acl_del", 0),
        ] {
            send(&scene);
            current = 1 - current;
            *wanted.lock().unwrap() = current;
            scene
                .vpp
                .fail(When::Named(message.to_owned(), place), fault.clone());
            let (manifests, policies) = &clusters[current];
            scene.put(manifests);
            if fault == Fault::Hold {
                agent.until("the fault", |_| scene.vpp.faults() == 0);
                scene.vpp.release();
            }
            agent.until_in_force(ACL, policies);
            assert_eq!(scene.vpp.faults(), 0, "{fault:?} {message} {place}");
            assert_eq!(
                passing(&scene.vpp.state()),
                each[current],
                "{fault:?} {message} {place}"
            );
        }
    }
    assert_eq!(scene.vpp.findings(), Vec::<String>::new());
    assert_eq!(scene.vpp.complaints(), Vec::<String>::new());
}
