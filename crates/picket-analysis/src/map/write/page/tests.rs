use picket_cluster::{Endpoint, Flow, Reason, Semantics, Snapshot};
use picket_engine::Engine;
use picket_net::{Family, Protocol, parse_address};
use picket_testing::build::{accept, pod, policy};
use picket_testing::generate::{Shape, mixture, snapshot as random};
use picket_testing::{flows, snapshot};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::eval::EndAnswer;
use crate::map::By;

/// The page's data, read as its script reads it.
struct Page(Value);

impl Page {
    fn new(map: &Map<'_>, evaluator: &Evaluator<'_>) -> Self {
        Self(serde_json::to_value(data::data(map, evaluator)).unwrap())
    }

    fn endpoint(&self, is: impl Fn(&str, &str) -> bool) -> &Value {
        let endpoints = self.0["endpoints"].as_array().unwrap().iter();
        let mut found =
            endpoints.filter(|one| is(one["kind"].as_str().unwrap(), one["id"].as_str().unwrap()));
        found.next().unwrap()
    }

    fn end(&self, snapshot: &Snapshot, end: &Endpoint) -> &Value {
        match end {
            Endpoint::Pod(object) => {
                let id = snapshot.pods[object].id();
                self.endpoint(|kind, other| kind != "external" && kind != "node" && other == id)
            }
            Endpoint::Node { name, .. } => self.endpoint(|kind, id| kind == "node" && id == name),
            Endpoint::External(address) => {
                let endpoints = self.0["endpoints"].as_array().unwrap().iter();
                let holds = |one: &&Value| {
                    let ranges = one["addresses"].as_array().unwrap().iter();
                    one["kind"] == "external"
                        && ranges
                            .map(|range| range.as_str().unwrap().split_once('-').unwrap())
                            .any(|(first, last)| {
                                let [first, last] = [first, last].map(|text| parse_address(text).unwrap());
                                first.is_ipv4() == address.is_ipv4() && (first..=last).contains(address)
                            })
                };
                endpoints.into_iter().find(holds).unwrap()
            }
        }
    }

    /// A value of a table of runs.
    fn at(&self, table: &str, from: &Value, to: &Value) -> Value {
        let [from, to] = [from, to].map(|class| usize::try_from(class.as_u64().unwrap()).unwrap());
        let runs = self.0[table][from].as_array().unwrap();
        let mut left = to;
        for run in runs.chunks(2) {
            let count = usize::try_from(run[1].as_u64().unwrap()).unwrap();
            if left < count {
                return run[0].clone();
            }
            left -= count;
        }
        Value::Null
    }

    /// What the cell, egress and ingress of two endpoints are.
    fn pair(&self, from: &Value, to: &Value) -> [Value; 3] {
        let (a, b) = (&from["class"], &to["class"]);
        let is_node = |one: &Value, other: &Value| !one["node"].is_null() && one["node"] == other["on"];
        if is_node(from, to) || is_node(to, from) {
            let own = self.0["own"].as_array().unwrap();
            let found = own.iter().find(|own| own[0] == *a && own[1] == *b).unwrap();
            return [found[2].clone(), found[3].clone(), found[4].clone()];
        }
        [
            self.at("rows", a, b),
            self.at("egress", a, b),
            self.at("ingress", b, a),
        ]
    }

    fn get(&self, table: &str, number: &Value) -> &Value {
        &self.0[table][usize::try_from(number.as_u64().unwrap()).unwrap()]
    }

    fn holds(&self, traffic: &Value, flow: &Flow) -> bool {
        let allow = &self.get("traffic", traffic)["allow"];
        let key = match flow.protocol {
            Protocol::TCP | Protocol::UDP | Protocol::SCTP | Protocol::ICMP | Protocol::ICMPV6 => {
                flow.protocol.to_string()
            }
            _ => "other".to_owned(),
        };
        let ranges = |ranges: &Vec<Value>| {
            ranges.iter().any(|range| {
                let [first, last] = [0, 1].map(|at| range[at].as_u64().unwrap());
                (first..=last).contains(&u64::from(flow.port))
            })
        };
        *allow == json!("all") || allow[&key] == json!(true) || allow[&key].as_array().is_some_and(ranges)
    }

    /// What the page says that an end says to a flow, in the shape of `eval`.
    fn said(&self, saying: &Value, flow: &Flow) -> Value {
        let family = usize::from(flow.family == Family::Ipv6);
        let end = self
            .get("ends", &self.get("sayings", saying)[family])
            .as_array()
            .unwrap();
        let named = end
            .iter()
            .find(|part| !part[0].is_null() && self.holds(&part[0], flow));
        let rest = end.iter().find(|part| part[0].is_null());
        let mut judgement = self.get("judgements", &named.or(rest).unwrap()[1]).clone();
        let causes = judgement["causes"].as_array().unwrap();
        judgement["causes"] = causes
            .iter()
            .map(|cause| self.get("causes", cause).clone())
            .collect();
        judgement
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Cells allow what the judge allows, and the explanations are the judge's own.
    #[test]
    fn the_page_says_what_the_judge_says(snapshot in prop_oneof![random(Shape::Tiered, 4), mixture(6)]) {
        let engine = Engine::compile(&snapshot, Semantics::default());
        let map = Map::new(&snapshot, engine.program(), By::Pod);
        let page = Page::new(&map, &Evaluator::new(&snapshot, engine.program()));
        for flow in flows::representative_flows(&snapshot) {
            if flow.source == flow.destination {
                continue;
            }
            let (from, to) = (page.end(&snapshot, &flow.source), page.end(&snapshot, &flow.destination));
            let judgement = engine.program().judge(&flow);
            // Of a workload two pods are meant.
            if judgement.egress.reason == Reason::SamePod {
                prop_assert!(from["kind"] == "workload" || (from["pod"] == to["pod"] && !from["pod"].is_null()));
                continue;
            }
            prop_assert!(from["pod"].is_null() || from["pod"] != to["pod"]);
            let [cell, egress, ingress] = page.pair(from, to);
            // Of a node with several addresses the page tells what all of them may, and of outside addresses the causes
            // of the first.
            let exact = [from, to].iter().all(|end| end["kind"] == "pod" || end["kind"] == "workload");
            if !exact {
                continue;
            }
            let family = usize::from(flow.family == Family::Ipv6);
            let allowed = page.holds(&page.get("cells", &cell)[family], &flow);
            prop_assert_eq!(allowed, judgement.verdict().is_allow(), "{:?}", flow);
            for (saying, end) in [(egress, &judgement.egress), (ingress, &judgement.ingress)] {
                // What would be denied is not on the page.
                let said = EndAnswer {
                    audited: Vec::new(),
                    ..EndAnswer::from(end)
                };
                let expected = serde_json::to_value(said).unwrap();
                prop_assert_eq!(page.said(&saying, &flow), expected, "{:?}", flow);
            }
        }
    }
}

#[test]
fn no_name_leaves_the_data_and_no_mark_of_the_frame_in_it_counts() {
    let name = "x/<!--<script>{script}{style}{map}";
    let cluster = snapshot![
        pod(name).ip("10.0.0.1"),
        pod("x/b").ip("10.0.0.2"),
        policy("x/p").ingress(accept()),
    ];
    let engine = Engine::compile(&cluster, Semantics::default());
    let map = Map::new(&cluster, engine.program(), By::Pod);
    let mut out = Vec::new();
    write(&map, &Evaluator::new(&cluster, engine.program()), &mut out).unwrap();
    let page = String::from_utf8(out).unwrap();
    let (_, data) = page.split_once("id=\"map\">").unwrap();
    let (data, _) = data.split_once("</script>").unwrap();
    assert!(!data.contains('<'));
    let data: Value = serde_json::from_str(data).unwrap();
    let endpoints = data["endpoints"].as_array().unwrap();
    assert!(endpoints.iter().any(|one| one["id"] == name));
}

#[test]
fn the_page_names_no_other_resource() {
    for text in SCRIPT.iter().chain([&FRAME, &STYLE]) {
        let own = text.replace("http://www.w3.org/2000/svg", "");
        for word in [
            "http:",
            "https:",
            "//cdn",
            "@import",
            "url(",
            "innerHTML",
            "eval(",
        ] {
            assert!(!own.contains(word), "{word}");
        }
    }
}
