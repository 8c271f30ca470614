//! Whether calls may begin.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::lease::Lease;
use crate::metrics::Metrics;

/// Who speaks to a cloud asks this before every call that changes something, and tells it how calls ended. Clones are the same.
#[derive(Clone, Debug)]
pub struct Gate {
    lease: Lease,
    metrics: Metrics,
    /// The term in which was read what calls go by; 0 for none.
    term: Arc<AtomicU64>,
    /// Whether no term begins any more.
    ended: Arc<AtomicBool>,
}

impl Gate {
    /// One that lets nothing pass.
    pub(crate) fn new(lease: Lease, metrics: Metrics) -> Self {
        Self {
            lease,
            metrics,
            term: Arc::default(),
            ended: Arc::default(),
        }
    }

    /// Lets pass from now on what is begun in a term.
    pub(crate) fn open(&self, term: u64) {
        self.term.store(term, Ordering::SeqCst);
    }

    /// Lets nothing pass any more.
    pub(crate) fn close(&self) {
        self.term.store(0, Ordering::SeqCst);
    }

    /// Lets nothing pass any more, and no call be made again.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::SeqCst);
        self.close();
    }

    /// Whether a call that has failed is to be made again.
    pub fn is_patient(&self) -> bool {
        !self.ended.load(Ordering::SeqCst)
    }

    /// Whether a call may begin now that ends within `limit`: only if this controller has the Lease for longer, and has had it since
    /// what the call goes by was read. To be asked right before the call is sent.
    pub fn permits(&self, limit: Duration) -> bool {
        let term = self.term.load(Ordering::SeqCst);
        term != 0 && self.lease.permits(term, limit)
    }

    /// A call has ended: of which kind it was, how it ended, each in a word, and after which time.
    pub fn called(&self, kind: &'static str, outcome: &'static str, took: Duration) {
        self.metrics.called(kind, outcome, took);
    }
}
