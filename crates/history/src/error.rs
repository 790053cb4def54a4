//! The format of answers, and the errors.

use std::io;

use dns::{Name, ParseError, UnknownType};
use serde::{Deserialize, Serialize};
use zone::journal::ReadError;

use crate::moment::MomentError;

/// How an answer looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Output {
    /// For people.
    Text,
    /// For machines: one JSON object a line.
    Json,
}

/// Why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// A name is none.
    #[error(transparent)]
    Name(#[from] ParseError),
    /// A moment is none.
    #[error(transparent)]
    Moment(#[from] MomentError),
    /// The zone is not in the store.
    #[error("no zone {zone} here; there {are}", are = there_are(.known))]
    NoZone {
        /// The zone asked for.
        zone: Name,
        /// The zones there are.
        known: Vec<Name>,
    },
    /// There is nothing to verify.
    #[error("no zone is stored here")]
    NothingStored,
    /// No version has the serial.
    #[error("no version of {zone} with serial {serial} is kept: {ends}")]
    NoSerial {
        /// The zone.
        zone: Name,
        /// The serial asked for.
        serial: u32,
        /// Where the history begins, or what is newest.
        ends: String,
    },
    /// A serial without a zone.
    #[error("serial {0} of which zone? write: log ZONE --since {0}")]
    WhoseSerial(u32),
    /// The time is before the history.
    #[error("nothing is kept of {zone} at that time: history begins at {begins}")]
    TooEarly {
        /// The zone.
        zone: Name,
        /// Serial and time of the oldest version.
        begins: String,
    },
    /// The version has no record at the name.
    #[error("{name} has no record in the version with serial {serial}")]
    NoName {
        /// The name asked for.
        name: Name,
        /// The serial of the version.
        serial: u32,
    },
    /// A name that is asked for is not one of the zone's.
    #[error("{name} is not a name of {}", .zones.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or "))]
    Outside {
        /// The name asked for.
        name: Name,
        /// The zones asked for.
        zones: Vec<Name>,
    },
    /// An object was not written as it should.
    #[error("\"{0}\" names no object; write KIND/NAMESPACE/NAME, such as Service/shop/web")]
    Object(String),
    /// The history is not as it was written; what was found is written already.
    #[error("the history of {} is not as it was written", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join(", "))]
    Broken(Vec<Name>),
    /// The store failed.
    #[error("the store cannot be read: {0}")]
    Store(String),
    /// The answer could not be written.
    #[error("the answer cannot be written: {0}")]
    Write(#[from] io::Error),
    /// What is ordered cannot be.
    #[error("{0}")]
    Refused(String),
    /// A type is none.
    #[error(transparent)]
    Type(#[from] UnknownType),
    /// A time is none.
    #[error("\"{0}\" is no time up to 3650d; write 90s, 30m, 2h or 1d")]
    Time(String),
    /// A server is needed.
    #[error(
        "no server runs on this state folder; name its folder with --state, or start one with `zonewright run`"
    )]
    NoServer,
}

impl AuditError {
    /// Whether the question is at fault: it names what is not there, or nothing that can be named.
    #[must_use]
    pub const fn is_the_question(&self) -> bool {
        match self {
            Self::Name(_)
            | Self::Moment(_)
            | Self::NoZone { .. }
            | Self::NothingStored
            | Self::NoSerial { .. }
            | Self::TooEarly { .. }
            | Self::WhoseSerial(_)
            | Self::NoName { .. }
            | Self::Outside { .. }
            | Self::Refused(_)
            | Self::Time(_)
            | Self::Type(_)
            | Self::Object(_) => true,
            Self::Broken(_) | Self::Store(_) | Self::Write(_) | Self::NoServer => false,
        }
    }
}

impl From<ReadError> for AuditError {
    fn from(error: ReadError) -> Self {
        Self::Store(error.to_string())
    }
}

/// The zones there are, in words.
fn there_are(known: &[Name]) -> String {
    if known.is_empty() {
        return "are none yet".to_owned();
    }
    let names: Vec<String> = known.iter().map(ToString::to_string).collect();
    format!("are {}", names.join(", "))
}
