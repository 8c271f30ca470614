//! What keys and their values say by themselves. Nothing has to be known for it, so that threads read a list side by side,
//! while the rest of it comes in.

use std::mem::replace;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;

use futures_util::{Stream, TryStreamExt, stream};
use tokio::task::spawn_blocking;

use super::error::EtcdError;
use super::key::{Key, Keys};
use super::message::{Header, KeyValue};
use super::record::{self, Unreadable};
use crate::kube::kind::Kind;
use crate::live::Found;

/// How many threads read a list, at most: more would wait for etcd.
const THREADS: usize = 8;

/// What a key and its value say.
pub(super) enum Entry {
    /// What an object is, or why nobody can tell.
    Object(Key, Result<Found, Unreadable>),
    /// How far a reflector is.
    Progress(KeyValue),
    /// It should be the key of an object, and is nobody's.
    Strange(Vec<u8>),
    /// Nothing that anybody wants to know.
    Other,
}

/// Which keys are read, and as what.
pub(super) struct Terms {
    pub(super) keys: Keys,
    /// The kinds whose objects are wanted.
    pub(super) kinds: Vec<&'static Kind>,
    /// Whether every policy will be needed.
    pub(super) every_policy: bool,
}

impl Terms {
    /// Whether the objects of a kind are wanted.
    pub(super) fn wants(&self, kind: &Kind) -> bool {
        self.kinds.iter().any(|wanted| wanted.name == kind.name)
    }

    /// What a key and its value say.
    pub(super) fn read(&self, kv: KeyValue) -> Entry {
        if kv.key == self.keys.progress.as_bytes() {
            return Entry::Progress(kv);
        }
        if !self.keys.is_object(&kv.key) {
            return Entry::Other;
        }
        let Some(key) = self.keys.read(&kv.key) else {
            return Entry::Strange(kv.key);
        };
        if !self.wants(key.kind()) {
            return Entry::Other;
        }
        let read = |found: Found| {
            let found = found.at_revision(kv.mod_revision);
            if self.every_policy {
                found.read_ahead()
            } else {
                found
            }
        };
        let found = record::read(&key, &kv.value).map(read);
        let found = found.map_err(|unreadable| Unreadable {
            instead: unreadable.instead.map(|found| Box::new(read(*found))),
            ..unreadable
        });
        Entry::Object(key, found)
    }

    /// What pages say, in their order, in parts that threads read.
    pub(super) fn read_pages(
        self: &Arc<Self>,
        pages: impl Stream<Item = Result<(Header, Vec<KeyValue>), EtcdError>>,
    ) -> impl Stream<Item = Result<(Header, Vec<Entry>), EtcdError>> {
        let threads = thread::available_parallelism()
            .map_or(1, usize::from)
            .min(THREADS);
        let parts = pages.map_ok(move |(at, page)| {
            let parts = in_parts(page, threads).into_iter();
            stream::iter(parts.map(move |part| Ok((at, part))))
        });
        let read = parts.try_flatten().map_ok(|(at, part)| {
            let terms = Arc::clone(self);
            let read = spawn_blocking(move || part.into_iter().map(|kv| terms.read(kv)).collect());
            async move {
                match read.await.map_err(tokio::task::JoinError::try_into_panic) {
                    Ok(entries) => Ok((at, entries)),
                    Err(Ok(panic)) => resume_unwind(panic),
                    // Nobody waits any more when the runtime ends.
                    Err(Err(_)) => std::future::pending().await,
                }
            }
        });
        // So many that the next page is asked for before one has been read.
        read.try_buffered(2 * threads)
    }
}

/// A page in so many parts of about the same size, or in fewer.
fn in_parts(mut page: Vec<KeyValue>, count: usize) -> Vec<Vec<KeyValue>> {
    let size = page.len().div_ceil(count).max(1);
    let mut parts = Vec::new();
    while page.len() > size {
        let rest = page.split_off(size);
        parts.push(replace(&mut page, rest));
    }
    parts.push(page);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_the_page_in_its_order() {
        for (length, count, expected) in [
            (0, 4, vec![0]),
            (1, 4, vec![1]),
            (5, 1, vec![5]),
            (5, 2, vec![3, 2]),
            (9, 4, vec![3, 3, 3]),
            (1000, 3, vec![334, 334, 332]),
        ] {
            let page: Vec<_> = (0..length)
                .map(|mod_revision| KeyValue {
                    mod_revision,
                    ..KeyValue::default()
                })
                .collect();
            let parts = in_parts(page.clone(), count);
            let sizes: Vec<_> = parts.iter().map(Vec::len).collect();
            assert_eq!((sizes, parts.concat()), (expected, page));
        }
    }
}
