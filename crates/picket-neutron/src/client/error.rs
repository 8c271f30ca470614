//! Why something was not had of Neutron.

use std::time::Duration;

use super::call::{Call, Operation, Outcome, line};

/// The most characters of Neutron's own words that an error repeats.
const LONGEST_WORDS: usize = 300;

/// Why something was not had of Neutron, or not done by it.
///
/// After [`Error::Cut`], [`Error::TimedOut`], [`Error::TooLong`], [`Error::Garbage`] and a status of 5xx nobody knows whether
/// it was done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No connection came about.
    #[error("cannot {call}: no connection: {why}")]
    Unreachable {
        /// What was asked.
        call: Call,
        /// Why.
        why: String,
    },
    /// The connection broke.
    #[error("cannot {call}: the connection broke: {why}")]
    Cut {
        /// What was asked.
        call: Call,
        /// Why.
        why: String,
    },
    /// Nothing was answered in time.
    #[error("cannot {call}: no answer within {limit:?}")]
    TimedOut {
        /// What was asked.
        call: Call,
        /// How long a call may take.
        limit: Duration,
    },
    /// The answer goes on and on.
    #[error("cannot {call}: the answer is longer than {longest} bytes")]
    TooLong {
        /// What was asked.
        call: Call,
        /// The most that is read.
        longest: usize,
    },
    /// The answer is none of Neutron's.
    #[error("cannot {call}: the answer cannot be read: {why}")]
    Garbage {
        /// What was asked.
        call: Call,
        /// What is wrong with it.
        why: String,
    },
    /// There would be more than the project's quota allows.
    #[error("cannot {call}: quota: {message}")]
    OverQuota {
        /// What was asked.
        call: Call,
        /// What Neutron says.
        message: String,
    },
    /// What is to be changed has become another.
    #[error("cannot {call}: somebody else has changed it")]
    Changed {
        /// What was asked.
        call: Call,
    },
    /// Neutron says no.
    #[error("cannot {call}: {refusal}")]
    Refused {
        /// What was asked.
        call: Call,
        /// How it says so.
        refusal: Refusal,
    },
    /// The observer does not permit it now.
    #[error("did not {call}: calls may not begin now")]
    NotPermitted {
        /// What was not asked.
        call: Call,
    },
    /// The catalogue does not say where Neutron is.
    #[error("the catalogue of Keystone has no `network` service with interface `{interface}`{}", in_region(.region.as_deref()))]
    NoEndpoint {
        /// The interface that was looked for.
        interface: &'static str,
        /// The region, if only one will do.
        region: Option<String>,
    },
}

fn in_region(region: Option<&str>) -> String {
    region.map_or_else(String::new, |region| {
        format!(" in region `{}`", line(region, LONGEST_WORDS))
    })
}

/// How a server says no.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{status}{}{}", in_brackets(.kind), after_colon(.message))]
pub struct Refusal {
    /// The status of HTTP.
    pub status: u16,
    /// What Neutron calls it, as `SecurityGroupInUse`; empty where it says nothing.
    pub kind: String,
    /// What it says to people, in one line.
    pub message: String,
    /// How long to wait at least before it is asked again.
    pub retry_after: Option<Duration>,
}

fn in_brackets(kind: &str) -> String {
    match kind {
        "" => String::new(),
        kind => format!(" ({kind})"),
    }
}

fn after_colon(message: &str) -> String {
    match message {
        "" => String::new(),
        message => format!(": {message}"),
    }
}

/// The kinds of 409 that stay as long as nobody changes something else.
const LASTING: [&str; 8] = [
    "SecurityGroupInUse",
    "SecurityGroupRuleExists",
    "SecurityGroupConflict",
    "SecurityGroupCannotRemoveDefault",
    "DuplicateSecurityGroupRuleInPost",
    "AddressGroupInUse",
    "AddressGroupPolicyConflict",
    "RbacPolicyInUse",
];

impl Refusal {
    /// The words of a server, cut and in one line.
    pub(super) fn new(status: u16, kind: &str, message: &str, retry_after: Option<Duration>) -> Self {
        Self {
            status,
            kind: line(kind, LONGEST_WORDS),
            message: line(message.trim(), LONGEST_WORDS),
            retry_after,
        }
    }

    fn is_over_quota(&self) -> bool {
        self.kind == "OverQuota" || self.status == 413
    }

    /// Whether Neutron, or what is in front of it, failed while it was at it.
    fn is_failure(&self) -> bool {
        matches!(self.status, 500 | 502..=504 | 506..=599)
    }

    /// Whether the same may go well in a moment. A conflict of no kind that lasts is one between calls in Neutron itself.
    fn is_temporary(&self) -> bool {
        match self.status {
            408 | 425 | 429 => true,
            409 => !self.is_over_quota() && !LASTING.contains(&self.kind.as_str()),
            _ => self.is_failure(),
        }
    }
}

impl Error {
    pub(super) fn refused(call: &Call, refusal: Refusal) -> Self {
        let call = call.clone();
        match refusal.is_over_quota() {
            true => Self::OverQuota {
                call,
                message: refusal.message,
            },
            false => Self::Refused { call, refusal },
        }
    }

    pub(super) fn garbage(call: &Call, why: &str) -> Self {
        Self::Garbage {
            call: call.clone(),
            why: line(why, LONGEST_WORDS),
        }
    }

    /// What was asked; nothing where no call was made.
    pub fn call(&self) -> Option<&Call> {
        match self {
            Self::Unreachable { call, .. }
            | Self::Cut { call, .. }
            | Self::TimedOut { call, .. }
            | Self::TooLong { call, .. }
            | Self::Garbage { call, .. }
            | Self::OverQuota { call, .. }
            | Self::Changed { call }
            | Self::Refused { call, .. }
            | Self::NotPermitted { call } => Some(call),
            Self::NoEndpoint { .. } => None,
        }
    }

    /// How Neutron or Keystone says no, if it does.
    pub fn refusal(&self) -> Option<&Refusal> {
        match self {
            Self::Refused { refusal, .. } => Some(refusal),
            _ => None,
        }
    }

    /// Whether there would be more than the quota allows.
    pub fn is_over_quota(&self) -> bool {
        matches!(self, Self::OverQuota { .. })
    }

    /// Whether there is no such thing.
    pub fn is_not_found(&self) -> bool {
        self.has_status(404)
    }

    /// Whether what is to be deleted is in use.
    pub fn is_in_use(&self) -> bool {
        let in_use = |refusal: &Refusal| refusal.status == 409 && refusal.kind.ends_with("InUse");
        self.refusal().is_some_and(in_use)
    }

    pub(super) fn has_status(&self, status: u16) -> bool {
        self.refusal().is_some_and(|refusal| refusal.status == status)
    }

    pub(super) fn is_of_kind(&self, kind: &str) -> bool {
        self.refusal().is_some_and(|refusal| refusal.kind == kind)
    }

    /// Whether the same call may go well in a moment.
    pub fn is_temporary(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Cut { .. } | Self::TimedOut { .. } => true,
            Self::Refused { refusal, .. } => refusal.is_temporary(),
            _ => false,
        }
    }

    /// Whether Neutron may have done it all the same; never of what changes nothing.
    pub fn may_be_done(&self) -> bool {
        if self.call().is_none_or(|call| call.operation.is_read()) {
            return false;
        }
        match self {
            Self::Cut { .. } | Self::TimedOut { .. } | Self::TooLong { .. } | Self::Garbage { .. } => true,
            Self::Refused { refusal, .. } => refusal.is_failure(),
            _ => false,
        }
    }

    /// For whoever counts.
    pub(super) fn outcome(&self) -> Outcome {
        match self {
            Self::Unreachable { .. } | Self::NotPermitted { .. } => Outcome::Unreachable,
            Self::Cut { .. } => Outcome::Cut,
            Self::TimedOut { .. } => Outcome::TimedOut,
            Self::TooLong { .. } => Outcome::TooLong,
            // The call itself went well.
            Self::Garbage { .. } | Self::NoEndpoint { .. } => Outcome::Done,
            Self::OverQuota { .. } => Outcome::OverQuota,
            Self::Changed { .. } => Outcome::Stale,
            Self::Refused { refusal, .. } => match refusal.status {
                401 => Outcome::Unauthorized,
                403 => Outcome::Forbidden,
                404 => Outcome::NotFound,
                409 => Outcome::Conflict,
                412 => Outcome::Stale,
                429 => Outcome::Throttled,
                500.. => Outcome::Failed,
                _ => Outcome::Refused,
            },
        }
    }

    /// Whether it is Keystone that fails.
    pub fn is_about_keystone(&self) -> bool {
        self.call()
            .is_none_or(|call| call.operation == Operation::Authenticate)
    }
}
