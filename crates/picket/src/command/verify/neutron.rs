//! Proof of what is rendered for Neutron, or of what one has.

use std::collections::BTreeMap;

use anyhow::bail;
use picket_analysis::directory::Directory;
use picket_controller::InstalledNeutron;
use picket_dataplane::Shortfall;
use picket_neutron::verify::{Counterexample, Report, other_addresses, verify};
use picket_neutron::{Options, Rendered, render};
use picket_policy::Direction;
use picket_source::Loaded;

use super::Arguments;
use super::vpp::{Answer, Ends, Fault, Found, WrongPort};
use crate::input;

/// Neutron lets these pass whatever groups say.
const NECESSARY: &str =
    "what IPv6 does not work without, and errors about connections that passed, Neutron lets pass by itself";
/// What gives ports addresses: 68 to 67 and 546 to 547 out, and 67 to 68 and 547 to 546 in, both UDP.
const ADDRESSING: &str =
    "what asks for addresses and gives them (DHCP), Neutron lets pass whatever groups say";
/// It never reaches the port.
const ITSELF: &str = "what a pod sends to itself meets no security group";
/// With `--node-subnet`.
const NODES: &str =
    "what isolated pods exchange with the networks of --node-subnet passes, whatever policies say";
/// With `--service-subnet`.
const SERVICES: &str =
    "what isolated pods send to the networks of --service-subnet passes, whatever policies say";

pub(super) fn answer(arguments: &Arguments, loaded: &Loaded) -> anyhow::Result<Answer> {
    arguments.custom.none_for_others()?;
    arguments.place.none_for_neutron()?;
    if arguments.rules.is_some() {
        bail!("`--rules` is for `--target nftables` and `--target vpp-acl`");
    }
    let engine = input::compile(loaded, arguments.semantics.semantics());
    let program = engine.program();
    let mut ends = Ends {
        program,
        directory: Directory::new(&loaded.snapshot),
        others: BTreeMap::new(),
    };
    let options = arguments.neutron.options();
    let limit = usize::from(arguments.limit);
    if !arguments.live.live {
        let rendered = render(program, &options);
        let report = verify(&rendered.objects, program, &options, limit);
        return Ok(told(&ends, None, &options, &report, &rendered, Vec::new()));
    }
    let neutron = arguments.cloud.cloud.read(&options.cluster)?;
    let options = neutron.options(&options);
    let ports = neutron.ports(program);
    let rendered = render(program, &options);
    if ports.is_empty() && !rendered.objects.ports.is_empty() {
        bail!("Neutron has no port of any pod: --port-by finds none");
    }
    ends.others = other_addresses(neutron.with(&ports), program);
    let report = neutron.verify(&ports, program, &options, limit);
    let remarks = neutron.remarks(&ports, &rendered, program);
    Ok(told(&ends, Some(&neutron), &options, &report, &rendered, remarks))
}

/// What passes though policies do not allow it.
fn exceptions(options: &Options) -> Vec<&'static str> {
    let nodes = (!options.node_subnets.is_empty()).then_some(NODES);
    let services = (!options.service_subnets.is_empty()).then_some(SERVICES);
    let always = [NECESSARY, ADDRESSING, ITSELF].into_iter();
    always.chain(nodes).chain(services).collect()
}

/// What is said of a proof.
fn told(
    ends: &Ends<'_>,
    neutron: Option<&InstalledNeutron>,
    options: &Options,
    report: &Report,
    rendered: &Rendered,
    mut notes: Vec<String>,
) -> Answer {
    let examples = report.counterexamples.iter().map(|found| {
        let mut example = ends.found(found);
        let groups = found.groups.iter();
        example.groups = groups.map(|group| called(group, neutron)).collect();
        example
    });
    let of_shortfall = |shortfall: &Shortfall| format!("{}; {}", shortfall.what, shortfall.instead);
    notes.extend(rendered.shortfalls.iter().map(of_shortfall));
    let found = Found {
        target: "neutron",
        examples: examples.collect(),
        exceptions: exceptions(options),
        notes,
    };
    let mut answer = found.of(report.is_proof(), report.pairs, report.stopped, None);
    let wrong = report.wrong.iter().filter_map(|wrong| {
        Some(WrongPort {
            port: wrong.at.as_ref()?.to_string(),
            pod: format!("{}/{}", wrong.pod.namespace, wrong.pod.name),
            direction: wrong.direction.to_string(),
            fault: Fault::of(wrong.passes),
        })
    });
    answer.ports = wrong.collect();
    answer
}

/// A group by its name, and where it is one that there is, its id.
fn called(group: &str, neutron: Option<&InstalledNeutron>) -> String {
    let Some(neutron) = neutron else {
        return group.to_owned();
    };
    match neutron.installed().security_groups.get(group) {
        Some(known) => format!("{} ({group})", known.name),
        None => "a group that cannot be read".to_owned(),
    }
}

impl Ends<'_> {
    fn found(&self, found: &Counterexample) -> super::vpp::Example {
        let ends = match found.direction {
            Direction::Ingress => (found.peer, found.own),
            Direction::Egress => (found.own, found.peer),
        };
        let port = match &found.at {
            Some(id) => format!("port {id}"),
            None => "the port".to_owned(),
        };
        let pod = &found.pod;
        let place = format!("{} of {port} of {}/{}", found.direction, pod.namespace, pod.name);
        let fault = Fault::of(found.passes);
        self.connection(place, ends, found.protocol, found.port, fault)
    }
}
