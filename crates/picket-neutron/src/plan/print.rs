//! Plans for people.

use std::fmt::{self, Display, Formatter, Write};

use super::step::{Finding, Handle, Plan, Step};
use crate::print::shown;

/// A line for each step, with the number of its stage, then one for each finding, then how many calls there are of each kind.
pub fn text(plan: &Plan) -> String {
    let mut out = String::new();
    // Writing to a string does not fail.
    for (number, steps) in plan.stages.iter().enumerate() {
        for step in steps {
            let _ = writeln!(out, "{}: {step}", number + 1);
        }
    }
    for finding in &plan.findings {
        let _ = writeln!(out, "note: {finding}");
    }
    let calls = plan.calls();
    let each: Vec<_> = calls
        .iter()
        .map(|(kind, count)| format!("{kind} {count}"))
        .collect();
    let total: usize = calls.values().sum();
    let _ = match total {
        0 => writeln!(out, "0 calls"),
        _ => writeln!(out, "{total} calls: {}", each.join(", ")),
    };
    out
}

impl Display for Step {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&line(self))
    }
}

impl Display for Finding {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&found(self))
    }
}

fn line(step: &Step) -> String {
    match step {
        Step::CreateGroup { name, tags, .. } => format!("create group {name} with tags {}", joined(tags)),
        Step::CreateAddressGroup { name, addresses } => {
            format!("create address group {name} with {}", joined(addresses))
        }
        Step::SetDescription { group, description } => format!("describe group {group} as: {description}"),
        Step::SetTags { group, tags } => format!("set tags of group {group} to {}", joined(tags)),
        Step::CreateRules { group, rules } => {
            let rules: Vec<_> = rules.iter().map(shown).collect();
            format!("add rules to group {}: {}", called(group), rules.join("; "))
        }
        Step::DeleteRules { group, rules } => format!("delete rules of group {group}: {}", joined(rules)),
        Step::AddAddresses { group, addresses } => {
            format!("add to address group {group}: {}", joined(addresses))
        }
        Step::RemoveAddresses { group, addresses } => {
            format!("remove from address group {group}: {}", joined(addresses))
        }
        Step::UpdatePort { port, groups, .. } => {
            let groups: Vec<_> = groups.iter().map(called).collect();
            format!("set groups of port {port} to {}", joined(&groups))
        }
        Step::DeleteGroup(group) => format!("delete group {group}"),
        Step::DeleteAddressGroup(group) => format!("delete address group {group}"),
    }
}

fn found(finding: &Finding) -> String {
    match finding {
        Finding::Pending { pod } => format!("{pod} has no port yet"),
        Finding::ForeignGroups { pod, port, groups } => {
            format!("port {port} of {pod} keeps groups of others: {}", joined(groups))
        }
        Finding::PortSecurityOff { pod, port } => {
            format!("port {port} of {pod} has port security off: nothing is enforced there")
        }
        Finding::AddressPairs { pod, port, pairs } => {
            format!(
                "port {port} of {pod} may send from other addresses, so that nobody lets it in as a peer: {}",
                joined(pairs)
            )
        }
        Finding::SharedAddresses { pod, port, addresses } => {
            format!(
                "port {port} of {pod} has addresses that others have too, so that nobody lets it in as a peer who does not let \
                 in all of them: {}",
                joined(addresses)
            )
        }
        Finding::VnicType { pod, port, vnic_type } => {
            format!("port {port} of {pod} is attached as `{vnic_type}`: groups may not be enforced there")
        }
    }
}

fn called(group: &Handle) -> String {
    match group {
        Handle::Installed(id) => id.to_string(),
        Handle::Created(name) => name.to_string(),
    }
}

fn joined<'a, T: Display + 'a>(all: impl IntoIterator<Item = &'a T>) -> String {
    let all: Vec<_> = all.into_iter().map(ToString::to_string).collect();
    match all.is_empty() {
        true => "none".to_owned(),
        false => all.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_is_a_line() {
        let update = Step::UpdatePort {
            port: "port-1".into(),
            groups: [
                Handle::Created("picket/a".into()),
                Handle::Installed("id-2".into()),
            ]
            .into(),
            revision: Some(3),
        };
        let rules = ["r1".into(), "r2".into()].into();
        let delete = Step::DeleteRules {
            group: "id-2".into(),
            rules,
        };
        let plan = Plan {
            stages: vec![vec![update], vec![delete, Step::DeleteGroup("id-3".into())]],
            ..Plan::default()
        };
        let expected = "\
1: set groups of port port-1 to id-2, picket/a
2: delete rules of group id-2: r1, r2
2: delete group id-3
4 calls: delete_group 1, delete_rules 2, update_port 1
";
        assert_eq!(text(&plan), expected);
        assert_eq!(text(&Plan::default()), "0 calls\n");
    }
}
