//! etcd, in which a reflector keeps what is known of a cluster.
//!
//! A [`Reflector`] writes one [`record`] for each object, so that thousands of agents ask etcd and not the API server.
//! [`Etcd::follow`] gives what [`Kube::follow`](crate::Kube::follow) gives: [`read`] lists everything at one revision and
//! takes in what changes from there on, and [`live`](crate::live) makes events of it. What a key says by itself is an
//! [`entry`]. What counts as complete is only what a reflector has said is ([`progress`]).
//!
//! Only the reflector that [leads](lead) writes: each of its transactions holds only as long as its own key is the one
//! that says who leads. What the API server says it holds as [`mirror`], and [`mod@write`] makes etcd the same.
//!
//! The client is our own: it is a dozen calls, and the one that there is needs `protoc` to be built.

mod entry;
mod error;
mod heard;
mod intake;
mod key;
mod lead;
mod message;
mod mirror;
mod progress;
mod read;
mod record;
mod reflect;
mod session;
mod snapshot;
#[cfg(test)]
mod tests;
mod write;

use std::convert::Infallible;
use std::path::PathBuf;
use std::time::Duration;

pub use error::EtcdError;
pub use intake::Intake;
pub use progress::{Freshness, Reach, Reflection};
pub use reflect::{Difference, Reflected, Reflector, State as ReflectorState};

use crate::kube::{Change, Health, Interest};
use key::Keys;

/// An etcd in which a reflector keeps what is known of a cluster.
#[derive(Clone, Debug)]
pub struct Etcd {
    /// The members, as in `https://etcd-0:2379`. The next is asked when one fails.
    pub endpoints: Vec<String>,
    /// What all keys begin with, as in [`PREFIX`](Self::PREFIX).
    pub prefix: String,
    /// The certificates of `https`.
    pub tls: Tls,
    /// Who asks, where etcd wants to know.
    pub login: Option<Login>,
    /// How long a member may take for one answer.
    pub timeout: Duration,
}

/// Certificates, in files as PEM that are read with every connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tls {
    /// Who signs the certificates of members; whom this machine trusts, unless given.
    pub authority: Option<PathBuf>,
    /// The own certificate and its key.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// A user of etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Login {
    /// The name.
    pub user: String,
    /// The file that holds the password, which is read with every connection.
    pub password: PathBuf,
}

impl Etcd {
    /// What keys begin with unless somebody wants it otherwise.
    pub const PREFIX: &'static str = "/picket/v1/";

    /// The members at these endpoints.
    #[must_use]
    pub fn new(endpoints: Vec<String>, timeout: Duration) -> Self {
        Self {
            endpoints,
            prefix: Self::PREFIX.to_owned(),
            tls: Tls::default(),
            login: None,
            timeout,
        }
    }

    /// Follows what a reflector keeps: `sink` gets every change, and `health` shows how it goes.
    ///
    /// The changes are those that [`Kube::follow`](crate::Kube::follow) would give. [`Event::InitDone`](picket_cluster::Event)
    /// comes when everything has been read and a reflector has said that it was everything. What one revision of etcd
    /// changes is one change. Later an etcd that is away, forgetful, wiped or set back, and records that cannot be read
    /// change nothing: what was known holds until a reflector has written it anew.
    ///
    /// # Errors
    /// When nothing says where etcd is. That it cannot be reached is none.
    pub async fn follow(
        &self,
        interest: Interest,
        health: Health,
        sink: impl FnMut(Change),
    ) -> Result<Infallible, EtcdError> {
        let keys = Keys::new(&self.prefix)?;
        self.check()?;
        Ok(read::Reader::new(self, keys, interest, health, sink).run().await)
    }

    /// Whether it can be asked at all.
    fn check(&self) -> Result<(), EtcdError> {
        match self.endpoints.is_empty() {
            true => Err(EtcdError::NoEndpoint),
            false => self
                .endpoints
                .iter()
                .try_for_each(|endpoint| session::check(endpoint, self)),
        }
    }
}
