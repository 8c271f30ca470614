//! Making etcd what it should be.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::error::EtcdError;
use super::key::{Key, Keys};
use super::lead::Candidate;
use super::message::{
    CreatedAt, DeleteRangeRequest, Operation, PutRequest, RequestOp, TxnRequest, TxnResponse,
};
use super::mirror::Records;
use super::record;
use super::session::{Session, TXN};
use super::snapshot::Pages;

/// The most operations of a transaction. etcd takes 128 unless it is told otherwise.
const OPERATIONS: usize = 100;

/// The most bytes of a transaction. etcd takes 1.5 MiB unless it is told otherwise.
const BYTES: usize = 1 << 20;

/// A key, and what it should hold; nothing when it should not be.
pub(super) type Change = (Vec<u8>, Option<Arc<[u8]>>);

/// What was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    pub(super) puts: u64,
    pub(super) deletions: u64,
    pub(super) transactions: u64,
    /// Records of which etcd takes none as large as that.
    pub(super) too_large: u64,
}

/// Writes as the leader since a revision.
pub(super) struct Writer<'a> {
    pub(super) session: &'a Session,
    pub(super) keys: &'a Keys,
    pub(super) candidate: &'a mut Candidate,
    pub(super) epoch: i64,
    pub(super) count: Count,
}

/// What etcd lacks, and what it has that should not be.
pub(super) async fn difference(
    session: &Session,
    keys: &Keys,
    mut records: Records,
) -> Result<Vec<Change>, EtcdError> {
    let (start, end) = keys.objects();
    let mut pages = Pages::of(start, &end);
    let mut changes = Vec::new();
    while let Some(found) = pages.next(session).await? {
        for kv in found {
            let key = keys.read(&kv.key);
            let Some((key, wanted)) = key.and_then(|key| records.get_key_value(&key)) else {
                changes.push((kv.key, None));
                continue;
            };
            if **wanted == *kv.value {
                let key = key.clone();
                records.remove(&key);
            }
        }
    }
    // What pods need comes before them, and goes after them.
    let gone = std::mem::take(&mut changes);
    changes.extend(ordered(
        keys,
        records.into_iter().map(|(key, record)| (key, Some(record))),
    ));
    changes.extend(gone.into_iter().rev());
    Ok(changes)
}

/// Changes by what is written, in the order in which they are: what comes, then what goes.
pub(super) fn ordered(
    keys: &Keys,
    changes: impl IntoIterator<Item = (Key, Option<Arc<[u8]>>)>,
) -> Vec<Change> {
    let (comes, goes): (BTreeMap<_, _>, BTreeMap<_, _>) =
        changes.into_iter().partition(|(_, record)| record.is_some());
    let written = |(key, record): (Key, _)| (keys.of(&key).into_bytes(), record);
    comes
        .into_iter()
        .chain(goes.into_iter().rev())
        .map(written)
        .collect()
}

impl Writer<'_> {
    /// Writes changes, and with the last of them how far that is.
    ///
    /// # Errors
    /// [`EtcdError::Deposed`] when another leads. When etcd fails nobody knows what has been written.
    pub(super) async fn write(&mut self, changes: Vec<Change>, progress: Vec<u8>) -> Result<(), EtcdError> {
        let mut parts = in_parts(changes);
        let progress = (self.keys.progress.clone().into_bytes(), Some(progress.into()));
        match parts.last_mut() {
            Some(last) => last.push(progress),
            None => parts.push(vec![progress]),
        }
        parts.reverse();
        while let Some(part) = parts.pop() {
            self.candidate.keep(self.session).await?;
            match self.commit(&part).await {
                Err(error) if error.is_too_large() => self.divide(part, error, &mut parts)?,
                done => done?,
            }
        }
        Ok(())
    }

    /// Tries in halves what etcd does not take at once.
    fn divide(
        &mut self,
        mut part: Vec<Change>,
        error: EtcdError,
        parts: &mut Vec<Vec<Change>>,
    ) -> Result<(), EtcdError> {
        if part.len() > 1 {
            let rest = part.split_off(part.len() / 2);
            parts.extend([rest, part]);
            return Ok(());
        }
        let one = part.pop();
        let Some((key, Some(record))) = one.filter(|(key, _)| self.keys.is_object(key)) else {
            return Err(error);
        };
        let why = format!("etcd takes no record of {} bytes", record.len());
        let Some(smaller) = record::smaller(&record, &why) else {
            return Err(error);
        };
        if !record::is_problem(&record) {
            self.count.too_large += 1;
        }
        parts.push(vec![(key, Some(smaller.into()))]);
        Ok(())
    }

    async fn commit(&mut self, part: &[Change]) -> Result<(), EtcdError> {
        let question = TxnRequest {
            compare: vec![CreatedAt::new(&self.keys.leader, self.epoch)],
            success: part.iter().map(operation).collect(),
            failure: Vec::new(),
        };
        let answer: TxnResponse = self.session.ask(TXN, question).await?;
        if !answer.succeeded {
            return Err(EtcdError::Deposed);
        }
        let objects = part.iter().filter(|(key, _)| self.keys.is_object(key));
        for (_, record) in objects {
            match record {
                Some(_) => self.count.puts += 1,
                None => self.count.deletions += 1,
            }
        }
        self.count.transactions += 1;
        Ok(())
    }
}

fn operation((key, record): &Change) -> RequestOp {
    let key = key.clone();
    match record {
        Some(record) => Operation::Put(PutRequest {
            key,
            value: record.to_vec(),
            lease: 0,
        }),
        None => Operation::Delete(DeleteRangeRequest { key }),
    }
    .into()
}

/// Changes in parts that are not too large, in order.
fn in_parts(changes: Vec<Change>) -> Vec<Vec<Change>> {
    let mut parts: Vec<Vec<Change>> = Vec::new();
    let mut bytes = 0;
    for change in changes {
        let size = change.0.len() + change.1.as_ref().map_or(0, |record| record.len());
        match parts.last_mut() {
            // One more is for the progress.
            Some(part) if part.len() + 1 < OPERATIONS && bytes + size <= BYTES => {
                bytes += size;
                part.push(change);
            }
            _ => {
                bytes = size;
                parts.push(vec![change]);
            }
        }
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_a_bound_and_keep_the_order() {
        let change = |number: usize, size: usize| {
            let record: Arc<[u8]> = vec![0; size].into();
            (format!("{number:04}").into_bytes(), Some(record))
        };
        let sizes = |changes: Vec<Change>| -> Vec<usize> {
            let parts = in_parts(changes.clone());
            assert_eq!(parts.concat(), changes);
            parts.iter().map(Vec::len).collect()
        };
        assert!(sizes(Vec::new()).is_empty());
        assert_eq!(sizes((0..250).map(|at| change(at, 10)).collect()), [99, 99, 52]);
        assert_eq!(
            sizes((0..5).map(|at| change(at, BYTES / 2 - 10)).collect()),
            [2, 2, 1]
        );
        assert_eq!(sizes((0..2).map(|at| change(at, 2 * BYTES)).collect()), [1, 1]);
    }
}
