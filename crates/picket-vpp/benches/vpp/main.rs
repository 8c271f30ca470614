//! How long the lists of a node take from one state to the next: `cargo bench -p picket-vpp --bench vpp`.
//!
//! Nodes with 50 to 3,000 pods, each with 21 rules in each direction, as the original of this renderer was measured with: given
//! as rules, and as policies through the engine. A step is from what changed to the plan of what VPP must be told; `apply` of
//! the engine and the socket are not timed. Single-threaded.
#![expect(
    clippy::print_stdout,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a benchmark prints, and fails at once"
)]

mod blocks;
mod compaction;
mod given;
mod policies;
mod step;

fn main() {
    for pods in [50, 200, 800, 3_000] {
        given::measure(pods);
    }
    for pods in [50, 200, 800, 3_000] {
        policies::measure(pods);
    }
    for pods in [50, 200, 800] {
        policies::measure_alike(pods);
    }
    blocks::measure();
    compaction::measure();
}
