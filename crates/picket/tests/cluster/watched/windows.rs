//! The times when there are no rules because others have taken them away, and what passes then.

use std::time::Duration;

use super::flows::{Arrival, Moment, Passage};

/// One such time.
struct Window {
    /// Whether no agent ran then.
    by_nobody: bool,
    /// The epoch that began with it.
    epoch: usize,
    /// When somebody could begin to do something about it: an agent was started, or one ran and the rules were about to go.
    begin: Moment,
    /// How long after that the rules were seen again.
    until_seen: Option<Duration>,
    /// How long after that the last packet came that nothing allows.
    until_last: Option<Duration>,
    /// How many such packets came, also before.
    packets: usize,
}

/// All of them.
#[derive(Default)]
pub(crate) struct Windows(Vec<Window>);

impl Windows {
    /// There are no rules from this epoch on.
    pub(crate) fn open(&mut self, by_nobody: bool, epoch: usize) {
        self.0.push(Window {
            by_nobody,
            epoch,
            begin: Moment::now(),
            until_seen: None,
            until_last: None,
            packets: 0,
        });
    }

    /// Now somebody can do something about it.
    pub(crate) fn begin(&mut self) {
        if let Some(window) = self.0.last_mut() {
            window.begin = Moment::now();
        }
    }

    /// There are rules again.
    pub(crate) fn close(&mut self) {
        if let Some(window) = self.0.last_mut() {
            window.until_seen = Moment::now().after(window.begin);
        }
    }

    /// Packets have passed in one of them.
    pub(crate) fn passed(&mut self, passage: Passage, arrival: Arrival) {
        let mut windows = self.0.iter_mut().rev();
        let window = windows.find(|window| window.epoch <= passage.came).unwrap();
        window.packets += arrival.packets;
        window.until_last = window.until_last.max(arrival.last.after(window.begin));
    }

    /// How many packets passed while no agent ran, or one that lets others change the table.
    pub(crate) fn packets(&self, by_nobody: bool) -> usize {
        self.of(by_nobody).map(|window| window.packets).sum()
    }

    fn of(&self, by_nobody: bool) -> impl Iterator<Item = &Window> {
        self.0.iter().filter(move |window| window.by_nobody == by_nobody)
    }

    /// What was measured, in words.
    pub(crate) fn report(&self) -> String {
        let told = [
            (true, "flushed while no agent ran, since one started"),
            (
                false,
                "flushed while an agent ran that lets others change the table, since before",
            ),
        ];
        let lines = told.map(|(by_nobody, what)| {
            let seen = figures(self.of(by_nobody).filter_map(|window| window.until_seen));
            let last = figures(self.of(by_nobody).filter_map(|window| window.until_last));
            let (times, packets) = (self.of(by_nobody).count(), self.packets(by_nobody));
            format!("{what}: {times} times; rules again {seen}; {packets} packets passed, the last {last}\n")
        });
        lines.concat()
    }
}

/// The middle one of some durations, and the longest.
fn figures(durations: impl Iterator<Item = Duration>) -> String {
    let mut durations: Vec<_> = durations.collect();
    durations.sort_unstable();
    match (durations.get(durations.len() / 2), durations.last()) {
        (Some(middle), Some(longest)) => format!("after {middle:.1?}, at most {longest:.1?}"),
        _ => "never".to_owned(),
    }
}
