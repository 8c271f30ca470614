//! Proof of what is rendered for Neutron.

use anyhow::bail;
use picket_analysis::directory::Directory;
use picket_neutron::render;
use picket_neutron::verify::{Counterexample, verify};
use picket_policy::Direction;
use picket_source::Loaded;

use super::Arguments;
use super::vpp::{Answer, Ends, Fault, Found};
use crate::input;

/// Neutron lets these pass whatever groups say.
const NECESSARY: &str =
    "what IPv6 does not work without, and errors about connections that passed, Neutron lets pass by itself";
/// It never reaches the port.
const ITSELF: &str = "what a pod sends to itself meets no security group";

pub(super) fn answer(arguments: &Arguments, loaded: &Loaded) -> anyhow::Result<Answer> {
    arguments.custom.none_for_others()?;
    arguments.place.none_for_neutron()?;
    if arguments.live.live || arguments.rules.is_some() {
        bail!("`--live` and `--rules` are not yet for `--target neutron`: what is rendered can be verified");
    }
    let engine = input::compile(loaded, arguments.semantics.semantics());
    let program = engine.program();
    let ends = Ends {
        program,
        directory: Directory::new(&loaded.snapshot),
    };
    let options = arguments.neutron.options();
    let rendered = render(program, &options);
    let report = verify(&rendered.objects, program, &options, usize::from(arguments.limit));
    let examples = report.counterexamples.iter().map(|found| ends.found(found));
    let notes = rendered
        .shortfalls
        .iter()
        .map(|shortfall| format!("{}; {}", shortfall.what, shortfall.instead));
    let found = Found {
        target: "neutron",
        examples: examples.collect(),
        exceptions: vec![NECESSARY, ITSELF],
        notes: notes.collect(),
    };
    Ok(found.of(report.is_proof(), report.pairs, report.stopped, None))
}

impl Ends<'_> {
    fn found(&self, found: &Counterexample) -> super::vpp::Example {
        let ends = match found.direction {
            Direction::Ingress => (found.peer, found.own),
            Direction::Egress => (found.own, found.peer),
        };
        let place = format!(
            "{} of the port of {}/{}",
            found.direction, found.pod.namespace, found.pod.name
        );
        let fault = Fault::of(found.passes);
        self.connection(place, ends, found.protocol, found.port, fault)
    }
}
