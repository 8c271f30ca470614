//! What is known of a cluster that is read from etcd is what a reflector has written there, whatever happens to etcd.

mod damage;
mod history;
mod security;

use std::collections::BTreeMap;
use std::time::Duration;

use picket_cluster::Snapshot;
use picket_node::Source;
use picket_source::{Etcd, Text};
use picket_testing::etcd::Etcd as Server;
use picket_testing::reflected::{self, PODS, POLICIES};
use serde_json::{Value, json};

use crate::following::{Following, loaded};
use crate::proxy::Proxy;

/// What all keys begin with.
const PREFIX: &str = "/picket/v1/";

/// How many operations a transaction may have.
const AT_ONCE: usize = 100;

/// Records written by hand, as `docs/etcd.md` describes them, and what they must give.
struct Written {
    server: Server,
    objects: BTreeMap<String, Value>,
    /// How often progress has been written.
    passes: u32,
}

/// The key of an object of which only the kind matters.
fn key(object: &Value) -> String {
    let resource = match object["kind"].as_str().unwrap() {
        "Namespace" => "namespaces",
        "Node" => "nodes",
        "Pod" => "pods",
        "Service" => "services",
        "NetworkPolicy" => "networkpolicies.networking.k8s.io",
        "ClusterNetworkPolicy" => "clusternetworkpolicies.policy.networking.k8s.io",
        "MultiNetworkPolicy" => "multi-networkpolicies.k8s.cni.cncf.io",
        "NetworkAttachmentDefinition" => "network-attachment-definitions.k8s.cni.cncf.io",
        other => panic!("{other}"),
    };
    let metadata = &object["metadata"];
    let name = metadata["name"].as_str().unwrap();
    match metadata["namespace"].as_str() {
        Some(namespace) => format!("{PREFIX}objects/{resource}/{namespace}/{name}"),
        None => format!("{PREFIX}objects/{resource}/{name}"),
    }
}

fn record(object: &Value) -> String {
    json!({"version": 1, "object": object}).to_string()
}

fn pod(name: &str, address: &str, app: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop", "labels": {"app": app}},
        "spec": {"nodeName": "node-1", "containers": [{"ports": [{"name": "http", "containerPort": 8080}]}]},
        "status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]},
    })
}

fn policy(name: &str, port: u16) -> Value {
    json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"podSelector": {"matchLabels": {"app": "web"}}, "ingress": [{"ports": [{"port": port}]}]},
    })
}

/// A cluster with an object of each kind.
fn cluster() -> Vec<Value> {
    let of_networks = "k8s.cni.cncf.io/v1beta1";
    vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"team": "shop"}}}),
        json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "node-1"},
            "status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.1"}]},
        }),
        json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"clusterIP": "10.96.0.1"},
        }),
        json!({
            "apiVersion": "k8s.cni.cncf.io/v1",
            "kind": "NetworkAttachmentDefinition",
            "metadata": {"name": "storage", "namespace": "shop"},
        }),
        json!({
            "apiVersion": of_networks,
            "kind": "MultiNetworkPolicy",
            "metadata": {"name": "store", "namespace": "shop", "annotations": {"k8s.v1.cni.cncf.io/policy-for": "storage"}},
            "spec": {"podSelector": {}},
        }),
        json!({
            "apiVersion": "policy.networking.k8s.io/v1alpha2",
            "kind": "ClusterNetworkPolicy",
            "metadata": {"name": "first"},
            "spec": {"tier": "Admin", "priority": 1, "subject": {"namespaces": {}}},
        }),
        policy("web", 80),
        pod("web-0", "10.0.0.1", "web"),
        pod("web-1", "10.0.0.2", "web"),
    ]
}

impl Written {
    /// An etcd that holds a cluster, of which a reflector has said that it is all.
    fn new() -> Self {
        Self::in_etcd(Server::start())
    }

    /// The same in this etcd.
    fn in_etcd(server: Server) -> Self {
        let mut written = Self::empty(server);
        written.put_all(&cluster(), record);
        written.pass();
        written
    }

    fn without_progress() -> Self {
        let mut written = Self::empty(Server::start());
        written.put_all(&cluster(), record);
        written
    }

    fn empty(server: Server) -> Self {
        Self {
            server,
            objects: BTreeMap::new(),
            passes: 0,
        }
    }

    /// Writes many in few transactions.
    fn put_all(&mut self, objects: &[Value], record: impl Fn(&Value) -> String) {
        for part in objects.chunks(AT_ONCE) {
            let written: Vec<_> = part.iter().map(|object| (key(object), record(object))).collect();
            let changes: Vec<_> = written
                .iter()
                .map(|(key, record)| (key.as_str(), Some(record.as_str())))
                .collect();
            self.server.change(&changes);
            let objects = part.iter().map(|object| (key(object), object.clone()));
            self.objects.extend(objects);
        }
    }

    fn put(&mut self, object: &Value) {
        self.server.put(&key(object), &record(object));
        self.objects.insert(key(object), object.clone());
    }

    fn delete(&mut self, object: &Value) {
        self.server.delete(&key(object));
        self.objects.remove(&key(object));
    }

    /// A reflector says that what is there is all.
    fn pass(&mut self) {
        self.passes += 1;
        self.server.put(&format!("{PREFIX}progress"), &self.progress());
    }

    fn progress(&self) -> String {
        let time = format!("2026-01-01T00:{:02}:00Z", self.passes);
        let version = (1000 + self.passes).to_string();
        let reach = json!({"resourceVersion": version, "changed": 1});
        json!({
            "version": 1,
            "epoch": 1,
            "reflector": "by-hand",
            "time": time,
            "pass": time,
            "kinds": {"pods": reach, "networkpolicies.networking.k8s.io": reach},
        })
        .to_string()
    }

    fn expected(&self) -> Snapshot {
        // As the API server's would be called and shown, which places in them tell.
        let texts = self.objects.iter().map(|(key, object)| {
            let (resource, place) = key[PREFIX.len() + "objects/".len()..].split_once('/').unwrap();
            let plural = resource.split('.').next().unwrap();
            Text {
                name: format!("kube:{plural}/{place}").into(),
                bytes: format!("{object:#}\n").into_bytes(),
            }
        });
        loaded(&texts.collect::<Vec<_>>())
    }

    /// Begins to read it.
    fn follow(&self) -> Following {
        self.follow_at(vec![self.server.endpoint()])
    }

    fn follow_at(&self, endpoints: Vec<String>) -> Following {
        Following::of(Source::Etcd(etcd(endpoints)), None)
    }

    /// Waits until what is known is what was written.
    fn until_equal(&self, following: &mut Following, what: &str) {
        let expected = self.expected();
        following.until(what, |following| following.snapshot() == expected);
    }
}

pub(crate) fn etcd(endpoints: Vec<String>) -> Etcd {
    Etcd::new(endpoints, Duration::from_secs(2))
}

/// Waits until what is wrong with reading etcd is said in these words.
fn until_trouble(following: &mut Following, words: &str) {
    following.until_health(|kinds| {
        let trouble = kinds.get("etcd").and_then(|health| health.trouble.as_deref());
        trouble.is_some_and(|trouble| trouble.contains(words))
    });
}

fn until_well(following: &mut Following) {
    following.until_health(|kinds| kinds.get("etcd").is_some_and(|health| health.trouble.is_none()));
}

#[test]
fn what_is_there_is_known() {
    let mut written = Written::new();
    let mut following = written.follow();
    following.until_complete();
    written.until_equal(&mut following, "what is there");
    assert!(following.diagnoses.is_empty(), "{:?}", following.diagnoses);
    let changes = following.changed.len();
    // What one revision changes is one change.
    let [one, two] = [pod("web-0", "10.0.0.1", "api"), pod("web-2", "10.0.0.3", "api")];
    written.server.change(&[
        (&key(&one), Some(&record(&one))),
        (&key(&two), Some(&record(&two))),
        (&key(&policy("web", 80)), None),
    ]);
    for object in [one, two] {
        written.objects.insert(key(&object), object);
    }
    written.objects.remove(&key(&policy("web", 80)));
    written.until_equal(&mut following, "what changed");
    assert_eq!(following.changed[changes..], [3]);
    written.pass();
    following.until("progress", |following| {
        following
            .versions
            .get("pods")
            .is_some_and(|version| version == "1002")
    });
    let freshness = following.health.freshness().unwrap();
    assert_eq!(freshness.reflection.unwrap().reflector, "by-hand");
    assert_eq!(freshness.revision, written.server.revision());
}

#[test]
fn thousands_of_pods_and_policies_are_known_as_they_were_written() {
    let mut written = Written::empty(Server::start());
    let (places, objects): (Vec<_>, Vec<_>) = reflected::objects().unzip();
    written.put_all(&objects, reflected::record);
    written.pass();
    let keys = places.iter().map(|place| format!("{PREFIX}objects/{place}"));
    assert!(keys.eq(objects.iter().map(key)));
    let mut following = written.follow();
    following.until_complete();
    let snapshot = following.snapshot();
    assert_eq!((snapshot.pods.len(), snapshot.policies.len()), (PODS, POLICIES));
    assert!(snapshot == written.expected(), "every pod and every policy");
    assert!(following.diagnoses.is_empty(), "{:?}", following.diagnoses);
}

#[test]
fn of_other_nodes_no_more_is_kept_than_peers_show() {
    let mut written = Written::new();
    written.put(&json!({
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": "web", "namespace": "bank"},
        "spec": {"podSelector": {}},
    }));
    let source = Source::Etcd(etcd(vec![written.server.endpoint()]));
    let mut here = Following::of(source.clone(), Some("node-1"));
    here.until_complete();
    let named = |following: &Following| following.snapshot().policies.len();
    assert_eq!(named(&here), 3, "not those of a namespace without a pod here");
    let mut there = Following::of(source, Some("node-2"));
    there.until_complete();
    assert_eq!((named(&there), there.snapshot().pods.len()), (1, 2));
}

#[test]
fn nothing_is_complete_that_no_reflector_stands_for() {
    let mut written = Written::without_progress();
    let mut following = written.follow();
    until_trouble(&mut following, "no reflector has written all of the cluster");
    written.put(&pod("web-2", "10.0.0.3", "web"));
    assert!(!following.is_complete);
    written.pass();
    following.until_complete();
    written.until_equal(&mut following, "what is there");
    until_well(&mut following);
}

#[test]
fn what_changed_while_etcd_forgot_is_known_at_once() {
    let mut written = Written::new();
    let proxy = Proxy::to(written.server.port());
    let mut following = written.follow_at(vec![format!("http://127.0.0.1:{}", proxy.port)]);
    following.until_complete();
    let (events, lists) = (following.events.len(), following.health.kinds()["pods"].lists);
    proxy.close();
    written.delete(&pod("web-0", "", ""));
    written.put(&pod("web-1", "10.0.0.2", "api"));
    written.put(&pod("web-2", "10.0.0.3", "api"));
    written.put(&policy("web", 81));
    written.server.compact();
    until_trouble(&mut following, "cannot be reached");
    proxy.open();
    written.until_equal(&mut following, "what changed meanwhile");
    assert!(following.health.kinds()["pods"].lists > lists);
    let events = &following.events[events..];
    assert_eq!(events.len(), 4, "what did not change did not move: {events:#?}");
}

#[test]
fn an_etcd_that_was_killed_is_followed_on() {
    let mut written = Written::new();
    let mut following = written.follow();
    following.until_complete();
    let lists = following.health.kinds()["pods"].lists;
    for number in 2..5 {
        written.server.kill();
        until_trouble(&mut following, "cannot be reached");
        assert_eq!(following.snapshot(), written.expected());
        written.server.restart();
        written.put(&pod(
            &format!("web-{number}"),
            &format!("10.0.0.{}", number + 1),
            "web",
        ));
        written.until_equal(&mut following, "what was added");
        until_well(&mut following);
    }
    assert!(!following.has_lost(), "{:#?}", following.events);
    assert_eq!(
        following.health.kinds()["pods"].lists,
        lists,
        "all of it came as events"
    );
}

#[test]
fn an_etcd_that_is_silent_is_noticed_and_followed_on() {
    let mut written = Written::new();
    let mut following = written.follow();
    following.until_complete();
    written.server.signal("STOP");
    until_trouble(&mut following, "");
    written.server.signal("CONT");
    written.put(&pod("web-2", "10.0.0.3", "web"));
    written.until_equal(&mut following, "what was added");
    assert!(!following.has_lost(), "{:#?}", following.events);
}

#[test]
fn another_member_is_asked_when_one_fails() {
    let mut written = Written::new();
    let [first, second] = [(); 2].map(|()| Proxy::to(written.server.port()));
    let endpoints = [&first, &second].map(|proxy| format!("http://127.0.0.1:{}", proxy.port));
    second.close();
    let mut following = written.follow_at(endpoints.to_vec());
    following.until_complete();
    for (number, (fails, works)) in [(&first, &second), (&second, &first)].into_iter().enumerate() {
        works.open();
        fails.close();
        written.put(&pod(
            &format!("more-{number}"),
            &format!("10.0.1.{}", number + 1),
            "web",
        ));
        written.until_equal(&mut following, "what was added");
    }
    assert!(!following.has_lost(), "{:#?}", following.events);
}

#[test]
fn an_etcd_that_is_wiped_set_back_or_new_says_nothing() {
    let mut written = Written::new();
    let mut following = written.follow();
    following.until_complete();
    let old = written.server.back_up();
    written.put(&pod("web-2", "10.0.0.3", "web"));
    written.pass();
    written.until_equal(&mut following, "what was added");
    let progress = "1002";
    following.until("progress", |following| following.versions["pods"] == progress);
    let before = following.snapshot();
    let again = |written: &mut Written, following: &mut Following| {
        assert_eq!(following.snapshot(), before);
        let objects = written.objects.clone();
        objects.values().for_each(|object| written.put(object));
        written.pass();
        let version = (1000 + written.passes).to_string();
        following.until("another pass", |following| following.versions["pods"] == version);
        until_well(following);
        assert_eq!(following.snapshot(), before);
    };
    written.server.delete_all(PREFIX);
    until_trouble(&mut following, "no reflector has written all of the cluster");
    again(&mut written, &mut following);
    written.server.set_back(&old);
    until_trouble(&mut following, "etcd was set back");
    again(&mut written, &mut following);
    written.server.replace();
    until_trouble(&mut following, "no reflector has written all of the cluster");
    again(&mut written, &mut following);
    assert!(!following.has_lost(), "{:#?}", following.events);
}

#[test]
fn records_that_are_too_long_to_come_at_once_come() {
    let mut written = Written::without_progress();
    for number in 0..40 {
        let mut policy = policy(&format!("long-{number}"), 80);
        policy["metadata"]["annotations"] = json!({"long": "x".repeat(1_000_000)});
        written.put(&policy);
    }
    written.pass();
    let mut following = written.follow();
    following.until_complete();
    written.until_equal(&mut following, "what is there");
}
