//! An API server that says what a test tells it to, and remembers what it was asked.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

#[derive(Debug, Clone)]
pub(super) struct Asked {
    pub(super) path: String,
    /// `services`, `namespaces`, `endpointslices`.
    pub(super) plural: String,
    pub(super) query: HashMap<String, String>,
    pub(super) token: Option<String>,
}

impl Asked {
    /// Whether it is a watch.
    pub(super) fn is_watch(&self) -> bool {
        self.query.contains_key("watch")
    }

    /// A part of the query, empty when it is not there.
    pub(super) fn part(&self, name: &str) -> &str {
        self.query.get(name).map_or("", String::as_str)
    }
}

pub(super) enum Reply {
    /// A status and a body.
    Body(u16, String),
    /// Lines as they come; ends in good order when the sender is dropped.
    Lines(mpsc::UnboundedReceiver<String>),
    /// The answer begins and the connection breaks in the middle of it.
    Broken,
    /// No answer, until the client goes away.
    Silence,
}

impl Reply {
    /// A watch that stays open and tells nothing.
    pub(super) fn quiet() -> Self {
        let (tx, rx) = mpsc::unbounded_channel();
        // held open for ever: the test ends first
        std::mem::forget(tx);
        Self::Lines(rx)
    }

    /// A watch that tells these lines and is then closed.
    pub(super) fn lines(lines: &[&str]) -> Self {
        let (tx, rx) = mpsc::unbounded_channel();
        for line in lines {
            tx.send((*line).to_owned()).unwrap();
        }
        Self::Lines(rx)
    }

    /// A watch whose lines the test sends.
    pub(super) fn open() -> (mpsc::UnboundedSender<String>, Self) {
        let (tx, rx) = mpsc::unbounded_channel();
        (tx, Self::Lines(rx))
    }

    /// A page of a list.
    pub(super) fn page(version: &str, next: &str, items: &[&str]) -> Self {
        let items = items.join(",");
        Self::Body(
            200,
            format!(
                "{{\"metadata\":{{\"resourceVersion\":\"{version}\",\"continue\":\"{next}\"}},\
                 \"items\":[{items}]}}"
            ),
        )
    }

    pub(super) fn status(code: u16, message: &str) -> Self {
        let body = serde_json::json!({
            "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message,
            "reason": "Test", "code": code,
        });
        Self::Body(code, body.to_string())
    }
}

/// What decides the answers: gets the request and how many of its sort (kind, list or watch) came
/// before it.
pub(super) type Script = dyn Fn(&Asked, usize) -> Reply + Send + Sync;

pub(super) struct Fake {
    pub(super) address: SocketAddr,
    log: Arc<Mutex<Vec<Asked>>>,
    was_asked: Arc<Notify>,
    tasks: JoinSet<()>,
}

impl Fake {
    /// Starts a server on a port of its own.
    pub(super) async fn start(script: Arc<Script>) -> Self {
        Self::start_at("127.0.0.1:0".parse().unwrap(), script).await
    }

    /// Starts a server at an address.
    pub(super) async fn start_at(address: SocketAddr, script: Arc<Script>) -> Self {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        socket.bind(address).unwrap();
        let listener = socket.listen(64).unwrap();
        let address = listener.local_addr().unwrap();
        let log = Arc::new(Mutex::new(Vec::new()));
        let mut tasks = JoinSet::new();
        let was_asked = Arc::new(Notify::new());
        let state = State {
            log: Arc::clone(&log),
            was_asked: Arc::clone(&was_asked),
            script,
        };
        tasks.spawn(accept(listener, state));
        Self {
            address,
            log,
            was_asked,
            tasks,
        }
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What it was asked of this sort.
    pub(super) fn asked(&self, plural: &str, watch: bool) -> Vec<Asked> {
        let log = self.log.lock().unwrap();
        log.iter()
            .filter(|asked| asked.plural == plural && asked.is_watch() == watch)
            .cloned()
            .collect()
    }

    /// Waits until it was asked what `enough` looks for.
    pub(super) async fn until(&self, enough: impl Fn(&Self) -> bool) {
        while !enough(self) {
            self.was_asked.notified().await;
        }
    }

    /// Stops at once, breaking all connections.
    pub(super) async fn stop(mut self) {
        self.tasks.shutdown().await;
    }
}

#[derive(Clone)]
struct State {
    log: Arc<Mutex<Vec<Asked>>>,
    was_asked: Arc<Notify>,
    script: Arc<Script>,
}

async fn accept(listener: TcpListener, state: State) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        connections.spawn(serve(stream, state.clone()));
        while connections.try_join_next().is_some() {}
    }
}

/// Serves one request and closes.
async fn serve(mut stream: TcpStream, state: State) {
    let Some(asked) = request(&mut stream).await else {
        return;
    };
    let before = {
        let mut log = state.log.lock().unwrap();
        let same = |one: &&Asked| one.plural == asked.plural && one.is_watch() == asked.is_watch();
        let before = log.iter().filter(same).count();
        log.push(asked.clone());
        before
    };
    state.was_asked.notify_one();
    let reply = (state.script)(&asked, before);
    // the client may have gone: then nobody misses the rest
    answer(&mut stream, reply).await.ok();
}

async fn answer(stream: &mut TcpStream, reply: Reply) -> std::io::Result<()> {
    let begin = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/json\r\n";
    match reply {
        Reply::Body(code, body) => {
            let head = format!(
                "HTTP/1.1 {code} Status\r\nConnection: close\r\nContent-Type: application/json\r\n\
                 Content-Length: {}\r\n\r\n",
                body.len()
            );
            stream.write_all(head.as_bytes()).await?;
            stream.write_all(body.as_bytes()).await?;
        }
        Reply::Lines(mut lines) => {
            let head = format!("{begin}Transfer-Encoding: chunked\r\n\r\n");
            stream.write_all(head.as_bytes()).await?;
            while let Some(line) = lines.recv().await {
                let chunk = format!("{:x}\r\n{line}\n\r\n", line.len() + 1);
                stream.write_all(chunk.as_bytes()).await?;
            }
            stream.write_all(b"0\r\n\r\n").await?;
        }
        Reply::Broken => {
            let head = format!("{begin}Content-Length: 1000\r\n\r\n{{\"metadata\"");
            stream.write_all(head.as_bytes()).await?;
        }
        Reply::Silence => {
            let mut rest = [0; 16];
            while stream.read(&mut rest).await? > 0 {}
        }
    }
    stream.shutdown().await
}

async fn request(stream: &mut TcpStream) -> Option<Asked> {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        let octet = stream.read_u8().await.ok()?;
        bytes.push(octet);
    }
    let text = String::from_utf8(bytes).unwrap();
    let target = text.split(' ').nth(1).unwrap();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let query = query.split('&').filter(|part| !part.is_empty());
    let query = query.map(|part| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        (name.to_owned(), value.to_owned())
    });
    let token = text.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        let is_token = name.eq_ignore_ascii_case("authorization");
        is_token.then(|| value.trim_start_matches("Bearer ").to_owned())
    });
    let plural = path.rsplit('/').next().unwrap().to_owned();
    Some(Asked {
        path: path.to_owned(),
        plural,
        query: query.collect(),
        token,
    })
}
