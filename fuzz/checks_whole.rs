//! What must hold for every input of the parsers above picket-policy, and of everything that is made from files.
//! Shared by the fuzz targets and by `crates/picket/tests/fuzz_corpus.rs`, which replays their corpora.

use std::collections::BTreeSet;

use picket_analysis::assertion;
use picket_analysis::eval::{Evaluator, batch};
use picket_analysis::map::{By, Map, write};
use picket_cluster::{Semantics, Snapshot};
use picket_dataplane::demand::Demands;
use picket_engine::Engine;
use picket_lab::parse_expectations;
use picket_linux::Reply;
use picket_net::Family;
use picket_nftables::client::{Observed, canonical, decode};
use picket_nftables::custom::CustomRules;
use picket_nftables::model::{Chain, Draft, Name, Table};
use picket_nftables::render::indexed;
use picket_nftables::verify::verify;
use picket_nftables::{parse, print};
use picket_policy::{Direction, Source};
use picket_source::{Text, load_texts};
use picket_testing::flows::representative_flows;
use serde_json::{Value, json};

/// How many packets of one input are judged: more than small inputs have, and little enough to be quick.
const MAX_FLOWS: usize = 1_000;

/// Whatever a file holds is loaded, compiled, mapped and rendered, twice to the same bytes. The engine judges as the
/// reference does, and what is rendered can be read.
pub(crate) fn cluster(bytes: &[u8]) {
    let outputs = || {
        let text = Text {
            name: "fuzz.yaml".into(),
            bytes: bytes.to_vec(),
        };
        let loaded = load_texts(&[text], picket_policy::Options::default());
        let engine = Engine::compile(&loaded.snapshot, Semantics::default());
        let mut map = Vec::new();
        write::json(
            &Map::new(&loaded.snapshot, engine.program(), By::Pod),
            &[],
            &mut map,
        )
        .expect("a vector takes everything");
        let nodes = loaded.snapshot.nodes.keys().map(|node| Some(node.as_str()));
        let tables = nodes.chain([None]).map(|node| {
            let table = indexed::render(engine.program(), node).expect("policies without equal hashes");
            survives_listing(&table);
            print::text(&table)
        });
        judged_alike(&loaded.snapshot, &engine);
        (loaded.diagnostics, map, tables.collect::<Vec<_>>())
    };
    assert_eq!(outputs(), outputs(), "the same input gives the same output");
}

fn judged_alike(snapshot: &Snapshot, engine: &Engine) {
    let flows = representative_flows(snapshot);
    let step = flows.len().div_ceil(MAX_FLOWS).max(1);
    for flow in flows.iter().step_by(step) {
        let expected = picket_reference::judge(snapshot, &Semantics::default(), flow);
        assert_eq!(engine.program().judge(flow), expected, "{flow:?}");
    }
}

fn survives_listing(table: &Table) {
    let again = parse::table(&print::json(table)).expect("what picket prints can be read");
    assert_eq!(parse::shown(table), parse::shown(&again));
}

/// Every line of a batch is answered, or says why not.
pub(crate) fn questions(bytes: &[u8]) {
    let manifest = include_bytes!("corpus/cluster/shop.yaml").to_vec();
    let text = Text {
        name: "shop.yaml".into(),
        bytes: manifest,
    };
    let loaded = load_texts(&[text], picket_policy::Options::default());
    let engine = Engine::compile(&loaded.snapshot, Semantics::default());
    let evaluator = Evaluator::new(&loaded.snapshot, engine.program());
    let mut answers = Vec::new();
    let outcome = batch(&evaluator, None, bytes, &mut answers).expect("memory can be read and written");
    let answers = String::from_utf8(answers).expect("answers are text");
    let questions = bytes.trim_ascii_end();
    let lines = questions.split(|&byte| byte == b'\n').count();
    assert_eq!(
        answers.lines().count(),
        if questions.is_empty() { 0 } else { lines },
        "one answer each"
    );
    let mut failed = 0;
    for answer in answers.lines() {
        let answer: Value = serde_json::from_str(answer).expect("answers are JSON");
        assert!(answer.get("error").is_some() != answer.get("verdict").is_some());
        failed += u64::from(answer.get("error").is_some());
    }
    assert_eq!(outcome.failed, failed, "failures are counted");
}

/// What nft may list is read without panic, and what is read survives being printed and read again.
pub(crate) fn listing(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(table) = parse::table(text) {
        survives_listing(&table);
    }
}

/// What nft lists, as text or JSON, with tables of others, is read without panic; what is read survives being printed and
/// read again, and the proof and the interpreter of rulesets agree about it.
pub(crate) fn ruleset(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let Ok(Some(table)) = parse::listing(text, "picket").map(|listing| listing.table) else {
        return;
    };
    let again = parse::listing(&print::text(&table), "picket").expect("what picket prints can be read");
    assert_eq!(again.table.as_ref(), Some(&table));
    let engine = Engine::compile(&Snapshot::default(), Semantics::default());
    let on_node = || Demands::on_node(engine.program(), None);
    let uplinks = BTreeSet::from(["eth1".into()]);
    for demands in [on_node(), on_node().against_spoofing(uplinks)] {
        verify(&table, &demands, "eth0", 3).expect("the proof agrees with the interpreter");
    }
}

/// What the kernel may list of a table is read without panic, in the words in which it is always read, and survives being
/// printed and read again.
pub(crate) fn kernel_objects(bytes: &[u8]) {
    let Some(objects) = Reply::all(bytes) else {
        return;
    };
    let name = Name::new("picket").expect("a name");
    let observed = decode(&name, &objects);
    assert_eq!(observed, decode(&name, &objects), "reading is deterministic");
    match observed {
        Observed::Absent => assert!(objects.is_empty(), "nothing is passed over"),
        Observed::Altered(foreign) => assert!(!foreign.is_empty()),
        Observed::Table(table) => {
            assert_eq!(canonical(&table), table);
            survives_listing(&table);
        }
    }
}

/// Assertions are read without panic, and every problem has its place. What can be read is judged, or refused with a
/// reason, the same each time.
pub(crate) fn assertions(bytes: &[u8]) {
    let text = Text {
        name: "shop.yaml".into(),
        bytes: include_bytes!("corpus/cluster/shop.yaml").to_vec(),
    };
    let loaded = load_texts(&[text], picket_policy::Options::default());
    let (manifests, mut problems) = picket_policy::read(&"fuzz.yaml".into(), bytes);
    let mut asserted = Vec::new();
    for manifest in &manifests {
        let (found, more) = assertion::parse(manifest);
        asserted.extend(found);
        problems.extend(more);
    }
    let judge = || assertion::run(&loaded.snapshot, &Semantics::default(), &asserted);
    let judged = judge();
    assert_eq!(judged, judge(), "the same input gives the same output");
    match judged {
        Ok(outcomes) => {
            assert_eq!(outcomes.len(), asserted.len(), "each assertion is judged");
            let fared: Vec<_> = asserted.iter().zip(&outcomes).collect();
            assertion::write::junit(&fared, &mut Vec::new()).expect("a vector takes everything");
            assertion::write::text(&fared, &mut Vec::new()).expect("a vector takes everything");
            for outcome in &outcomes {
                assert_eq!(
                    outcome.holds(),
                    outcome.failures.is_empty(),
                    "what fails is shown"
                );
                assert!(
                    outcome.sources > 0 && outcome.destinations > 0,
                    "it is about something"
                );
            }
        }
        Err(refused) => {
            assert!(!refused.is_empty());
            problems.extend(refused);
        }
    }
    for problem in &problems {
        let place = &problem.labels.first().expect("every problem has a place").span;
        assert!(
            place.start <= place.end && place.end <= bytes.len() + 1,
            "{problem:?}"
        );
    }
}

/// Expectations of the lab are read without panic, each line by itself, or the first that is none is named.
pub(crate) fn expectations(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let read_whole = parse_expectations(text);
    let mut one_by_one = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        match parse_expectations(line) {
            Ok(expectations) => one_by_one.extend(
                expectations
                    .into_iter()
                    .map(|expectation| (number, expectation.text)),
            ),
            Err(error) => {
                let whole = read_whole.expect_err("one line cannot be read");
                assert_eq!((whole.line, whole.message), (number, error.message));
                return;
            }
        }
    }
    let whole = read_whole.expect("every line can be read");
    let whole: Vec<_> = whole
        .into_iter()
        .map(|expectation| (expectation.line, expectation.text))
        .collect();
    assert_eq!(whole, one_by_one);
}

/// A file of custom rules is refused line by line as all at once. Rules that are read make a table that nft can be given,
/// and that is read back as it was.
pub(crate) fn custom_rules(bytes: &[u8]) {
    let Ok(source) = Source::decode(&"rules".into(), bytes) else {
        return;
    };
    let lines = source.text().lines().map(str::trim);
    let lines: Vec<_> = lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect();
    for (direction, family) in Direction::BOTH
        .into_iter()
        .flat_map(|one| Family::BOTH.map(|other| (one, other)))
    {
        let read = |source: &Source| CustomRules::read(source, direction, family);
        let refused = lines.iter().filter(|line| {
            let alone = Source::decode(&"rule".into(), line.as_bytes());
            alone.is_ok_and(|alone| read(&alone).is_err())
        });
        let refused = refused.count();
        match read(&source) {
            Ok(file) => {
                assert_eq!((refused, file.rules.len()), (0, lines.len()));
                can_be_loaded(&file);
            }
            Err(problems) => {
                let too_many = lines.len() > usize::from(u16::MAX);
                assert!(problems.len() == refused || too_many, "{problems:?}");
            }
        }
    }
}

fn can_be_loaded(file: &CustomRules) {
    let mut draft = Draft::new(Name::new("t").expect("a name"));
    draft.counters = file.counters().collect();
    draft.chains = vec![Chain::regular(Name::new("c").expect("a name")).with_rules(file.rendered())];
    let table = draft.check().expect("a table that nft takes");
    let again = parse::listing(&print::text(&table), "t").expect("what picket prints can be read");
    assert_eq!(again.table.as_ref(), Some(&table));
}

/// Annotations that say on which networks pods and policies are: in each place the text is read without panic, each
/// interface has a name and addresses of its own, and on every network engine and reference judge alike.
pub(crate) fn networks(bytes: &[u8]) {
    let Ok(annotation) = std::str::from_utf8(bytes) else {
        return;
    };
    let object = |kind: &str, version: &str, name: &str, key: &str, spec: Value| {
        let annotations = json!({format!("k8s.v1.cni.cncf.io/{key}"): annotation});
        let metadata = json!({"name": name, "namespace": "shop", "annotations": annotations});
        json!({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec})
    };
    let peers = json!({"podSelector": {}, "ingress": [{"from": [{"podSelector": {}}]}]});
    let objects = json!([
        object("Pod", "v1", "status", "network-status", json!({})),
        object("Pod", "v1", "statuses", "networks-status", json!({})),
        object("Pod", "v1", "asked", "networks", json!({})),
        object(
            "MultiNetworkPolicy",
            "k8s.cni.cncf.io/v1beta2",
            "policy",
            "policy-for",
            peers
        ),
    ]);
    let load = || {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        let text = Text {
            name: "fuzz.json".into(),
            bytes: list.to_string().into_bytes(),
        };
        load_texts(&[text], picket_policy::Options::default())
    };
    let (loaded, again) = (load(), load());
    assert_eq!(
        (&loaded.snapshot, &loaded.diagnostics),
        (&again.snapshot, &again.diagnostics)
    );
    for pod in loaded.snapshot.pods.values() {
        let names: BTreeSet<_> = pod.attachments.iter().map(|own| &own.interface).collect();
        assert_eq!(
            names.len(),
            pod.attachments.len(),
            "interfaces have names of their own"
        );
        assert!(pod.attachments.iter().all(|own| !own.addresses.is_empty()));
    }
    for network in loaded.snapshot.known_networks() {
        let seen = loaded.snapshot.on(&network);
        let addresses = || seen.pods.values().flat_map(|pod| pod.addresses.iter());
        assert_eq!(addresses().collect::<BTreeSet<_>>().len(), addresses().count());
        judged_alike(&seen, &Engine::compile(&seen, Semantics::default()));
    }
}
