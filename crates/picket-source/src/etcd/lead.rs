//! Which of several reflectors writes.
//!
//! Who leads has a key with a lease. Every transaction that writes holds only as long as that key is the one that was
//! created then, so that a reflector that was stopped, or cut off, and comes back later writes nothing.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::error::EtcdError;
use super::key::Keys;
use super::message::{
    CreatedAt, Done, LeaseGrantRequest, LeaseGrantResponse, LeaseRevokeRequest, Operation, PutRequest,
    RangeRequest, TxnRequest, TxnResponse,
};
use super::record::{VERSION, cut};
use super::session::{GRANT, REVOKE, Session, TXN};
use super::snapshot::get;

/// How often those who do not lead look whether somebody does.
const LOOK: Duration = Duration::from_secs(10);

/// The key of who leads, as it is written.
#[derive(Serialize, Deserialize)]
struct Leader {
    version: u64,
    reflector: String,
}

/// One that may lead.
pub(super) struct Candidate {
    /// What it is called: no two are called the same.
    pub(super) name: String,
    lease: Option<i64>,
    /// How long after it was last heard of another may lead.
    lasts: Duration,
    /// When its lease is to be kept again.
    due: Instant,
}

/// How an election ended.
pub(super) enum Elected {
    /// The candidate leads, since this revision.
    Itself(i64),
    /// Somebody else does, as of this revision.
    Other(String, i64),
}

impl Candidate {
    pub(super) fn new(name: &str, lasts: Duration) -> Self {
        let number = RandomState::new().hash_one(0u8) >> 32;
        Self {
            name: format!("{name}-{number:08x}"),
            lease: None,
            lasts,
            due: Instant::now(),
        }
    }

    /// Leads, if nobody else does.
    pub(super) async fn run(&mut self, session: &Session, keys: &Keys) -> Result<Elected, EtcdError> {
        let lease = match self.lease {
            Some(lease) if session.keep(lease).await? > 0 => lease,
            _ => {
                let ttl = i64::try_from(self.lasts.as_secs()).unwrap_or(i64::MAX);
                let answer: LeaseGrantResponse = session.ask(GRANT, LeaseGrantRequest { ttl }).await?;
                answer.id
            }
        };
        self.lease = Some(lease);
        self.due = self.after_this();
        let leader = Leader {
            version: VERSION,
            reflector: self.name.clone(),
        };
        let put = PutRequest {
            key: keys.leader.clone().into(),
            value: serde_json::to_vec(&leader).unwrap_or_default(),
            lease,
        };
        let look = RangeRequest {
            key: keys.leader.clone().into(),
            ..RangeRequest::default()
        };
        let question = TxnRequest {
            compare: vec![CreatedAt::new(&keys.leader, 0)],
            success: vec![Operation::Put(put).into()],
            failure: vec![Operation::Range(look).into()],
        };
        let answer: TxnResponse = session.ask(TXN, question).await?;
        let revision = answer.header.unwrap_or_default().revision;
        if answer.succeeded {
            return Ok(Elected::Itself(revision));
        }
        let found = answer.responses.into_iter().find_map(|answer| answer.range);
        let found = found.and_then(|range| range.kvs.into_iter().next());
        let found = found.ok_or_else(|| session.garbage(TXN, "a key that is there and is not"))?;
        let leader = serde_json::from_slice(&found.value).map(|leader: Leader| leader.reflector);
        let leader = leader.unwrap_or_else(|_| "somebody".to_owned());
        // It was elected before a connection broke.
        Ok(match leader == self.name {
            true => Elected::Itself(found.create_revision),
            false => Elected::Other(cut(&leader), revision),
        })
    }

    /// Waits until nobody leads any more; the own lease, which is for nothing, is given back.
    pub(super) async fn wait(
        &mut self,
        session: &Session,
        keys: &Keys,
        revision: i64,
    ) -> Result<(), EtcdError> {
        self.resign(session).await;
        let mut watch = session.watch(&keys.leader, "", revision + 1).await?;
        loop {
            match watch.next(Instant::now() + LOOK).await? {
                Some(answer) if answer.canceled => return Err(watch.canceled(&answer.cancel_reason)),
                Some(answer) if answer.events.iter().any(|event| event.is_deletion()) => return Ok(()),
                Some(_) => {}
                None if get(session, &keys.leader).await?.0.is_none() => return Ok(()),
                None => {}
            }
        }
    }

    /// When the lease is to be kept again after it was.
    fn after_this(&self) -> Instant {
        Instant::now() + self.lasts / 4
    }

    /// When the lease is to be kept again.
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// Keeps the lease, if it is time.
    pub(super) async fn keep(&mut self, session: &Session) -> Result<(), EtcdError> {
        if Instant::now() < self.due {
            return Ok(());
        }
        let Some(lease) = self.lease else {
            return Err(EtcdError::Deposed);
        };
        if session.keep(lease).await? <= 0 {
            self.lease = None;
            return Err(EtcdError::Deposed);
        }
        self.due = self.after_this();
        Ok(())
    }

    /// Gives the lease back, so that another can lead at once.
    pub(super) async fn resign(&mut self, session: &Session) {
        if let Some(id) = self.lease.take() {
            // It ends by itself otherwise.
            let _: Result<Done, _> = session.ask(REVOKE, LeaseRevokeRequest { id }).await;
        }
    }
}
