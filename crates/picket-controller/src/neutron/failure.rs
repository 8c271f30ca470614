//! What follows from an error of the client.

use picket_neutron::client::Error;

use crate::cloud::{Failure, Reason};

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::new(reason(&error), error.to_string())
    }
}

fn reason(error: &Error) -> Reason {
    // What the observer refuses was not sent, and without a token nothing else can be done either.
    if error.is_about_keystone() && !matches!(error, Error::NotPermitted { .. }) {
        return Reason::Away;
    }
    match error {
        Error::NotPermitted { .. } => Reason::Closed,
        Error::OverQuota { .. } => Reason::Refused,
        Error::Changed { .. } => Reason::Stale,
        Error::Cut { .. } | Error::TimedOut { .. } | Error::TooLong { .. } | Error::Garbage { .. } => {
            Reason::Unknown
        }
        Error::Unreachable { .. } | Error::NoEndpoint { .. } => Reason::Away,
        Error::Refused { refusal, .. } => match refusal.status {
            401 => Reason::Away,
            404 | 409 | 412 => Reason::Stale,
            408 | 500.. => Reason::Unknown,
            _ => Reason::Refused,
        },
    }
}
