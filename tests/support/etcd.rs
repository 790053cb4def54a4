//! A real etcd as a child of a test. Keys are written over its JSON gateway, not with our own client.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::certificates::Certificates;
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
    /// The peer ports of all members.
    members: Vec<u16>,
    /// The port of clients with certificates.
    tls: Option<(u16, Vec<String>)>,
    token: Option<String>,
}

impl Etcd {
    /// Starts one without keys.
    pub fn start() -> Self {
        let mut etcd = Self::prepare();
        etcd.start_again();
        etcd
    }

    /// Starts one on this port.
    pub fn start_at(port: u16) -> Self {
        let mut etcd = Self::prepare();
        etcd.port = port;
        etcd.start_again();
        etcd
    }

    /// Starts one that listens for clients with certificates, too, with the certificate of 127.0.0.1.
    pub fn start_with_tls(certificates: &Certificates) -> Self {
        let mut etcd = Self::prepare();
        certificates.write("127.0.0.1");
        let file = |kind: &str| certificates.file("127.0.0.1", kind).display().to_string();
        let ca = certificates.folder.join("ca.pem").display().to_string();
        let more = [
            ["--cert-file".to_owned(), file("pem")],
            ["--key-file".to_owned(), file("key")],
            ["--trusted-ca-file".to_owned(), ca],
        ];
        let mut more = more.concat();
        more.push("--client-cert-auth".to_owned());
        etcd.tls = Some((ports::free(), more));
        etcd.start_again();
        etcd
    }

    /// Starts a cluster of two: without one of them, the other has no leader.
    pub fn start_two() -> [Self; 2] {
        let mut both = [Self::prepare(), Self::prepare()];
        let members = both.each_ref().map(|member| member.peer_port);
        for member in &mut both {
            member.members = members.to_vec();
            member.spawn();
        }
        both[0].wait();
        both
    }

    fn prepare() -> Self {
        let peer_port = ports::free();
        Self {
            process: None,
            folder: tempfile::tempdir().unwrap(),
            port: ports::free(),
            peer_port,
            members: vec![peer_port],
            tls: None,
            token: None,
        }
    }

    /// Starts it again after [`kill`](Self::kill).
    pub fn start_again(&mut self) {
        self.spawn();
        self.wait();
    }

    fn spawn(&mut self) {
        let peer = |port: &u16| format!("http://127.0.0.1:{port}");
        let name = |port: &u16| format!("m{port}={}", peer(port));
        let members: Vec<String> = self.members.iter().map(name).collect();
        let mut urls = vec![self.url()];
        urls.extend(self.tls.as_ref().map(|_| self.tls_url()));
        let mut command = Command::new(needs::program("etcd"));
        command
            .arg("--data-dir")
            .arg(self.folder.path().join("data"))
            .args(["--name", &format!("m{}", self.peer_port)])
            .args(["--unsafe-no-fsync", "--log-level", "error"])
            .args(["--listen-client-urls", &urls.join(",")])
            .args(["--advertise-client-urls", &urls.join(",")])
            .args(["--listen-peer-urls", &peer(&self.peer_port)])
            .args(["--initial-advertise-peer-urls", &peer(&self.peer_port)])
            .args(["--initial-cluster", &members.join(",")]);
        if let Some((_, more)) = &self.tls {
            command.args(more);
        }
        let log = self.folder.path().join("etcd.log");
        self.process = Some(Process::spawn("etcd", &mut command, &log));
    }

    fn wait(&self) {
        let log = self.folder.path().join("etcd.log");
        let show = || fs::read_to_string(&log).unwrap_or_default();
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

    /// The address of clients.
    pub fn address(&self) -> SocketAddr {
        ports::loopback(self.port)
    }

    /// The URL of clients with certificates.
    pub fn tls_url(&self) -> String {
        let (port, _) = self.tls.as_ref().expect("it was started with TLS");
        format!("https://127.0.0.1:{port}")
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

    /// Gives it another port, on which nobody knows it, while it does not run. Gives the port that it had.
    pub fn move_away(&mut self) -> u16 {
        std::mem::replace(&mut self.port, ports::free())
    }

    /// Gives it back the port of before.
    pub fn move_to(&mut self, port: u16) {
        self.port = port;
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

    /// Adds a user with the password `secret` who may read the keys with a prefix that ends with a slash.
    pub fn allow_reading(&self, user: &str, prefix: &str) {
        let end = format!("{}0", prefix.strip_suffix('/').unwrap());
        self.call(
            "/v3/auth/user/add",
            &json!({ "name": user, "password": "secret" }),
        );
        self.call("/v3/auth/role/add", &json!({ "name": user }));
        let perm = json!({ "permType": "READ", "key": STANDARD.encode(prefix), "range_end": STANDARD.encode(end) });
        self.call(
            "/v3/auth/role/grant",
            &json!({ "name": user, "perm": perm }),
        );
        self.call(
            "/v3/auth/user/grant",
            &json!({ "user": user, "role": user }),
        );
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
