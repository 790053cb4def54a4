//! The control socket answers questions to a running server over a unix socket in the state folder.
//!
//! Each connection carries one question, a line of JSON. The answer begins with a line that names the form. Then come pieces
//! of text, each after a line `text LENGTH`, and at last a line `end ok`, `end broken …` (the history is damaged), `end
//! unknown …` (the history does not tell), `end wrong …` (the question is at fault) or `end error …`. Without that line the
//! answer broke off. A program of another form gets a line `error …`, and refuses the first line of ours.
//!
//! File permissions are the access control: only the owner can use the socket. A second socket may be open to a group, for
//! questions without orders. There a user has only some of the places.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use nix::unistd::{Gid, Group, Uid, User};
use ops::in_background;
use provenance::{Operator, SocketUser};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::UnixListener;
use tokio::net::unix::UCred;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::answer::{Question, Request};
use crate::error::{AuditError, Fault};
use crate::making::{Piece, ReaderTimes};
use crate::past::Past;
use crate::shares::{NoPlace, Share, Shares};
use crate::stream::stream_to_socket;
use crate::turns::Turns;

/// The form of questions and answers on the socket. It changes with every change that an older program would take for
/// something else.
const FORM: u32 = 2;
const QUESTION_OCTETS: u64 = 64 * 1024;
/// The longest line of an answer.
const LINE_OCTETS: u64 = 64 * 1024;
/// The time within which a question must arrive.
const QUESTION_TIME: Duration = Duration::from_secs(10);
/// The most open connections.
const CONNECTIONS: usize = 64;
/// The most connections with an answer that may be long: its reader may be a person with a pager.
const LONG_AT_ONCE: usize = 16;
/// How many of both one user may have on the socket for readers.
const CONNECTIONS_OF_READER: usize = 16;
const LONG_OF_READER: usize = 4;
/// How long the reader of a long answer may pause, and how long the answer may take.
const LONG_TIMES: ReaderTimes = ReaderTimes {
    pause: Duration::from_secs(600),
    most: Duration::from_secs(3600),
};
/// The same of other answers.
const SHORT_TIMES: ReaderTimes = ReaderTimes {
    pause: Duration::from_secs(10),
    most: Duration::from_secs(180),
};
/// How long open connections may take when the server ends.
const CLOSING_TIME: Duration = Duration::from_millis(500);
/// The characters of a client's command line that are recorded.
const COMMAND_CHARS: usize = 100;
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
    /// Whether the same question may have an answer later.
    pub may_pass: bool,
}

impl Refused {
    /// The server, or the connection to it, failed.
    fn failed(text: impl ToString) -> Self {
        Self::of(Fault::Failed, text.to_string())
    }

    fn of(fault: Fault, text: String) -> Self {
        let may_pass = fault == Fault::Failed;
        Self {
            fault,
            text,
            may_pass,
        }
    }

    /// The server speaks another form.
    fn other_version() -> Self {
        let text = "the running server is of another version of zonewright than this command: use the program that the server \
                    runs, or restart the server with this one";
        Self {
            may_pass: false,
            ..Self::failed(text)
        }
    }

    /// The connection closed before the end of the answer.
    fn cut_off() -> Self {
        Self::failed(
            "the server closed the connection before the end of the answer: what is printed is only a part",
        )
    }
}

impl From<AuditError> for Refused {
    fn from(error: AuditError) -> Self {
        Self::of(error.fault(), error.to_string())
    }
}

/// A question as it is sent.
#[derive(Debug, Serialize, Deserialize)]
struct Asked<T> {
    /// The form. An older server refuses a question with it.
    zonewright: u32,
    question: T,
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

/// Whether a server runs, by its state folder or its socket.
#[must_use]
pub fn is_served(state: &Path) -> bool {
    connect(state).is_some()
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
        let asked = Asked {
            zonewright: FORM,
            question,
        };
        let mut line = serde_json::to_string(&asked).map_err(io::Error::other)?;
        line.push('\n');
        match stream.write_all(line.as_bytes()) {
            // A server that refuses the connection does not read, and says why.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
            written => written?,
        }
        read_answer(&mut BufReader::new(&stream), out)
    };
    Some(exchange().unwrap_or_else(|error| Err(Refused::failed(error))))
}

/// Stands for a line break in the last line of an answer: the vertical tab.
const LINE_BREAK: &str = "\u{b}";

/// Reads an answer to its end.
fn read_answer(reader: &mut impl BufRead, out: &mut dyn Write) -> io::Result<Result<(), Refused>> {
    match &*read_line(reader)? {
        "" => {
            let text = "the server closed the connection before it answered";
            return Ok(Err(Refused::failed(text)));
        }
        head if head == hello() => {}
        head if hello().starts_with(head) => return Ok(Err(Refused::cut_off())),
        _ => return Ok(Err(Refused::other_version())),
    }
    loop {
        let line = read_line(reader)?;
        let Some(line) = line.strip_suffix('\n') else {
            return Ok(Err(Refused::cut_off()));
        };
        let (kind, rest) = line.split_once(' ').unwrap_or((line, ""));
        match (kind, rest.parse::<u64>()) {
            ("text", Ok(octets)) => {
                if io::copy(&mut reader.take(octets), out)? < octets {
                    return Ok(Err(Refused::cut_off()));
                }
            }
            ("end", _) => return Ok(ended(&rest.replace(LINE_BREAK, "\n"))),
            _ => return Ok(Err(Refused::other_version())),
        }
    }
}

/// A line with its end; without it when the connection is closed before.
fn read_line(reader: &mut impl BufRead) -> io::Result<String> {
    let mut line = Vec::new();
    reader.take(LINE_OCTETS).read_until(b'\n', &mut line)?;
    Ok(String::from_utf8_lossy(&line).into_owned())
}

/// The first line of an answer.
fn hello() -> String {
    format!("zonewright {FORM}\n")
}

/// What the last line of an answer says.
fn ended(line: &str) -> Result<(), Refused> {
    let (word, text) = line.split_once(' ').unwrap_or((line, ""));
    match (word, Fault::parse(word)) {
        ("ok", _) => Ok(()),
        ("broken", _) => Err(Refused::failed(text)),
        (_, Some(fault)) => Err(Refused::of(fault, text.to_owned())),
        (_, None) => Err(Refused::other_version()),
    }
}

/// The last line of an answer.
fn end_of(answered: &Result<(), AuditError>) -> String {
    match answered {
        Ok(()) => "ok".to_owned(),
        Err(error @ AuditError::Broken(_)) => format!("broken {error}"),
        Err(error) => format!("{} {error}", error.fault().as_str()),
    }
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
    let places = Places::new(socket.rights, &reading);
    loop {
        tokio::select! {
            () = cancel.cancelled() => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept(), if connections.len() < CONNECTIONS => {
                match accepted {
                    Ok((stream, _)) => {
                        connections.spawn(connection(stream, past(), places.clone()));
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
    rights: Rights,
    /// To compute answers that read much of the store.
    turns: Turns,
    /// To ask.
    connections: Shares,
    /// To be sent answers that may be long. Others never wait for these.
    long: Shares,
}

impl Places {
    fn new(rights: Rights, reading: &Arc<Semaphore>) -> Self {
        let (connections, long) = match rights {
            Rights::Owner => (CONNECTIONS, LONG_AT_ONCE),
            Rights::Readers(_) => (CONNECTIONS_OF_READER, LONG_OF_READER),
        };
        Self {
            rights,
            turns: Turns::of_socket(reading),
            connections: Shares::new(CONNECTIONS, connections),
            long: Shares::new(LONG_AT_ONCE, long),
        }
    }

    /// The place of an answer that may be long.
    fn of_long(&self, reader: &str) -> Result<Share, String> {
        self.long.take(reader).map_err(|none| match none {
            NoPlace::OfReader if self.rights != Rights::Owner => {
                format!("{LONG_OF_READER} long answers are being read by your user: try again when one is closed")
            }
            NoPlace::OfReader | NoPlace::AtAll => {
                format!("{LONG_AT_ONCE} long answers are being read: try again when one is closed")
            }
        })
    }
}

/// Whether an answer may be so long that its reader pauses.
const fn may_be_long(request: &Request) -> bool {
    let is_page = matches!(
        request,
        Request::Follow(_)
            | Request::Why { .. }
            | Request::Corefile { .. }
            | Request::Corefiles { .. }
    );
    request.reads_much() && !is_page
}

/// Answers one question. An error affects only its own connection.
async fn connection(
    mut stream: tokio::net::UnixStream,
    past: Arc<dyn Past + Send + Sync>,
    places: Places,
) {
    let peer = stream.peer_cred().ok();
    let (reader, mut writer) = stream.split();
    let sent = match begun(reader, peer, past, &places).await {
        Ok(Begun {
            pieces,
            pause,
            held: _held,
        }) => send(&mut writer, pieces, pause).await,
        Err(Unanswered::Left) => return,
        Err(Unanswered::OtherForm) => {
            let line = format!(
                "error the server is of another version of zonewright: it takes form {FORM} of questions\n"
            );
            write(&mut writer, line.as_bytes(), SHORT_TIMES.pause).await
        }
        Err(Unanswered::Refused(why)) => {
            let line = format!("{}{}", hello(), end_line(&why));
            write(&mut writer, line.as_bytes(), SHORT_TIMES.pause).await
        }
    };
    if let Err(error) = sent {
        tracing::debug!(%error, "the client closed the control connection before the answer");
    }
}

/// An answer that is begun.
struct Begun {
    pieces: mpsc::Receiver<Piece>,
    /// How long its reader may pause.
    pause: Duration,
    /// The places of the connection and of a long answer. The thread that makes the answer has them, too.
    held: Arc<(Share, Option<Share>)>,
}

/// Why no answer is begun.
enum Unanswered {
    /// The client sent no question.
    Left,
    /// The client is of another version.
    OtherForm,
    /// There is only this last line.
    Refused(String),
}

/// Reads a question, and begins to make its answer.
async fn begun(
    reader: impl AsyncRead + Unpin,
    peer: Option<UCred>,
    past: Arc<dyn Past + Send + Sync>,
    places: &Places,
) -> Result<Begun, Unanswered> {
    let failed = |why: String| Unanswered::Refused(format!("error {why}"));
    let uid = peer.map_or_else(String::new, |peer| peer.uid().to_string());
    let place = places.connections.take(&uid).map_err(|_| {
        let most = CONNECTIONS_OF_READER;
        failed(format!(
            "your user has {most} connections: try again when one is closed"
        ))
    })?;
    let mut line = String::new();
    let mut reader = tokio::io::BufReader::new(reader.take(QUESTION_OCTETS));
    let read = tokio::time::timeout(QUESTION_TIME, reader.read_line(&mut line)).await;
    if !matches!(read, Ok(Ok(octets)) if octets > 0) {
        return Err(Unanswered::Left);
    }
    let asked = serde_json::from_str::<Asked<Value>>(&line);
    let Some(Asked { question, .. }) = asked.ok().filter(|asked| asked.zonewright == FORM) else {
        return Err(Unanswered::OtherForm);
    };
    let question = serde_json::from_value::<Question>(question);
    let question =
        question.map_err(|error| failed(format!("the question is not understood: {error}")))?;
    let (times, long) = match may_be_long(&question.request) {
        true => (LONG_TIMES, Some(places.of_long(&uid).map_err(failed)?)),
        false => (SHORT_TIMES, None),
    };
    let asker = match (question.request.has_power(), places.rights) {
        (true, Rights::Readers(_)) => {
            return Err(Unanswered::Refused(format!(
                "wrong {}",
                AuditError::ReadOnly
            )));
        }
        (true, Rights::Owner) => asker(peer).await,
        // Nothing is recorded.
        (false, Rights::Owner | Rights::Readers(_)) => "a reader".into(),
    };
    let held = Arc::new((place, long));
    let also = Arc::clone(&held);
    let pieces = stream_to_socket(question, asker, past, times, &places.turns, also);
    Ok(Begun {
        pieces: pieces.await.map_err(failed)?,
        pause: times.pause,
        held,
    })
}

/// Sends an answer to a reader that pauses no longer than `pause`.
async fn send(
    writer: &mut (impl AsyncWrite + Unpin),
    mut pieces: mpsc::Receiver<Piece>,
    pause: Duration,
) -> io::Result<()> {
    write(writer, hello().as_bytes(), pause).await?;
    loop {
        let end = match pieces.recv().await {
            Some(Piece::Text(text)) => {
                let line = format!("text {}\n", text.len());
                write(writer, line.as_bytes(), pause).await?;
                write(writer, &text, pause).await?;
                continue;
            }
            Some(Piece::End(answered)) => end_of(&answered),
            None => {
                "error the server could not make the whole answer; its log may say why".to_owned()
            }
        };
        return write(writer, end_line(&end).as_bytes(), pause).await;
    }
}

/// A last line.
fn end_line(text: &str) -> String {
    format!("end {}\n", text.replace('\n', LINE_BREAK))
}

async fn write(
    writer: &mut (impl AsyncWrite + Unpin),
    octets: &[u8],
    pause: Duration,
) -> io::Result<()> {
    tokio::time::timeout(pause, writer.write_all(octets)).await?
}

/// Who gives an order. Names and processes are looked up on another thread: that may take long.
async fn asker(peer: Option<UCred>) -> Operator {
    let Some(peer) = peer else {
        return "someone over the control socket".into();
    };
    let (uid, pid) = (peer.uid(), peer.pid());
    let described = in_background("history", move || describe_peer(uid, pid)).await;
    let bare = |_| SocketUser {
        uid,
        name: String::new(),
        process: pid,
        command: String::new(),
    };
    described.unwrap_or_else(bare).into()
}

/// Who asks: uid, user name, process and its command line, as far as they are known.
fn describe_peer(uid: u32, pid: Option<i32>) -> SocketUser {
    let user = User::from_uid(Uid::from_raw(uid)).ok().flatten();
    let command = pid.map(|pid| {
        let command = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<&str> = command
            .split('\0')
            .filter(|word| !word.is_empty())
            .collect();
        words.join(" ").chars().take(COMMAND_CHARS).collect()
    });
    SocketUser {
        uid,
        name: user.map_or_else(String::new, |user| user.name),
        process: pid,
        command: command.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests;
