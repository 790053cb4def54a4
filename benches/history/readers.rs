//! A thousand readers over the read socket or over HTTPS, and what a commit costs beside them.
//!
//! Each reader asks, waits for the answer, and asks again a second later. The readers stand for other machines: they are
//! threads of a process of their own, which runs only while nothing else wants the core (`SCHED_IDLE`). What the server does
//! for them has its usual priority. They still take caches and time of the machine's host from a commit. What that costs
//! is measured too: commits beside readers of another server, a process with a history of its own.

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{self, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use api::{Access, Counts, Limits, Reviewer, Serving, Site};
use arc_swap::ArcSwap;
use futures_util::future::BoxFuture;
use history::{
    ControlSocket, Output, Past, PastNow, Question, Request, ask, read_at_once, serve_control,
};
use kubernetes::source::api_server::reviews::{Account, ReviewError};
use ops::BackgroundRuntime;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use serde::{Deserialize, Serialize};
use server::{TlsIdentity, TlsMaterial};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::a_time;
use crate::versions::{Names, Random};

/// Tells a process that it is the readers, and what they do.
const ORDER: &str = "HISTORY_READERS";
/// How many read.
pub(crate) const READERS: u64 = 1000;
/// The pause of a reader between two questions.
const PAUSE: Duration = Duration::from_secs(1);
/// How many readers share an address: a listener has room for so many of one.
const OF_ADDRESS: u64 = 100;

/// Accepts each token, as the account of that name, which may read everything.
#[derive(Debug)]
struct Open;

impl Reviewer for Open {
    fn account<'a>(
        &'a self,
        token: &'a str,
    ) -> BoxFuture<'a, Result<Option<Account>, ReviewError>> {
        let account = Account {
            name: token.to_owned(),
            ..Account::default()
        };
        Box::pin(async { Ok(Some(account)) })
    }

    fn may_read<'a>(
        &'a self,
        _: &'a Account,
        _: Option<&'a str>,
    ) -> BoxFuture<'a, Result<bool, ReviewError>> {
        Box::pin(async { Ok(true) })
    }
}

/// What serves a history.
pub(crate) struct Library {
    runtime: Runtime,
    /// That of HTTPS, as the server has it.
    of_https: BackgroundRuntime,
    tasks: JoinSet<()>,
    cancel: CancellationToken,
    address: SocketAddr,
    /// That of the server, in DER.
    certificate: Vec<u8>,
    /// The folder of the control socket.
    state: tempfile::TempDir,
}

impl Library {
    /// Serves a history over the socket and over HTTPS.
    pub(crate) fn open(past: Arc<dyn Past + Send + Sync>) -> Self {
        let runtime = Runtime::new().unwrap();
        let of_https = BackgroundRuntime::start("history_api").unwrap();
        let state = tempfile::tempdir().unwrap();
        let past: PastNow = Arc::new(move || Arc::clone(&past));
        let reading = Arc::new(Semaphore::new(read_at_once()));
        let cancel = CancellationToken::new();
        let mut tasks = JoinSet::new();
        let socket = ControlSocket::of_state(state.path());
        let control = serve_control(
            socket,
            Arc::clone(&past),
            Arc::clone(&reading),
            cancel.clone(),
        );
        tasks.spawn_on(async { control.await.unwrap() }, runtime.handle());
        let params = rcgen::CertificateParams::new(vec!["api.example".to_owned()]).unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let material = TlsMaterial {
            certificates: certificate.pem().into_bytes(),
            key: key.serialize_pem().into_bytes(),
            clients: None,
        };
        let site = Site {
            tls: Arc::new(TlsIdentity::new(&material).unwrap()),
            access: Access::new(Some(Arc::new(Open)), None),
            limits: Limits::default(),
        };
        let serving = Serving {
            past,
            reading,
            counts: Arc::new(Counts::default()),
        };
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0"));
        let listener = listener.unwrap();
        let address = listener.local_addr().unwrap();
        let site = Arc::new(ArcSwap::from_pointee(site));
        let serve = api::serve(listener, site, serving, cancel.clone());
        tasks.spawn_on(serve, &of_https.handle());
        Self {
            runtime,
            of_https,
            tasks,
            cancel,
            address,
            certificate: certificate.der().to_vec(),
            state,
        }
    }

    /// Where readers find it.
    pub(crate) fn place(&self) -> Place {
        Place {
            state: self.state.path().to_owned(),
            address: self.address,
            certificate: self.certificate.clone(),
        }
    }

    /// Ends it.
    pub(crate) fn close(mut self) {
        self.cancel.cancel();
        self.runtime
            .block_on(async { while self.tasks.join_next().await.is_some() {} });
        drop(self.of_https);
    }
}

/// Where a history is read.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Place {
    /// The folder of the control socket.
    state: PathBuf,
    address: SocketAddr,
    /// That of the server, in DER.
    certificate: Vec<u8>,
}

/// What readers do.
#[derive(Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) is_https: bool,
    pub(crate) versions: u64,
    pub(crate) names: Names,
    pub(crate) place: Place,
}

impl Order {
    /// Does something beside a thousand readers; gives the number of answers meanwhile.
    pub(crate) fn beside(&self, work: impl FnOnce()) -> u64 {
        let order = serde_json::to_string(self).unwrap();
        let mut readers = Child::start(ORDER, &order);
        readers.next_line();
        work();
        readers.end().parse().unwrap()
    }
}

/// A process of this program that has an order, and works until its input ends.
pub(crate) struct Child {
    process: process::Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Child {
    pub(crate) fn start(name: &str, order: &str) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .env(name, order)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (input, output) = (process.stdin.take(), process.stdout.take());
        Self {
            process,
            input: input.unwrap(),
            output: BufReader::new(output.unwrap()).lines(),
        }
    }

    /// What it says next. What is indented is about the making of a history.
    pub(crate) fn next_line(&mut self) -> String {
        let is_said = |line: &String| !line.starts_with(' ');
        let mut lines = self.output.by_ref().map(Result::unwrap);
        lines.find(is_said).unwrap()
    }

    /// Ends it; gives its last line.
    pub(crate) fn end(mut self) -> String {
        drop(self.input);
        let last = self.output.by_ref().map(Result::unwrap).last();
        assert!(self.process.wait().unwrap().success());
        last.unwrap_or_default()
    }
}

/// Reads until the input ends, if this process is the readers. Writes a line when all have asked once, and one with the
/// number of answers since then.
pub(crate) fn read_if_ordered() -> bool {
    let Ok(order) = std::env::var(ORDER) else {
        return false;
    };
    let order: Order = serde_json::from_str(&order).unwrap();
    run_only_when_idle();
    let place = order.place;
    let authority = CertificateDer::from(place.certificate);
    let client = order.is_https.then(|| (place.address, client(authority)));
    let asked = AtomicU64::new(0);
    let read = |number: u64| {
        let https = client.as_ref();
        let mut https = https.map(|(address, client)| Https::connect(*address, client, number));
        for turn in 0.. {
            let mut random = Random(number + READERS * turn + 1);
            let (at, name) = (
                a_time(&mut random, order.versions),
                order.names.any(&mut random),
            );
            let is_answered = match &mut https {
                Some(https) => https.ask(number, &at, &name),
                None => ask_socket(&place.state, &at, &name),
            };
            asked.fetch_add(u64::from(is_answered), Ordering::Relaxed);
            std::thread::sleep(PAUSE);
        }
    };
    std::thread::scope(|scope| {
        for number in 0..READERS {
            let (thread, read) = (std::thread::Builder::new().stack_size(256 << 10), &read);
            thread.spawn_scoped(scope, move || read(number)).unwrap();
        }
        while asked.load(Ordering::Relaxed) < READERS {
            std::thread::sleep(PAUSE / 10);
        }
        let before = asked.load(Ordering::Relaxed);
        println!();
        std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
        println!("{}", asked.load(Ordering::Relaxed) - before);
        process::exit(0);
    });
    true
}

/// Makes this thread, and those that it starts, run only while nothing else wants the core.
fn run_only_when_idle() {
    let thread = rustix::thread::gettid().as_raw_nonzero().to_string();
    let done = Command::new("chrt")
        .args(["--idle", "--pid", "0", &thread])
        .status();
    assert!(done.unwrap().success());
}

/// Asks over the socket. It has room for some of the readers at once, and says so to the others.
fn ask_socket(state: &Path, at: &str, name: &str) -> bool {
    let question = Question {
        request: Request::Show {
            zone: format!("{}@{at}", crate::versions::apex()),
            name: Some(name.to_owned()),
        },
        output: Output::Json,
    };
    let answered = ask(state, &question, &mut std::io::sink());
    answered.is_some_and(|answered| answered.is_ok())
}

fn client(authority: CertificateDer<'static>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(authority).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    Arc::new(config)
}

/// A connection of a reader.
struct Https(BufReader<StreamOwned<ClientConnection, TcpStream>>);

impl Https {
    fn connect(server: SocketAddr, client: &Arc<ClientConfig>, number: u64) -> Self {
        let place = u8::try_from(2 + number / OF_ADDRESS).unwrap();
        let own = SocketAddr::from((Ipv4Addr::new(127, 0, 0, place), 0));
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None);
        let socket = socket.unwrap();
        socket.bind(&own.into()).unwrap();
        socket.connect(&server.into()).unwrap();
        let name = ServerName::try_from("api.example").unwrap();
        let tls = ClientConnection::new(Arc::clone(client), name).unwrap();
        Self(BufReader::new(StreamOwned::new(tls, socket.into())))
    }

    /// Asks, and reads the answer. Whether there is one.
    fn ask(&mut self, number: u64, at: &str, name: &str) -> bool {
        let apex = crate::versions::apex();
        let request = format!(
            "GET /v1/zones/{apex}/show?at={at}&name={name} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer reader-{number}\r\n\r\n"
        );
        let stream = self.0.get_mut();
        stream.write_all(request.as_bytes()).unwrap();
        stream.flush().unwrap();
        let (mut status, mut octets) = (String::new(), 0);
        self.0.read_line(&mut status).unwrap();
        loop {
            let mut line = String::new();
            self.0.read_line(&mut line).unwrap();
            if let Some(length) = line.strip_prefix("content-length: ") {
                octets = length.trim().parse().unwrap();
            }
            if line.trim().is_empty() {
                break;
            }
        }
        let mut body = vec![0; octets];
        self.0.read_exact(&mut body).unwrap();
        status.contains(" 200 ")
    }
}
