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
const CONNECTIONS: usize = 64;
/// The most connections with an answer that may be long: its reader may be a person with a pager.
const LONG_AT_ONCE: usize = 16;
/// How long such a reader may pause.
const LONG_PAUSE: Duration = Duration::from_secs(600);
/// How long other readers may pause.
const SHORT_PAUSE: Duration = Duration::from_secs(10);
/// The characters of a client's command line that are recorded.
const COMMAND_CHARS: usize = 100;
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

/// The reason why a running server gave no answer.
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
    let turns = Turns {
        reading: Arc::new(Semaphore::new(read_at_once())),
        long: Arc::new(Semaphore::new(LONG_AT_ONCE)),
    };
    loop {
        tokio::select! {
            () = cancel.cancelled() => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept(), if connections.len() < CONNECTIONS => {
                match accepted {
                    Ok((stream, _)) => {
                        connections.spawn(connection(stream, past(), turns.clone()));
                    }
                    Err(error) => {
                        tracing::warn!(%error, "the control socket cannot accept a connection; it tries again");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                }
            }
        }
    }
    std::fs::remove_file(&path)
}

/// The places of those that ask.
#[derive(Debug, Clone)]
struct Turns {
    /// To compute answers that read much of the store.
    reading: Arc<Semaphore>,
    /// To be sent answers that may be long. Others never wait for these.
    long: Arc<Semaphore>,
}

/// Answers one question. An error affects only its own connection.
async fn connection(
    mut stream: tokio::net::UnixStream,
    past: Arc<dyn Past + Send + Sync>,
    turns: Turns,
) {
    let asker = match stream.peer_cred() {
        Ok(credentials) => describe_peer(credentials.uid(), credentials.pid()),
        Err(_) => "someone".to_owned(),
    };
    let asker = format!("{asker} over the control socket");
    let (reader, mut writer) = stream.split();
    let mut line = String::new();
    let mut reader = tokio::io::BufReader::new(reader.take(QUESTION_OCTETS));
    let read = tokio::time::timeout(QUESTION_TIME, reader.read_line(&mut line)).await;
    if !matches!(read, Ok(Ok(octets)) if octets > 0) {
        return;
    }
    let is_long =
        serde_json::from_str(&line).is_ok_and(|question: Question| question.request.reads_much());
    let place = is_long.then(|| turns.long.try_acquire_owned());
    let answer = match &place {
        Some(Err(_)) => Err(format!(
            "error {LONG_AT_ONCE} long answers are being read: try again when one is closed"
        )),
        Some(Ok(_)) | None => made(line, past, asker, turns.reading).await,
    };
    let pause = if is_long { LONG_PAUSE } else { SHORT_PAUSE };
    let sent = match answer {
        Ok((head, text)) => send(&mut writer, &head, text, pause).await,
        Err(error) => {
            let line = format!("{}\n", error.replace('\n', " "));
            send(&mut writer, &line, Pieces::default(), pause).await
        }
    };
    if let Err(error) = sent {
        tracing::debug!(%error, "the client closed the control connection before the answer");
    }
}

/// Sends an answer to a reader that pauses no longer than `pause`.
async fn send(
    writer: &mut (impl AsyncWrite + Unpin),
    head: &str,
    text: Pieces,
    pause: Duration,
) -> io::Result<()> {
    tokio::time::timeout(pause, writer.write_all(head.as_bytes())).await??;
    for piece in text {
        tokio::time::timeout(pause, writer.write_all(&piece)).await??;
    }
    Ok(())
}

/// Who asks: uid, user name, process and its command line, as far as they are known.
fn describe_peer(uid: u32, pid: Option<i32>) -> String {
    let users = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let user = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(uid)).then(|| format!(" ({name})"))
    });
    let process = pid.map(|pid| {
        let command = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<&str> = command
            .split('\0')
            .filter(|word| !word.is_empty())
            .collect();
        let command: String = words.join(" ").chars().take(COMMAND_CHARS).collect();
        format!(", process {pid} ({})", command.escape_debug())
    });
    let (user, process) = (user.unwrap_or_default(), process.unwrap_or_default());
    format!("uid {uid}{user}{process}")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_reader_that_pauses_too_long_is_left() {
        // security 15: nothing bounded it.
        use std::io::Write as _;
        let (mut ours, _theirs) = tokio::io::duplex(16);
        let mut text = Pieces::default();
        text.write_all(&[7; 100]).unwrap();
        let sent = send(&mut ours, "ok\n", text, Duration::from_millis(1)).await;
        assert_eq!(sent.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn a_client_is_known_by_user_process_and_command() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let peer = describe_peer(0, Some(pid));
        assert!(
            peer.starts_with(&format!("uid 0 (root), process {pid} (")),
            "{peer}"
        );
        assert_eq!(describe_peer(4_000_000_000, None), "uid 4000000000");
    }
}
