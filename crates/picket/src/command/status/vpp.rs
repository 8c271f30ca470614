//! How it goes with a target of VPP, for people.

use std::fmt::Write as _;

use picket_node::VppStatus;

use super::versions::Versions;

pub(super) fn write(target: &str, vpp: &VppStatus, text: &mut String) -> std::fmt::Result {
    if vpp.ready {
        writeln!(
            text,
            "{target}: policies are in force: {} of {} pods restricted, by {} policies",
            vpp.pods.restricted,
            vpp.pods.all,
            vpp.policies.len()
        )?;
    } else {
        writeln!(
            text,
            "{target}: the policies are not in force yet; what VPP had before it still has"
        )?;
    }
    if let (Some(changed), Some(current)) = (vpp.changed, vpp.current) {
        writeln!(
            text,
            "  VPP changed {changed:.0}, last what the policies say {current:.0}"
        )?;
    }
    if !vpp.connected {
        writeln!(text, "  VPP does not answer")?;
    }
    write_places(vpp, text)?;
    let what = if target == "vpp-session" { "rules" } else { "lists" };
    for foreign in &vpp.foreign {
        writeln!(text, "  {what} of others, {foreign}")?;
    }
    for narrower in &vpp.narrower {
        writeln!(text, "  LESS than the policies allow: {narrower}")?;
    }
    for policy in &vpp.policies {
        writeln!(text, "  {policy}")?;
    }
    for unreadable in Versions(&vpp.unreadable).others(&[]) {
        writeln!(text, "  NOT in force as it is: {unreadable}")?;
    }
    if let Some(trouble) = &vpp.trouble {
        writeln!(text, "  NOT in force since {:.0}: {}", trouble.since, trouble.why)?;
        for policy in &trouble.waiting {
            writeln!(text, "    {policy}")?;
        }
    }
    Ok(())
}

/// What VPP has for pods, and what leads out of the node.
fn write_places(vpp: &VppStatus, text: &mut String) -> std::fmt::Result {
    for (pod, interfaces) in &vpp.interfaces {
        writeln!(text, "  {pod}: {}", interfaces.join(", "))?;
    }
    for (pod, namespaces) in &vpp.namespaces {
        let namespaces: Vec<_> = namespaces.iter().map(u32::to_string).collect();
        writeln!(text, "  {pod}: namespace {}", namespaces.join(", "))?;
    }
    for pending in &vpp.pending {
        let restricted = if pending.restricted {
            ""
        } else {
            " (nothing restricts it)"
        };
        writeln!(text, "  {}: PENDING{restricted}: {}", pending.pod, pending.why)?;
    }
    if !vpp.uplinks.is_empty() {
        writeln!(text, "  rest of the world: {}", vpp.uplinks.join(", "))?;
    }
    for interface in &vpp.unknown {
        writeln!(
            text,
            "  interface {interface}: no pod is known that has it, and nothing passes there"
        )?;
    }
    for table in &vpp.closed {
        writeln!(text, "  {table}: nothing may be opened yet")?;
    }
    Ok(())
}
