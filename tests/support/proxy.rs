//! A TCP proxy on loopback that can be told to refuse, to cut what is open, to cut each connection after so many octets, or
//! to hold requests of HTTP/2: the network between zonewright and an API server or an etcd.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use super::ports;

/// No limit.
const UNLIMITED: u64 = u64::MAX;

/// What the threads share.
#[derive(Debug, Default)]
struct Shared {
    is_closed: AtomicBool,
    /// Octets from the server that a connection may carry.
    limit: AtomicU64,
    /// Connections cut by the limit.
    cut: AtomicU64,
    /// Both ends of every connection.
    open: Mutex<Vec<TcpStream>>,
    held: Mutex<Held>,
    let_go: Condvar,
}

/// Requests of HTTP/2 that wait.
#[derive(Debug, Default)]
struct Held {
    /// Whether each connection is held at its second request.
    holds: bool,
    /// Connections that are held.
    count: usize,
}

/// The proxy. Its threads end with the process.
#[derive(Debug)]
pub struct Proxy {
    pub address: SocketAddr,
    shared: Arc<Shared>,
}

impl Proxy {
    /// Listens and carries to `server`.
    pub fn start(server: SocketAddr) -> Self {
        let address = ports::free_address();
        let listener = TcpListener::bind(address).unwrap();
        let shared = Arc::new(Shared {
            limit: AtomicU64::new(UNLIMITED),
            ..Shared::default()
        });
        let own = Arc::clone(&shared);
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                // Dropping a connection at once looks like a server that is away.
                if own.is_closed.load(Ordering::SeqCst) {
                    continue;
                }
                if let Ok(server) = TcpStream::connect(server) {
                    carry(&own, client, server);
                }
            }
        });
        Self { address, shared }
    }

    /// Cuts every connection and takes no new ones.
    pub fn close(&self) {
        self.shared.is_closed.store(true, Ordering::SeqCst);
        self.cut();
    }

    /// Takes connections again.
    pub fn open(&self) {
        self.shared.is_closed.store(false, Ordering::SeqCst);
    }

    /// Cuts every connection.
    pub fn cut(&self) {
        for stream in self.shared.open.lock().unwrap().drain(..) {
            // One that its owner closed already needs no cut.
            let _was_closed = stream.shutdown(Shutdown::Both).is_err();
        }
    }

    /// From now on each connection is cut when the server has sent so many octets; none: never.
    pub fn limit(&self, octets: Option<u64>) {
        let limit = octets.unwrap_or(UNLIMITED);
        self.shared.limit.store(limit, Ordering::SeqCst);
    }

    /// From now on, each connection of HTTP/2 is held at its second request.
    pub fn hold(&self) {
        self.shared.held.lock().unwrap().holds = true;
    }

    /// How many connections are held.
    pub fn held_count(&self) -> usize {
        self.shared.held.lock().unwrap().count
    }

    /// Carries what is held, and holds nothing any more.
    pub fn let_go(&self) {
        self.shared.held.lock().unwrap().holds = false;
        self.shared.let_go.notify_all();
    }

    /// How many connections the limit has cut.
    pub fn cut_count(&self) -> u64 {
        self.shared.cut.load(Ordering::SeqCst)
    }
}

/// Carries both ways in two threads.
fn carry(shared: &Arc<Shared>, client: TcpStream, server: TcpStream) {
    let both = [client.try_clone().unwrap(), server.try_clone().unwrap()];
    shared.open.lock().unwrap().extend(both);
    let (from_client, to_client) = (client.try_clone().unwrap(), client);
    let (from_server, to_server) = (server.try_clone().unwrap(), server);
    let own = Arc::clone(shared);
    let holding = Arc::clone(shared);
    std::thread::spawn(move || {
        let mut requests = Requests::default();
        copy(from_client, to_server, |octets| {
            requests.read(octets);
            if requests.count > 1 {
                let mut held = holding.held.lock().unwrap();
                held.count += 1;
                held = holding.let_go.wait_while(held, |held| held.holds).unwrap();
                held.count -= 1;
            }
            true
        });
    });
    std::thread::spawn(move || {
        let mut sent = 0;
        copy(from_server, to_client, |octets| {
            sent += octets.len() as u64;
            let is_within = sent <= own.limit.load(Ordering::SeqCst);
            if !is_within {
                own.cut.fetch_add(1, Ordering::SeqCst);
            }
            is_within
        });
    });
}

/// Counts the requests of a connection of HTTP/2 (RFC 9113 section 4.1).
#[derive(Debug, Default)]
struct Requests {
    count: usize,
    is_begun: bool,
    /// Octets until the next frame.
    skip: usize,
    /// The head of a frame, as far as it has come.
    head: Vec<u8>,
}

impl Requests {
    /// The octets before the first frame (RFC 9113 section 3.4).
    const PREFACE: usize = 24;
    /// The octets of a frame's head.
    const HEAD: usize = 9;
    /// The type of the frame that begins a request.
    const HEADERS: u8 = 1;

    fn read(&mut self, mut octets: &[u8]) {
        if !std::mem::replace(&mut self.is_begun, true) {
            self.skip = Self::PREFACE;
        }
        while !octets.is_empty() {
            let skipped = self.skip.min(octets.len());
            self.skip -= skipped;
            octets = &octets[skipped..];
            let wanted = (Self::HEAD - self.head.len()).min(octets.len());
            self.head.extend_from_slice(&octets[..wanted]);
            octets = &octets[wanted..];
            if let [l0, l1, l2, kind, ..] = self.head[..]
                && self.head.len() == Self::HEAD
            {
                self.count += usize::from(kind == Self::HEADERS);
                self.skip = usize::from(l0) << 16 | usize::from(l1) << 8 | usize::from(l2);
                self.head.clear();
            }
        }
    }
}

/// Copies until an end closes or `may` forbids; then closes both.
fn copy(mut from: TcpStream, mut to: TcpStream, mut may: impl FnMut(&[u8]) -> bool) {
    let mut buffer = vec![0; 16_384];
    while let Ok(octets @ 1..) = from.read(&mut buffer) {
        if !may(&buffer[..octets]) || to.write_all(&buffer[..octets]).is_err() {
            break;
        }
    }
    for stream in [from, to] {
        // The other thread may have closed it already.
        let _was_closed = stream.shutdown(Shutdown::Both).is_err();
    }
}
