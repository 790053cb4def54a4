//! A server: its sockets, what they share, and the tasks that serve them.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, UdpSocket};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::dns::Name;
use crate::dns::tsig::{Key, KeyRing};
use crate::live::{Block, QueryLog, Router};
use crate::ops::Clock;
use crate::serve::dispatch::Shared;
use crate::serve::{Identity, Settings, Stats, TlsIdentity, tcp, udp};
use crate::transfer::{Access, Notifier, Secondary, SecondaryTable};
use crate::zone::ZoneSet;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 1024;
/// Octets the kernel keeps of datagrams that wait.
const UDP_BUFFER_OCTETS: usize = 1 << 20;

/// An address cannot be served.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} ({proto}): {source}; {}", mend(source))]
pub struct BindError {
    /// The address.
    pub address: SocketAddr,
    /// TCP, UDP or TLS.
    pub proto: &'static str,
    /// Why.
    #[source]
    pub source: io::Error,
}

/// What to do about an address that cannot be bound.
fn mend(error: &io::Error) -> &'static str {
    let kind = error.kind();
    if kind == io::ErrorKind::AddrInUse {
        "see who has it with `ss -lnp`, or take another port"
    } else if kind == io::ErrorKind::AddrNotAvailable {
        "this machine has no such address (`ip address` lists them): correct `bind`"
    } else if kind == io::ErrorKind::PermissionDenied {
        "ports below 1024 need root or CAP_NET_BIND_SERVICE: grant it, or take another port"
    } else {
        "take another address or port"
    }
}

/// What a server needs besides its sockets.
pub struct Parts {
    /// The zones.
    pub zones: Arc<ZoneSet>,
    /// Who may have which zone; a zone that is not here is nobody's.
    pub access: HashMap<Name, Access>,
    /// Who is told of new versions by this server.
    pub secondaries: Vec<Secondary>,
    /// What each secondary has: those above, and those that another server tells of zones of this one.
    pub table: Arc<SecondaryTable>,
    /// The server blocks: what answers which name.
    pub router: Arc<Router>,
    /// TSIG keys; they may change as it runs.
    pub keys: Arc<KeyRing>,
    /// What it tells of itself.
    pub identity: Identity,
    /// Limits and times.
    pub settings: Settings,
    /// Tells the time.
    pub clock: Arc<dyn Clock>,
    /// Logs queries, where a block says so.
    pub query_log: Option<QueryLog>,
}

/// Sockets that are bound, and what they share.
pub struct Server {
    /// What all listeners share.
    pub(crate) shared: Arc<Shared>,
    /// Who is told of new versions.
    secondaries: Vec<Secondary>,
    /// Datagram sockets.
    udp: Vec<UdpSocket>,
    /// Listening sockets, and what TLS stands in front of them.
    tcp: Vec<(TcpListener, Option<Arc<TlsIdentity>>)>,
}

/// A task of the server, by name; it ends only when told to.
pub type NamedTask = (String, BoxFuture<'static, ()>);

impl Server {
    /// A server without sockets.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        let Parts {
            zones,
            access,
            secondaries,
            table,
            router,
            keys,
            identity,
            settings,
            clock,
            query_log,
        } = parts;
        Self {
            shared: Arc::new(Shared {
                zones,
                access: access
                    .into_iter()
                    .map(|(zone, rules)| (zone.to_lower(), rules))
                    .collect(),
                router,
                keys,
                identity,
                draining: Arc::default(),
                settings,
                clock,
                query_log,
                stats: Arc::default(),
                secondaries: table,
                slots: Arc::new(Semaphore::new(settings.transfer.max_at_once)),
            }),
            secondaries,
            udp: Vec::new(),
            tcp: Vec::new(),
        }
    }

    /// Binds UDP and TCP of an address; port 0 takes any port that is free for both. Gives the address.
    /// To be called within a tokio runtime.
    ///
    /// # Errors
    /// [`BindError`], with the address.
    pub fn bind(&mut self, address: SocketAddr) -> Result<SocketAddr, BindError> {
        let fail = |proto| {
            move |source| BindError {
                address,
                proto,
                source,
            }
        };
        let tcp = tcp_listener(address).map_err(fail("TCP"))?;
        let address = tcp.local_addr().map_err(fail("TCP"))?;
        let mut sockets = Vec::new();
        for _ in 0..self.shared.settings.udp_sockets.max(1) {
            sockets.push(udp_socket(address).map_err(fail("UDP"))?);
        }
        self.tcp.push((tcp, None));
        self.udp.append(&mut sockets);
        Ok(address)
    }

    /// Binds an address for TLS; port 0 takes any that is free. Gives the address. To be called within a
    /// tokio runtime.
    ///
    /// # Errors
    /// [`BindError`], with the address.
    pub fn bind_tls(
        &mut self,
        address: SocketAddr,
        tls: Arc<TlsIdentity>,
    ) -> Result<SocketAddr, BindError> {
        let fail = |source| BindError {
            address,
            proto: "TLS",
            source,
        };
        let listener = tcp_listener(address).map_err(fail)?;
        let address = listener.local_addr().map_err(fail)?;
        self.tcp.push((listener, Some(tls)));
        Ok(address)
    }

    /// The zones.
    #[must_use]
    pub fn zones(&self) -> Arc<ZoneSet> {
        Arc::clone(&self.shared.zones)
    }

    /// The counters.
    #[must_use]
    pub fn stats(&self) -> Arc<Stats> {
        Arc::clone(&self.shared.stats)
    }

    /// Set to ask the clients of connections to go: each is answered once more.
    #[must_use]
    pub fn draining(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.shared.draining)
    }

    /// What each secondary has.
    #[must_use]
    pub fn secondaries(&self) -> Arc<SecondaryTable> {
        Arc::clone(&self.shared.secondaries)
    }

    /// Who is told of new versions, each with its key; without those whose key is unknown.
    pub fn told(&self) -> impl Iterator<Item = (Secondary, Option<Arc<Key>>)> {
        self.secondaries.iter().filter_map(|secondary| {
            let key = match &secondary.key {
                None => None,
                Some(key) => Some(Arc::clone(self.shared.keys.current().get(key)?)),
            };
            Some((secondary.clone(), key))
        })
    }

    /// The tasks that serve the sockets and tell the secondaries, to be run until `cancel`.
    #[must_use]
    pub fn run(self, cancel: &CancellationToken) -> Vec<NamedTask> {
        let Self {
            shared,
            secondaries,
            udp,
            tcp,
        } = self;
        let mut tasks: Vec<NamedTask> = Vec::new();
        for (number, socket) in udp.into_iter().enumerate() {
            let task = udp::serve(Arc::clone(&shared), socket, cancel.clone());
            tasks.push((format!("udp {number}"), task.boxed()));
        }
        for (number, (listener, tls)) in tcp.into_iter().enumerate() {
            let kind = if tls.is_some() { "tls" } else { "tcp" };
            let task = tcp::serve(Arc::clone(&shared), listener, tls, cancel.clone());
            tasks.push((format!("{kind} {number}"), task.boxed()));
        }
        for handler in shared.router.blocks().iter().flat_map(Block::handlers) {
            if let Some(task) = Arc::clone(handler).background(cancel.clone()) {
                tasks.push((handler.name().to_owned(), task));
            }
        }
        for secondary in secondaries {
            let Some(zone) = shared.zones.get(&secondary.zone) else {
                continue;
            };
            let name = format!("notify {} {}", secondary.zone, secondary.target);
            let notifier = Notifier {
                zone: Arc::clone(zone),
                keys: Arc::clone(&shared.keys),
                secondary,
                settings: shared.settings.notify,
                clock: Arc::clone(&shared.clock),
                stats: Arc::clone(&shared.stats),
                table: Arc::clone(&shared.secondaries),
            };
            tasks.push((name, notifier.run(cancel.clone()).boxed()));
        }
        tasks
    }
}

/// A listening socket.
fn tcp_listener(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    // A restart must not wait for connections of the process before to die.
    socket.set_reuse_address(true)?;
    prepare(&socket, address)?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// A datagram socket that shares its address with others of ours.
fn udp_socket(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::DGRAM,
        Some(Protocol::UDP),
    )?;
    socket.set_reuse_port(true)?;
    // The kernel gives less than asked for where its limit says so.
    socket.set_recv_buffer_size(UDP_BUFFER_OCTETS)?;
    prepare(&socket, address)?;
    UdpSocket::from_std(socket.into())
}

/// What both kinds need.
fn prepare(socket: &Socket, address: SocketAddr) -> io::Result<()> {
    if address.is_ipv6() {
        // 0.0.0.0 is bound on its own.
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())
}

#[cfg(test)]
mod tests;
