//! Answers that are sent while they are made, for readers over a network: a long answer takes little memory, and a slow
//! reader holds up nobody.
//!
//! An answer is made on a thread of its own and handed over in pieces. While its reader takes none, the thread gives up its
//! turn to read the store. Such answers have turns of their own before those that all readers share: many of them do not
//! delay a question over the control socket.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use dns::Name;
use ops::begin_in_background;
use serde_json::Value;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Instant, timeout_at};

use crate::answer::{Question, Request, answer, known_zone};
use crate::control::read_at_once;
use crate::error::{AuditError, Output};
use crate::export;
use crate::past::Past;

/// The bytes of a piece.
const PIECE: usize = 64 << 10;
/// The pieces of an answer that wait for its reader.
const QUEUE: usize = 2;

/// A question whose answer is sent as it is made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Streamed {
    /// A request for JSON lines.
    Request(Request),
    /// `why` for a name of this zone. The answer says nothing about another zone.
    WhyWithin {
        /// The zone.
        zone: Name,
        /// The name.
        name: String,
        /// The type; A when absent.
        rtype: Option<String>,
    },
    /// The whole history of a zone with all hashes.
    History {
        /// The zone.
        zone: String,
    },
}

/// A part of an answer.
#[derive(Debug)]
pub enum Piece {
    /// Text.
    Text(Vec<u8>),
    /// The end. Without it the answer broke off.
    End(Result<(), AuditError>),
}

/// How long a reader may take.
#[derive(Debug, Clone, Copy)]
pub struct ReaderTimes {
    /// Without taking a piece.
    pub pause: Duration,
    /// For the whole answer.
    pub most: Duration,
}

/// The most answers that read much of the store and are begun: each may keep the contents of a zone while its reader pauses.
const BEGUN: usize = 8;

/// The turns of those who read much of the store.
#[derive(Debug, Clone)]
pub struct Turns {
    /// The answers that are begun.
    begun: Arc<Semaphore>,
    /// Those of streamed answers.
    own: Arc<Semaphore>,
    /// Those that all readers share.
    shared: Arc<Semaphore>,
}

/// A turn. It is both.
type Turn = Option<[OwnedSemaphorePermit; 2]>;

impl Turns {
    /// The turns that all readers share: one more than streamed answers have, so that these leave one for the control socket.
    #[must_use]
    pub fn of_all() -> Arc<Semaphore> {
        Arc::new(Semaphore::new(read_at_once() + 1))
    }

    /// Turns for streamed answers, within these that all readers share.
    #[must_use]
    pub fn within(shared: &Arc<Semaphore>) -> Self {
        Self {
            begun: Arc::new(Semaphore::new(BEGUN)),
            own: Arc::new(Semaphore::new(read_at_once())),
            shared: Arc::clone(shared),
        }
    }

    /// Waits until an answer may begin. It keeps this to its end.
    async fn begin(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.begun).acquire_owned().await.ok()
    }

    /// Waits for a turn.
    async fn take(&self) -> Turn {
        let own = Arc::clone(&self.own).acquire_owned().await.ok()?;
        let shared = Arc::clone(&self.shared).acquire_owned().await.ok()?;
        Some([own, shared])
    }
}

/// Begins to make an answer, once there is a turn. `held` is dropped when it is made.
///
/// # Errors
/// A text, when no thread can be started.
pub async fn stream(
    question: Streamed,
    past: Arc<dyn Past + Send + Sync>,
    times: ReaderTimes,
    turns: &Turns,
    held: impl Send + 'static,
) -> Result<mpsc::Receiver<Piece>, String> {
    let (begun, turn) = match question.reads_much() {
        true => (turns.begin().await, turns.take().await),
        false => (None, None),
    };
    let work = move |out: &mut dyn io::Write| question.answer(&*past, out);
    begin(work, times, (turn, turns.clone()), (begun, held))
}

/// Begins to make an answer on a thread of its own.
fn begin(
    work: impl FnOnce(&mut dyn io::Write) -> Result<(), AuditError> + Send + 'static,
    times: ReaderTimes,
    (turn, turns): (Turn, Turns),
    held: impl Send + 'static,
) -> Result<mpsc::Receiver<Piece>, String> {
    let (sender, pieces) = mpsc::channel(QUEUE);
    let mut writer = PieceWriter {
        piece: Vec::new(),
        pieces: sender,
        times,
        end: Instant::now() + times.most,
        turn,
        turns,
        is_broken: false,
    };
    begin_in_background("history", move || {
        let _held = held;
        let answered = work(&mut writer);
        writer.finish(answered);
    })?;
    Ok(pieces)
}

impl Streamed {
    const fn reads_much(&self) -> bool {
        match self {
            Self::Request(request) => request.reads_much(),
            Self::History { .. } => true,
            Self::WhyWithin { .. } => false,
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
                answer(&question, past, "a reader", out)
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
    let parsed = Name::parse(name)?;
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
    answer(&question, past, "a reader", &mut line)?;
    // A zone below this one may answer, or for some types the one above it.
    let said: Value = serde_json::from_slice(&line).map_err(io::Error::other)?;
    match said["zone"].as_str() {
        Some(other) if Name::parse(other)? != *zone => Err(outside(parsed)),
        Some(_) | None => Ok(out.write_all(&line)?),
    }
}

/// Hands pieces over as they are full.
struct PieceWriter {
    piece: Vec<u8>,
    pieces: mpsc::Sender<Piece>,
    times: ReaderTimes,
    /// The end of the time for the whole answer.
    end: Instant,
    turn: Turn,
    turns: Turns,
    /// Whether a piece is lost. Then there is no end.
    is_broken: bool,
}

impl PieceWriter {
    /// Hands a piece over. While it waits, others have the turn.
    fn send(&mut self, piece: Piece) -> io::Result<()> {
        if self.is_broken {
            return Err(gone());
        }
        let sent = self.try_to_send(piece);
        self.is_broken = sent.is_err();
        sent
    }

    fn try_to_send(&mut self, piece: Piece) -> io::Result<()> {
        let piece = match self.pieces.try_send(piece) {
            Ok(()) => return Ok(()),
            Err(mpsc::error::TrySendError::Closed(_)) => return Err(gone()),
            Err(mpsc::error::TrySendError::Full(piece)) => piece,
        };
        let had_turn = self.turn.take().is_some();
        let end = self.end.min(Instant::now() + self.times.pause);
        let sent = timeout_at(end, self.pieces.send(piece));
        match Handle::current().block_on(sent) {
            Ok(Ok(())) => {}
            Ok(Err(_)) => return Err(gone()),
            Err(late) => return Err(late.into()),
        }
        if had_turn {
            self.turn = Handle::current().block_on(self.turns.take());
        }
        Ok(())
    }

    fn finish(&mut self, answered: Result<(), AuditError>) {
        // If the reader is gone or too slow, the answer breaks off without an end.
        let ended = io::Write::flush(self).and_then(|()| self.send(Piece::End(answered)));
        if let Err(error) = ended {
            tracing::debug!(%error, "an answer broke off");
        }
    }
}

/// The reader left.
fn gone() -> io::Error {
    io::ErrorKind::BrokenPipe.into()
}

impl io::Write for PieceWriter {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        if self.piece.len() == PIECE {
            self.flush()?;
        }
        let taken = octets.len().min(PIECE - self.piece.len());
        self.piece.extend_from_slice(&octets[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        match std::mem::take(&mut self.piece) {
            piece if piece.is_empty() => Ok(()),
            piece => self.send(Piece::Text(piece)),
        }
    }
}

#[cfg(test)]
mod tests;
