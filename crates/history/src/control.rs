//! The control socket answers questions to a running server over a unix socket in the state folder.
//!
//! Each connection carries one question, a line of JSON. The answer is a line `ok` and then text, or a line `broken
//! …` (the history is damaged) and then text, or a line `unknown …` (the history does not tell) and the text that was
//! found all the same, or only a line `wrong …` (the question is at fault) or `error …`. File permissions are the access
//! control: only the owner can use the socket. A second socket may be open to a group, for questions without orders.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nix::unistd::{Gid, Group, Uid, User};
use ops::in_background;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::UnixListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::answer::{Question, answer};
use crate::error::{AuditError, Fault};
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
/// How long open connections may take when the server ends.
const CLOSING_TIME: Duration = Duration::from_millis(500);
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

/// A socket that takes questions.
#[derive(Debug, Clone)]
pub struct ControlSocket {
    /// Its path.
    pub path: PathBuf,
    /// Who may use it, and for what.
    pub rights: Rights,
}

/// The rights on a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rights {
    /// The owner of the process may ask and give orders.
    Owner,
    /// The members of a group may ask.
    Readers(Gid),
}

impl ControlSocket {
    /// The socket in the state folder.
    #[must_use]
    pub fn of_state(state: &Path) -> Self {
        Self {
            path: state.join("control.sock"),
            rights: Rights::Owner,
        }
    }

    /// The socket at a path for a group, by its name or number.
    ///
    /// # Errors
    /// When the system has no such group.
    pub fn for_readers(path: PathBuf, group: &str) -> Result<Self, String> {
        let gid = match group.parse() {
            Ok(number) => Gid::from_raw(number),
            Err(_) => match Group::from_name(group) {
                Ok(Some(group)) => group.gid,
                Ok(None) => return Err(format!("there is no group {group}")),
                Err(error) => return Err(format!("the group {group} cannot be found: {error}")),
            },
        };
        let rights = Rights::Readers(gid);
        Ok(Self { path, rights })
    }

    /// Binds the socket.
    fn bind(&self) -> io::Result<UnixListener> {
        // The owner's socket is in the state folder, whose lock this process holds: an existing one is left over.
        match std::fs::symlink_metadata(&self.path) {
            Ok(metadata) if metadata.file_type().is_socket() => std::fs::remove_file(&self.path)?,
            // Binding fails: it is somebody's file.
            Ok(_) | Err(_) => {}
        }
        let listener = UnixListener::bind(&self.path)?;
        let mode = match self.rights {
            Rights::Owner => 0o600,
            Rights::Readers(group) => {
                chown(&self.path, None, Some(group.as_raw()))?;
                0o660
            }
        };
        std::fs::set_permissions(&self.path, std::fs::Permissions::from_mode(mode))?;
        Ok(listener)
    }
}

/// The socket of a running server: a path may be its socket, or else is its state folder.
fn socket_of(path: &Path) -> PathBuf {
    let is_socket = path
        .metadata()
        .is_ok_and(|found| found.file_type().is_socket());
    if is_socket {
        return path.to_owned();
    }
    ControlSocket::of_state(path).path
}

/// The reason why a question has no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// What it says about the question.
    pub fault: Fault,
    /// The reason.
    pub text: String,
}

impl Refused {
    /// The server, or the connection to it, failed.
    fn failed(text: impl ToString) -> Self {
        Self {
            fault: Fault::Failed,
            text: text.to_string(),
        }
    }
}

impl From<AuditError> for Refused {
    fn from(error: AuditError) -> Self {
        Self {
            fault: error.fault(),
            text: error.to_string(),
        }
    }
}

/// Connects to a running server; `None` when none is running.
fn connect(state: &Path) -> Option<Result<UnixStream, Refused>> {
    let path = socket_of(state);
    match UnixStream::connect(&path) {
        Ok(stream) => Some(Ok(stream)),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            let text = format!(
                "{}: {error}. Run the command as the user of the server, or name the server's read socket with --state",
                path.display()
            );
            Some(Err(Refused::failed(text)))
        }
        Err(_) => None,
    }
}

/// Asks a running server by its state folder or its socket; `None` when none is running.
///
/// # Errors
/// The server's error, or that of the connection.
pub fn ask(state: &Path, question: &Question, out: &mut dyn Write) -> Option<Result<(), Refused>> {
    let mut stream = match connect(state)? {
        Ok(stream) => stream,
        Err(refused) => return Some(Err(refused)),
    };
    let mut exchange = || -> io::Result<Result<(), Refused>> {
        let mut line = serde_json::to_string(question).map_err(io::Error::other)?;
        line.push('\n');
        stream.write_all(line.as_bytes())?;
        let mut reader = BufReader::new(&stream);
        let mut head = String::new();
        reader.read_line(&mut head)?;
        let head = head.trim_end();
        let (word, text) = head.split_once(' ').unwrap_or((head, ""));
        match (word, Fault::parse(word)) {
            ("ok", _) => {}
            ("broken", _) => {
                io::copy(&mut reader, out)?;
                return Ok(Err(Refused::failed(text)));
            }
            (_, Some(fault)) => {
                io::copy(&mut reader, out)?;
                let text = text.to_owned();
                return Ok(Err(Refused { fault, text }));
            }
            (_, None) => return Ok(Err(Refused::failed("the server closed the connection"))),
        }
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match reader.read(&mut buffer)? {
                0 => return Ok(Ok(())),
                octets => out.write_all(&buffer[..octets])?,
            }
        }
    };
    Some(exchange().unwrap_or_else(|error| Err(Refused::failed(error))))
}

/// Returns the current source of answers.
pub type PastNow = Arc<dyn Fn() -> Arc<dyn Past + Send + Sync> + Send + Sync>;

/// Listens on a socket and answers until cancelled. `reading` has the turns of all who read much of the store.
///
/// # Errors
/// When the socket cannot be created.
pub async fn serve_control(
    socket: ControlSocket,
    past: PastNow,
    reading: Arc<Semaphore>,
    cancel: CancellationToken,
) -> io::Result<()> {
    let named = |error: io::Error| {
        io::Error::new(error.kind(), format!("{}: {error}", socket.path.display()))
    };
    let listener = socket.bind().map_err(named)?;
    let mut connections = JoinSet::new();
    let turns = Places {
        reading,
        long: Arc::new(Semaphore::new(LONG_AT_ONCE)),
    };
    loop {
        tokio::select! {
            () = cancel.cancelled() => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept(), if connections.len() < CONNECTIONS => {
                match accepted {
                    Ok((stream, _)) => {
                        let rights = socket.rights;
                        connections.spawn(connection(stream, rights, past(), turns.clone()));
                    }
                    Err(error) => {
                        tracing::warn!(%error, "the control socket cannot accept a connection; it tries again");
                        tokio::time::sleep(Duration::from_millis(100)).await;
                    }
                }
            }
        }
    }
    let removed = std::fs::remove_file(&socket.path);
    // The answer to `stop` is on its way.
    let answered = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(CLOSING_TIME, answered).await.is_err() {
        tracing::debug!("connections of the control socket are closed before their answers");
    }
    removed
}

/// The places of those that ask.
#[derive(Debug, Clone)]
struct Places {
    /// To compute answers that read much of the store.
    reading: Arc<Semaphore>,
    /// To be sent answers that may be long. Others never wait for these.
    long: Arc<Semaphore>,
}

/// Answers one question. An error affects only its own connection.
async fn connection(
    mut stream: tokio::net::UnixStream,
    rights: Rights,
    past: Arc<dyn Past + Send + Sync>,
    turns: Places,
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
    let question = serde_json::from_str::<Question>(&line);
    let is_long = question
        .as_ref()
        .is_ok_and(|question| question.request.reads_much());
    let place = is_long.then(|| turns.long.try_acquire_owned());
    let answer = match (question, &place) {
        (Err(error), _) => Err(format!("error the question is not understood: {error}")),
        (Ok(_), Some(Err(_))) => Err(format!(
            "error {LONG_AT_ONCE} long answers are being read: try again when one is closed"
        )),
        (Ok(question), Some(Ok(_)) | None) => match (question.request.has_power(), rights) {
            (true, Rights::Readers(_)) => Err(format!("wrong {}", AuditError::ReadOnly)),
            (true, Rights::Owner) | (false, Rights::Owner | Rights::Readers(_)) => {
                made(question, past, asker, turns.reading).await
            }
        },
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
    let user = User::from_uid(Uid::from_raw(uid)).ok().flatten();
    let user = user.map(|user| format!(" ({})", user.name));
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
    question: Question,
    past: Arc<dyn Past + Send + Sync>,
    asker: String,
    reading: Arc<Semaphore>,
) -> Result<(String, Pieces), String> {
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
            // Its verdicts are written.
            Err(error @ AuditError::NotAnchored { .. }) => {
                let word = error.fault().as_str();
                Ok((format!("{word} {error}\n"), text))
            }
            Err(error) => Err(format!("{} {error}", error.fault().as_str())),
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
    fn a_file_at_the_path_of_a_socket_is_not_deleted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, "mine").unwrap();
        let group = Gid::current().to_string();
        let socket = ControlSocket::for_readers(path.clone(), &group).unwrap();
        let error = socket.bind().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AddrInUse);
        assert_eq!(std::fs::read_to_string(path).unwrap(), "mine");
    }

    #[test]
    fn a_group_is_found_by_name_or_number() {
        let rights = |group: &str| {
            let socket = ControlSocket::for_readers("path".into(), group);
            socket.map(|socket| socket.rights)
        };
        let root = Rights::Readers(Gid::from_raw(0));
        assert_eq!(rights("root"), Ok(root));
        assert_eq!(rights("0"), Ok(root));
        let error = rights("no-such-group").unwrap_err();
        assert_eq!(error, "there is no group no-such-group");
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
