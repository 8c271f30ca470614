//! Where the graph draws its nodes: on a circle, by section, with a gap between sections.

use serde::Serialize;

use crate::map::tree::Section;

/// A place on the circle, in degrees clockwise from the top.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Spot {
    pub(super) angle: f64,
    pub(super) x: f64,
    pub(super) y: f64,
}

/// The arc of a section.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(super) struct Arc {
    pub(super) first: f64,
    pub(super) last: f64,
}

/// The places of all workloads, in the order of sections, and the arc of each section.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Circle {
    pub(super) radius: f64,
    pub(super) spots: Vec<Spot>,
    pub(super) arcs: Vec<Arc>,
}

/// The least distance of two neighbours.
const SPACING: f64 = 22.0;
/// The smallest circle that is drawn.
const SMALLEST: f64 = 240.0;
/// How many places the gap between two sections takes.
const GAP: f64 = 1.5;

pub(super) fn circle(sections: &[Section]) -> Circle {
    let slots: f64 = sections.iter().map(|section| count(section) + GAP).sum();
    let radius = (slots * SPACING / std::f64::consts::TAU).max(SMALLEST);
    let step = 360.0 / slots.max(1.0);
    let (mut spots, mut arcs) = (Vec::new(), Vec::new());
    let mut at = GAP / 2.0;
    for section in sections {
        let first = at;
        for _ in &section.workloads {
            spots.push(spot((at + 0.5) * step, radius));
            at += 1.0;
        }
        arcs.push(Arc {
            first: rounded((first + 0.1) * step),
            last: rounded((at - 0.1) * step),
        });
        at += GAP;
    }
    Circle {
        radius: rounded(radius),
        spots,
        arcs,
    }
}

fn count(section: &Section) -> f64 {
    section.workloads.iter().map(|_| 1.0).sum()
}

fn spot(angle: f64, radius: f64) -> Spot {
    let turn = angle.to_radians();
    Spot {
        angle: rounded(angle),
        x: rounded(radius * turn.sin()),
        y: rounded(-radius * turn.cos()),
    }
}

/// To a tenth: finer differences are not seen, and the last digits are not the same on every machine.
fn rounded(number: f64) -> f64 {
    // Adding zero makes -0 a 0.
    (number * 10.0).round() / 10.0 + 0.0
}
