//! The control socket answers questions to a running server over a unix socket in the state folder.
//!
//! Each connection carries one question, a line of JSON. The answer is a line `ok` and then text, or a line `broken
//! …` (the history is damaged) and then text, or only a line `wrong …` (the question is at fault) or `error …`. File
//! permissions are the access control: only the owner can use the socket.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ops::in_background;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::UnixListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::answer::{Question, answer};
use crate::error::AuditError;
use crate::past::Past;
use crate::pieces::Pieces;

const QUESTION_OCTETS: u64 = 64 * 1024;
/// The time within which a question must arrive.
const QUESTION_TIME: Duration = Duration::from_secs(10);
/// The most open connections.
const QUESTIONS_AT_ONCE: usize = 16;
/// The most questions answered at once that read much of the store.
const MOST_READ_AT_ONCE: usize = 4;

/// The number of questions answered at once that read much of the store; others wait. It is one less than the number
/// of processors, but at least one. An answer can use two threads for a while. Commits and queries have priority
/// anyway ([`ops::yield_to_others`]).
#[must_use]
pub fn read_at_once() -> usize {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    processors.saturating_sub(1).clamp(1, MOST_READ_AT_ONCE)
}

/// The path of the socket.
#[must_use]
pub fn socket_path(state: &Path) -> PathBuf {
    state.join("control.sock")
}

/// Why a running server gave no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refused {
    /// The question is at fault.
    Question(String),
    /// The server, or the connection to it, is at fault.
    Server(String),
}

/// Asks a running server; `None` when none is running.
///
/// # Errors
/// The server's error, or that of the connection.
pub fn ask(state: &Path, question: &Question, out: &mut dyn Write) -> Option<Result<(), Refused>> {
    let mut stream = UnixStream::connect(socket_path(state)).ok()?;
    let mut exchange = || -> io::Result<Result<(), Refused>> {
        let mut line = serde_json::to_string(question).map_err(io::Error::other)?;
        line.push('\n');
        stream.write_all(line.as_bytes())?;
        let mut reader = BufReader::new(&stream);
        let mut head = String::new();
        reader.read_line(&mut head)?;
        match head.trim_end().split_once(' ') {
            Some(("wrong", text)) => return Ok(Err(Refused::Question(text.to_owned()))),
            Some(("error", text)) => return Ok(Err(Refused::Server(text.to_owned()))),
            Some(("broken", text)) => {
                io::copy(&mut reader, out)?;
                return Ok(Err(Refused::Server(text.to_owned())));
            }
            _ if head.trim_end() == "ok" => {}
            _ => {
                return Ok(Err(Refused::Server(
                    "the server closed the connection".to_owned(),
                )));
            }
        }
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match reader.read(&mut buffer)? {
                0 => return Ok(Ok(())),
                octets => out.write_all(&buffer[..octets])?,
            }
        }
    };
    Some(exchange().unwrap_or_else(|error| Err(Refused::Server(error.to_string()))))
}

/// Returns the current source of answers.
pub type PastNow = Arc<dyn Fn() -> Arc<dyn Past + Send + Sync> + Send + Sync>;

/// Listens on the socket and answers until cancelled.
///
/// # Errors
/// When the socket cannot be created.
pub async fn serve_control(
    state: PathBuf,
    past: PastNow,
    cancel: CancellationToken,
) -> io::Result<()> {
    let path = socket_path(&state);
    // This process holds the lock of the state folder, so an existing socket is left over.
    match std::fs::remove_file(&path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let listener = UnixListener::bind(&path)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
    let mut connections = JoinSet::new();
    let reading = Arc::new(Semaphore::new(read_at_once()));
    loop {
        tokio::select! {
            () = cancel.cancelled() => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept(), if connections.len() < QUESTIONS_AT_ONCE => {
                match accepted {
                    Ok((stream, _)) => {
                        connections.spawn(connection(stream, past(), Arc::clone(&reading)));
                    }
                    Err(error) => {
                        tracing::warn!(%error, "the control socket cannot accept connections for a moment");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                }
            }
        }
    }
    std::fs::remove_file(&path)
}

/// Answers one question. An error affects only its own connection.
async fn connection(
    mut stream: tokio::net::UnixStream,
    past: Arc<dyn Past + Send + Sync>,
    reading: Arc<Semaphore>,
) {
    let asker = stream.peer_cred().map_or_else(
        |_| "someone".to_owned(),
        |credentials| format!("uid {}", credentials.uid()),
    );
    let asker = format!("{asker} over the control socket");
    let (reader, mut writer) = stream.split();
    let mut line = String::new();
    let mut reader = tokio::io::BufReader::new(reader.take(QUESTION_OCTETS));
    let read = tokio::time::timeout(QUESTION_TIME, reader.read_line(&mut line)).await;
    if !matches!(read, Ok(Ok(octets)) if octets > 0) {
        return;
    }
    let sent = match made(line, past, asker, reading).await {
        Ok((head, text)) => send(&mut writer, &head, text).await,
        Err(error) => {
            let line = format!("{}\n", error.replace('\n', " "));
            writer.write_all(line.as_bytes()).await
        }
    };
    if let Err(error) = sent {
        tracing::debug!(%error, "the client closed the control connection before the answer");
    }
}

async fn send(writer: &mut (impl AsyncWrite + Unpin), head: &str, text: Pieces) -> io::Result<()> {
    writer.write_all(head.as_bytes()).await?;
    for piece in text {
        writer.write_all(&piece).await?;
    }
    Ok(())
}

/// Computes the answer to a question on a thread of its own, so that it delays no commit and no query. Returns its
/// first line and its text.
///
/// # Errors
/// The first line alone, if there is no answer.
pub async fn made(
    line: String,
    past: Arc<dyn Past + Send + Sync>,
    asker: String,
    reading: Arc<Semaphore>,
) -> Result<(String, Pieces), String> {
    let question: Question = serde_json::from_str(&line)
        .map_err(|error| format!("error the question is not understood: {error}"))?;
    let turn = match question.request.reads_much() {
        true => reading.acquire_owned().await.ok(),
        false => None,
    };
    let made = in_background("history", move || {
        // The turn ends when this answer is complete.
        let _turn = turn;
        let mut text = Pieces::default();
        match answer(&question, &*past, &asker, &mut text) {
            Ok(()) => Ok(("ok\n".to_owned(), text)),
            Err(error @ AuditError::Broken(_)) => Ok((format!("broken {error}\n"), text)),
            Err(error) if error.is_the_question() => Err(format!("wrong {error}")),
            Err(error) => Err(format!("error {error}")),
        }
    });
    made.await
        .unwrap_or_else(|error| Err(format!("error {error}")))
}
