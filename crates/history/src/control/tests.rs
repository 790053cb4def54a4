//! The sockets: the form of questions and answers, and the places of those that ask.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicUsize, Ordering};

use dns::{Name, Rtype, Serial};
use zone::journal::{PartVerdict, PartialStep, SerialPlace, Topic, Verdict};
use zone::{Contents, Hash, Net, Step};

use super::*;
use crate::error::Output;
use crate::making::{Making, PIECE, QUEUE, begin};
use crate::past::{Grounds, Order};
use crate::status::{HistoryLine, Status};

/// How long a test waits for what comes at once.
const SOON: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_reader_that_pauses_too_long_is_left() {
    // security 15: nothing bounded it.
    let (mut ours, _theirs) = tokio::io::duplex(16);
    let (sender, pieces) = mpsc::channel(1);
    sender.send(Piece::Text(vec![7; 100])).await.unwrap();
    let sent = send(&mut ours, pieces, Duration::from_millis(1)).await;
    assert_eq!(sent.unwrap_err().kind(), io::ErrorKind::TimedOut);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_answer_whose_reader_does_not_read_takes_little_memory() {
    let shared = Arc::new(Semaphore::new(1));
    let turns = Turns::of_socket(&shared);
    let turn = turns.take().await;
    let made = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&made);
    let work = move |_: &Making, out: &mut dyn Write| {
        // A gigabyte.
        for _ in 0..1 << 20 {
            out.write_all(&[7; 1 << 10])?;
            count.fetch_add(1 << 10, Ordering::Relaxed);
        }
        Ok(())
    };
    let pieces = begin(work, LONG_TIMES, (turn, turns), ()).unwrap();
    let (mut ours, mut theirs) = tokio::io::duplex(4 << 10);
    let mut sending = Box::pin(send(&mut ours, pieces, SOON));
    // The thread gives its turn up when it waits for the reader.
    tokio::select! {
        sent = &mut sending => panic!("nobody reads: {sent:?}"),
        turn = tokio::time::timeout(SOON, shared.acquire()) => drop(turn.unwrap().unwrap()),
    }
    let made = made.load(Ordering::Relaxed);
    assert!(
        made <= (QUEUE + 3) * PIECE,
        "{made} bytes wait for the reader"
    );
    let mut head = vec![0; hello().len()];
    theirs.read_exact(&mut head).await.unwrap();
    assert_eq!(head, hello().as_bytes());
}

/// What a client makes of these bytes: the text, and how the answer ended.
fn read(octets: &[u8]) -> (String, Result<(), Refused>) {
    let mut text = Vec::new();
    let ended = read_answer(&mut &*octets, &mut text).unwrap();
    (String::from_utf8(text).unwrap(), ended)
}

#[tokio::test]
async fn an_answer_that_breaks_off_anywhere_is_a_failure_and_a_whole_one_is_not() {
    for (end, want) in [
        (Ok(()), Ok(())),
        (Err(AuditError::NothingStored), Err(Fault::Wrong)),
        (Err(AuditError::Broken(Vec::new())), Err(Fault::Failed)),
        (
            Err(AuditError::NoneKept(String::new())),
            Err(Fault::NotKnown),
        ),
    ] {
        let (sender, pieces) = mpsc::channel(3);
        for text in [&b"one\n"[..], b"two\n"] {
            sender.send(Piece::Text(text.to_vec())).await.unwrap();
        }
        sender.send(Piece::End(end)).await.unwrap();
        let mut sent = Vec::new();
        send(&mut sent, pieces, SOON).await.unwrap();
        let (text, ended) = read(&sent);
        assert_eq!(text, "one\ntwo\n");
        assert_eq!(ended.map_err(|why| why.fault), want);
        for length in 0..sent.len() {
            let (part, ended) = read(&sent[..length]);
            assert!(text.starts_with(&part));
            let why = ended.unwrap_err();
            assert_eq!((why.fault, why.may_pass), (Fault::Failed, true), "{length}");
            assert!(why.text.contains("closed the connection"), "{}", why.text);
        }
    }
}

#[tokio::test]
async fn an_answer_that_the_server_cannot_finish_is_a_failure() {
    let (sender, pieces) = mpsc::channel(1);
    sender.send(Piece::Text(b"one\n".to_vec())).await.unwrap();
    drop(sender);
    let mut sent = Vec::new();
    send(&mut sent, pieces, SOON).await.unwrap();
    let (text, ended) = read(&sent);
    assert_eq!(text, "one\n");
    assert!(ended.unwrap_err().text.contains("whole answer"));
}

#[test]
fn a_server_of_another_version_is_named_as_the_cause() {
    for answer in [
        "ok\nz. 1\n",
        "error the question is not understood: missing field `request`\n",
        "zonewright 3\nend ok\n",
        "zonewright 2\nend well\n",
        "zonewright 2\nmore 3\nabc",
    ] {
        let (text, ended) = read(answer.as_bytes());
        let why = ended.unwrap_err();
        assert!(
            why.text.contains("another version"),
            "{answer}: {}",
            why.text
        );
        assert!(text.is_empty() && !why.may_pass, "{answer}");
    }
}

/// A past without any zone.
struct Nothing;

fn nothing<T>() -> Result<T, AuditError> {
    Err(AuditError::NothingStored)
}

impl Past for Nothing {
    fn zones(&self) -> Vec<Name> {
        Vec::new()
    }

    fn range(&self, _: &Name) -> Option<(u64, u64)> {
        None
    }

    fn step(&self, _: &Name, _: u64) -> Result<Arc<Step>, AuditError> {
        nothing()
    }

    fn steps(&self, _: &Name, _: RangeInclusive<u64>) -> Result<Vec<Arc<Step>>, AuditError> {
        nothing()
    }

    fn step_of(&self, _: &Name, _: u64, _: &Name) -> Result<PartialStep, AuditError> {
        nothing()
    }

    fn place_of(&self, _: &Name, _: Serial, _: u64) -> Result<SerialPlace, AuditError> {
        nothing()
    }

    fn moment(&self, _: &Name, _: u64) -> Result<(Serial, u64), AuditError> {
        nothing()
    }

    fn find(
        &self,
        _: &Name,
        _: Topic,
        _: RangeInclusive<u64>,
        _: &mut dyn FnMut(u64) -> Result<bool, AuditError>,
    ) -> Result<(), AuditError> {
        nothing()
    }

    fn contents(&self, _: &Name, _: u64) -> Result<Contents, AuditError> {
        nothing()
    }

    fn contents_of(&self, _: &Name, _: u64, _: &Name) -> Result<Contents, AuditError> {
        nothing()
    }

    fn difference(&self, _: &Name, _: u64, _: u64) -> Result<Option<Net>, AuditError> {
        nothing()
    }

    fn verify(&self, _: &Name, _: &[Hash]) -> Result<Verdict, AuditError> {
        nothing()
    }

    fn verify_here(&self, _: &Name, _: &[Hash]) -> Result<PartVerdict, AuditError> {
        nothing()
    }

    fn verify_segment(&self, _: &Name, _: u64, _: &[Hash]) -> Result<PartVerdict, AuditError> {
        nothing()
    }

    fn status(&self) -> Option<Status> {
        None
    }

    fn history(&self, _: &Name) -> Option<HistoryLine> {
        None
    }

    fn order(&self, _: &Name, _: Order, _: &Operator) -> Result<Serial, AuditError> {
        nothing()
    }

    fn grounds(&self, _: &Name, _: Rtype) -> Result<Grounds, AuditError> {
        nothing()
    }

    fn now_ms(&self) -> u64 {
        0
    }
}

/// A socket for readers. It ends with the set.
async fn serving(folder: &Path) -> (PathBuf, JoinSet<()>) {
    let path = folder.join("read.sock");
    let group = Gid::current().to_string();
    let socket = ControlSocket::for_readers(path.clone(), &group).unwrap();
    let past: PastNow = Arc::new(|| Arc::new(Nothing));
    let mut tasks = JoinSet::new();
    let serving = serve_control(socket, past, Turns::of_all(), CancellationToken::new());
    tasks.spawn(async { serving.await.unwrap() });
    while !path.exists() {
        tokio::task::yield_now().await;
    }
    (path, tasks)
}

/// What the server at a path answers to a line.
async fn answer_to(path: &Path, line: &str) -> String {
    let mut stream = tokio::net::UnixStream::connect(path).await.unwrap();
    stream.write_all(line.as_bytes()).await.unwrap();
    let mut text = String::new();
    let read = tokio::time::timeout(SOON, stream.read_to_string(&mut text));
    read.await.expect("it answers").unwrap();
    text
}

#[tokio::test]
async fn a_client_of_another_version_gets_an_error_that_its_form_has() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _tasks) = serving(folder.path()).await;
    for line in [
        r#"{"request":"status","output":"text"}"#,
        r#"{"zonewright":3,"question":{"request":"status","output":"text"}}"#,
        "GET / HTTP/1.1",
    ] {
        let text = answer_to(&path, &format!("{line}\n")).await;
        assert!(
            text.starts_with("error the server is of another version"),
            "{text}"
        );
    }
    // A question that it does not have.
    let unknown = r#"{"zonewright":2,"question":{"request":"dance","output":"text"}}"#;
    let text = answer_to(&path, &format!("{unknown}\n")).await;
    let (_, ended) = read(text.as_bytes());
    let why = ended.unwrap_err().text;
    assert!(why.contains("is not understood: unknown variant"), "{why}");
}

#[tokio::test]
async fn a_user_has_only_some_of_the_connections_of_the_socket_for_readers() {
    let folder = tempfile::tempdir().unwrap();
    let (path, _tasks) = serving(folder.path()).await;
    let mut idle = Vec::new();
    for _ in 0..CONNECTIONS_OF_READER {
        let stream = tokio::net::UnixStream::connect(&path).await.unwrap();
        idle.push(stream);
    }
    let state = path.clone();
    let ask_status = move || {
        let question = Question {
            request: Request::Status,
            output: Output::Text,
        };
        let answered = ask(&state, &question, &mut io::sink());
        answered.expect("it runs").unwrap_err().text
    };
    let asked = tokio::task::spawn_blocking(ask_status.clone()).await;
    let why = asked.unwrap();
    assert!(why.contains("16 connections"), "{why}");
    drop(idle);
    loop {
        let asked = tokio::task::spawn_blocking(ask_status.clone()).await;
        match asked.unwrap() {
            why if why.contains("no server runs") => return,
            why => assert!(why.contains("16 connections"), "{why}"),
        }
    }
}

#[test]
fn one_user_leaves_places_for_the_long_answers_of_others() {
    let of = |rights| Places::new(rights, &Turns::of_all());
    let readers = of(Rights::Readers(Gid::current()));
    let taken: Vec<_> = (0..LONG_OF_READER)
        .map(|_| readers.of_long("1000").unwrap())
        .collect();
    let why = readers.of_long("1000").unwrap_err();
    assert!(why.contains("by your user"), "{why}");
    assert!(readers.of_long("1001").is_ok());
    drop(taken);
    // The owner of the server shares with nobody.
    let owner = of(Rights::Owner);
    let taken: Vec<_> = (0..LONG_AT_ONCE)
        .map(|_| owner.of_long("0").unwrap())
        .collect();
    assert!(owner.of_long("0").is_err());
    drop(taken);
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
    assert_eq!(
        (peer.uid, &*peer.name, peer.process),
        (0, "root", Some(pid))
    );
    assert!(!peer.command.is_empty());
    let unknown = describe_peer(4_000_000_000, None);
    assert_eq!(unknown.to_string(), "uid 4000000000");
}
