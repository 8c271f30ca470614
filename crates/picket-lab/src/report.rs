//! What a lab says about itself and about what it saw.

use crate::control::Response;
use crate::{Expectation, Grid, Host, HostKind, Lab, Outcome, Place, check_expectations};

/// What the lab is, by everything that was made for it.
pub fn status(name: &str, lab: &Lab, inside: usize) -> Response {
    let hosts = &lab.topology().hosts;
    let places: Vec<_> = lab
        .network()
        .places()
        .map(|place| {
            let names: Vec<&str> = hosts
                .iter()
                .filter(|host| host.place == *place && is_main(host))
                .map(|host| host.id.as_str())
                .collect();
            serde_json::json!({
                "place": place.to_string(),
                "hosts": names,
                "addresses": lab.topology().addresses_of(place),
                "attachments": attachments_json(lab, place),
                "router": lab.topology().router_of(place).map(|router| router.to_string()),
                "ruleset": lab.enforced().any(|enforced| enforced == place),
            })
        })
        .collect();
    let process = std::process::id();
    let mut text = format!(
        "lab `{}`, kept by process {process}: {} network namespaces, {} cables, {} rulesets, {} server sockets\n",
        name,
        places.len(),
        lab.network().cables(),
        lab.enforced().count(),
        lab.sockets(),
    );
    for place in lab.network().places() {
        text += &place_line(lab, place);
    }
    text += "it all goes with the process; outside it there are no files, names or interfaces\n";
    Response {
        good: true,
        text,
        json: serde_json::json!({
            "name": name,
            "process": process,
            "cables": lab.network().cables(),
            "sockets": lab.sockets(),
            "inside": inside,
            "places": places,
        }),
    }
}

/// What a run of probes and the expectations about it come to.
pub fn report(lab: &Lab, grid: &Grid, expectations: &[Expectation], colour: bool) -> Response {
    let outcomes = check_expectations(expectations, &lab.topology().hosts, grid.cells());
    let mut text = grid.to_text(colour);
    for outcome in outcomes.iter().filter(|outcome| !outcome.holds()) {
        text += &describe(outcome);
    }
    if !outcomes.is_empty() {
        let held = outcomes.iter().filter(|outcome| outcome.holds()).count();
        text += &format!("{held} of {} expectations hold\n", outcomes.len());
    }
    let mut json = grid.to_json();
    if let (Some(object), false) = (json.as_object_mut(), outcomes.is_empty()) {
        object.insert("expectations".to_owned(), serde_json::json!(outcomes));
    }
    Response {
        good: grid.differences().next().is_none() && outcomes.iter().all(Outcome::holds),
        text,
        json,
    }
}

/// Whether a host is what its place is first of all: a pod is a host on every network that it is on.
fn is_main(host: &Host) -> bool {
    host.network.is_none() || host.kind == HostKind::External
}

fn attachments_json(lab: &Lab, place: &Place) -> Vec<serde_json::Value> {
    let attachments = lab.topology().attachments_of(place);
    attachments
        .into_iter()
        .map(|attachment| {
            serde_json::json!({
                "network": attachment.network.to_string(),
                "interface": attachment.interface,
                "addresses": attachment.addresses.iter().collect::<Vec<_>>(),
            })
        })
        .collect()
}

fn describe(outcome: &Outcome) -> String {
    if outcome.probes == 0 {
        return format!(
            "line {}: `{}` speaks of no probe, or lines before it decide them all\n",
            outcome.line, outcome.text
        );
    }
    let some: Vec<&str> = outcome.violations.iter().take(5).map(String::as_str).collect();
    let more = outcome.violations.len() - some.len();
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    format!(
        "line {}: `{}` does not hold: {}{more}\n",
        outcome.line,
        outcome.text,
        some.join(", ")
    )
}

fn place_line(lab: &Lab, place: &Place) -> String {
    let addresses: Vec<String> = lab
        .topology()
        .addresses_of(place)
        .iter()
        .map(|address| address.to_string())
        .collect();
    let guests: Vec<&str> = lab
        .topology()
        .hosts
        .iter()
        .filter(|host| {
            host.place == *place
                && is_main(host)
                && host.kind != HostKind::External
                && host.id != place.to_string()
        })
        .map(|host| host.id.as_str())
        .collect();
    let mut line = format!("  {place}");
    if !addresses.is_empty() && !matches!(place, Place::External(..)) {
        line += &format!("  {}", addresses.join(" "));
    }
    if let Some(router) = lab.topology().router_of(place) {
        line += &format!("  on {router}");
    }
    if !guests.is_empty() {
        line += &format!("  with {}", guests.join(", "));
    }
    for attachment in lab.topology().attachments_of(place) {
        let addresses: Vec<String> = attachment.addresses.iter().map(|own| own.to_string()).collect();
        let (interface, network) = (&attachment.interface, &attachment.network);
        line += &format!("  {interface} {} on network/{network}", addresses.join(" "));
    }
    line + "\n"
}
