//! One page for a browser: a matrix, a graph, and an explanation of every pair.
//!
//! The page is one file. Its policy (`Content-Security-Policy`) lets it load nothing and run nothing but the script that
//! is in it, by its hash; what the map says is data beside that script, never part of it.

mod circle;
mod data;
mod hash;
mod pairs;
#[cfg(test)]
mod tests;

use std::io::{self, Write};

use crate::eval::Evaluator;
use crate::map::Map;

const FRAME: &str = include_str!("page/frame.html");
const STYLE: &str = include_str!("page/style.css");

/// The script, in the order in which its parts build on each other.
const SCRIPT: [&str; 6] = [
    include_str!("page/model.js"),
    include_str!("page/axis.js"),
    include_str!("page/panel.js"),
    include_str!("page/grid.js"),
    include_str!("page/graph.js"),
    include_str!("page/main.js"),
];

pub(super) fn write(map: &Map<'_>, evaluator: &Evaluator<'_>, out: &mut impl Write) -> io::Result<()> {
    let script = format!("\"use strict\";\n{}", SCRIPT.concat());
    let data = serde_json::to_string(&data::data(map, evaluator))?;
    // Within JSON a `<` stands only in strings, and without one nothing ends the element that holds it.
    let data = data.replace('<', "\\u003c");
    let mut rest = FRAME;
    for (mark, text) in [
        ("{style-hash}", hash::source(STYLE)),
        ("{script-hash}", hash::source(&script)),
        ("{style}", STYLE.to_owned()),
        ("{map}", data),
        ("{script}", script),
    ] {
        let Some((before, after)) = rest.split_once(mark) else {
            return Err(io::Error::other(format!("the page has no {mark}")));
        };
        out.write_all(before.as_bytes())?;
        out.write_all(text.as_bytes())?;
        rest = after;
    }
    out.write_all(rest.as_bytes())
}
