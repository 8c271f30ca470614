//! Presentations of a map. Each is the same for the same map, byte by byte.

mod list;
mod page;
mod svg;
mod table;

use std::collections::BTreeMap;
use std::io::{self, Write};

use picket_net::TrafficSet;

use super::{Cell, Map};
use crate::eval::Evaluator;

pub use list::{csv, dot, json, markdown};

/// Groups of endpoints that behave alike, and a grid of what each may send to each, for people.
///
/// # Errors
/// When writing fails.
pub fn table(map: &Map<'_>, out: &mut impl Write) -> io::Result<()> {
    table::write(map, out)
}

/// One self-contained page to look around in: a matrix by namespace and workload, a graph, and for every pair an
/// explanation. `evaluator` is of the snapshot that the map is of. Nothing in the page comes from elsewhere.
///
/// # Errors
/// When writing fails.
pub fn html(map: &Map<'_>, evaluator: &Evaluator<'_>, out: &mut impl Write) -> io::Result<()> {
    page::write(map, evaluator, out)
}

/// The matrix as a standalone picture: a line for every workload, or for every namespace when there are many.
///
/// # Errors
/// When writing fails.
pub fn svg(map: &Map<'_>, out: &mut impl Write) -> io::Result<()> {
    svg::write(map, out)
}

/// Short marks for what cells hold: `#` for everything, `.` for nothing, `-` for no pair, and letters for the rest in
/// the order in which they are met.
#[derive(Debug, Default)]
struct Marks {
    meanings: Vec<(String, String)>,
}

impl Marks {
    fn mark(&mut self, cell: &Cell) -> String {
        match cell {
            Cell::NoPair => String::new(),
            Cell::Same(traffic) if traffic.is_all() => "#".to_owned(),
            Cell::Same(traffic) if traffic.is_empty() => ".".to_owned(),
            Cell::Same(traffic) => self.letter(traffic.to_string()),
            Cell::Differ(four, six) => self.letter(differing(four, six)),
        }
    }

    fn letter(&mut self, meaning: String) -> String {
        if let Some((mark, _)) = self.meanings.iter().find(|(_, known)| *known == meaning) {
            return mark.clone();
        }
        let mark = letters(self.meanings.len());
        self.meanings.push((mark.clone(), meaning));
        mark
    }
}

/// The most groups that a grid shows; of more each has a list of what it reaches.
const WIDEST_GRID: usize = 60;

/// What a row of cells allows, each with the numbers of the groups it is allowed with, counted from 1.
fn reached(row: &[Cell]) -> BTreeMap<String, Vec<usize>> {
    let mut reached: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (number, cell) in (1..).zip(row) {
        let meaning = match cell {
            Cell::NoPair => continue,
            Cell::Same(traffic) if traffic.is_empty() => continue,
            Cell::Same(traffic) if traffic.is_all() => "everything".to_owned(),
            Cell::Same(traffic) => traffic.to_string(),
            Cell::Differ(four, six) => differing(four, six),
        };
        reached.entry(meaning).or_default().push(number);
    }
    reached
}

/// Ascending numbers as people write them, as in `1-3, 7`.
fn numbers(numbers: &[usize]) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let texts: Vec<_> = ranges
        .into_iter()
        .map(|(first, last)| {
            if first == last {
                first.to_string()
            } else {
                format!("{first}-{last}")
            }
        })
        .collect();
    texts.join(", ")
}

fn differing(four: &TrafficSet, six: &TrafficSet) -> String {
    format!("IPv4: {four}; IPv6: {six}")
}

/// `a` to `z`, then `aa`, `ab` and so on.
fn letters(mut number: usize) -> String {
    let mut reversed = Vec::new();
    loop {
        reversed.push(b'a'.saturating_add(u8::try_from(number % 26).unwrap_or_default()));
        number /= 26;
        if number == 0 {
            break;
        }
        number -= 1;
    }
    reversed.iter().rev().map(|&letter| char::from(letter)).collect()
}
