//! All keys at one revision.

use futures_util::{Stream, stream};

use super::error::EtcdError;
use super::message::{Header, KeyValue, RangeRequest, RangeResponse};
use super::session::{RANGE, Session};

/// How many keys are asked for at once, at most.
const PAGE: i64 = 1000;

/// A range of keys as it was at one revision, read page by page.
pub(super) struct Pages {
    next: Vec<u8>,
    end: Vec<u8>,
    limit: i64,
    /// The revision, once it is known, and of which etcd.
    at: Option<Header>,
    is_over: bool,
}

impl Pages {
    /// The keys from `start` to before `end`, as they are now.
    pub(super) fn of(start: &str, end: &str) -> Self {
        Self {
            next: start.into(),
            end: end.into(),
            limit: PAGE,
            at: None,
            is_over: false,
        }
    }

    /// The next keys, in order; `None` after the last.
    ///
    /// # Errors
    /// Also when etcd has forgotten meanwhile what there was at the revision.
    pub(super) async fn next(&mut self, session: &Session) -> Result<Option<Vec<KeyValue>>, EtcdError> {
        while !self.is_over {
            let question = RangeRequest {
                key: self.next.clone(),
                range_end: self.end.clone(),
                limit: self.limit,
                revision: self.at.map_or(0, |at| at.revision),
            };
            let answer: RangeResponse = match session.ask(RANGE, question).await {
                Err(error) if error.is_too_long() && self.limit > 1 => {
                    self.limit = (self.limit / 8).max(1);
                    continue;
                }
                answer => answer?,
            };
            let header = answer.header;
            let header = header.ok_or_else(|| session.garbage(RANGE, "an answer without a header"))?;
            self.at.get_or_insert(header);
            self.is_over = !answer.more;
            match answer.kvs.last() {
                Some(last) => {
                    self.next.clone_from(&last.key);
                    self.next.push(0);
                }
                None => self.is_over = true,
            }
            return Ok(Some(answer.kvs));
        }
        Ok(None)
    }

    /// Page after page, each with the revision of all of them.
    pub(super) fn stream(
        self,
        session: &Session,
    ) -> impl Stream<Item = Result<(Header, Vec<KeyValue>), EtcdError>> {
        stream::try_unfold(self, move |mut pages| async move {
            let page = pages.next(session).await?;
            let at = pages.at.unwrap_or_default();
            Ok(page.map(|page| ((at, page), pages)))
        })
    }
}

/// One key as it is now, if it is there, and what etcd says of itself.
pub(super) async fn get(session: &Session, key: &str) -> Result<(Option<KeyValue>, Header), EtcdError> {
    get_at(session, key, 0).await
}

/// The same as it was at a revision.
pub(super) async fn get_at(
    session: &Session,
    key: &str,
    revision: i64,
) -> Result<(Option<KeyValue>, Header), EtcdError> {
    let question = RangeRequest {
        key: key.into(),
        range_end: Vec::new(),
        limit: 1,
        revision,
    };
    let answer: RangeResponse = session.ask(RANGE, question).await?;
    let header = answer.header;
    let header = header.ok_or_else(|| session.garbage(RANGE, "an answer without a header"))?;
    Ok((answer.kvs.into_iter().next(), header))
}
