//! A real etcd as a child of a test. Keys are written over its JSON gateway, not with our own client.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::process::{Process, wait_for};
use super::{needs, ports};

/// How long a start may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// An etcd; dropping it kills it.
pub struct Etcd {
    process: Option<Process>,
    folder: TempDir,
    port: u16,
    peer_port: u16,
    token: Option<String>,
}

impl Etcd {
    /// Starts one without keys.
    pub fn start() -> Self {
        let mut etcd = Self {
            process: None,
            folder: tempfile::tempdir().unwrap(),
            port: ports::free(),
            peer_port: ports::free(),
            token: None,
        };
        etcd.start_again();
        etcd
    }

    /// Starts it again after [`kill`](Self::kill).
    pub fn start_again(&mut self) {
        let (url, peer) = (self.url(), format!("http://127.0.0.1:{}", self.peer_port));
        let mut command = Command::new(needs::program("etcd"));
        command
            .arg("--data-dir")
            .arg(self.folder.path().join("data"))
            .args(["--unsafe-no-fsync", "--log-level", "error"])
            .args([
                "--listen-client-urls",
                &url,
                "--advertise-client-urls",
                &url,
            ])
            .args(["--listen-peer-urls", &peer])
            .args(["--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("default={peer}")]);
        let log = self.folder.path().join("etcd.log");
        self.process = Some(Process::spawn("etcd", &mut command, &log));
        let show = || String::new();
        wait_for("etcd answers", PATIENCE, show, || {
            self.try_call("/v3/kv/range", &json!({ "key": STANDARD.encode("x") }))
        });
    }

    /// Ends it at once.
    pub fn kill(&mut self) {
        drop(self.process.take());
    }

    /// The URL of clients.
    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Copies its data while it does not run.
    pub fn save(&self, to: &Path) {
        copy(&self.folder.path().join("data"), to);
    }

    /// Puts a copy of the data in the place of its own, while it does not run.
    pub fn restore(&self, from: &Path) {
        let data = self.folder.path().join("data");
        fs::remove_dir_all(&data).unwrap();
        copy(from, &data);
    }

    /// Puts a key. Gives its revision.
    pub fn put(&self, key: &str, value: &str) -> i64 {
        self.put_with(key, value, 0)
    }

    /// Puts a key with a lease.
    pub fn put_with(&self, key: &str, value: &str, lease: i64) -> i64 {
        let (key, value) = (STANDARD.encode(key), STANDARD.encode(value));
        let answer = self.call(
            "/v3/kv/put",
            &json!({ "key": key, "value": value, "lease": lease }),
        );
        revision(&answer)
    }

    /// Puts many keys, a hundred in one transaction.
    pub fn put_all(&self, keys: &[(String, String)]) {
        for some in keys.chunks(100) {
            let put = |(key, value): &(String, String)| json!({ "requestPut": { "key": STANDARD.encode(key), "value": STANDARD.encode(value) } });
            let all: Vec<Value> = some.iter().map(put).collect();
            self.call("/v3/kv/txn", &json!({ "success": all }));
        }
    }

    /// Deletes a key, or with a slash at its end all below it.
    pub fn delete(&self, key: &str) {
        let end = key
            .strip_suffix('/')
            .map(|key| STANDARD.encode(format!("{key}0")));
        self.call(
            "/v3/kv/deleterange",
            &json!({ "key": STANDARD.encode(key), "range_end": end }),
        );
    }

    /// Forgets the history before a revision.
    pub fn compact(&self, revision: i64) {
        self.call(
            "/v3/kv/compaction",
            &json!({ "revision": revision, "physical": true }),
        );
    }

    /// A lease of some seconds.
    pub fn lease(&self, seconds: u32) -> i64 {
        let answer = self.call("/v3/lease/grant", &json!({ "TTL": seconds }));
        answer["ID"].as_str().unwrap().parse().unwrap()
    }

    /// Ends a lease.
    pub fn revoke(&self, lease: i64) {
        self.call("/v3/lease/revoke", &json!({ "ID": lease }));
    }

    /// Demands credentials from now on: `root` with the password `secret`.
    pub fn demand_credentials(&mut self) {
        let user = json!({ "name": "root", "password": "secret" });
        self.call("/v3/auth/user/add", &user);
        self.call("/v3/auth/role/add", &json!({ "name": "root" }));
        self.call(
            "/v3/auth/user/grant",
            &json!({ "user": "root", "role": "root" }),
        );
        self.call("/v3/auth/enable", &json!({}));
        let answer = self.call("/v3/auth/authenticate", &user);
        self.token = Some(answer["token"].as_str().unwrap().to_owned());
    }

    fn call(&self, path: &str, body: &Value) -> Value {
        let answer = self.try_call(path, body);
        answer.unwrap_or_else(|| panic!("{path} {body}"))
    }

    /// One request; `None` if it fails.
    fn try_call(&self, path: &str, body: &Value) -> Option<Value> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).ok()?;
        let body = body.to_string();
        let token = self.token.as_ref();
        let token = token
            .map(|token| format!("Authorization: {token}\r\n"))
            .unwrap_or_default();
        write!(
            stream,
            "POST {path} HTTP/1.0\r\nHost: etcd\r\n{token}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .ok()?;
        let mut text = String::new();
        stream.read_to_string(&mut text).ok()?;
        let (head, body) = text.split_once("\r\n\r\n")?;
        head.lines().next()?.contains(" 200 ").then_some(())?;
        serde_json::from_str(body).ok()
    }
}

fn revision(answer: &Value) -> i64 {
    answer["header"]["revision"]
        .as_str()
        .unwrap()
        .parse()
        .unwrap()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).unwrap();
        }
    }
}
