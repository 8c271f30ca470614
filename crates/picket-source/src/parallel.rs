//! Reading documents side by side. The result is that of reading them one after another.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use picket_policy::document::{self, Source};

/// Documents that one thread reads in one go: enough of them to make handing them out cheap.
pub(crate) struct Batch {
    source: Source,
    chunks: Vec<Range<usize>>,
}

/// How many bytes a batch has at least, unless its file ends before.
const BATCH_BYTES: usize = 1 << 16;

impl Batch {
    /// The batches of one file, in its order.
    pub(crate) fn of(source: &Source) -> Vec<Self> {
        let mut batches: Vec<Self> = Vec::new();
        let mut bytes = BATCH_BYTES;
        for chunk in document::chunks(source) {
            if bytes >= BATCH_BYTES {
                bytes = 0;
                batches.push(Self {
                    source: source.clone(),
                    chunks: Vec::new(),
                });
            }
            bytes += chunk.len();
            if let Some(batch) = batches.last_mut() {
                batch.chunks.push(chunk);
            }
        }
        batches
    }

    /// The file that it is of.
    pub(crate) fn source(&self) -> &Source {
        &self.source
    }

    /// Its documents.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = Range<usize>> {
        self.chunks.iter().cloned()
    }
}

/// What `read` makes of each batch, in the order of the batches, on as many threads as there are processors.
pub(crate) fn read_all<T: Send>(batches: &[Batch], read: impl Fn(&Batch) -> T + Sync) -> Vec<T> {
    let processors = thread::available_parallelism().map_or(1, usize::from);
    if processors.min(batches.len()) < 2 {
        return batches.iter().map(read).collect();
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(batch) = batches.get(at) else { return done };
            done.push((at, read(batch)));
        }
    };
    let mut all: Vec<(usize, T)> = thread::scope(|scope| {
        let others: Vec<_> = (1..processors).map(|_| scope.spawn(work)).collect();
        let mut all = work();
        for other in others {
            match other.join() {
                Ok(done) => all.extend(done),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        all
    });
    all.sort_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, read)| read).collect()
}
