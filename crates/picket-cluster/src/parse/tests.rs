use picket_policy::document;

use super::*;
use crate::written::{WrittenNode, WrittenPod};

fn read(text: &str) -> (Vec<Written>, Vec<Diagnostic>) {
    let (manifests, mut diagnostics) = document::read(&"a.yaml".into(), text.as_bytes());
    let written = manifests
        .iter()
        .filter_map(|manifest| parse(manifest, &mut diagnostics))
        .collect();
    (written, diagnostics)
}

fn header(api_version: &str, kind: &str) -> String {
    format!("apiVersion: {api_version}\nkind: {kind}\nmetadata:\n  name: a\n  namespace: x\n")
}

/// The pod of this text below the header, and what is wrong with it: `field: message`.
fn pod(text: &str) -> (WrittenPod, Vec<String>) {
    let (written, diagnostics) = read(&(header("v1", "Pod") + text));
    let problems = diagnostics
        .iter()
        .map(|found| format!("{}: {}", found.field, found.message))
        .collect();
    match written.into_iter().next().map(|written| written.spec) {
        Some(Spec::Pod(pod)) => (pod, problems),
        other => panic!("{other:?} {problems:?}"),
    }
}

fn ports(pod: &WrittenPod) -> String {
    let named = pod
        .ports
        .iter()
        .map(|port| format!("{}={}/{}", port.name, port.protocol, port.port));
    let declared = pod
        .declared_ports
        .iter()
        .map(|(protocol, port)| format!("{protocol}/{port}"));
    named.chain(declared).collect::<Vec<_>>().join(" ")
}

fn texts<T: ToString>(items: impl IntoIterator<Item = T>) -> String {
    let texts: Vec<_> = items.into_iter().map(|item| item.to_string()).collect();
    texts.join(" ")
}

#[test]
fn only_kinds_that_say_what_exists_are_read() {
    for (api_version, kind, object) in [
        ("v1", "Namespace", Some("Namespace a")),
        ("v1", "Node", Some("Node a")),
        ("v1", "Pod", Some("Pod x/a")),
        ("v1", "Service", Some("Service x/a")),
        ("v1", "ReplicationController", Some("ReplicationController x/a")),
        ("apps/v1", "Deployment", Some("Deployment x/a")),
        ("apps/v1beta2", "StatefulSet", Some("StatefulSet x/a")),
        ("apps/v1", "DaemonSet", Some("DaemonSet x/a")),
        ("extensions/v1beta1", "ReplicaSet", Some("ReplicaSet x/a")),
        ("batch/v1", "Job", Some("Job x/a")),
        ("batch/v1", "CronJob", Some("CronJob x/a")),
        ("serving.knative.dev/v1", "Service", None),
        ("example.com/v1", "Pod", None),
        ("v1", "ConfigMap", None),
        ("networking.k8s.io/v1", "NetworkPolicy", None),
    ] {
        let text = header(api_version, kind);
        let text = match kind {
            "Namespace" | "Node" => text.replace("  namespace: x\n", ""),
            _ => text,
        };
        let (written, diagnostics) = read(&text);
        let objects = texts(written.iter().map(|written| &written.object));
        assert_eq!(objects, object.unwrap_or_default(), "{api_version} {kind}");
        assert_eq!(diagnostics, [], "{api_version} {kind}");
        assert_eq!(is_cluster_kind(api_version, kind), object.is_some());
    }
}

#[test]
fn a_version_that_never_was_is_named_with_what_was_expected() {
    for (version, kind, expected) in [
        ("v2", "Namespace", "`v1`"),
        ("v2", "Node", "`v1`"),
        ("v1beta1", "Pod", "`v1`"),
        ("v2", "Service", "`v1`"),
        ("v3", "ReplicationController", "`v1`"),
        (
            "k8s.cni.cncf.io/v1beta1",
            "NetworkAttachmentDefinition",
            "`k8s.cni.cncf.io/v1`",
        ),
        (
            "extensions/v1",
            "Deployment",
            "`apps/v1`, `apps/v1beta2`, `apps/v1beta1`, `extensions/v1beta1`",
        ),
        (
            "apps/v1beta1",
            "ReplicaSet",
            "`apps/v1`, `apps/v1beta2`, `extensions/v1beta1`",
        ),
        (
            "apps/v2",
            "DaemonSet",
            "`apps/v1`, `apps/v1beta2`, `extensions/v1beta1`",
        ),
        (
            "apps/v2",
            "StatefulSet",
            "`apps/v1`, `apps/v1beta2`, `apps/v1beta1`",
        ),
        ("batch/v2", "Job", "`batch/v1`"),
        (
            "batch/v2",
            "CronJob",
            "`batch/v1`, `batch/v1beta1`, `batch/v2alpha1`",
        ),
    ] {
        let (written, diagnostics) = read(&header(version, kind));
        let found = diagnostics.iter().filter(|found| found.field == "apiVersion");
        let found: Vec<_> = found.map(|found| found.message.as_str()).collect();
        let message = format!("`{kind}` of `{version}` is not supported; it is read as {expected}");
        assert_eq!(
            (found, written.len()),
            (vec![message.as_str()], 1),
            "{version} {kind}"
        );
    }
}

#[test]
fn objects_without_a_namespace_are_in_default() {
    let (written, _) = read("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n");
    assert_eq!(written[0].object.to_string(), "Pod default/a");
    assert_eq!(written[0].span.line, 3);
}

#[test]
fn a_pod_is_read_whole() {
    let (pod, problems) = pod("  \
  labels: {app: web, empty: , \"quoted\": \"1.0\"}
  ownerReferences:
  - {apiVersion: v1, kind: Other, name: other}
  - {apiVersion: apps/v1, kind: ReplicaSet, name: web-1, controller: true}
spec:
  nodeName: node-1
  hostNetwork: true
  containers:
  - ports: [{containerPort: 80, name: http}, {containerPort: 53, protocol: UDP}]
  - name: without ports
  initContainers:
  - restartPolicy: Always
    ports: [{containerPort: 9, name: sidecar, protocol: SCTP}]
  - ports: [{containerPort: 10, name: before}]
  volumes: any thing
status:
  phase: Failed
  podIP: 10.0.0.1
  podIPs: [{ip: 10.0.0.1}, {ip: \"fd00::1\"}]
  hostIP: 10.9.0.1
  hostIPs: [{ip: 10.9.0.1}, {ip: \"fd00:9::1\"}]
");
    assert_eq!(problems, [""; 0]);
    let labels: Vec<_> = pod
        .labels
        .iter()
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    assert_eq!(labels, ["app=web", "empty=", "quoted=1.0"]);
    assert_eq!(
        (pod.node.as_deref(), pod.host_network, pod.finished),
        (Some("node-1"), true, true)
    );
    assert_eq!(ports(&pod), "http=TCP/80 sidecar=SCTP/9 TCP/80 UDP/53 SCTP/9");
    assert_eq!(
        texts(pod.addresses.iter().map(|address| address.value)),
        "10.0.0.1 fd00::1"
    );
    assert_eq!(texts(&pod.host_addresses), "10.9.0.1 fd00:9::1");
    assert_eq!(texts(pod.owners.iter().map(|owner| &owner.name)), "web-1 other");
}

#[test]
fn what_is_left_out_or_null_says_nothing() {
    for text in [
        "",
        "spec:\nstatus: null\n",
        "spec: {containers: null, nodeName: }\nstatus: {podIP: \"\"}\n",
    ] {
        assert_eq!(pod(text), (WrittenPod::default(), Vec::new()), "{text}");
    }
}

#[test]
fn phases_that_end_a_pod() {
    for (phase, finished) in [
        ("Pending", false),
        ("Running", false),
        ("Unknown", false),
        ("Succeeded", true),
        ("Failed", true),
    ] {
        let (pod, _) = pod(&format!("status: {{phase: {phase}}}\n"));
        assert_eq!(pod.finished, finished, "{phase}");
    }
}

#[test]
fn wrong_types_of_fields_that_are_read_are_errors() {
    for (text, problem) in [
        ("spec: []\n", "spec: must be an object, not an array"),
        (
            "spec: {nodeName: 7}\n",
            "spec.nodeName: must be a string, not an integer",
        ),
        (
            "spec: {hostNetwork: \"true\"}\n",
            "spec.hostNetwork: must be a boolean, not a string",
        ),
        (
            "spec: {containers: {}}\n",
            "spec.containers: must be an array, not an object",
        ),
        (
            "spec: {containers: [web]}\n",
            "spec.containers[0]: must be an object, not a string",
        ),
        (
            "spec: {containers: [{ports: [{containerPort: \"80\"}]}]}\n",
            "spec.containers[0].ports[0].containerPort: must be an integer, not a string",
        ),
        (
            "spec: {containers: [{ports: [{containerPort: 70000}]}]}\n",
            "spec.containers[0].ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
        ),
        (
            "spec: {containers: [{ports: [{containerPort: 80, protocol: tcp}]}]}\n",
            "spec.containers[0].ports[0].protocol: Unsupported value: \"tcp\": supported values: \"SCTP\", \"TCP\", \"UDP\"",
        ),
        (
            "status: {podIP: 10.0.0.300}\n",
            "status.podIP: `10.0.0.300` is no IP address",
        ),
        (
            "status: {podIP: 127.0.0.1}\n",
            "status.podIP: `127.0.0.1` is no address that a pod or node can have",
        ),
        (
            "status: {podIPs: [{ip: \"ff02::1\"}]}\n",
            "status.podIPs[0].ip: `ff02::1` is no address that a pod or node can have",
        ),
        (
            "status: {hostIP: 0.0.0.0}\n",
            "status.hostIP: `0.0.0.0` is no address that a pod or node can have",
        ),
        (
            "status: {phase: succeeded}\n",
            "status.phase: Unsupported value: \"succeeded\": supported values: \"Failed\", \"Pending\", \"Running\", \
             \"Succeeded\", \"Unknown\"",
        ),
        (
            "spec: {containers: [{ports: [{name: http}]}]}\n",
            "spec.containers[0].ports[0].containerPort: Required value",
        ),
        (
            "status: {podIPs: [{ip: 10}]}\n",
            "status.podIPs[0].ip: must be a string, not an integer",
        ),
    ] {
        let (pod, problems) = pod(text);
        assert_eq!(problems, [problem], "{text}");
        assert_eq!(pod, WrittenPod::default(), "{text}");
    }
}

#[test]
fn port_names_that_the_api_server_refuses_still_stand_for_their_ports() {
    for (names, problem) in [
        (
            ["A_B", "b"],
            "spec.containers[0].ports[0].name: Invalid value: \"A_B\": must contain only alpha-numeric characters (a-z, \
             0-9), and hyphens (-)",
        ),
        (
            ["b", "b"],
            "spec.containers[0].ports[1].name: Duplicate value: \"b\"",
        ),
    ] {
        let [first, second] = names;
        let (pod, problems) = pod(&format!(
            "spec: {{containers: [{{ports: [{{containerPort: 1, name: {first}}}, {{containerPort: 2, name: {second}}}]}}]}}\n"
        ));
        assert!(problems.contains(&problem.to_owned()), "{problems:?}");
        assert_eq!(ports(&pod), format!("{first}=TCP/1 {second}=TCP/2 TCP/1 TCP/2"));
    }
}

#[test]
fn a_label_that_is_not_text_is_read_as_written_and_can_be_quoted() {
    for (label, value) in [
        ("version: 1.0", "1.0"),
        ("on: yes", "yes"),
        ("port: 0x1f", "0x1f"),
    ] {
        let text = header("v1", "Pod") + "  labels:\n    " + label + "\n";
        let (written, diagnostics) = read(&text);
        let Spec::Pod(pod) = &written[0].spec else {
            panic!("{written:?}")
        };
        assert_eq!(texts(pod.labels.iter().map(|(_, value)| value)), value, "{label}");
        let found = diagnostics
            .iter()
            .find(|found| found.code == picket_policy::code::WRONG_TYPE);
        assert_eq!(
            found.unwrap().notes,
            ["the label is read as the text that is written"]
        );
        let edit = &found.unwrap().fixes[0].edits[0];
        assert_eq!(edit.replacement, format!("\"{value}\""), "{label}");
        assert_eq!(&text[edit.span.start..edit.span.end], value, "{label}");
    }
}

#[test]
fn a_label_that_is_a_list_is_left_out() {
    let (pod, problems) = pod("  labels: {a: [b], c: d}\n");
    assert_eq!(texts(pod.labels.iter().map(|(key, _)| key)), "c");
    assert_eq!(problems, ["metadata.labels.a: must be a string, not an array"]);
}

#[test]
fn workloads_are_their_templates() {
    let template = "\
template:
  metadata: {labels: {app: web}}
  spec: {hostNetwork: true, containers: [{ports: [{containerPort: 80, name: http}]}]}
";
    let indented = |by: usize| {
        template
            .lines()
            .map(|line| format!("{}{line}\n", " ".repeat(by)))
            .collect::<String>()
    };
    for (kind, api_version, spec) in [
        (
            "Deployment",
            "apps/v1",
            format!("spec:\n  replicas: 3\n{}", indented(2)),
        ),
        ("ReplicationController", "v1", format!("spec:\n{}", indented(2))),
        (
            "CronJob",
            "batch/v1",
            format!("spec:\n  jobTemplate:\n    spec:\n{}", indented(6)),
        ),
    ] {
        let (written, diagnostics) = read(&(header(api_version, kind) + "  labels: {app: other}\n" + &spec));
        let Spec::Pod(pod) = &written[0].spec else {
            panic!("{written:?}")
        };
        assert_eq!(texts(pod.labels.iter().map(|(_, value)| value)), "web", "{kind}");
        assert_eq!(
            (ports(pod).as_str(), pod.host_network),
            ("http=TCP/80 TCP/80", true),
            "{kind}"
        );
        assert!(diagnostics.is_empty() && !pod.scaled_to_zero, "{diagnostics:?}");
    }
    let (written, _) = read(&(header("apps/v1", "Deployment") + "spec: {replicas: 0}\n"));
    assert!(matches!(&written[0].spec, Spec::Pod(pod) if pod.scaled_to_zero));
}

#[test]
fn nodes_have_their_internal_and_external_addresses() {
    let (written, diagnostics) = read(
        "\
apiVersion: v1
kind: Node
metadata: {name: node-1, labels: {zone: a}}
spec: {podCIDR: 10.1.0.0/24, podCIDRs: [10.1.0.0/24, broken, \"fd00::/64\"]}
status:
  addresses:
  - {type: Hostname, address: node-1}
  - {type: InternalIP, address: 10.9.0.1}
  - {type: InternalIP, address: \"::ffff:10.9.0.2\"}
  - {type: ExternalIP, address: \"2001:db8::1\"}
  - {type: ExternalIP, address: broken}
",
    );
    let Spec::Node(WrittenNode {
        labels,
        addresses,
        pod_cidrs,
    }) = &written[0].spec
    else {
        panic!("{written:?}")
    };
    assert_eq!(texts(pod_cidrs.iter()), "10.1.0.0/24 fd00::/64");
    assert_eq!(labels.iter().len(), 1);
    assert_eq!(
        texts(addresses.iter().map(|address| address.value)),
        "10.9.0.1 10.9.0.2 2001:db8::1"
    );
    assert_eq!(diagnostics.len(), 1);
    assert_eq!(diagnostics[0].field, "status.addresses[4].address");
}

#[test]
fn services_have_every_address_they_answer_to() {
    for (text, expected) in [
        ("spec: {clusterIP: None}\n", ""),
        (
            "spec: {clusterIP: None, clusterIPs: [None], externalIPs: [192.0.2.1]}\n",
            "192.0.2.1",
        ),
        (
            "spec: {clusterIP: 10.96.0.1, clusterIPs: [10.96.0.1, \"fd00:96::1\"]}\n",
            "10.96.0.1 fd00:96::1",
        ),
        (
            "status: {loadBalancer: {ingress: [{ip: 192.0.2.9}, {hostname: lb}]}}\n",
            "192.0.2.9",
        ),
    ] {
        let (written, diagnostics) = read(&(header("v1", "Service") + text));
        let Spec::Service(service) = &written[0].spec else {
            panic!("{written:?}")
        };
        assert_eq!(texts(&service.addresses), expected, "{text}");
        assert_eq!(diagnostics, [], "{text}");
    }
}

#[test]
fn the_name_label_of_a_namespace_keeps_its_place() {
    let (written, _) = read(
        "\
apiVersion: v1
kind: Namespace
metadata:
  name: x
  labels:
    kubernetes.io/metadata.name: other
",
    );
    let Spec::Namespace(namespace) = &written[0].spec else {
        panic!("{written:?}")
    };
    let label = namespace.name_label.as_ref().unwrap();
    assert_eq!((label.value.as_str(), label.span.line), ("other", 6));
}

#[test]
fn an_object_whose_namespace_cannot_be_read_is_left_out() {
    let (written, diagnostics) = read("apiVersion: v1\nkind: Pod\nmetadata: {name: a, namespace: 7}\n");
    assert_eq!(written, []);
    assert_eq!(diagnostics[0].field, "metadata.namespace");
}

#[test]
fn services_lead_from_their_ports_to_those_of_pods() {
    use crate::TargetPort::{Name, Number};
    let text = header("v1", "Service")
        + "spec:\n  selector: {app: web}\n  ports:\n  - {port: 80}\n  - {port: 81, targetPort: 8081, protocol: UDP}\n  \
           - {port: 82, targetPort: http}\n  - {port: 0}\n  - {port: 83, protocol: ICMP}\n";
    let (written, diagnostics) = read(&text);
    assert!(diagnostics.is_empty());
    let Spec::Service(service) = &written[0].spec else {
        panic!("{written:?}");
    };
    let ports: Vec<_> = service
        .ports
        .iter()
        .map(|port| (port.port, port.target.clone()))
        .collect();
    assert_eq!(
        ports,
        [(80, Number(80)), (81, Number(8081)), (82, Name("http".into()))]
    );
    assert_eq!(service.ports[1].protocol, picket_net::Protocol::UDP);
    assert_eq!(
        service.selector.get("app").map(|value| value.as_str()),
        Some("web")
    );
}

#[test]
fn the_ports_of_neutron_that_a_pod_names_are_known_by_their_ids() {
    let (one, other) = (
        "1b671a64-40d5-491e-99b0-da01ff1f3341",
        "2b671a64-40d5-491e-99b0-da01ff1f3341",
    );
    let both = format!("{other}, {},{one}", other.to_uppercase());
    let many: Vec<_> = (10..26)
        .map(|number| format!("1b671a64-40d5-491e-99b0-da01ff1f33{number}"))
        .collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    for (text, expected) in [
        (one, &[one][..]),
        (&both, &[one, other]),
        (&many.join(","), &many),
        (&format!("{},{one}", many.join(",")), &[]),
        ("", &[]),
        ("10.0.0.1", &[]),
        (&format!("{one},x"), &[]),
        ("1b671a64-40d5-491e-99b0-da01ff1f334", &[]),
        ("1b671a64.40d5-491e-99b0-da01ff1f3341", &[]),
    ] {
        let (pod, problems) = pod(&format!(
            "  annotations:\n    picket.dev/neutron-ports: {text:?}\n"
        ));
        assert_eq!(pod.neutron_ports, expected, "{text}");
        let is_wrong = expected.is_empty() && !text.is_empty();
        assert_eq!(!problems.is_empty(), is_wrong, "{problems:?}");
    }
}
