//! An answer while it is made: it goes to its reader piece by piece, within a time, and in turn with others.
//!
//! An answer is made on a thread of its own and handed over in pieces, so a long one takes little memory. While its reader
//! takes none, the thread gives up its turn to read the store; so it does after a while of work.

use std::cell::{Cell, RefCell};
use std::io;
use std::time::Duration;

use ops::begin_in_background;
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use crate::error::AuditError;
use crate::turns::{Turn, Turns};

/// The bytes of a piece.
pub(super) const PIECE: usize = 64 << 10;
/// The pieces of an answer that wait for its reader.
pub(super) const QUEUE: usize = 2;
/// How long an answer works until another one has the turn.
const SLICE: Duration = Duration::from_secs(1);

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

/// An answer that is made, on its own thread.
#[derive(Debug)]
pub(super) struct Making {
    pieces: mpsc::Sender<Piece>,
    times: ReaderTimes,
    /// The end of the time for the whole answer.
    end: Instant,
    turns: Turns,
    /// The turn, and since when; `None` if the answer needs none, or while it waits.
    turn: RefCell<Option<(Turn, Instant)>>,
    /// Whether a piece is lost. Then there is no end.
    is_broken: Cell<bool>,
}

/// Begins to make an answer on a thread of its own. `held` is dropped when it is made.
///
/// # Errors
/// A text, when no thread can be started.
pub(super) fn begin(
    work: impl FnOnce(&Making, &mut dyn io::Write) -> Result<(), AuditError> + Send + 'static,
    times: ReaderTimes,
    (turn, turns): (Option<Turn>, Turns),
    held: impl Send + 'static,
) -> Result<mpsc::Receiver<Piece>, String> {
    let (sender, pieces) = mpsc::channel(QUEUE);
    let now = Instant::now();
    begin_in_background("history", move || {
        let _held = held;
        let making = Making {
            pieces: sender,
            times,
            end: now + times.most,
            turns,
            turn: RefCell::new(turn.map(|turn| (turn, now))),
            is_broken: Cell::new(false),
        };
        let mut writer = PieceWriter {
            piece: Vec::new(),
            making: &making,
        };
        let answered = work(&making, &mut writer);
        writer.finish(answered);
    })?;
    Ok(pieces)
}

impl Making {
    /// Says between two reads whether the answer goes on. Others may have the turn meanwhile.
    pub(super) fn go_on(&self) -> Result<(), AuditError> {
        if self.pieces.is_closed() {
            return Err(gone().into());
        }
        let now = Instant::now();
        let since = self.turn.borrow().as_ref().map(|(_, since)| *since);
        let is_over = |since| now.saturating_duration_since(since) >= SLICE;
        let pass_on = since.is_some_and(is_over);
        if now < self.end && pass_on {
            drop(self.turn.take());
            self.take_turn();
        }
        if Instant::now() < self.end {
            return Ok(());
        }
        let seconds = self.times.most.as_secs();
        Err(AuditError::Store(format!(
            "the answer takes longer than {seconds} s; ask for less"
        )))
    }

    /// Waits for a turn, but not beyond the end.
    fn take_turn(&self) {
        let taken = timeout_at(self.end, self.turns.take());
        let turn = Handle::current().block_on(taken).ok().flatten();
        self.turn.replace(turn.map(|turn| (turn, Instant::now())));
    }

    /// Hands a piece over. While it waits, others have the turn.
    fn send(&self, piece: Piece) -> io::Result<()> {
        if self.is_broken.get() {
            return Err(gone());
        }
        let sent = self.try_to_send(piece);
        self.is_broken.set(sent.is_err());
        sent
    }

    fn try_to_send(&self, piece: Piece) -> io::Result<()> {
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
            self.take_turn();
        }
        Ok(())
    }
}

/// Hands pieces over as they are full.
struct PieceWriter<'a> {
    piece: Vec<u8>,
    making: &'a Making,
}

impl PieceWriter<'_> {
    fn finish(&mut self, answered: Result<(), AuditError>) {
        // If the reader is gone or too slow, the answer breaks off without an end.
        let flushed = io::Write::flush(self);
        let ended = flushed.and_then(|()| self.making.send(Piece::End(answered)));
        if let Err(error) = ended {
            tracing::debug!(%error, "an answer broke off");
        }
    }
}

/// The reader left.
fn gone() -> io::Error {
    io::ErrorKind::BrokenPipe.into()
}

impl io::Write for PieceWriter<'_> {
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
            piece => self.making.send(Piece::Text(piece)),
        }
    }
}

#[cfg(test)]
mod tests;
