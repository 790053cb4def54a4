//! Output formats and errors.

use std::io;

use dns::{Name, ParseError, Serial, UnknownType};
use serde::{Deserialize, Serialize};
use zone::Hash;
use zone::journal::{ArchiveFault, ReadError, StoreError};

use crate::moment::{MomentError, TimeText};

/// The version of the form of all JSON answers: `schema` of each line. It rises when a field goes or changes its meaning.
pub const SCHEMA: u32 = 1;
/// The longest reason of an order: it is stored with the version.
pub(super) const MOST_REASON_OCTETS: usize = 400;

/// The format of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Output {
    /// Text for people.
    Text,
    /// JSON, one object per line.
    Json,
}

/// The reason why a question has no answer.
#[derive(Debug, thiserror::Error)]
pub enum AuditError {
    /// A name is malformed.
    #[error(transparent)]
    Name(#[from] ParseError),
    /// A serial or time is malformed.
    #[error(transparent)]
    Moment(#[from] MomentError),
    /// The zone is not in the store.
    #[error("no zone {zone} here; there {are}", are = there_are(.known))]
    NoZone {
        /// The requested zone.
        zone: Name,
        /// The zones in the store.
        known: Vec<Name>,
    },
    /// The zone lost all its published versions.
    #[error("no version of {0} is kept: all that were published are lost")]
    LostZone(Name),
    /// The store is empty.
    #[error("no zone is stored here")]
    NothingStored,
    /// No version ever had the serial.
    #[error("no version of {zone} had serial {serial}: {older} was followed by {newer}")]
    NeverSerial {
        /// The zone.
        zone: Name,
        /// The requested serial.
        serial: u32,
        /// Serial and time of the version before.
        older: String,
        /// Serial and time of the version after it.
        newer: String,
    },
    /// The version is within a condensed entry.
    #[error(
        "{what} of {zone} is one of {versions} versions that were condensed into one: ask for serial {serial}, the last of them, of {last}"
    )]
    Condensed {
        /// The zone.
        zone: Name,
        /// The requested serial or time.
        what: String,
        /// The number of versions.
        versions: u64,
        /// The serial of the last.
        serial: Serial,
        /// The time of the last.
        last: TimeText,
    },
    /// No kept version has the serial.
    #[error("no version of {zone} with serial {serial} is kept: {ends}")]
    NoSerial {
        /// The zone.
        zone: Name,
        /// The requested serial.
        serial: u32,
        /// The start of the history, or its newest version.
        ends: String,
    },
    /// A version in a question about the present.
    #[error(
        "`why` explains the current answer for a NAME, and \"{0}\" has an @; for the records of a version write: blame ZONE@SERIAL NAME (an @ of the name itself is \\@)"
    )]
    WhyOfVersion(String),
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
    /// The Corefile of a version is not kept.
    #[error("the Corefile that was in use at {time} is not known: {known}")]
    UnknownCorefile {
        /// The time of the version.
        time: TimeText,
        /// What is known.
        known: String,
    },
    /// What was asked for may be among versions that are lost.
    #[error("{0}")]
    MayBeLost(String),
    /// No kept version matches, and older ones are not kept.
    #[error("no version that is kept matches; {0}")]
    NoneKept(String),
    /// A range of time that ends before it begins.
    #[error(
        "--until {until} is before --since {since}: no time is after the one and before the other"
    )]
    EmptyRange {
        /// Its beginning.
        since: TimeText,
        /// Its end.
        until: TimeText,
    },
    /// The name is not in any of the requested zones.
    #[error("{name} is not a name of {}", .zones.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or "))]
    Outside {
        /// The requested name.
        name: Name,
        /// The requested zones.
        zones: Vec<Name>,
    },
    /// An object is malformed.
    #[error("\"{text}\" names no object: {why}")]
    Object {
        /// The text.
        text: String,
        /// What is wrong with it, and the fix.
        why: String,
    },
    /// The history is damaged. The report is written already.
    #[error("the history of {} is not as it was written", names_of(.0))]
    Broken(Vec<Name>),
    /// Nothing is wrong with the history, but not all of it could be checked. The report is written already.
    #[error("not all of the history of {} is known", names_of(.0))]
    NotAllKnown(Vec<Name>),
    /// An exported history is damaged. The report is written already.
    #[error("{0} is not as it was written")]
    BrokenFile(String),
    /// A hash that was noted elsewhere is malformed.
    #[error(
        "\"{0}\" is no hash to look for: write HASH or ZONE=HASH, with the 64 hexadecimal digits of the hash"
    )]
    Anchor(String),
    /// Notes are about other zones.
    #[error("the notes say nothing of {0}; name another zone, or none")]
    NotNoted(Name),
    /// No version has a hash that was noted elsewhere, and none is missing.
    #[error("no version of {} has the hash {hash}, and none is missing: it is the hash of another history", names_of(.zones))]
    OfAnother {
        /// The hash.
        hash: Hash,
        /// The verified zones.
        zones: Vec<Name>,
    },
    /// A hash that was noted elsewhere is that of another zone than the one that is named with it.
    #[error("the hash {hash} is that of a version of {other}, not of {zone}: write {other}={hash}")]
    OfAnotherZone {
        /// The hash.
        hash: Hash,
        /// The zone that is named.
        zone: Name,
        /// The zone that has it.
        other: Name,
    },
    /// No version that is kept has a hash that was noted elsewhere.
    #[error("no version of {} that is kept here has the hash {hash}: it is that of a version that is not kept here, or of another history", names_of(.zones))]
    NotAnchored {
        /// The hash.
        hash: Hash,
        /// The verified zones.
        zones: Vec<Name>,
    },
    /// The archive has what was asked for, and cannot be reached.
    #[error("{0}")]
    ArchiveAway(String),
    /// An object of the archive is damaged or lost.
    #[error("{0}")]
    Archive(String),
    /// A version, or the records of one, left the history.
    #[error("{0}")]
    Gone(String),
    /// The store failed.
    #[error("the store cannot be read: {0}")]
    Store(String),
    /// The answer could not be written.
    #[error("the answer cannot be written: {0}")]
    Write(#[from] io::Error),
    /// A freeze, rollback or release is not possible.
    #[error("{0}")]
    Refused(String),
    /// An order needs a reason.
    #[error("orders about {0} need a reason, as `require_reason` is set: add --reason TEXT")]
    NoReason(Name),
    /// The reason of an order is too long.
    #[error("the reason is longer than {MOST_REASON_OCTETS} bytes; shorten it")]
    LongReason,
    /// The socket is for readers.
    #[error("this socket takes no orders; give them on the control socket in the state folder")]
    ReadOnly,
    /// A type is unknown.
    #[error(transparent)]
    Type(#[from] UnknownType),
    /// A duration is malformed or too long.
    #[error("\"{0}\" is not a time up to 3650d; write 90s, 30m, 2h or 1d")]
    Time(String),
    /// The command needs a running server.
    #[error(
        "no server runs on this state folder; name its folder with --state, or start one with `zonewright run`"
    )]
    NoServer,
}

/// What an error says about the question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It is malformed, or about something that cannot exist.
    Wrong,
    /// The history does not tell.
    NotKnown,
    /// Nothing: the answer failed.
    Failed,
}

impl Fault {
    const ALL: [Self; 3] = [Self::Wrong, Self::NotKnown, Self::Failed];

    /// The first word of an answer on the control socket.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Wrong => "wrong",
            Self::NotKnown => "unknown",
            Self::Failed => "error",
        }
    }

    /// The fault with this word.
    pub(super) fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|fault| fault.as_str() == word)
    }
}

impl AuditError {
    /// What the error says about the question.
    #[must_use]
    pub const fn fault(&self) -> Fault {
        match self {
            Self::Name(_)
            | Self::Moment(_)
            | Self::NoZone { .. }
            | Self::NothingStored
            | Self::NeverSerial { .. }
            | Self::WhyOfVersion(_)
            | Self::WhoseSerial(_)
            | Self::EmptyRange { .. }
            | Self::Outside { .. }
            | Self::Refused(_)
            | Self::NoReason(_)
            | Self::LongReason
            | Self::ReadOnly
            | Self::Time(_)
            | Self::Type(_)
            | Self::Anchor(_)
            | Self::NotNoted(_)
            | Self::OfAnotherZone { .. }
            | Self::Object { .. } => Fault::Wrong,
            Self::NoSerial { .. }
            | Self::Condensed { .. }
            | Self::TooEarly { .. }
            | Self::NoneKept(_)
            | Self::UnknownCorefile { .. }
            | Self::Gone(_)
            | Self::LostZone(_)
            | Self::NotAllKnown(_)
            | Self::MayBeLost(_)
            | Self::ArchiveAway(_)
            | Self::NotAnchored { .. } => Fault::NotKnown,
            Self::Broken(_)
            | Self::OfAnother { .. }
            | Self::Archive(_)
            | Self::BrokenFile(_)
            | Self::Store(_)
            | Self::Write(_)
            | Self::NoServer => Fault::Failed,
        }
    }
}

impl From<ReadError> for AuditError {
    fn from(error: ReadError) -> Self {
        let text = error.to_string();
        match error {
            ReadError::NoVersion { .. } | ReadError::Stripped { .. } => Self::Gone(text),
            ReadError::Store(StoreError::Archive(error)) => match error.fault {
                ArchiveFault::Away => Self::ArchiveAway(text),
                ArchiveFault::Damaged | ArchiveFault::Lost => Self::Archive(text),
            },
            ReadError::NoZone(_)
            | ReadError::Damaged { .. }
            | ReadError::Store(StoreError::Io { .. } | StoreError::Broken { .. }) => {
                Self::Store(text)
            }
        }
    }
}

/// Lists zones.
fn names_of(zones: &[Name]) -> String {
    let names: Vec<String> = zones.iter().map(ToString::to_string).collect();
    names.join(", ")
}

/// Lists the zones in the store.
fn there_are(known: &[Name]) -> String {
    if known.is_empty() {
        return "are none yet".to_owned();
    }
    format!("are {}", names_of(known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_and_records_that_were_dropped_are_not_known_and_damage_is_a_failure() {
        let apex = || Name::parse("z.").unwrap();
        let stripped = ReadError::Stripped {
            apex: apex(),
            seq: 2,
            first: 3,
            last: 4,
        };
        let dropped = ReadError::NoVersion {
            apex: apex(),
            seq: 1,
            oldest: 2,
            newest: 4,
        };
        let damaged = ReadError::Damaged {
            apex: apex(),
            seq: 3,
            what: "bytes".to_owned(),
        };
        let fault = |error| AuditError::from(error).fault();
        assert_eq!(fault(stripped), Fault::NotKnown);
        assert_eq!(fault(dropped), Fault::NotKnown);
        assert_eq!(fault(damaged), Fault::Failed);
    }
}
