//! Presentations that list every connection, one row of the map at a time.

use std::io::{self, Write};

use rustc_hash::FxHashMap;

use crate::map::traffic::{self, TrafficId};
use crate::map::{ConnectionFamily, Map};

/// Texts of endpoints and of traffic, made once each.
struct Texts<'a, 'b> {
    map: &'a Map<'b>,
    ids: Vec<String>,
    traffic: FxHashMap<TrafficId, String>,
}

impl<'a, 'b> Texts<'a, 'b> {
    fn new(map: &'a Map<'b>, id: impl Fn(&str) -> String) -> Self {
        Self {
            map,
            ids: map.endpoints.iter().map(|endpoint| id(&endpoint.id)).collect(),
            traffic: FxHashMap::default(),
        }
    }

    /// Calls `take` with the texts of every connection.
    fn each(
        mut self,
        allow: impl Fn(&picket_net::TrafficSet) -> String,
        mut take: impl FnMut(&str, &str, ConnectionFamily, &str) -> io::Result<()>,
    ) -> io::Result<()> {
        let Self { map, ids, traffic } = &mut self;
        map.each(|from, to, family, id| {
            let text = traffic
                .entry(id)
                .or_insert_with(|| allow(map.traffics.borrow().get(id)));
            let (Some(from), Some(to)) = (ids.get(from), ids.get(to)) else {
                return Ok(());
            };
            take(from, to, family, text)
        })
    }
}

/// The JSON of `docs/schema/matrix.schema.json`: one endpoint and one connection per line. `extra` are further members
/// of the object, as keys and JSON texts.
///
/// # Errors
/// When writing fails.
pub fn json(map: &Map<'_>, extra: &[(&str, String)], out: &mut impl Write) -> io::Result<()> {
    out.write_all(b"{\"endpoints\":[")?;
    let mut before: &[u8] = b"\n";
    for endpoint in map.endpoints() {
        out.write_all(before)?;
        serde_json::to_writer(&mut *out, endpoint)?;
        before = b",\n";
    }
    out.write_all(b"],\n\"connections\":[")?;
    before = b"\n";
    // A text always has a JSON text.
    let texts = Texts::new(map, |id| serde_json::to_string(id).unwrap_or_default());
    texts.each(traffic::json, |from, to, family, allow| {
        out.write_all(before)?;
        before = b",\n";
        for part in [
            "{\"from\":",
            from,
            ",\"to\":",
            to,
            ",\"family\":\"",
            family.as_str(),
            "\",\"allow\":",
            allow,
            "}",
        ] {
            out.write_all(part.as_bytes())?;
        }
        Ok(())
    })?;
    out.write_all(b"]")?;
    for (key, text) in extra {
        write!(out, ",\n\"{key}\":{text}")?;
    }
    out.write_all(b"}\n")
}

/// Comma-separated values (RFC 4180): a heading, then one line per connection.
///
/// # Errors
/// When writing fails.
pub fn csv(map: &Map<'_>, out: &mut impl Write) -> io::Result<()> {
    let field = |text: &str| {
        if text.contains([',', '"', '\n', '\r']) {
            format!("\"{}\"", text.replace('"', "\"\""))
        } else {
            text.to_owned()
        }
    };
    out.write_all(b"from,to,family,allow\r\n")?;
    Texts::new(map, field).each(
        |traffic| field(&traffic.to_string()),
        |from, to, family, allow| write!(out, "{from},{to},{},{allow}\r\n", family.as_str()),
    )
}

/// A Markdown table with one line per connection.
///
/// # Errors
/// When writing fails.
pub fn markdown(map: &Map<'_>, out: &mut impl Write) -> io::Result<()> {
    let cell = |text: &str| text.replace('\\', "\\\\").replace('|', "\\|").replace('<', "\\<");
    out.write_all(b"| from | to | family | allowed |\n|---|---|---|---|\n")?;
    Texts::new(map, cell).each(
        |traffic| cell(&traffic.to_string()),
        |from, to, family, allow| writeln!(out, "| {from} | {to} | {} | {allow} |", family.as_str()),
    )
}

/// A graph for Graphviz: one node per endpoint, one edge per connection.
///
/// # Errors
/// When writing fails.
pub fn dot(map: &Map<'_>, out: &mut impl Write) -> io::Result<()> {
    let quoted = |text: &str| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    out.write_all(b"digraph connectivity {\n  rankdir=LR;\n  node [shape=box];\n")?;
    for endpoint in map.endpoints() {
        let shape = match endpoint.kind {
            super::super::EndpointKind::External => "ellipse",
            super::super::EndpointKind::Node => "box3d",
            super::super::EndpointKind::Pod => "box",
            super::super::EndpointKind::Workload => "component",
        };
        writeln!(out, "  {} [shape={shape}];", quoted(&endpoint.id))?;
    }
    Texts::new(map, quoted).each(
        |traffic| quoted(&traffic.to_string()),
        |from, to, family, allow| match family {
            ConnectionFamily::Any => writeln!(out, "  {from} -> {to} [label={allow}];"),
            ConnectionFamily::Ipv4 | ConnectionFamily::Ipv6 => {
                writeln!(
                    out,
                    "  {from} -> {to} [label={allow}, taillabel=\"{}\"];",
                    family.as_str()
                )
            }
        },
    )?;
    out.write_all(b"}\n")
}
