//! The rulesets that are in force.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use std::sync::Mutex;
use std::thread;

use picket_linux::run_with_input;

use crate::error::Unloaded;
use crate::{Error, Network, Place, Progress};

/// Lets nothing pass, before anything else is asked.
const CLOSE: &str = "table inet picket-closed {
    chain input { type filter hook input priority -400; policy drop; }
    chain forward { type filter hook forward priority -400; policy drop; }
    chain output { type filter hook output priority -400; policy drop; }
}
";

/// Undoes [`CLOSE`].
const OPEN: &str = "table inet picket-closed\ndelete table inet picket-closed\n";

/// What each place enforces.
#[derive(Debug, Default)]
pub(crate) struct Loaded {
    texts: BTreeMap<Place, String>,
    /// The places where nothing passes, because a ruleset did not load.
    closed: BTreeSet<Place>,
}

impl Loaded {
    /// The places that have a ruleset.
    pub(crate) fn places(&self) -> impl Iterator<Item = &Place> {
        self.texts.keys()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.texts.len()
    }

    /// Forgets the other places, which are gone or new.
    pub(crate) fn keep(&mut self, is_kept: impl Fn(&Place) -> bool) {
        self.texts.retain(|place, _| is_kept(place));
        self.closed.retain(|place| is_kept(place));
    }

    /// Loads each ruleset that differs from what is loaded, side by side, and returns how many did.
    ///
    /// # Errors
    /// [`Error::Rulesets`] with those that did not load. Nothing passes there until one does.
    pub(crate) fn replace(
        &mut self,
        network: &Network,
        rulesets: BTreeMap<Place, String>,
        progress: &Progress,
    ) -> Result<usize, Error> {
        let of = rulesets.len();
        let differing = rulesets
            .into_iter()
            .filter(|(place, text)| self.texts.get(place) != Some(text));
        let waiting: Vec<(Place, String)> = differing.collect();
        progress.begin("loading rulesets", waiting.len());
        let replaced = waiting.len();
        let waiting = Mutex::new(waiting.into_iter());
        let results = Mutex::new(Vec::with_capacity(replaced));
        let closed = &self.closed;
        thread::scope(|scope| {
            for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
                scope.spawn(|| {
                    while let Some((place, text)) = next(&waiting) {
                        let result = load(network, &place, &text, closed.contains(&place));
                        progress.advance(1);
                        if let Ok(mut results) = results.lock() {
                            results.push((place, text, result));
                        }
                    }
                });
            }
        });
        let mut failed = Vec::new();
        for (place, text, result) in results.into_inner().unwrap_or_default() {
            match result {
                Ok(()) => {
                    self.closed.remove(&place);
                    self.texts.insert(place, text);
                }
                Err(error) => {
                    self.texts.remove(&place);
                    self.closed.insert(place.clone());
                    failed.push((place, *error));
                }
            }
        }
        if failed.is_empty() {
            return Ok(replaced);
        }
        failed.sort_by(|one, other| one.0.cmp(&other.0));
        Err(Error::Rulesets { failed, of })
    }
}

fn next<T>(waiting: &Mutex<impl Iterator<Item = T>>) -> Option<T> {
    waiting.lock().ok()?.next()
}

/// Loads one ruleset, or else lets nothing pass.
fn load(network: &Network, place: &Place, text: &str, closed: bool) -> Result<(), Box<Unloaded>> {
    // The network has every place that a ruleset is for.
    let Ok(namespace) = network.namespace(place) else {
        return Ok(());
    };
    let nft = |text: &str| {
        run_with_input(
            namespace,
            Command::new("nft").args(["-f", "-"]),
            text.as_bytes(),
            "nftables",
        )
    };
    let opening = if closed { OPEN } else { "" };
    match nft(&format!("{opening}{text}")) {
        Ok(_) => Ok(()),
        Err(error) => Err(Box::new(Unloaded {
            error,
            open: nft(CLOSE).err(),
        })),
    }
}
