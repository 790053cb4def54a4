//! An API server with one Lease: resource versions, compare-and-swap, a watch.

use kubernetes::source::api_server::Auth;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

/// The server. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Api {
    url: String,
    state: Arc<Mutex<State>>,
    _tasks: JoinSet<()>,
}

#[derive(Debug, Default)]
struct State {
    lease: Option<Value>,
    version: u64,
    uids: u64,
    watchers: Vec<mpsc::UnboundedSender<String>>,
    /// Whether it answers nothing.
    is_away: bool,
    /// Method and status of each request so far.
    log: Vec<String>,
}

/// A request.
struct Request {
    method: String,
    target: String,
    body: Vec<u8>,
}

impl State {
    /// Writes the Lease and tells the watchers.
    fn write(&mut self, mut lease: Value, word: &str) -> Value {
        self.version += 1;
        let known = self.lease.as_ref().map(|it| it["metadata"]["uid"].clone());
        let uid = known.unwrap_or_else(|| {
            self.uids += 1;
            json!(format!("uid-{}", self.uids))
        });
        lease["metadata"]["uid"] = uid;
        lease["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.lease = Some(lease.clone());
        self.tell(word, &lease);
        lease
    }

    fn tell(&mut self, word: &str, lease: &Value) {
        let line = json!({ "type": word, "object": lease }).to_string();
        self.watchers.retain(|it| it.send(line.clone()).is_ok());
    }

    /// Status and body of an answer.
    fn answer(&mut self, request: &Request) -> (u16, Value) {
        let is_of_name = request.target.contains("/leases/zonewright");
        let body: Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let known = self.lease.clone();
        match (&*request.method, known) {
            ("GET", Some(lease)) if is_of_name => (200, lease),
            ("GET", None) if is_of_name => (404, status(404)),
            ("POST", None) => (201, self.write(body, "ADDED")),
            ("POST", Some(_)) => (409, status(409)),
            ("PUT", None) if body["metadata"]["uid"].is_null() => (201, self.write(body, "ADDED")),
            ("PUT", None) => (409, status(409)),
            ("PUT", Some(lease)) => {
                let differs = |key: &str| {
                    let (own, its) = (&body["metadata"][key], &lease["metadata"][key]);
                    !own.is_null() && own != its
                };
                if differs("uid") || differs("resourceVersion") {
                    (409, status(409))
                } else {
                    (200, self.write(body, "MODIFIED"))
                }
            }
            (_, _) => (405, status(405)),
        }
    }
}

fn status(code: u16) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "no", "reason": "Test",
        "code": code,
    })
}

impl Api {
    pub(crate) async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let state: Arc<Mutex<State>> = Arc::default();
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, Arc::clone(&state)));
        Self {
            url,
            state,
            _tasks: tasks,
        }
    }

    pub(crate) fn auth(&self) -> Auth {
        Auth::Endpoint {
            url: self.url.clone(),
            tls: None,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Deletes the Lease.
    pub(crate) fn delete(&self) {
        let mut state = self.state();
        state.version += 1;
        if let Some(lease) = state.lease.take() {
            state.tell("DELETED", &lease);
        }
    }

    /// Changes the Lease as another client does.
    pub(crate) fn edit(&self, edit: impl FnOnce(&mut Value)) {
        let mut state = self.state();
        let mut lease = state.lease.clone().unwrap();
        edit(&mut lease);
        state.write(lease, "MODIFIED");
    }

    pub(crate) fn current_lease(&self) -> Option<Value> {
        self.state().lease.clone()
    }

    /// Whether it answers nothing from now on.
    pub(crate) fn set_away(&self, is_away: bool) {
        self.state().is_away = is_away;
    }

    /// Gives the watchers a Lease that is an old one.
    pub(crate) fn repeat(&self, lease: &Value) {
        self.state().tell("MODIFIED", lease);
    }

    /// Ends all watches.
    pub(crate) fn end_watches(&self) {
        self.state().watchers.clear();
    }

    /// How often each method had each status.
    pub(crate) fn counts(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for line in &self.state().log {
            *counts.entry(line.clone()).or_default() += 1;
        }
        counts
    }
}

async fn accept(listener: TcpListener, state: Arc<Mutex<State>>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let state = Arc::clone(&state);
        connections.spawn(async move {
            // The client may be gone.
            serve(stream, &state).await.ok();
        });
        while connections.try_join_next().is_some() {}
    }
}

/// Serves one request and closes.
async fn serve(mut stream: TcpStream, state: &Mutex<State>) -> io::Result<()> {
    let request = read(&mut stream).await?;
    if state.lock().unwrap().is_away {
        let mut rest = [0; 16];
        while stream.read(&mut rest).await? > 0 {}
        return Ok(());
    }
    if request.target.contains("watch=true") {
        assert!(
            request
                .target
                .contains("fieldSelector=metadata.name%3Dzonewright")
        );
        return watch(stream, state).await;
    }
    let (code, body) = {
        let mut state = state.lock().unwrap();
        let answer = state.answer(&request);
        state.log.push(format!("{} {}", request.method, answer.0));
        answer
    };
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 {code} Status\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(body.as_bytes()).await?;
    stream.shutdown().await
}

async fn watch(mut stream: TcpStream, state: &Mutex<State>) -> io::Result<()> {
    let (sender, mut lines) = mpsc::unbounded_channel();
    {
        let mut state = state.lock().unwrap();
        state.log.push("WATCH 200".to_owned());
        if let Some(lease) = &state.lease {
            let line = json!({ "type": "ADDED", "object": lease }).to_string();
            sender.send(line).unwrap();
        }
        state.watchers.push(sender);
    }
    let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: application/json\r\n\
                Transfer-Encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await?;
    while let Some(line) = lines.recv().await {
        let chunk = format!("{:x}\r\n{line}\n\r\n", line.len() + 1);
        stream.write_all(chunk.as_bytes()).await?;
    }
    stream.write_all(b"0\r\n\r\n").await?;
    stream.shutdown().await
}

async fn read(stream: &mut TcpStream) -> io::Result<Request> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    let head = String::from_utf8(head).unwrap();
    let mut words = head.split(' ');
    let (method, target) = (words.next().unwrap(), words.next().unwrap());
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        let is_length = name.eq_ignore_ascii_case("content-length");
        is_length.then(|| value.parse::<usize>().unwrap())
    });
    let mut body = vec![0; length.unwrap_or_default()];
    stream.read_exact(&mut body).await?;
    Ok(Request {
        method: method.to_owned(),
        target: target.to_owned(),
        body,
    })
}
