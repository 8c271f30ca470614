//! A node with three pods, and the world outside.

use std::fs;
use std::path::Path;

use picket_net::Protocol;
use picket_vpp::fake::{Fake, Fault, Options, Packet, State, Translation, When};
use tempfile::TempDir;

/// Manifests that no parser takes: as long as they are there nobody knows the cluster.
pub(crate) const DAMAGED: &str = "{";

/// The target of these tests.
pub(crate) const ACL: &str = "vpp-acl";

/// What changes lists in VPP.
pub(crate) const CHANGES: [&str; 3] = ["acl_add_replace", "acl_interface_set_acl_list", "acl_del"];

/// Manifests, and a VPP for them.
pub(crate) struct Scene {
    folder: TempDir,
    pub(crate) vpp: Fake,
}

const CLUSTER: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: Node
metadata: {name: n1}
spec: {podCIDR: 10.0.0.0/24}
status: {addresses: [{type: InternalIP, address: 10.9.0.1}]}
"#;

const PODS: [(&str, &str); 3] = [("web", "10.0.0.1"), ("db", "10.0.0.2"), ("api", "10.0.0.3")];

fn pod(name: &str, address: &str, interface: Option<&str>) -> String {
    let annotations =
        interface.map(|interface| format!(", annotations: {{picket.dev/vpp-interface: {interface}}}"));
    let annotations = annotations.unwrap_or_default();
    format!(
        "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, namespace: shop, labels: {{app: {name}}}{annotations}}}\n\
         spec: {{nodeName: n1, containers: []}}\nstatus: {{podIPs: [{{ip: {address}}}]}}\n"
    )
}

/// A policy by which `of` may be reached from pods with this label alone.
pub(crate) fn only_from(name: &str, of: &str, from: &str) -> String {
    format!(
        "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{name: {name}, namespace: shop}}\n\
         spec:\n  podSelector: {{matchLabels: {{app: {of}}}}}\n  policyTypes: [Ingress]\n  ingress:\n  \
         - from: [{{podSelector: {{matchLabels: {{app: {from}}}}}}}]\n"
    )
}

/// A policy by which `of` may be reached at this port of SCTP alone, or at all of them.
pub(crate) fn only_sctp(name: &str, of: &str, port: Option<u16>) -> String {
    let port = port.map(|port| format!(", port: {port}")).unwrap_or_default();
    format!(
        "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{name: {name}, namespace: shop}}\n\
         spec:\n  podSelector: {{matchLabels: {{app: {of}}}}}\n  policyTypes: [Ingress]\n  ingress:\n  \
         - ports: [{{protocol: SCTP{port}}}]\n"
    )
}

/// A policy by which `of` may send to pods with this label alone.
pub(crate) fn only_to(name: &str, of: &str, to: &str) -> String {
    format!(
        "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{name: {name}, namespace: shop}}\n\
         spec:\n  podSelector: {{matchLabels: {{app: {of}}}}}\n  policyTypes: [Egress]\n  egress:\n  \
         - to: [{{podSelector: {{matchLabels: {{app: {to}}}}}}}]\n"
    )
}

/// A service in front of some pods.
pub(crate) fn service(name: &str, address: &str) -> String {
    format!(
        "---\napiVersion: v1\nkind: Service\nmetadata: {{name: {name}, namespace: shop}}\n\
         spec: {{clusterIP: {address}, selector: {{app: {name}}}, ports: [{{port: 5432}}]}}\n"
    )
}

/// A policy by which a pod may send nothing.
pub(crate) fn no_egress(name: &str, of: &str) -> String {
    format!(
        "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicy\nmetadata: {{name: {name}, namespace: shop}}\n\
         spec:\n  podSelector: {{matchLabels: {{app: {of}}}}}\n  policyTypes: [Egress]\n"
    )
}

impl Scene {
    /// One whose VPP has an interface of each pod and one that leads out.
    pub(crate) fn new(policy: &str) -> Self {
        let interfaces = [("tap1", "shop/web"), ("tap2", "shop/db"), ("tap3", "shop/api")];
        let options = interfaces.iter().fold(Options::new(7), |options, (name, tag)| {
            options.interface(name, tag)
        });
        Self::with(policy, options.interface("ge0", ""))
    }

    pub(crate) fn with(policy: &str, options: Options) -> Self {
        let scene = Self {
            folder: tempfile::tempdir().unwrap(),
            vpp: Fake::start(options).unwrap(),
        };
        scene.annotate(&[]);
        scene.put(policy);
        scene
    }

    /// The pods, of which these name interfaces as theirs.
    pub(crate) fn annotate(&self, interfaces: &[(&str, &str)]) {
        self.be(&PODS.map(|(name, _)| name), interfaces);
    }

    /// The cluster has these of its pods alone.
    pub(crate) fn have(&self, pods: &[&str]) {
        self.be(pods, &[]);
    }

    fn be(&self, pods: &[&str], interfaces: &[(&str, &str)]) {
        let there = PODS.iter().filter(|(name, _)| pods.contains(name));
        let pods = there.map(|(name, address)| {
            let own = interfaces.iter().find(|(pod, _)| pod == name);
            pod(name, address, own.map(|(_, interface)| *interface))
        });
        let pods: String = pods.collect();
        self.write("cluster.yaml", &format!("{CLUSTER}{pods}"));
    }

    /// Another policy instead of the one that there is.
    pub(crate) fn put(&self, policy: &str) {
        self.write("policy.yaml", policy);
    }

    fn write(&self, path: &str, text: &str) {
        let new = self.folder.path().join("new");
        fs::write(&new, text).unwrap();
        // At once, so that nobody reads a part of it.
        fs::rename(new, self.folder.path().join(path)).unwrap();
    }

    pub(crate) fn manifests(&self) -> &Path {
        self.folder.path()
    }

    /// The arguments of an agent for it.
    pub(crate) fn arguments(&self) -> Vec<&str> {
        vec![
            "--target",
            ACL,
            "--vpp-socket",
            self.vpp.socket().to_str().unwrap(),
        ]
    }

    /// VPP refuses so many lists, the next ones that it is told to make.
    pub(crate) fn refuse_lists(&self, count: usize) {
        for behind in 0..count {
            let message = "acl_add_replace".to_owned();
            self.vpp.fail(When::Named(message, behind), Fault::Refuse(-1));
        }
    }

    /// Whether who has the first address reaches the second one, over these interfaces.
    pub(crate) fn reaches(&self, (from, source): (&str, &str), (to, destination): (&str, &str)) -> bool {
        reaches(&self.vpp, (from, source), (to, destination))
    }

    /// How many requests changed lists since the record was cleared.
    pub(crate) fn changes(&self) -> usize {
        let record = self.vpp.record();
        record
            .iter()
            .filter(|message| CHANGES.contains(&&*message.name))
            .count()
    }
}

/// Whether who has the first address reaches the second one, over these interfaces of a VPP.
pub(crate) fn reaches(vpp: &Fake, from: (&str, &str), to: (&str, &str)) -> bool {
    travels(vpp, from, to, None)
}

/// The same by an address that VPP translates to the second one.
pub(crate) fn reaches_through(vpp: &Fake, service: &str, from: (&str, &str), to: (&str, &str)) -> bool {
    let translation = Translation {
        destination: to.1.parse().unwrap(),
        port: 5432,
        source: None,
    };
    travels(vpp, from, (to.0, service), Some(translation))
}

fn travels(
    vpp: &Fake,
    (from, source): (&str, &str),
    (to, destination): (&str, &str),
    translation: Option<Translation>,
) -> bool {
    would_travel(&vpp.state(), (from, source), (to, destination), translation)
}

/// Whether who has the first address reaches the second one, in this state of a VPP.
pub(crate) fn would_reach(state: &State, from: (&str, &str), to: (&str, &str)) -> bool {
    would_travel(state, from, to, None)
}

fn would_travel(
    state: &State,
    (from, source): (&str, &str),
    (to, destination): (&str, &str),
    translation: Option<Translation>,
) -> bool {
    let [from, to] = [from, to].map(|name| state.interface(name).unwrap());
    let ends = (
        (source.parse().unwrap(), 40_000),
        (destination.parse().unwrap(), 5432),
    );
    let packet = Packet::new(Protocol::TCP, ends.0, ends.1);
    // The state is a copy: no session is left behind.
    state.would_reach(from, to, &packet, translation)
}

pub(crate) const WEB: (&str, &str) = ("tap1", "10.0.0.1");
pub(crate) const DB: (&str, &str) = ("tap2", "10.0.0.2");
pub(crate) const API: (&str, &str) = ("tap3", "10.0.0.3");
pub(crate) const WORLD: (&str, &str) = ("ge0", "192.0.2.1");
