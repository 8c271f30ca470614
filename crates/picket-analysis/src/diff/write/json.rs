//! JSON for programs.

use std::io::{self, Write};

use rustc_hash::FxHashMap;
use serde::Serialize;
use smol_str::SmolStr;

use crate::diff::{Diff, Only, PolicyChange};
use crate::map::MapEndpoint;
use crate::map::traffic::{self, TrafficId};

/// An endpoint, and the only side that has it.
#[derive(Serialize)]
struct EndpointAnswer<'a> {
    #[serde(flatten)]
    endpoint: &'a MapEndpoint,
    #[serde(skip_serializing_if = "Option::is_none")]
    only: Option<Only>,
}

#[derive(Serialize)]
struct PolicyAnswer<'a> {
    kind: &'a SmolStr,
    namespace: &'a SmolStr,
    name: &'a SmolStr,
    change: PolicyChange,
    file: &'a str,
    line: u32,
}

/// The JSON of `docs/schema/diff.schema.json`: one connection, endpoint and policy per line. `extra` are further members
/// of the object, as keys and JSON texts.
///
/// # Errors
/// When writing fails.
pub fn json(diff: &Diff<'_>, extra: &[(&str, String)], out: &mut impl Write) -> io::Result<()> {
    let ids: Vec<_> = diff
        .endpoints
        .iter()
        // A text always has a JSON text.
        .map(|endpoint| serde_json::to_string(&endpoint.endpoint.id).unwrap_or_default())
        .collect();
    let mut texts = FxHashMap::default();
    for (key, only) in [("{\"added\":[", Only::New), ("],\n\"removed\":[", Only::Old)] {
        out.write_all(key.as_bytes())?;
        connections(diff, only, &ids, &mut texts, out)?;
    }
    out.write_all(b"],\n\"endpoints\":[")?;
    let endpoints = diff.endpoints();
    lines(
        endpoints.map(|(endpoint, only)| EndpointAnswer { endpoint, only }),
        out,
    )?;
    out.write_all(b"],\n\"policies\":[")?;
    let policies = diff.policies().iter().map(|policy| PolicyAnswer {
        kind: &policy.object.kind,
        namespace: &policy.object.namespace,
        name: &policy.object.name,
        change: policy.change,
        file: &policy.position.file,
        line: policy.position.line,
    });
    lines(policies, out)?;
    out.write_all(b"]")?;
    for (key, text) in extra {
        write!(out, ",\n\"{key}\":{text}")?;
    }
    out.write_all(b"}\n")
}

fn connections(
    diff: &Diff<'_>,
    only: Only,
    ids: &[String],
    texts: &mut FxHashMap<TrafficId, String>,
    out: &mut impl Write,
) -> io::Result<()> {
    let mut before = "\n";
    diff.each_changed(only, |from, to, family, id| {
        let allow = texts
            .entry(id)
            .or_insert_with(|| traffic::json(diff.traffics.borrow().get(id)));
        let (Some(from), Some(to)) = (ids.get(from), ids.get(to)) else {
            return Ok(());
        };
        let family = family.as_str();
        write!(
            out,
            "{before}{{\"from\":{from},\"to\":{to},\"family\":\"{family}\",\"allow\":{allow}}}"
        )?;
        before = ",\n";
        Ok(())
    })
}

fn lines<T: Serialize>(values: impl Iterator<Item = T>, out: &mut impl Write) -> io::Result<()> {
    let mut before: &[u8] = b"\n";
    for value in values {
        out.write_all(before)?;
        serde_json::to_writer(&mut *out, &value)?;
        before = b",\n";
    }
    Ok(())
}
