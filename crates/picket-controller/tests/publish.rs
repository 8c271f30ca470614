//! What a controller writes into a real API server: the groups of pods, and how far policies are in force.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a wrong literal fails its test")]

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::thread;
use std::time::Duration;

use picket_cluster::Semantics;
use picket_controller::{
    Cloud, Extent, Failure, LeaseSettings, Plan, PublishSettings, Settings, Step, Timing, Wanted, run,
};
use picket_neutron::{Name, Options};
use picket_node::{Listen, Source};
use picket_policy::ObjectRef;
use picket_source::{ApiServer, Kube, Refused};
use picket_testing::apiserver::Server;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

const ANNOTATION: &str = "picket.dev/security-groups";
const NOT_ENFORCED: &str = "picket.dev/not-enforced";
const STATES: &str = "/apis/picket.dev/v1alpha1/namespaces/default/networkpolicystatuses";
const POLICIES: &str = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// A cloud in which everything is as it should be.
struct Perfect;

#[derive(Clone)]
enum Nothing {}

impl fmt::Display for Nothing {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {}
    }
}

impl Step for Nothing {
    fn kind(&self) -> &'static str {
        match *self {}
    }

    fn group(&self) -> Option<Name> {
        match *self {}
    }

    fn pod(&self) -> Option<ObjectRef> {
        match *self {}
    }

    fn removes(&self) -> bool {
        match *self {}
    }
}

impl Cloud for Perfect {
    type State = ();
    type Step = Nothing;
    type Done = ();

    async fn read(&self) -> Result<(), Failure> {
        Ok(())
    }

    async fn find(&self, (): &mut (), _: &BTreeSet<ObjectRef>) -> Result<(), Failure> {
        Ok(())
    }

    /// Nothing counts at the port of a pod that is called so.
    fn plan(&self, (): &(), wanted: &Wanted<'_>) -> Plan<Nothing> {
        let bare = wanted.objects.ports.keys().filter(|pod| pod.name == "bare");
        Plan {
            unenforced: bare
                .map(|pod| (pod.clone(), "no group counts".to_owned()))
                .collect(),
            ..Plan::default()
        }
    }

    async fn apply(&self, (): &(), step: &Nothing) -> Result<(), Failure> {
        match *step {}
    }

    fn note(&self, (): &mut (), step: &Nothing, (): ()) {
        match *step {}
    }

    fn id_of(&self, (): &(), group: &Name) -> Option<String> {
        Some(group.replace("picket/", ""))
    }
}

/// Runs a controller until this process ends.
fn start(kube: &Kube, folder: &Path) {
    let settings = Settings {
        source: Source::Kube(kube.clone()),
        name: "test".to_owned(),
        lease: Some(LeaseSettings {
            kube: kube.clone(),
            namespace: "kube-system".to_owned(),
            name: "picket-controller".to_owned(),
            length: Duration::from_secs(10),
        }),
        semantics: Semantics::default(),
        options: Options::default(),
        timing: Timing {
            call: Duration::from_secs(1),
            ..Timing::default()
        },
        at_once: 1,
        publish: Some(PublishSettings {
            kube: kube.clone(),
            annotation: Some(ANNOTATION.to_owned()),
            states: true,
        }),
        discover_every: Duration::from_secs(60),
        listen: Listen {
            address: None,
            socket: folder.join("controller.sock"),
        },
    };
    thread::spawn(move || run(&settings, Extent::Forever, |_| Ok(Perfect)));
}

/// An administrator.
struct Admin {
    runtime: Runtime,
    server: ApiServer,
}

impl Admin {
    /// Of a server at which the kind of states is defined; and how to get there.
    fn of(server: &Server) -> (Self, Kube) {
        let mut kube = Kube::new(None, Duration::from_secs(5));
        kube.kubeconfig = Some(server.kubeconfig());
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let server = runtime.block_on(ApiServer::open(&kube)).unwrap();
        let admin = Self { runtime, server };
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        admin.create(definitions, &definition());
        admin.until(STATES, |list| list.is_ok());
        (admin, kube)
    }

    fn get(&self, path: &str) -> Result<Value, Refused> {
        self.runtime.block_on(self.server.get(path)).unwrap()
    }

    /// Creates an object, as soon as the server takes it.
    fn create(&self, list: &str, object: &Value) -> Value {
        loop {
            match self.runtime.block_on(self.server.create(list, object)).unwrap() {
                Ok(created) => return created,
                // What it makes by itself is not there yet.
                Err(refused) if matches!(refused.code, 403 | 404) => {}
                Err(refused) => panic!("{refused}\n{object}"),
            }
        }
    }

    fn merge(&self, path: &str, fields: &Value) {
        let merged = self.runtime.block_on(self.server.merge(path, fields));
        merged.unwrap().unwrap();
    }

    fn delete(&self, path: &str) {
        self.runtime.block_on(self.server.delete(path)).unwrap().unwrap();
    }

    /// Waits until an object says something.
    fn until(&self, path: &str, holds: impl Fn(Result<&Value, u16>) -> bool) {
        loop {
            let got = self.get(path);
            if holds(got.as_ref().map_err(|refused| refused.code)) {
                return;
            }
        }
    }

    /// Isolates the pod of this name.
    fn policy(&self, name: &str) -> Value {
        let policy = json!({
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": {"name": name},
            "spec": {"podSelector": {"matchLabels": {"app": name}}},
        });
        self.create(POLICIES, &policy)
    }

    /// Waits until a pod says this of itself.
    fn until_says(&self, pod: &str, annotation: &str, text: Option<&str>) {
        self.until(&format!("{PODS}/{pod}"), |pod| {
            let annotations = pod.ok().and_then(|pod| pod.pointer("/metadata/annotations"));
            annotations.and_then(|all| all.get(annotation)?.as_str()) == text
        });
    }

    fn pod(&self, name: &str, address: &str) {
        let object = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": {"app": name}},
            "spec": {"containers": [{"name": "a", "image": "a"}], "automountServiceAccountToken": false},
        });
        self.create(PODS, &object);
        let status = json!({"status": {"podIP": address, "podIPs": [{"ip": address}]}});
        self.merge(&format!("{PODS}/{name}/status"), &status);
    }
}

/// What defines the kind of states: the file that is shipped, of which JSON is made here.
fn definition() -> Value {
    let status = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({"type": "object", "properties": {"status": status}});
    let version = json!({
        "name": "v1alpha1",
        "served": true,
        "storage": true,
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": schema},
    });
    let names = json!({"kind": "NetworkPolicyStatus", "plural": "networkpolicystatuses"});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "networkpolicystatuses.picket.dev"},
        "spec": {"group": "picket.dev", "scope": "Namespaced", "names": names, "versions": [version]},
    })
}

mod apiserver {
    use super::*;

    #[test]
    fn pods_have_their_groups_and_policies_their_states() {
        let server = Server::start();
        let (admin, kube) = Admin::of(&server);
        let folder = tempfile::tempdir().unwrap();
        admin.pod("web", "10.0.0.1");
        let created = admin.policy("web");
        // Of a policy that is gone.
        let orphan = json!({
            "apiVersion": "picket.dev/v1alpha1",
            "kind": "NetworkPolicyStatus",
            "metadata": {"name": "gone"},
        });
        admin.create(STATES, &orphan);
        start(&kube, folder.path());

        let groups = "open/egress,policy/default/web/ingress";
        let web = format!("{PODS}/web");
        admin.until_says("web", ANNOTATION, Some(groups));
        let state = format!("{STATES}/web");
        let expected =
            json!({"observedGeneration": 1, "ready": true, "pods": 1, "pending": 0, "failures": []});
        admin.until(&state, |state| {
            state.is_ok_and(|state| state.get("status") == Some(&expected))
        });
        admin.until(&format!("{STATES}/gone"), |state| state == Err(404));
        let written = admin.get(&state).unwrap();
        let owner = written.pointer("/metadata/ownerReferences/0/uid");
        assert_eq!(owner, created.pointer("/metadata/uid"));

        // Where nothing is another, nothing is written.
        let version = |object: &Value| object.pointer("/metadata/resourceVersion").cloned();
        let before = admin.get(&web).unwrap();
        admin.pod("other", "10.0.0.2");
        let open = "open/egress,open/ingress";
        admin.until_says("other", ANNOTATION, Some(open));
        assert_eq!(version(&admin.get(&web).unwrap()), version(&before));
        assert_eq!(version(&admin.get(&state).unwrap()), version(&written));

        // What the policy says becomes another, and then it goes.
        let both =
            json!({"spec": {"podSelector": {"matchLabels": null}, "policyTypes": ["Ingress", "Egress"]}});
        admin.merge(&format!("{POLICIES}/web"), &both);
        let isolated = "policy/default/web/egress,policy/default/web/ingress";
        admin.until_says("other", ANNOTATION, Some(isolated));
        let expected =
            json!({"observedGeneration": 2, "ready": true, "pods": 2, "pending": 0, "failures": []});
        admin.until(&state, |state| {
            state.is_ok_and(|state| state.get("status") == Some(&expected))
        });
        admin.delete(&format!("{POLICIES}/web"));
        admin.until(&state, |state| state == Err(404));
        admin.until_says("web", ANNOTATION, Some(open));
    }

    #[test]
    fn a_pod_says_why_its_policies_are_not_enforced() {
        let server = Server::start();
        let (admin, kube) = Admin::of(&server);
        let folder = tempfile::tempdir().unwrap();
        admin.pod("bare", "10.0.0.1");
        admin.pod("web", "10.0.0.2");
        // As an annotation of long ago says.
        let before = json!({"metadata": {"annotations": {NOT_ENFORCED: "something else"}}});
        for pod in ["bare", "web"] {
            admin.merge(&format!("{PODS}/{pod}"), &before);
        }
        start(&kube, folder.path());
        admin.until_says("bare", NOT_ENFORCED, Some("no group counts"));
        admin.until_says("web", NOT_ENFORCED, None);
    }

    #[test]
    fn what_the_server_lets_nobody_write_keeps_nothing_else_from_being_written() {
        let server = Server::start();
        let (admin, kube) = Admin::of(&server);
        let folder = tempfile::tempdir().unwrap();
        // The first has room for what is written now, and for no byte of what is written later.
        let (first, later) = (
            "open/egress,open/ingress",
            "open/egress,policy/default/a-full/ingress",
        );
        let room = (256 << 10) - "filled".len() - ANNOTATION.len() - first.len();
        for (name, address) in [("a-full", "10.0.0.1"), ("web", "10.0.0.2")] {
            admin.pod(name, address);
        }
        let filled = json!({"metadata": {"annotations": {"filled": "x".repeat(room)}}});
        admin.merge(&format!("{PODS}/a-full"), &filled);
        start(&kube, folder.path());
        admin.until_says("a-full", ANNOTATION, Some(first));
        admin.policy("a-full");
        admin.policy("web");
        admin.until_says("web", ANNOTATION, Some("open/egress,policy/default/web/ingress"));
        for policy in ["a-full", "web"] {
            admin.until(&format!("{STATES}/{policy}"), |state| state.is_ok());
        }
        admin.until_says("a-full", ANNOTATION, Some(first));
        // Once there is room again it is written without anything else.
        admin.merge(
            &format!("{PODS}/a-full"),
            &json!({"metadata": {"annotations": {"filled": null}}}),
        );
        admin.until_says("a-full", ANNOTATION, Some(later));
    }
}
