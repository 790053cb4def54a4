//! Answers that are sent while they are made, to readers over HTTPS and over the sockets: a long answer takes little memory,
//! and a slow reader has only its own places.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use dns::Name;
use provenance::Operator;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::answer::{Question, Request, answer, known_zone};
use crate::error::{AuditError, Output};
use crate::export;
use crate::making::{Making, Piece, ReaderTimes, begin};
use crate::past::Past;
use crate::turns::Turns;
use crate::watched::Watched;
use crate::why;

/// How long a question on a socket waits for its turn.
const TURN: Duration = Duration::from_secs(120);

/// A question whose answer is sent as it is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Streamed {
    /// A request for JSON lines.
    Request(Request),
    /// `why` for a name of this zone. The answer says nothing about another zone.
    WhyWithin {
        /// The zone.
        zone: Name,
        /// The name, or an address in place of its name in the reverse zone.
        name: String,
        /// The type. When absent, A, and PTR for an address.
        rtype: Option<String>,
    },
    /// The whole history of a zone with all hashes.
    History {
        /// The zone.
        zone: String,
    },
}

/// Begins to make an answer, once there is a turn. `held` is dropped when it is made.
///
/// # Errors
/// A text, when no thread can be started.
pub async fn stream(
    question: Streamed,
    reader: &str,
    past: Arc<dyn Past + Send + Sync>,
    times: ReaderTimes,
    turns: &Turns,
    held: impl Send + 'static,
) -> Result<mpsc::Receiver<Piece>, String> {
    let (begun, turn) = match question.reads_much() {
        true => (turns.begin(reader).await, turns.take().await),
        false => (None, None),
    };
    let work = move |making: &Making, out: &mut dyn io::Write| {
        question.answer(
            &Watched {
                past: &*past,
                making,
            },
            out,
        )
    };
    begin(work, times, (turn, turns.clone()), (begun, held))
}

/// Begins to make the answer to a question on a socket, once there is a turn. `asker` is recorded with orders. `held` is
/// dropped when it is made.
///
/// # Errors
/// A text, when there is no turn, or no thread can be started.
pub async fn stream_to_socket(
    question: Question,
    asker: Operator,
    past: Arc<dyn Past + Send + Sync>,
    times: ReaderTimes,
    turns: &Turns,
    held: impl Send + 'static,
) -> Result<mpsc::Receiver<Piece>, String> {
    let turn = match question.request.reads_much() {
        true => {
            let turn = timeout(TURN, turns.take()).await;
            let late = |_| "too many questions at once: try again".to_owned();
            turn.map_err(late)?
        }
        false => None,
    };
    let work = move |making: &Making, out: &mut dyn io::Write| {
        if question.request.has_power() {
            // An order that is begun is carried out, whether or not its caller waits.
            return answer(&question, &*past, &asker, out);
        }
        answer(
            &question,
            &Watched {
                past: &*past,
                making,
            },
            &asker,
            out,
        )
    };
    begin(work, times, (turn, turns.clone()), held)
}

impl Streamed {
    const fn reads_much(&self) -> bool {
        match self {
            Self::Request(request) => request.reads_much(),
            Self::History { .. } | Self::WhyWithin { .. } => true,
        }
    }

    fn answer(&self, past: &dyn Past, out: &mut dyn io::Write) -> Result<(), AuditError> {
        match self {
            Self::Request(request) if request.has_power() => Err(AuditError::ReadOnly),
            Self::Request(request) => {
                let question = Question {
                    request: request.clone(),
                    output: Output::Json,
                };
                answer(&question, past, &"a reader".into(), out)
            }
            Self::History { zone } => export::write_whole(past, &known_zone(past, zone)?, out),
            Self::WhyWithin { zone, name, rtype } => {
                why_within(past, zone, (name, rtype.clone()), out)
            }
        }
    }
}

/// Explains the answer that a name of a zone gets.
fn why_within(
    past: &dyn Past,
    zone: &Name,
    (name, rtype): (&str, Option<String>),
    out: &mut dyn io::Write,
) -> Result<(), AuditError> {
    let outside = |name: Name| AuditError::Outside {
        name,
        zones: vec![zone.clone()],
    };
    let (parsed, _) = why::parse(name, rtype.as_deref())?;
    if !parsed.is_within(zone) {
        return Err(outside(parsed));
    }
    let question = Question {
        request: Request::Why {
            name: name.to_owned(),
            rtype,
        },
        output: Output::Json,
    };
    let mut line = Vec::new();
    answer(&question, past, &"a reader".into(), &mut line)?;
    // A zone below this one may answer, or for some types the one above it.
    let said: Value = serde_json::from_slice(&line).map_err(io::Error::other)?;
    match said["zone"].as_str() {
        Some(other) if Name::parse(other)? != *zone => Err(outside(parsed)),
        Some(_) | None => Ok(out.write_all(&line)?),
    }
}
