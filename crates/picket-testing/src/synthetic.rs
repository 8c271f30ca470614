//! Large clusters with the shape of real ones, the same for the same numbers.
//!
//! Namespaces belong to teams and environments and hold applications of three tiers. What their policies say is what
//! people write most: deny everything, allow the own namespace, DNS, other namespaces by label and by name, address
//! blocks with exceptions, named ports and port ranges.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use picket_cluster::{Namespace, Node, Object, Pod, Snapshot};
use picket_net::Protocol;
use picket_policy::{Direction, Policy};

use crate::build::{self, RuleBuilder, accept, block, pods_in, pods_where};

/// How large a cluster is, and which of its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// How many pods, those of kube-system included.
    pub pods: usize,
    /// How many namespaces, kube-system included; at least 2.
    pub namespaces: usize,
    /// How many policies.
    pub policies: usize,
    /// Which of the clusters of this size.
    pub seed: u64,
}

impl Size {
    /// A cluster of these numbers.
    pub fn of(pods: usize, namespaces: usize, policies: usize) -> Self {
        Self {
            pods,
            namespaces,
            policies,
            seed: 1,
        }
    }

    /// The shape of a real cluster: 5,413 pods, 604 namespaces and 13,678 policies.
    pub const REAL: Self = Self {
        pods: 5_413,
        namespaces: 604,
        policies: 13_678,
        seed: 1,
    };

    /// 100,000 pods, 25,000 namespaces and 75,000 policies.
    pub const LARGE: Self = Self {
        pods: 100_000,
        namespaces: 25_000,
        policies: 75_000,
        seed: 1,
    };
}

const TIERS: [&str; 3] = ["web", "app", "db"];
const TEAMS: usize = 40;
const ENVIRONMENTS: [&str; 3] = ["prod", "staging", "dev"];
/// As many pods as a node takes by default.
const PODS_PER_NODE: usize = 110;

/// The cluster as a snapshot.
pub fn cluster(size: Size) -> Snapshot {
    objects(size).collect()
}

/// Puts as many pods as a node takes by default onto `node`, from all over the cluster, and the others of it elsewhere.
pub fn crowd(snapshot: &mut Snapshot, node: &str) {
    let step = (snapshot.pods.len() / PODS_PER_NODE).max(1);
    for (at, pod) in snapshot.pods.values_mut().enumerate() {
        let here = at % step == 0 && at / step < PODS_PER_NODE;
        let pod = Arc::make_mut(pod);
        if here {
            pod.node = Some(node.into());
        } else if pod.node.as_deref() == Some(node) {
            pod.node = Some(format!("{node}-elsewhere").into());
        }
    }
}

/// The cluster's objects: namespaces, nodes, pods, policies.
pub fn objects(size: Size) -> impl Iterator<Item = Object> {
    let nodes = size.pods.div_ceil(PODS_PER_NODE);
    let namespaces = (0..size.namespaces).map(move |at| Object::Namespace(namespace(size, at)));
    let nodes = (0..nodes).map(|at| Object::Node(node(at)));
    let pods = (0..size.pods).map(move |at| Object::from(pod(size, at)));
    let policies = (0..size.policies).map(move |at| Object::Policy(policy(size, at)));
    namespaces.chain(nodes).chain(pods).chain(policies)
}

/// One namespace; the first is kube-system.
pub fn namespace(size: Size, at: usize) -> Namespace {
    let mut random = Random::new(size.seed, 1, at);
    let team = format!("team-{}", random.below(TEAMS));
    build::namespace(&namespace_name(at))
        .label("team", &team)
        .label("env", random.pick(&ENVIRONMENTS))
        .build()
}

/// One node, dual stack.
pub fn node(at: usize) -> Node {
    let (high, low) = ((at / 250) % 250, at % 250 + 1);
    build::node(&format!("node-{at}"))
        .label("kubernetes.io/os", "linux")
        .label("topology.kubernetes.io/zone", &format!("zone-{}", at % 3))
        .ip(&format!("192.168.{high}.{low}"))
        .ip(&format!("fd00:1::{at:x}"))
        .build()
}

/// One pod, dual stack, with the labels that a Deployment and a mesh give it.
pub fn pod(size: Size, at: usize) -> Pod {
    let mut random = Random::new(size.seed, 2, at);
    let home = namespace_of_pod(size, at);
    let namespace = namespace_name(home);
    let round = at / size.namespaces;
    let tier = TIERS[round % TIERS.len()];
    let app = random.below(1 + round / 6);
    let (app, replica) = (format!("{tier}-{app}"), at % 97);
    let number = u32::try_from(at).unwrap();
    let v4 = IpAddr::V4(Ipv4Addr::from_bits(
        Ipv4Addr::new(10, 128, 0, 0).to_bits() + number + 256,
    ));
    let v6 = Ipv6Addr::from_bits(
        Ipv6Addr::new(0xfd00, 0x10, 0, 0, 0, 0, 0, 0).to_bits() + u128::from(number) + 256,
    );
    let template = format!("{:x}", hash(home as u64 ^ ((round % 3) as u64) << 32) >> 32);
    let builder = build::pod(&format!("{namespace}/{app}-{at}-{replica}"))
        .owned_by("ReplicaSet", &format!("{app}-{template}"))
        .label("app", &app)
        .label("tier", tier)
        .label("app.kubernetes.io/part-of", &namespace)
        .label("pod-template-hash", &template)
        .on(&format!("node-{}", at / PODS_PER_NODE))
        .ip(&v4.to_string())
        .ip(&v6.to_string());
    let builder = match tier {
        "web" => builder
            .port(
                "http",
                Protocol::TCP,
                if random.below(4) == 0 { 8081 } else { 8080 },
            )
            .port("metrics", Protocol::TCP, 9090),
        "app" => builder
            .port("grpc", Protocol::TCP, 50051)
            .port("metrics", Protocol::TCP, 9090),
        _ => builder.port("sql", Protocol::TCP, 5432),
    };
    if home == 0 {
        builder.label("k8s-app", "kube-dns").build()
    } else {
        builder.build()
    }
}

/// One policy; a namespace's first denies everything.
pub fn policy(size: Size, at: usize) -> Policy {
    use Direction::{Egress, Ingress};
    let mut random = Random::new(size.seed, 3, at);
    let home = at % size.namespaces;
    let namespace = namespace_name(home);
    let round = at / size.namespaces;
    let named = |name: &str| build::policy(&format!("{namespace}/{name}-{round}"));
    let tier = random.pick(&TIERS);
    let other = namespace_name(random.below(size.namespaces));
    let team = format!("team=team-{}", random.below(TEAMS));
    let tiered = format!("tier={tier}");
    if round == 0 {
        return named("deny-all").isolates(Ingress).isolates(Egress).build();
    }
    let policy = match random.below(11) {
        0 => named("same-namespace")
            .ingress(accept().peer(pods_in(&namespace, "")))
            .egress(accept().peer(pods_in(&namespace, ""))),
        1 => named("dns").egress(dns(pods_where(
            "kubernetes.io/metadata.name=kube-system",
            "k8s-app=kube-dns",
        ))),
        2 => named("dns").egress(dns(pods_where("", "k8s-app=kube-dns"))),
        3 => named("from-namespace").selects(&tiered).ingress(
            accept()
                .peer(pods_where(&format!("kubernetes.io/metadata.name={other}"), ""))
                .port(Protocol::TCP, 8080),
        ),
        4 => named("from-team").selects(&tiered).ingress(
            accept()
                .peer(pods_where(&team, "tier=web"))
                .named("http", Protocol::TCP),
        ),
        5 => named("to-block")
            .selects(&tiered)
            .egress(accept().peer(random_block(&mut random)).port(Protocol::TCP, 443)),
        6 => named("to-named").selects(&tiered).egress(
            accept()
                .peer(pods_in(&namespace, "tier=db"))
                .peer(pods_where(&team, "tier=db"))
                .named("sql", Protocol::TCP),
        ),
        7 => named("from-app").selects("tier=db").ingress(
            accept()
                .peer(pods_in(&namespace, "tier in (app,web)"))
                .ports(Protocol::TCP, 5432, 5439),
        ),
        8 => named("metrics").ingress(
            accept()
                .peer(pods_where("kubernetes.io/metadata.name=kube-system", ""))
                .named("metrics", Protocol::TCP),
        ),
        9 => named("not-dev").selects(&tiered).ingress(
            accept()
                .peer(pods_where("env notin (dev)", &format!("app={tier}-0")))
                .protocol(Protocol::TCP),
        ),
        _ => named("to-world").selects("tier=web").egress(
            accept()
                .peer(block("0.0.0.0/0", &["10.0.0.0/8", "192.168.0.0/16"]))
                .peer(block("::/0", &["fd00::/8"]))
                .port(Protocol::TCP, 443)
                .port(Protocol::TCP, 80),
        ),
    };
    policy.build()
}

fn dns(peer: picket_policy::Peer) -> RuleBuilder {
    accept()
        .peer(peer)
        .port(Protocol::UDP, 53)
        .port(Protocol::TCP, 53)
}

/// A network outside of the cluster, sometimes with a hole.
fn random_block(random: &mut Random) -> picket_policy::Peer {
    let (one, two) = (random.below(40), random.below(8) * 32);
    if random.below(3) == 0 {
        block(&format!("172.{one}.0.0/16"), &[&format!("172.{one}.{two}.0/24")])
    } else {
        block(&format!("203.{one}.{two}.0/24"), &[])
    }
}

/// The first pods fill every namespace in turn; a fifth of the rest lives in a twentieth of the namespaces.
fn namespace_of_pod(size: Size, at: usize) -> usize {
    let mut random = Random::new(size.seed, 4, at);
    if at >= size.namespaces && random.below(5) == 0 {
        return random.below(size.namespaces.div_ceil(20));
    }
    at % size.namespaces
}

fn namespace_name(at: usize) -> String {
    if at == 0 {
        return "kube-system".to_owned();
    }
    format!("ns-{at}")
}

/// A stream of numbers that its seeds decide (SplitMix64).
struct Random(u64);

impl Random {
    fn new(seed: u64, purpose: u64, at: usize) -> Self {
        Self(hash(seed ^ hash(purpose ^ hash(at as u64))))
    }

    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        usize::try_from(hash(self.0) % limit as u64).unwrap()
    }

    fn pick<'a>(&mut self, items: &[&'a str]) -> &'a str {
        items[self.below(items.len())]
    }
}

/// The finaliser of SplitMix64.
fn hash(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_size_is_the_same_cluster() {
        let size = Size {
            pods: 200,
            namespaces: 12,
            policies: 120,
            seed: 7,
        };
        let one = cluster(size);
        assert_eq!(one, cluster(size));
        assert_eq!(
            (one.pods.len(), one.namespaces.len(), one.policies.len()),
            (200, 12, 120)
        );
        assert_ne!(one, cluster(Size { seed: 8, ..size }));
    }
}
