//! What can go wrong between VPP and us.

use std::fmt;
use std::io;
use std::time::Duration;

use super::refusal::Refusal;
use super::table::Incompatible;

/// Why VPP was not asked, or did not do what it was asked.
///
/// After all but [`Error::Refused`], [`Error::TooManyAcls`], [`Error::Incompatible`] and [`Error::NoSessionRules`] the
/// connection is given up: nobody knows which of the requests under way VPP has carried out.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Nobody listens, or nobody answers the call.
    #[error("cannot connect to VPP at `{path}`")]
    Connect {
        /// The socket.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// The socket fails.
    #[error("cannot {doing} VPP")]
    Socket {
        /// What was being done: `send to`, `receive from`.
        doing: &'static str,
        /// Why.
        source: io::Error,
    },
    /// VPP has ended, or wants no more of us.
    #[error("VPP closed the connection before it sent `{awaited}`")]
    Closed {
        /// The message that would have been next.
        awaited: &'static str,
    },
    /// An answer does not come.
    #[error("VPP did not send `{awaited}` within {limit:?}")]
    TimedOut {
        /// The message that would have been next.
        awaited: &'static str,
        /// How long was waited.
        limit: Duration,
    },
    /// VPP does not read what is sent.
    #[error("VPP did not read its requests within {limit:?}")]
    NotRead {
        /// How long was waited.
        limit: Duration,
    },
    /// VPP sends what it says is larger than any message is.
    #[error("VPP sends a message of {length} bytes, at most {longest} are read")]
    LongFrame {
        /// Its length, as it says.
        length: usize,
        /// The most that is read.
        longest: usize,
    },
    /// A list of VPP's is longer than is kept.
    #[error("what VPP lists as `{message}` is larger than {longest} bytes")]
    LongDump {
        /// The message that each entry is.
        message: &'static str,
        /// The most that is read.
        longest: usize,
    },
    /// A request is longer than a message can be.
    #[error("`{message}` of {subject} would have {length} bytes, at most {longest} are sent")]
    TooLong {
        /// The request.
        message: &'static str,
        /// What it is about.
        subject: String,
        /// Its bytes.
        length: usize,
        /// The most that is sent.
        longest: usize,
    },
    /// A request for more ACLs than its message can say.
    #[error("interface {interface} would have {count} ACLs, at most 255 are possible")]
    TooManyAcls {
        /// The interface.
        interface: u32,
        /// How many, of both directions.
        count: usize,
    },
    /// What VPP says cannot be.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// VPP says something else than is due.
    #[error("VPP sends message {id} with context {context} where `{awaited}` is due")]
    Unexpected {
        /// The number of the message.
        id: u16,
        /// To which request it is an answer, if it is one.
        context: u32,
        /// What is due.
        awaited: &'static str,
    },
    /// This VPP is not one that we can speak to.
    #[error("{}", listed(.0))]
    Incompatible(Vec<Incompatible>),
    /// VPP has understood, and will not.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// There is no table of session rules.
    #[error(
        "VPP has no table of session rules: its session layer is off or runs without one; `session {{ enable rt-backend \
         rule-table }}` in its configuration gives it one, `session {{ enable }}` in releases before 24.10"
    )]
    NoSessionRules,
    /// The connection has failed before.
    #[error("the connection to VPP was given up before")]
    GivenUp,
}

impl Error {
    /// Whether the connection is of no more use.
    pub fn ends_connection(&self) -> bool {
        !matches!(
            self,
            Self::Refused(_) | Self::TooManyAcls { .. } | Self::Incompatible(_) | Self::NoSessionRules
        )
    }
}

fn listed(all: &[Incompatible]) -> String {
    let each: Vec<String> = all.iter().map(Incompatible::to_string).collect();
    each.join("; ")
}

/// A field of a message that says what it cannot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` of `{message}` from VPP {problem}")]
pub struct Malformed {
    /// The name of the message.
    pub message: &'static str,
    /// The field, as the API calls it.
    pub field: &'static str,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What is wrong with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// The message ends before it does.
    Short,
    /// The message goes on for so many bytes after its last field.
    Long(usize),
    /// It says that there are more things than the message has room for.
    Count {
        /// How many it says.
        count: usize,
        /// For how many there is room.
        room: usize,
    },
    /// No meaning is known of this number.
    Value(u64),
    /// A text without an end.
    Unterminated,
    /// Two messages have this number.
    Twice(u16),
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short => f.write_str("is cut off"),
            Self::Long(left) => write!(f, "is {left} bytes too long"),
            Self::Count { count, room } => write!(f, "is {count}, and there is room for {room}"),
            Self::Value(number) => write!(f, "cannot be {number}"),
            Self::Unterminated => f.write_str("has no end"),
            Self::Twice(id) => write!(f, "gives two messages the number {id}"),
        }
    }
}
