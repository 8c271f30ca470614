//! What a lab says about itself and about what it saw.

use crate::control::Response;
use crate::{Expectation, Grid, Lab, Outcome, Place, check_expectations};

/// What the lab is, by everything that was made for it.
pub fn status(name: &str, lab: &Lab, inside: usize) -> Response {
    let hosts = &lab.topology().hosts;
    let places: Vec<_> = lab
        .network()
        .places()
        .map(|place| {
            let names: Vec<&str> = hosts
                .iter()
                .filter(|host| host.place == *place)
                .map(|host| host.id.as_str())
                .collect();
            serde_json::json!({
                "place": place.to_string(),
                "hosts": names,
                "addresses": lab.topology().addresses_of(place),
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
        .filter(|host| host.place == *place && host.id != place.to_string())
        .map(|host| host.id.as_str())
        .collect();
    let mut line = format!("  {place}");
    if !addresses.is_empty() && *place != Place::Fabric && addresses != [place.to_string()] {
        line += &format!("  {}", addresses.join(" "));
    }
    if let Some(router) = lab.topology().router_of(place) {
        line += &format!("  on {router}");
    }
    if !guests.is_empty() {
        line += &format!("  with {}", guests.join(", "));
    }
    line + "\n"
}
