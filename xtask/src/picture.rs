//! `cargo xtask picture`: what a program printed on a terminal, as an SVG for the documentation.
//!
//! The same text gives the same bytes, and every run of letters is as wide as its columns whatever font shows it.

mod terminal;

use std::fmt::Write;
use std::io::Read;

use anyhow::{Context, Result};

use self::terminal::{Colour, Run, runs};
use crate::command::print;

/// What `cargo xtask picture` takes, besides the text on its standard input.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The command that printed it, shown above its output
    #[arg(long, value_name = "TEXT")]
    command: Option<String>,
}

/// The width of a letter, in pixels.
const COLUMN: usize = 9;
/// The height of a line.
const LINE: usize = 20;
/// Around everything.
const BORDER: usize = 16;

/// Reads terminal output from standard input and writes an SVG to standard output.
pub(crate) fn picture(arguments: &Arguments) -> Result<()> {
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .context("standard input cannot be read")?;
    let prompt = arguments
        .command
        .as_ref()
        .map(|command| format!("\u{1b}[1m$ {command}\u{1b}[0m\n"));
    print(&svg(&format!("{}{text}", prompt.unwrap_or_default())))
}

/// The picture of `text`, which may hold the escape sequences of a terminal.
fn svg(text: &str) -> String {
    let lines: Vec<_> = text.trim_end().lines().map(runs).collect();
    let columns = lines
        .iter()
        .flatten()
        .map(|run| run.column + run.width())
        .max()
        .unwrap_or(0);
    let (width, height) = (columns * COLUMN + 2 * BORDER, lines.len() * LINE + 2 * BORDER);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" font-family=\"ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace\" \
         font-size=\"15\" fill=\"{}\" xml:space=\"preserve\">\n<rect width=\"100%\" height=\"100%\" rx=\"8\" \
         fill=\"#161b22\"/>\n",
        hex(Colour::Default)
    );
    for (index, line) in lines.iter().enumerate() {
        for run in line {
            write_run(run, BORDER + index * LINE + LINE * 3 / 4, &mut out);
        }
    }
    out.push_str("</svg>\n");
    out
}

fn write_run(run: &Run, y: usize, out: &mut String) {
    let x = BORDER + run.column * COLUMN;
    // A single letter has nothing to stretch.
    let stretch = match run.width() {
        1 => String::new(),
        letters => format!(" textLength=\"{}\"", letters * COLUMN),
    };
    let weight = if run.style.bold {
        " font-weight=\"bold\""
    } else {
        ""
    };
    let opacity = if run.style.dim { " opacity=\"0.6\"" } else { "" };
    let text = run.text.replace('&', "&amp;").replace('<', "&lt;");
    let fill = match run.style.colour {
        Colour::Default => String::new(),
        colour => format!(" fill=\"{}\"", hex(colour)),
    };
    let _ = writeln!(
        out,
        "<text x=\"{x}\" y=\"{y}\"{stretch}{fill}{weight}{opacity}>{text}</text>"
    );
}

/// A palette that reads well on the dark ground of the picture.
fn hex(colour: Colour) -> &'static str {
    match colour {
        Colour::Default => "#d1d7e0",
        Colour::Black => "#6e7681",
        Colour::Red => "#ff7b72",
        Colour::Green => "#56d364",
        Colour::Yellow => "#e3b341",
        Colour::Blue => "#79c0ff",
        Colour::Magenta => "#d2a8ff",
        Colour::Cyan => "#76e3ea",
        Colour::White => "#ffffff",
    }
}

#[cfg(test)]
mod tests {
    use super::svg;

    #[test]
    fn text_becomes_one_element_for_each_style_on_each_line() {
        let picture = svg("ok \u{1b}[1;32myes\u{1b}[0m\n a<b\n");
        let texts: Vec<_> = picture.lines().filter(|line| line.starts_with("<text")).collect();
        assert_eq!(texts.len(), 3);
        for (text, parts) in texts.iter().zip([
            ["x=\"16\"", "textLength=\"18\"", ">ok</text>"],
            ["x=\"43\"", "#56d364\" font-weight=\"bold\"", ">yes</text>"],
            ["y=\"51\"", "x=\"25\"", ">a&lt;b</text>"],
        ]) {
            assert!(
                parts.iter().all(|part| text.contains(part)),
                "{text} lacks one of {parts:?}"
            );
        }
    }
}
