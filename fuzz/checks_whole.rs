//! What must hold for every input of the parsers above picket-policy, and of everything that is made from files.
//! Shared by the fuzz targets and by `crates/picket/tests/fuzz_corpus.rs`, which replays their corpora.

use picket_analysis::eval::{Evaluator, batch};
use picket_analysis::map::{By, Map, write};
use picket_cluster::Semantics;
use picket_engine::Engine;
use picket_lab::parse_expectations;
use picket_nftables::render::indexed;
use picket_nftables::{parse, print};
use picket_source::{Text, load_texts};

/// Whatever a file holds is loaded, compiled, mapped and rendered, twice to the same bytes.
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
            print::text(&table)
        });
        (loaded.diagnostics, map, tables.collect::<Vec<_>>())
    };
    assert_eq!(outputs(), outputs(), "the same input gives the same output");
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
    batch(&evaluator, None, bytes, &mut answers).expect("memory can be read and written");
    let answers = String::from_utf8(answers).expect("answers are text");
    let questions = bytes.trim_ascii_end();
    let lines = questions.split(|&byte| byte == b'\n').count();
    assert_eq!(
        answers.lines().count(),
        if questions.is_empty() { 0 } else { lines },
        "one answer each"
    );
}

/// What nft may list is read without panic, and what is read survives being printed and read again.
pub(crate) fn listing(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(table) = parse::table(text) {
        let again = parse::table(&print::json(&table)).expect("what picket prints can be read");
        assert_eq!(parse::shown(&table), parse::shown(&again));
    }
}

/// Expectations of the lab are read without panic.
pub(crate) fn expectations(bytes: &[u8]) {
    if let Ok(text) = std::str::from_utf8(bytes) {
        drop(parse_expectations(text));
    }
}
