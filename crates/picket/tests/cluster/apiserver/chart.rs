//! The chart, rendered by Helm and taken by a real API server.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Output};

use picket_testing::program::HELM;
use serde_json::{Value, json};

use crate::apiserver::deploy::{MANIFEST, apply, container, documents, expect_no_writes, granted, path_of};
use crate::apiserver::reflect::REFLECTOR;
use crate::apiserver::vpp::MANIFEST as VPP;
use crate::client::{Api, serve};

/// The manifest of agents in pods.
const PODS: &str = include_str!("../../../../../deploy/agent-pods.yaml");

/// The manifest of controllers.
const CONTROLLER: &str = include_str!("../../../../../deploy/controller.yaml");

/// What defines the kind of the states that they write.
const STATES: &str = include_str!("../../../../../deploy/crd-networkpolicystatus.yaml");

/// What takes away what agents have left.
const CLEANUP: &str = include_str!("../../../../../deploy/cleanup.yaml");

/// What Helm makes of the chart with some values.
fn helm(command: &str, values: &[&str]) -> Output {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/chart");
    let home = tempfile::tempdir().unwrap();
    let mut helm = Command::new(HELM.path());
    helm.args(command.split(' '))
        .arg(chart)
        .args(["--namespace", "kube-system"])
        .env("HOME", home.path());
    for value in values {
        helm.args(["--set", value]);
    }
    helm.output().unwrap()
}

pub(crate) fn rendered(values: &[&str]) -> String {
    let output = helm("template picket", values);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{values:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// With these values the chart is well formed, and with each of the wrong ones beside them its schema refuses it.
fn expect_refused(values: &[&str], wrong: &[&str]) {
    for wrong in wrong {
        let output = helm("template picket", &[values, &[wrong]].concat());
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && errors.contains("schema"),
            "{wrong}: {errors}"
        );
    }
    let output = helm("lint --strict", values);
    assert!(output.status.success(), "{output:?}");
}

/// Takes away what was applied, and what the server says of each object.
fn withdraw(api: &Api, applied: BTreeMap<String, Value>) -> BTreeMap<String, Value> {
    let withdrawn = applied.into_iter().map(|(kind, mut object)| {
        let metadata = object["metadata"].as_object_mut().unwrap();
        api.delete(&path_of(&kind), metadata["name"].as_str().unwrap());
        metadata.retain(|field, _| ["name", "namespace", "labels", "annotations"].contains(&field.as_str()));
        (kind, object)
    });
    withdrawn.collect()
}

#[test]
fn without_values_it_is_the_manifest() {
    let (_server, _, api) = serve();
    let manifest = withdraw(&api, apply(&api, MANIFEST));
    let chart = withdraw(&api, apply(&api, &rendered(&[])));
    assert_eq!(manifest.len(), 4);
    assert_eq!(chart, manifest);
}

#[test]
fn of_pods_it_is_their_manifest() {
    let (_server, _, api) = serve();
    let manifest = withdraw(&api, apply(&api, PODS));
    let chart = withdraw(&api, apply(&api, &rendered(&["mode=pods"])));
    assert_eq!(manifest.len(), 5);
    assert_eq!(chart, manifest);
}

#[test]
fn of_reflectors_it_is_their_manifest() {
    let (_server, _, api) = serve();
    let manifest = withdraw(&api, apply(&api, REFLECTOR));
    let chart = withdraw(&api, apply(&api, &rendered(&["mode=reflector"])));
    assert_eq!(manifest.len(), 4);
    assert_eq!(chart, manifest);
}

#[test]
fn of_controllers_it_is_their_manifest() {
    let (_server, _, api) = serve();
    let manifest = withdraw(&api, apply(&api, CONTROLLER));
    let chart = withdraw(&api, apply(&api, &rendered(&["mode=controller"])));
    assert_eq!(manifest.len(), 6);
    assert_eq!(chart, manifest);
}

/// What the roles of a manifest let somebody write.
fn writes(api: &Api, manifest: &str) -> BTreeSet<String> {
    let mut writes = BTreeSet::new();
    for (kind, role) in documents(manifest).filter(|(kind, _)| kind.ends_with("Role")) {
        let created = api.create_yaml(&path_of(kind), role);
        api.delete(&path_of(kind), created["metadata"]["name"].as_str().unwrap());
        let all = granted(&created).into_iter();
        let words = all.map(|(group, resource, verb)| format!("{verb} {resource}.{group}"));
        writes.extend(
            words.filter(|word| !["get", "list", "watch"].contains(&word.split(' ').next().unwrap())),
        );
    }
    writes
}

#[test]
fn controllers_may_write_their_lease_and_an_annotation_and_states_where_they_are_wanted() {
    let (_server, _, api) = serve();
    let usual = [
        "create leases.coordination.k8s.io",
        "patch pods.",
        "update leases.coordination.k8s.io",
    ];
    let usual: BTreeSet<_> = usual.map(str::to_owned).into();
    assert_eq!(writes(&api, CONTROLLER), usual);
    assert_eq!(writes(&api, &rendered(&["mode=controller"])), usual);
    let with_states = writes(
        &api,
        &rendered(&["mode=controller", "controller.policyStatus=true"]),
    );
    let states = with_states.difference(&usual).map(String::as_str);
    assert_eq!(
        states.collect::<Vec<_>>(),
        [
            "create networkpolicystatuses.picket.dev",
            "delete networkpolicystatuses.picket.dev",
            "patch networkpolicystatuses.picket.dev",
            "patch networkpolicystatuses/status.picket.dev",
        ]
    );
}

#[test]
fn states_of_policies_are_a_kind_that_the_server_takes() {
    let (_server, _, api) = serve();
    let (_, definition) = documents(STATES).next().unwrap();
    api.create_yaml(
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        definition,
    );
    let list = "/apis/picket.dev/v1alpha1/namespaces/default/networkpolicystatuses";
    api.await_list(list);
    let state = "{apiVersion: picket.dev/v1alpha1, kind: NetworkPolicyStatus, metadata: {name: web}}";
    api.apply_yaml(list, "web", state);
    let status =
        json!({"observedGeneration": 2, "ready": false, "pods": 3, "pending": 1, "failures": ["quota"]});
    assert_eq!(api.set_status(list, "web", &status)["status"], status);
}

#[test]
fn values_of_controllers_are_used_and_wrong_ones_are_refused() {
    let (_server, _, api) = serve();
    let applied = apply(
        &api,
        &rendered(&[
            "mode=controller",
            "listen=[::]:9999",
            "arguments[0]=--neutron-cluster=here",
            "controller.endpoint=http://neutron:9696",
            "controller.policyStatus=true",
            "controller.replicas=3",
            "controller.priorityClassName=",
        ]),
    );
    let deployment = &applied["Deployment"]["spec"];
    let pod = &deployment["template"]["spec"];
    assert_eq!(
        (&deployment["replicas"], &pod["priorityClassName"]),
        (&json!(3), &Value::Null)
    );
    let container = &pod["containers"][0];
    assert_eq!(
        container["args"],
        json!([
            "controller",
            "--target=neutron",
            "--endpoint=http://neutron:9696",
            "--policy-status=on",
            "--listen=[::]:9999",
            "--log-format=json",
            "--neutron-cluster=here"
        ])
    );
    // There is nothing secret.
    let volumes = pod["volumes"].as_array().unwrap();
    assert!(volumes.len() == 1 && volumes[0]["emptyDir"].is_object());
    expect_refused(
        &["mode=controller"],
        &[
            "controller.endpoint=neutron:9696",
            "controller.cloud=",
            "controller.replicas=0",
            "controller.secret=a",
        ],
    );
}

#[test]
fn of_vpp_it_is_its_manifest() {
    let (_server, _, api) = serve();
    let manifest = withdraw(&api, apply(&api, VPP));
    let chart = withdraw(&api, apply(&api, &rendered(&["mode=vpp"])));
    assert_eq!(manifest.len(), 4);
    assert_eq!(chart, manifest);
}

#[test]
fn nothing_that_runs_on_nodes_or_reflects_may_write_anything_but_events() {
    let (_server, _, api) = serve();
    let charts = ["host", "pods", "vpp", "reflector"].map(|mode| rendered(&[&format!("mode={mode}")]));
    let manifests = [MANIFEST, PODS, VPP, REFLECTOR, CLEANUP].map(str::to_owned);
    let mut roles = 0;
    for shipped in manifests.iter().chain(&charts) {
        for (kind, role) in documents(shipped).filter(|(kind, _)| kind.ends_with("Role")) {
            let created = api.create_yaml(&path_of(kind), role);
            expect_no_writes(&created);
            api.delete(&path_of(kind), created["metadata"]["name"].as_str().unwrap());
            roles += 1;
        }
    }
    assert_eq!(roles, 8);
}

#[test]
fn values_of_vpp_are_used_and_wrong_ones_are_refused() {
    let (_server, _, api) = serve();
    let applied = apply(
        &api,
        &rendered(&[
            "mode=vpp",
            "vpp.targets={vpp-acl,vpp-session}",
            "vpp.socket=/var/lib/vpp/a.sock",
            "vpp.podInterface=annotation=tap*",
            "vpp.podNamespace=file=/var/lib/vpp/pods",
            "vpp.uplinks={ge*,tap0}",
            "vpp.source=etcd",
            "vpp.etcdEndpoints={http://a:1,http://b:2}",
            "listen=[::]:9999",
            "arguments[0]=--dry-run",
        ]),
    );
    let container = container(&applied);
    let etcd = [
        "cacert=/etc/picket-etcd/ca.pem",
        "cert=/etc/picket-etcd/client.pem",
        "key=/etc/picket-etcd/client.key",
    ];
    let [ca, certificate, key] = etcd.map(|option| format!("--etcd-{option}"));
    assert_eq!(
        container["args"],
        json!([
            "agent",
            "--target=vpp-acl",
            "--target=vpp-session",
            "--vpp-socket=/var/lib/vpp/a.sock",
            "--vpp-pod-interface=annotation=tap*",
            "--vpp-pod-namespace=file=/var/lib/vpp/pods",
            "--uplink=ge*",
            "--uplink=tap0",
            "--source=etcd",
            "--etcd-endpoints=http://a:1,http://b:2",
            ca,
            certificate,
            key,
            "--listen=[::]:9999",
            "--log-format=json",
            "--dry-run"
        ])
    );
    // It needs no right where it asks the API server for nothing.
    assert_eq!(
        applied.keys().collect::<Vec<_>>(),
        ["DaemonSet", "ServiceAccount"]
    );
    let spec = &applied["DaemonSet"]["spec"]["template"]["spec"];
    assert_eq!(spec["automountServiceAccountToken"], false);
    // It listens at every address, so that kubelets find it at that of the node.
    let probe = &container["readinessProbe"]["httpGet"];
    assert_eq!((&probe["host"], &probe["port"]), (&Value::Null, &json!(9999)));
    let of_node: Vec<_> = spec["volumes"].as_array().unwrap().iter().collect();
    let of_node = of_node
        .iter()
        .filter_map(|volume| volume["hostPath"]["path"].as_str());
    assert_eq!(of_node.collect::<Vec<_>>(), ["/var/lib/vpp"]);
    expect_refused(
        &["mode=vpp"],
        &[
            "vpp.targets={}",
            "vpp.targets={nftables}",
            "vpp.targets={vpp-session}",
            "vpp.socket=api.sock",
            // Nobody needs all that is there.
            "vpp.socket=/run/vpp-api.sock",
            "vpp.socket=/run/vpp/../api.sock",
            "vpp.socket=/run/picket/api.sock",
            "vpp.podInterface=label=a",
            "vpp.podNamespace=tag=a",
            "vpp.source=/manifests",
            "vpp.target=vpp-acl",
        ],
    );
}

#[test]
fn values_of_reflectors_are_used_and_wrong_ones_are_refused() {
    let (_server, _, api) = serve();
    let applied = apply(
        &api,
        &rendered(&[
            "mode=reflector",
            "image.tag=v9",
            "listen=[::]:9999",
            "arguments[0]=--etcd-prefix=/here/",
            "reflector.etcdEndpoints={http://a:1,http://b:2}",
            "reflector.etcdSecret=",
            "reflector.replicas=3",
            "reflector.priorityClassName=",
            "reflector.tolerations[0].operator=Exists",
        ]),
    );
    let deployment = &applied["Deployment"]["spec"];
    let pod = &deployment["template"]["spec"];
    assert_eq!(
        (&deployment["replicas"], &pod["volumes"]),
        (&json!(3), &Value::Null)
    );
    assert_eq!(
        (&pod["priorityClassName"], &pod["tolerations"]),
        (&Value::Null, &json!([{"operator": "Exists"}]))
    );
    let container = &pod["containers"][0];
    assert_eq!(container["image"], "picket:v9");
    assert_eq!(
        container["args"],
        json!([
            "reflect",
            "--etcd-endpoints=http://a:1,http://b:2",
            "--listen=[::]:9999",
            "--log-format=json",
            "--etcd-prefix=/here/"
        ])
    );
    assert_eq!(container["volumeMounts"], Value::Null);
    assert_eq!(container["livenessProbe"]["httpGet"]["port"], 9999);
    expect_refused(
        &["mode=reflector"],
        &[
            "reflector.etcdEndpoints={}",
            "reflector.etcdEndpoints={etcd:2379}",
            "reflector.replicas=0",
            "reflector.secret=a",
        ],
    );
}

#[test]
fn values_are_used_and_wrong_ones_are_refused() {
    let (_server, _, api) = serve();
    let values = [
        "image.repository=registry.example/picket",
        "image.tag=v9",
        "image.pullPolicy=Always",
        "imagePullSecrets[0].name=secret",
        "listen=[::1]:9999",
        "arguments[0]=--established=keep",
        "priorityClassName=",
        "tolerations=null",
    ];
    let applied = apply(&api, &rendered(&values));
    let pod = &applied["DaemonSet"]["spec"]["template"]["spec"];
    assert_eq!(pod["imagePullSecrets"], json!([{"name": "secret"}]));
    assert_eq!(
        (&pod["priorityClassName"], &pod["tolerations"]),
        (&Value::Null, &Value::Null)
    );
    let container = container(&applied);
    assert_eq!(container["image"], "registry.example/picket:v9");
    assert_eq!(container["imagePullPolicy"], "Always");
    assert_eq!(
        container["args"],
        json!([
            "agent",
            "--listen=[::1]:9999",
            "--log-format=json",
            "--established=keep"
        ])
    );
    let probe = &container["readinessProbe"]["httpGet"];
    assert_eq!((&probe["host"], &probe["port"]), (&json!("::1"), &json!(9999)));
    expect_refused(
        &[],
        &["mode=node", "imagee.tag=1", "arguments[0]=agent", "listen=9480"],
    );
}

#[test]
fn values_of_pods_are_used_and_wrong_ones_are_refused() {
    let (_server, _, api) = serve();
    let values = [
        "mode=pods",
        "pods.containerRuntimeEndpoint=/run/crio/crio.sock",
        "pods.networkPlugins={macvlan,ipvlan}",
        "seLinuxType=other_t",
    ];
    let applied = apply(&api, &rendered(&values));
    let container = container(&applied);
    for argument in [
        "--container-runtime-endpoint=/run/crio/crio.sock",
        "--network-plugins=macvlan,ipvlan",
    ] {
        let arguments = container["args"].as_array().unwrap();
        assert!(arguments.contains(&json!(argument)), "{arguments:?}");
    }
    let context = &container["securityContext"];
    assert_eq!(context["seLinuxOptions"], json!({"type": "other_t"}));
    expect_refused(
        &["mode=pods"],
        &[
            "pods.networkPlugins={}",
            "pods.networkPlugin={macvlan}",
            "pods.customRules.v4=ip saddr 10.0.0.1 accept",
            // Nothing else of the node is there for the agent to see.
            "pods.containerRuntimeEndpoint=/opt/containerd.sock",
            "pods.containerRuntimeEndpoint=containerd.sock",
        ],
    );
}

#[test]
fn only_in_pods_it_needs_a_newer_kubernetes() {
    for (mode, version, is_refused) in [
        ("host", "1.27.0", false),
        ("vpp", "1.29.4", false),
        ("reflector", "1.29.4", false),
        ("controller", "1.29.4", false),
        ("pods", "1.29.4", true),
        ("pods", "1.30.0-rc.1", false),
    ] {
        let output = helm(
            &format!("template picket --kube-version {version}"),
            &[&format!("mode={mode}")],
        );
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.success(), !is_refused, "{mode} {version}: {errors}");
        assert_eq!(errors.contains("1.30 or newer"), is_refused, "{errors}");
    }
}
