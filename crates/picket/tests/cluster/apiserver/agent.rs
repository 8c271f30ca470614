//! An agent from its first moment to its last, and what it says meanwhile.

use std::fs;
use std::net::Ipv4Addr;
use std::process::Command;

use picket_cluster::Verdict;
use picket_lab::{Host, HostKind, Lab, Place, Progress};
use picket_linux::NetworkNamespace;
use picket_nftables::model::Table;
use picket_nftables::parse;
use picket_node::Status;
use picket_testing::apiserver::Server;
use picket_testing::cases::{Step, committed};
use picket_testing::ran::Ran;
use serde_json::{Value, json};

use crate::agents::{Agent, check, lab_behind, value};
use crate::apiserver::deploy::role;
use crate::apiserver::enforce::cluster;
use crate::apiserver::never_open::POLICIES;
use crate::apiserver::refusals::grant;
use crate::client::Api;
use crate::objects::{KINDS, define, define_without_schema, definition_of, undefine};
use crate::proxy::Proxy;
use crate::published::{Define, Published, Versions};
use crate::watched::flows::until;

/// Nodes of the lab are called so when pods have none.
pub(crate) const NODE: &str = "lab-1";

/// A cluster in which nobody may reach the pods of one namespace, and a lab that is built as it says.
pub(crate) struct Live {
    pub(crate) server: Server,
    pub(crate) api: Api,
    pub(crate) lab: Lab,
    pub(crate) versions: Versions,
    /// The ways from the nodes to the API server.
    pub(crate) proxies: Vec<Proxy>,
}

impl Live {
    /// One whose agents may do what they need, or may not list some resource.
    pub(crate) fn new(without: Option<&str>) -> Self {
        Self::defined_by(define, without)
    }

    /// The same where policies of administrators may say anything, since no schema is between them and the agent.
    pub(crate) fn without_schemas(without: Option<&str>) -> Self {
        Self::defined_by(define_without_schema, without)
    }

    fn defined_by(define: Define, without: Option<&str>) -> Self {
        let server = Server::start();
        let api = Api::new(&server.kubeconfig());
        let step = isolation();
        let (lab, proxies) = lab_behind(&cluster(&step), &server.kubeconfig());
        let versions = Published::defined_by(&api, define).put(&lab.topology().snapshot, &step.manifests);
        grant(&api, &role(), "agent", without);
        Self {
            server,
            api,
            lab,
            versions,
            proxies,
        }
    }

    pub(crate) fn agent(&self, more: &[&str]) -> Agent {
        Agent::start_with(&self.lab, NODE, &self.server.kubeconfig_of("agent-token"), more)
    }

    /// An agent that lets others change its table, and the table: it is read by itself once, and not for a day from then on.
    fn agent_that_listens(&self) -> (Agent, Table) {
        let agent = self.agent(&["--table-owner", "everybody", "--verify-interval", "86400"]);
        agent.until_enforced(&self.versions);
        agent.until("the first proof", |status| status.host.proof.is_some());
        let table = self.table();
        (agent, table)
    }

    /// The network namespace of the node.
    pub(crate) fn node(&self) -> &NetworkNamespace {
        self.lab.network().namespace(&Place::Node(NODE.into())).unwrap()
    }

    /// Runs a command on the node.
    fn run(&self, command: &mut Command) -> Ran {
        self.node().run(|| command.output().unwrap()).unwrap().into()
    }

    pub(crate) fn nft(&self, arguments: &[&str]) -> String {
        let ran = self.run(Command::new("nft").args(arguments));
        assert_eq!(ran.status, 0, "{}", ran.stderr);
        ran.stdout
    }

    /// Waits until packets from before the last change have come, and no source is judged twice any more.
    pub(crate) fn until_calm(&self) {
        until("nobody's being judged twice", || {
            let listed = self.nft(&["list", "ruleset"]);
            let set = listed.split("\tset changing {").nth(1);
            let set = set.and_then(|rest| rest.split("\t}").next());
            set.is_none_or(|set| !set.contains("elements"))
        });
    }

    /// What nft lists, but for who may change it, when packets from before the last change have come.
    fn listed(&self) -> String {
        self.until_calm();
        let listed = self.nft(&["list", "ruleset"]);
        let lines = listed
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with("\tflags"));
        let lines = lines.map(|line| line.split(" # ").next().unwrap());
        lines.collect::<Vec<_>>().join("\n")
    }

    /// The table that picket has there. In which order it was made is not said: that is another where it comes in portions.
    pub(crate) fn table(&self) -> Table {
        let listing = parse::listing(&self.listed(), "picket").unwrap();
        listing.table.unwrap()
    }

    /// Runs `picket agent` on the node until it ends, where it can reach the API server.
    pub(crate) fn agent_to_its_end(&self, arguments: &[&str]) -> Ran {
        let kubeconfig = self.server.kubeconfig_of("agent-token");
        let mut command = Command::new(env!("CARGO_BIN_EXE_picket"));
        command
            .args(["agent", "--hostname-override", NODE, "--kubeconfig"])
            .arg(&kubeconfig)
            .args(arguments);
        self.run(&mut command)
    }
}

#[test]
fn an_agent_that_is_told_a_wrong_name_changes_nothing_until_there_is_such_a_node() {
    const WRONG: &str = "elsewhere";
    let live = Live::new(None);
    let mut agent = live.agent(&[]);
    agent.until_enforced(&live.versions);
    assert!(agent.stop().success());
    let listed = live.listed();
    let kubeconfig = live.server.kubeconfig_of("agent-token");
    let named = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_picket"));
        command.arg("agent").args(arguments);
        command
    };
    let open = ["--until-synced", "allow"];
    let mut once = named(&["--once", "--hostname-override", WRONG, "--kubeconfig"]);
    let ran = live.run(once.arg(&kubeconfig));
    assert_eq!(ran.status, 2, "{}", ran.stderr);
    assert!(
        ran.stderr.contains("the cluster knows no node `elsewhere`"),
        "{}",
        ran.stderr
    );
    let agent = Agent::run_in(live.node(), WRONG, &kubeconfig, named(&open));
    let status = agent.until("trouble", |status| status.host.trouble.is_some());
    let why = status.host.trouble.unwrap().why;
    assert!(why.contains("`elsewhere`") && why.contains("NODE_NAME"), "{why}");
    assert!(!status.ready);
    assert_eq!(live.listed(), listed);
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": WRONG}});
    live.api.try_create("/api/v1/nodes", &node).unwrap();
    let status = agent.until("ready", |status| status.ready && status.host.trouble.is_none());
    assert_eq!(status.host.pods.all, 0, "{status:?}");
    assert_ne!(live.listed(), listed);
}

/// Nobody may reach the pods of one namespace.
pub(crate) fn isolation() -> Step {
    let cases = committed().unwrap();
    let title = "Support a 'default-deny-ingress' policy";
    let case = cases.into_iter().find(|case| case.title == title).unwrap();
    case.steps[0].clone()
}

pub(crate) fn metric(agent: &Agent, name: &str) -> u64 {
    let (status, text) = agent.get("/metrics");
    assert_eq!(status, 200);
    value(&text, name)
}

/// Holds that metrics tell of an agent that has written and proved a table with this status, and of what that holds.
fn what_it_did_is_measured(agent: &Agent, status: &Status) {
    for name in [
        "picket_event_to_kernel_seconds_count",
        "picket_render_seconds_count",
        "picket_write_seconds_count",
        "picket_verify_seconds_count",
        "picket_operations_total",
        "picket_current_timestamp_seconds",
        "picket_table_objects{object=\"element\"}",
        "picket_table_objects{object=\"rule\"}",
        "picket_table_objects{object=\"chain\"}",
    ] {
        assert!(metric(agent, name) > 0, "{name}");
    }
    assert!(status.host.versions.contains_key("pods"), "{status:?}");
    for (kind, version) in &status.host.versions {
        let name = format!("picket_version_in_force{{kind=\"{kind}\"}}");
        assert!(metric(agent, &name) >= version.parse().unwrap(), "{name}");
    }
}

#[test]
fn rules_outlive_their_agent_and_nothing_is_done_twice() {
    let mut live = Live::new(None);
    let mut agent = live.agent(&["--verify-interval", "1"]);
    let status = agent.until_enforced(&live.versions);
    assert!(status.host.pods.all > status.host.pods.restricted, "{status:?}");
    assert_eq!(status.host.policies, ["NetworkPolicy x/deny-ingress"]);
    let proved = agent.until("a proof", |status| {
        status.host.proof.as_ref().is_some_and(|proof| proof.proved)
    });
    assert_eq!(agent.get("/readyz"), (200, "ok\n".to_owned()));
    // Where nothing happens every proof says so anew.
    let current = proved.host.current.unwrap();
    agent.until("another proof", |status| status.host.current > Some(current));
    let later = metric(&agent, "picket_current_timestamp_seconds");
    assert!(later >= u64::try_from(current.as_second()).unwrap());
    what_it_did_is_measured(&agent, &status);
    assert_eq!(agent.get("/healthz"), (200, "ok\n".to_owned()));
    let listed = live.listed();
    assert!(listed.contains("table inet picket"), "{listed}");
    agent.kill();
    assert_eq!(live.listed(), listed);
    let mut again = live.agent(&["--until-synced", "allow"]);
    let found = again.until_enforced(&live.versions);
    assert_eq!(metric(&again, "picket_operations_total"), 0);
    assert_eq!(found.host.changed, None);
    let told = again.asked_by(&["status"]).stdout;
    assert!(
        told.contains("  rules as the agent has found them, last "),
        "{told}"
    );
    let other = Agent::start(&live.lab, "lab-2", &live.server.kubeconfig_of("agent-token"));
    other.until_enforced(&live.versions);
    assert_eq!(again.stop().code(), Some(0));
    assert_eq!(live.listed(), listed);
    check(&mut live.lab, "after the agent", &[]);
}

#[test]
fn what_is_installed_is_proved_while_pods_have_no_address_yet() {
    let live = Live::new(None);
    let containers = json!([{"name": "main", "image": "main"}]);
    let pending = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "pending"},
        "spec": {"nodeName": NODE, "containers": containers}});
    live.api.create("/api/v1/namespaces/x/pods", &pending);
    let mut agent = live.agent(&[]);
    agent.until_enforced(&live.versions);
    let rules = tempfile::tempdir().unwrap();
    let [listed, rendered] = ["listed", "rendered"].map(|name| rules.path().join(name));
    let picket = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_picket"));
        let place = ["--kube", "--target", "nftables", "--node", NODE];
        command.args(arguments).args(place);
        live.run(command.env("KUBECONFIG", live.server.kubeconfig()))
    };
    fs::write(&listed, live.nft(&["list", "ruleset"])).unwrap();
    let text = picket(&["render"]).stdout;
    assert!(!text.contains("198.18."), "{text}");
    fs::write(&rendered, text).unwrap();
    let [listed, rendered] = [&listed, &rendered].map(|path| path.to_str().unwrap());
    for what in [&["--live"][..], &["--rules", listed], &["--rules", rendered], &[]] {
        let verified = picket(&[&["verify"], what].concat());
        let output = format!("{what:?}: {}{}", verified.stdout, verified.stderr);
        assert_eq!(verified.status, 0, "{output}");
        assert!(verified.stdout.starts_with("proved"), "{output}");
    }
    // The rules stay as they are, and what they deny nobody wants denied any more.
    agent.kill();
    live.api.delete(POLICIES, "deny-ingress");
    for what in [&["--live"][..], &["--rules", listed]] {
        let refuted = picket(&[&["verify"], what].concat());
        let output = format!("{what:?}: {}{}", refuted.stdout, refuted.stderr);
        assert_eq!(refuted.status, 1, "{output}");
        assert!(refuted.stdout.contains("x/a"), "{output}");
    }
}

#[test]
fn what_others_change_is_repaired_because_the_kernel_tells_of_it() {
    let live = Live::new(None);
    let (agent, table) = live.agent_that_listens();
    let changes: [&[&str]; 3] = [
        &["flush", "ruleset"],
        &["insert", "rule", "inet", "picket", "forward", "accept"],
        &["delete", "table", "inet", "picket"],
    ];
    for (times, change) in (1..).zip(changes) {
        let operations = metric(&agent, "picket_operations_total");
        live.nft(change);
        agent.until("a repair", |status| status.host.repaired == times);
        assert!(
            metric(&agent, "picket_operations_total") > operations,
            "{change:?}"
        );
        assert_eq!(live.table(), table, "{change:?}");
        assert!(agent.log().contains("program=\"nft\""), "{}", agent.log());
    }
    // Tables of others are no concern of the agent.
    live.nft(&["add", "table", "inet", "other"]);
    let status = agent.until("the same", |status| status.host.repaired == 3);
    let proofs = metric(&agent, "picket_verifications_total{outcome=\"proved\"}");
    assert_eq!(proofs, 1, "{status:?}");
    assert_eq!(metric(&agent, "picket_drift_repaired_total"), 3);
    live.nft(&["delete", "table", "inet", "other"]);
}

#[test]
fn what_others_change_is_repaired_though_the_kernel_had_too_much_to_tell() {
    let live = Live::new(None);
    let (agent, table) = live.agent_that_listens();
    // Of what happens after so much, an agent that does not listen is told nothing.
    let elements: Vec<_> = (0..200_000u32)
        .map(|number| Ipv4Addr::from_bits(0x0a00_0000 + number).to_string())
        .collect();
    let flood = live.server.kubeconfig().with_file_name("flood.nft");
    let set = "add table inet other\nadd set inet other addresses { type ipv4_addr; }\n";
    let elements = elements.join(", ");
    fs::write(
        &flood,
        format!("{set}add element inet other addresses {{ {elements} }}\n"),
    )
    .unwrap();
    agent.signal("STOP");
    live.nft(&["-f", flood.to_str().unwrap()]);
    live.nft(&["insert", "rule", "inet", "picket", "forward", "accept"]);
    agent.signal("CONT");
    agent.until("a repair", |status| status.host.repaired == 1);
    assert_eq!(live.table(), table);
    let log = agent.log();
    assert!(!log.contains("program=\"nft\""), "it was told: {log}");
    live.nft(&["delete", "table", "inet", "other"]);
}

/// Whether packets of probes between pods of the two hosts pass the node.
fn is_forwarded(lab: &Lab, one: &Host, other: &Host) -> bool {
    let node = Place::Node(NODE.into());
    let is_there = |host: &Host| lab.topology().router_of(&host.place).as_ref() == Some(&node);
    let are_pods = one.kind == HostKind::Pod && other.kind == HostKind::Pod;
    are_pods && one.place != other.place && (is_there(one) || is_there(other))
}

/// How many pairs of pods there are whose packets the node forwards, and how many of them reach each other.
fn passing(lab: &mut Lab) -> (usize, usize) {
    let grid = lab.probe(None, lab.timeout(), &Progress::hidden()).unwrap();
    let hosts = grid.hosts();
    let forwarded = grid.cells().iter().filter(|cell| {
        let probe = cell.probe;
        is_forwarded(lab, &hosts[probe.source], &hosts[probe.destination])
    });
    let passed = forwarded
        .clone()
        .filter(|cell| cell.seen.verdict() == Some(Verdict::Allow));
    (forwarded.count(), passed.count())
}

#[test]
fn nothing_new_is_forwarded_until_the_cluster_is_known() {
    let mut live = Live::new(Some("networkpolicies"));
    let open = live.agent(&["--until-synced", "allow"]);
    open.until("an answer", |status| status.source.contains_key("pods"));
    let (all, passed) = passing(&mut live.lab);
    assert!(all > 100 && passed == all, "{passed} of {all}");
    drop(open);
    let agent = live.agent(&[]);
    agent.until("an answer", |status| {
        status.source.get("pods").is_some_and(|pods| pods.complete)
    });
    let status = agent.until("closing", |status| status.host.closed);
    assert!(!status.ready);
    assert_eq!(passing(&mut live.lab).1, 0);
    let (code, why) = agent.get("/readyz");
    assert_eq!(code, 503);
    assert_eq!(why, "not listed yet: networkpolicies.networking.k8s.io\n");
    let role = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    let rules = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["list", "watch"]}]);
    live.api.patch(role, "agent", &json!({"rules": rules}));
    let status = agent.until_enforced(&live.versions);
    assert!(status.ready && !status.host.closed);
    assert!(passing(&mut live.lab).1 > 100);
}

#[test]
fn a_kind_that_is_defined_while_an_agent_runs_is_enforced_until_it_is_gone() {
    const NOBODY: &str = "ClusterNetworkPolicy nobody";
    let mut live = Live::new(None);
    let (api_version, kind, path) = KINDS[14];
    let definition = definition_of(path);
    undefine(&live.api, KINDS[14]);
    let agent = live.agent(&[]);
    agent.until_enforced(&live.versions);
    let is_there = |status: &Status| status.host.policies.contains(&NOBODY.to_owned());
    agent.until("no such kind", |status| {
        status.ready && !status.source.keys().any(|kind| *kind == definition)
    });
    let (all, open) = passing(&mut live.lab);
    assert!(open > 100 && open < all, "{open} of {all}");
    define(&live.api, KINDS[14]);
    let [from, to] = ["from", "to"].map(|side| json!([{"action": "Deny", side: [{"namespaces": {}}]}]));
    let every = json!({"namespaces": {}});
    let spec = json!({"tier": "Admin", "priority": 5, "subject": every, "ingress": from, "egress": to});
    let nobody =
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "nobody"}, "spec": spec});
    live.api.create(path, &nobody);
    agent.until("a policy of the new kind", is_there);
    assert_eq!(passing(&mut live.lab), (all, 0));
    undefine(&live.api, KINDS[14]);
    agent.until("nothing of the kind", |status| !is_there(status));
    assert_eq!(passing(&mut live.lab), (all, open));
}

#[test]
fn an_agent_can_do_one_thing_and_end() {
    let live = Live::new(None);
    let socket = live.server.kubeconfig().with_file_name("socket");
    let socket = socket.to_str().unwrap();
    let plan = live.agent_to_its_end(&["--dry-run", "--log", "error"]);
    assert_eq!((plan.status, plan.stderr.as_str()), (0, ""));
    assert_eq!(live.listed(), "");
    let once = live.agent_to_its_end(&["--once", "--socket", socket]);
    assert_eq!(once.status, 0, "{}", once.stderr);
    let table = live.table();
    live.nft(&["flush", "ruleset"]);
    let file = live.server.kubeconfig().with_file_name("plan.nft");
    std::fs::write(&file, &plan.stdout).unwrap();
    live.nft(&["-f", file.to_str().unwrap()]);
    assert_eq!(live.table(), table);
    let nothing = live.agent_to_its_end(&["--dry-run", "--log", "error"]);
    assert_eq!(nothing.stdout, "");
    live.nft(&["add", "table", "inet", "other"]);
    for told in [
        "removed table `inet picket`\n",
        "there is no table `inet picket`\n",
    ] {
        assert_eq!(live.agent_to_its_end(&["--cleanup"]).stdout, told);
    }
    assert_eq!(live.listed(), "table inet other {\n}");
}

#[test]
fn a_policy_that_cannot_be_read_is_named_and_harms_no_other() {
    let live = Live::without_schemas(None);
    let (api_version, kind, path) = KINDS[14];
    let rules = json!([{"action": "Acept", "from": [{"namespaces": {}}]}]);
    let spec = json!({"tier": "Admin", "priority": 5, "subject": {"namespaces": {}}, "ingress": rules});
    let wrong = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "wrong"}, "spec": spec});
    live.api.create(path, &wrong);
    let agent = live.agent(&[]);
    agent.until_enforced(&live.versions);
    // A server serves a kind before it says that it does.
    let status = agent.until("a finding", |status| !status.findings.is_empty());
    assert!(
        status
            .host
            .policies
            .contains(&"NetworkPolicy x/deny-ingress".to_owned())
    );
    let found: Vec<_> = status
        .findings
        .iter()
        .map(|finding| finding.object.as_str())
        .collect();
    assert_eq!(found, ["ClusterNetworkPolicy wrong"]);
    assert!(status.findings[0].message.contains("Acept"), "{status:?}");
    assert_eq!(status.findings[0].field, "spec.ingress[0].action");
    expect_schema(&agent.asked_by(&["status", "-o", "json"]).json());
    live.api.delete(path, "wrong");
    agent.until("no findings", |status| status.findings.is_empty());
}

/// Holds what `picket status -o json` prints against the schema.
pub(super) fn expect_schema(status: &Value) {
    expect_schema_of("status", status);
}

/// Holds what a command prints against its schema.
pub(super) fn expect_schema_of(command: &str, printed: &Value) {
    let schema = format!(
        "{}/../../docs/schema/{command}.schema.json",
        env!("CARGO_MANIFEST_DIR")
    );
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(schema).unwrap()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<_> = validator
        .iter_errors(printed)
        .map(|error| error.to_string())
        .collect();
    assert_eq!(errors, Vec::<String>::new());
}

#[test]
fn the_status_is_as_its_schema_says() {
    let live = Live::new(None);
    let mut agent = live.agent(&[]);
    agent.until_enforced(&live.versions);
    let json = agent.asked_by(&["status", "-o", "json"]);
    assert_eq!(json.status, 0, "{}", json.stderr);
    expect_schema(&json.json());
    let text = agent.asked_by(&["status"]);
    assert!(
        text.stdout.contains("\n  NetworkPolicy x/deny-ingress, version "),
        "{}",
        text.stdout
    );
    assert!(
        text.stdout
            .starts_with("node lab-1, picket 0.1.0, running since 20"),
        "{}",
        text.stdout
    );
    agent.stop();
    let gone = agent.asked_by(&["status"]);
    assert_eq!(gone.status, 2);
    assert!(gone.stderr.contains("no agent answers at"), "{}", gone.stderr);
}
