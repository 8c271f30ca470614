//! The matrix as a picture.

use std::fmt::Write as _;
use std::io::{self, Write};

use crate::map::Map;
use crate::map::level::{Level, Parts};
use crate::map::tree::Section;
use crate::xml::escaped;

/// The most workloads that have a line each; of more every namespace has one.
const MOST_WORKLOADS: usize = 80;
/// The most lines for namespaces; the last stands for all others.
const MOST_SECTIONS: usize = 120;
/// The width and height of a cell.
const LINE: usize = 20;
/// Around everything.
const BORDER: usize = 20;
/// The longest name, in letters.
const NAME: usize = 32;
/// The width of a letter, about.
const LETTER: usize = 7;

const STYLE: &str = include_str!("svg.css");

/// A row and a column of the picture.
struct Line {
    name: String,
    /// A heading has no cells.
    group: Option<Parts>,
    bold: bool,
}

pub(super) fn write(map: &Map<'_>, out: &mut impl Write) -> io::Result<()> {
    let lines = lines(map);
    let names = lines
        .iter()
        .map(|line| line.name.chars().count())
        .max()
        .unwrap_or(0)
        * LETTER
        + 2 * BORDER;
    let side = lines.len() * LINE;
    let (width, height) = (names + side + BORDER, names + side + 3 * BORDER);
    let mut picture = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" height=\"{height}\" \
         role=\"img\">\n<title>Who may talk to whom: rows open connections, columns accept them</title>\n\
         <style>{STYLE}</style>\n<rect class=\"paper\" width=\"100%\" height=\"100%\" rx=\"8\"/>\n"
    );
    for (at, line) in lines.iter().enumerate() {
        name(&mut picture, line, names, names + at * LINE);
    }
    cells(&mut picture, map, &lines, names);
    legend(&mut picture, width, names + side + BORDER);
    picture.push_str("</svg>\n");
    out.write_all(picture.as_bytes())
}

/// The lines, in the order of the page.
fn lines(map: &Map<'_>) -> Vec<Line> {
    let sections = map.sections();
    let workloads: usize = sections.iter().map(|section| section.workloads.len()).sum();
    let members = |section: &Section| -> Vec<usize> {
        let members = section
            .workloads
            .iter()
            .flat_map(|workload| workload.members.iter());
        members.copied().collect()
    };
    let mut lines = Vec::new();
    for section in sections.iter().take(MOST_SECTIONS) {
        let whole = workloads > MOST_WORKLOADS;
        lines.push(Line {
            name: cut(&section.title),
            group: whole.then(|| map.parts(&members(section))),
            bold: true,
        });
        if !whole {
            lines.extend(section.workloads.iter().map(|workload| Line {
                name: cut(&workload.name),
                group: Some(map.parts(&workload.members)),
                bold: false,
            }));
        }
    }
    let rest = sections.get(MOST_SECTIONS..).unwrap_or_default();
    if !rest.is_empty() {
        let members: Vec<_> = rest.iter().flat_map(members).collect();
        lines.push(Line {
            name: format!("{} more", rest.len()),
            group: Some(map.parts(&members)),
            bold: true,
        });
    }
    lines
}

fn cut(name: &str) -> String {
    if name.chars().count() <= NAME {
        return name.to_owned();
    }
    let mut short: String = name.chars().take(NAME - 1).collect();
    short.push('…');
    short
}

fn name(picture: &mut String, line: &Line, names: usize, at: usize) {
    let class = if line.bold { " class=\"section\"" } else { "" };
    let text = escaped(&line.name);
    let (before, middle) = (names - 8, at + LINE / 2);
    let _ = writeln!(
        picture,
        "<text x=\"{before}\" y=\"{middle}\" text-anchor=\"end\"{class}>{text}</text>\n\
         <text transform=\"translate({middle} {before}) rotate(-90)\"{class}>{text}</text>"
    );
}

/// One path for all cells of a level.
fn cells(picture: &mut String, map: &Map<'_>, lines: &[Line], names: usize) {
    let places = lines
        .iter()
        .enumerate()
        .filter_map(|(at, line)| Some((at, line.group.clone()?)));
    let (at, groups): (Vec<_>, Vec<_>) = places.unzip();
    let levels: Vec<_> = map.levels(&groups).collect();
    for (level, class, inset) in [
        (Level::Everything, "everything", 2),
        (Level::Some, "some", 5),
        (Level::Mixed, "mixed", 2),
        (Level::Nothing, "nothing", 8),
    ] {
        let mut path = String::new();
        for (row, levels) in at.iter().zip(&levels) {
            for (column, found) in at.iter().zip(levels) {
                if *found == Some(level) {
                    square(&mut path, names + column * LINE, names + row * LINE, inset);
                }
            }
        }
        if !path.is_empty() {
            let _ = writeln!(picture, "<path class=\"{class}\" d=\"{path}\"/>");
        }
    }
}

fn square(path: &mut String, left: usize, top: usize, inset: usize) {
    let size = LINE - 2 * inset;
    let _ = write!(path, "M{} {}h{size}v{size}h-{size}z", left + inset, top + inset);
}

fn legend(picture: &mut String, width: usize, top: usize) {
    let entries = [
        ("everything", "everything", 2),
        ("some", "some ports", 5),
        ("mixed", "some of the pairs", 2),
        ("nothing", "nothing", 8),
    ];
    let length: usize = entries
        .iter()
        .map(|(_, text, _)| 2 * LINE + text.len() * LETTER)
        .sum();
    let mut left = width.saturating_sub(length) / 2;
    for (class, text, inset) in entries {
        let mut path = String::new();
        square(&mut path, left, top, inset);
        let _ = writeln!(
            picture,
            "<path class=\"{class}\" d=\"{path}\"/><text x=\"{}\" y=\"{}\">{text}</text>",
            left + LINE + 4,
            top + LINE / 2
        );
        left += 2 * LINE + text.len() * LETTER;
    }
}
