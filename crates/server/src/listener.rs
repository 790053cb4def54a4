//! A listener: the sockets of one address, and their tasks.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::{Arc, Weak};

use futures_util::FutureExt;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::{TcpListener, UdpSocket};
use tokio_util::sync::CancellationToken;

use crate::{Answering, NamedTask, Proto, quic, tcp, udp, way};

/// The most connections that wait to be accepted.
const BACKLOG: i32 = 1024;
/// The bytes of waiting datagrams that the kernel stores.
const UDP_BUFFER_OCTETS: usize = 1 << 20;

/// An address that cannot be bound.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} ({}): {source}; {}", proto.name().to_uppercase(), fix(source))]
pub struct BindError {
    /// The address.
    pub address: SocketAddr,
    /// The protocol.
    pub proto: Proto,
    /// The cause.
    #[source]
    pub source: io::Error,
}

impl BindError {
    /// Whether the machine has no addresses of this family at all, as with a kernel without IPv6.
    #[must_use]
    pub fn is_of_absent_family(&self) -> bool {
        self.source.raw_os_error() == Some(nix::libc::EAFNOSUPPORT)
    }
}

/// The fix for an address that cannot be bound.
fn fix(error: &io::Error) -> &'static str {
    let kind = error.kind();
    if kind == io::ErrorKind::AddrInUse {
        "find its process with `ss -lnp`, or choose another port"
    } else if kind == io::ErrorKind::AddrNotAvailable {
        "this machine has no such address (`ip address` lists them): correct `bind`"
    } else if kind == io::ErrorKind::PermissionDenied {
        "ports below 1024 need root or CAP_NET_BIND_SERVICE: grant it, or choose another port"
    } else {
        "choose another address or port"
    }
}

/// Whether one address means all addresses and the other is one of them, on the same port. Both can be served: the
/// kernel gives each socket its own packets.
#[must_use]
pub fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let (ip, beside) = (one.ip(), other.ip());
    one.port() == other.port()
        && one.port() != 0
        && ip.is_ipv4() == beside.is_ipv4()
        && ip.is_unspecified() != beside.is_unspecified()
}

/// A socket that another listener of this process has, or had.
#[derive(Debug, Clone)]
pub enum Standing {
    /// A listening TCP socket.
    Tcp(Weak<TcpListener>),
    /// A QUIC socket.
    Quic(Weak<std::net::UdpSocket>),
}

/// The bound sockets of one address.
#[derive(Debug)]
pub struct Listener {
    /// The address.
    address: SocketAddr,
    /// The bound sockets.
    sockets: Sockets,
}

/// The sockets of one address.
#[derive(Debug)]
enum Sockets {
    /// For UDP and TCP.
    Dns(Vec<UdpSocket>, Arc<TcpListener>),
    /// For connections with this protocol.
    Stream(Arc<TcpListener>, Proto),
    /// For QUIC connections with this protocol.
    Quic(QuicSocket, Proto),
}

/// A QUIC socket.
#[derive(Debug)]
struct QuicSocket {
    socket: std::net::UdpSocket,
    /// The same socket, for listeners that overlap it.
    standing: Arc<std::net::UdpSocket>,
}

impl Listener {
    /// Binds TCP and `udp_sockets` UDP sockets of an address. Port 0 takes any port that is free for both. `beside` are
    /// our own sockets that [`overlap`] it. Another process on the port is an error, if the socket on all addresses is
    /// bound first. It must be called within a tokio runtime.
    ///
    /// # Errors
    /// [`BindError`], with the address.
    pub fn bind(
        address: SocketAddr,
        udp_sockets: usize,
        beside: &[Standing],
    ) -> Result<Self, BindError> {
        let fail = |proto| {
            move |source| BindError {
                address,
                proto,
                source,
            }
        };
        let tcp = tcp_listener(address, beside).map_err(fail(Proto::Tcp))?;
        let address = tcp.local_addr().map_err(fail(Proto::Tcp))?;
        let mut udp = Vec::new();
        for _ in 0..udp_sockets.max(1) {
            udp.push(udp_socket(address).map_err(fail(Proto::Udp))?);
        }
        Ok(Self {
            address,
            sockets: Sockets::Dns(udp, Arc::new(tcp)),
        })
    }

    /// Binds an address for an encrypted protocol. Port 0 takes any free port. It must be called within a tokio
    /// runtime.
    ///
    /// # Errors
    /// [`BindError`], with the address.
    pub fn bind_encrypted(
        address: SocketAddr,
        proto: Proto,
        beside: &[Standing],
    ) -> Result<Self, BindError> {
        let bound = if proto.is_over_udp() {
            quic_socket(address, beside).and_then(|socket| {
                let address = socket.local_addr()?;
                let standing = Arc::new(socket.try_clone()?);
                Ok((
                    address,
                    Sockets::Quic(QuicSocket { socket, standing }, proto),
                ))
            })
        } else {
            tcp_listener(address, beside)
                .and_then(|tcp| Ok((tcp.local_addr()?, Sockets::Stream(Arc::new(tcp), proto))))
        };
        match bound {
            Ok((address, sockets)) => Ok(Self { address, sockets }),
            Err(source) => Err(BindError {
                address,
                proto,
                source,
            }),
        }
    }

    /// The bound address.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// The listening socket, as long as it is served.
    #[must_use]
    pub fn standing(&self) -> Standing {
        match &self.sockets {
            Sockets::Dns(_, tcp) | Sockets::Stream(tcp, _) => Standing::Tcp(Arc::downgrade(tcp)),
            Sockets::Quic(quic, _) => Standing::Quic(Arc::downgrade(&quic.standing)),
        }
    }

    /// The UDP sockets only.
    #[cfg(test)]
    pub(crate) fn into_udp(self) -> Vec<UdpSocket> {
        match self.sockets {
            Sockets::Dns(udp, _) => udp,
            Sockets::Stream(..) | Sockets::Quic(..) => Vec::new(),
        }
    }

    /// The tasks that serve the sockets until `cancel`.
    #[must_use]
    pub fn run(self, answering: &Answering, cancel: &CancellationToken) -> Vec<NamedTask> {
        let Self { address, sockets } = self;
        let mut tasks: Vec<NamedTask> = Vec::new();
        let (answering, cancel) = (answering.clone(), cancel.clone());
        let (proto, task) = match sockets {
            Sockets::Dns(udp, tcp) => {
                for (number, socket) in udp.into_iter().enumerate() {
                    let task = udp::serve(answering.clone(), socket, cancel.clone());
                    tasks.push((format!("udp {address} {number}"), task.boxed()));
                }
                let task = tcp::serve(answering, tcp, Proto::Tcp, cancel);
                (Proto::Tcp, task.boxed())
            }
            Sockets::Stream(tcp, proto) => {
                (proto, tcp::serve(answering, tcp, proto, cancel).boxed())
            }
            Sockets::Quic(QuicSocket { socket, standing }, proto) => {
                let task = async move {
                    quic::serve(answering, socket, proto, cancel).await;
                    drop(standing);
                };
                (proto, task.boxed())
            }
        };
        tasks.push((format!("{} {address}", proto.name()), task));
        tasks
    }
}

/// A listening socket. It shares the port only if it overlaps sockets of ours, so that a conflict with another process
/// is an error.
fn tcp_listener(address: SocketAddr, beside: &[Standing]) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    // A restart must not wait for the old process's connections to close.
    socket.set_reuse_address(true)?;
    for other in beside {
        if let Standing::Tcp(other) = other {
            share_address(&socket, other)?;
        }
    }
    prepare(&socket, address)?;
    socket.listen(BACKLOG)?;
    TcpListener::from_std(socket.into())
}

/// A UDP socket that shares its address with others of ours.
fn udp_socket(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::DGRAM,
        Some(Protocol::UDP),
    )?;
    socket.set_reuse_port(true)?;
    way::ask(&socket, address.ip())?;
    // The kernel may give less than that, by its own limit.
    socket.set_recv_buffer_size(UDP_BUFFER_OCTETS)?;
    prepare(&socket, address)?;
    UdpSocket::from_std(socket.into())
}

/// A QUIC socket. It shares the port only if it overlaps sockets of ours, as with [`tcp_listener`].
fn quic_socket(address: SocketAddr, beside: &[Standing]) -> io::Result<std::net::UdpSocket> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::DGRAM,
        Some(Protocol::UDP),
    )?;
    for other in beside {
        if let Standing::Quic(other) = other {
            share_address(&socket, other)?;
        }
    }
    socket.set_recv_buffer_size(UDP_BUFFER_OCTETS)?;
    prepare(&socket, address)?;
    Ok(socket.into())
}

/// Lets two sockets of ours have addresses that overlap. Connections of the socket in use continue.
fn share_address(socket: &Socket, served: &Weak<impl AsFd>) -> io::Result<()> {
    if let Some(served) = served.upgrade() {
        SockRef::from(&*served).set_reuse_port(true)?;
    }
    socket.set_reuse_port(true)
}

/// Sets the options that all sockets need.
fn prepare(socket: &Socket, address: SocketAddr) -> io::Result<()> {
    if address.is_ipv6() {
        // 0.0.0.0 has a socket of its own.
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error of binding for a system's error.
    fn error(number: i32) -> BindError {
        BindError {
            address: "[::]:53".parse().unwrap(),
            proto: Proto::Tcp,
            source: io::Error::from_raw_os_error(number),
        }
    }

    #[test]
    fn a_kernel_without_ipv6_is_told_from_an_address_that_another_has() {
        assert!(error(nix::libc::EAFNOSUPPORT).is_of_absent_family());
        for number in [nix::libc::EADDRINUSE, nix::libc::EADDRNOTAVAIL] {
            assert!(!error(number).is_of_absent_family(), "{number}");
        }
    }

    #[test]
    fn all_addresses_of_a_port_overlap_with_each_of_the_family() {
        for (one, other, want) in [
            ("0.0.0.0:53", "127.0.0.1:53", true),
            ("[::1]:53", "[::]:53", true),
            ("0.0.0.0:53", "127.0.0.1:54", false),
            ("0.0.0.0:53", "[::1]:53", false),
            ("127.0.0.1:53", "127.0.0.2:53", false),
            ("0.0.0.0:53", "0.0.0.0:53", false),
            ("0.0.0.0:0", "127.0.0.1:0", false),
        ] {
            let is = overlap(one.parse().unwrap(), other.parse().unwrap());
            assert_eq!(is, want, "{one} {other}");
        }
    }

    /// Binds an address.
    type Bind = fn(SocketAddr, &[Standing]) -> Result<Listener, BindError>;
    /// All kinds of listeners.
    const BINDS: [Bind; 3] = [
        |address, beside| Listener::bind(address, 1, beside),
        |address, beside| Listener::bind_encrypted(address, Proto::Https, beside),
        |address, beside| Listener::bind_encrypted(address, Proto::Quic, beside),
    ];

    /// In either order, and never with another process's sockets.
    #[tokio::test]
    async fn sockets_stand_beside_those_of_ours_that_are_served_and_no_others() {
        let (all, one) = ([0, 0, 0, 0], [127, 0, 0, 1]);
        for bind in BINDS {
            for (first, second) in [(all, one), (one, all)] {
                let kept = bind((first, 0).into(), &[]).unwrap();
                let port = kept.address().port();
                let second: SocketAddr = (second, port).into();
                let taken = |it: Result<Listener, BindError>| {
                    it.is_err_and(|it| it.source.kind() == io::ErrorKind::AddrInUse)
                };
                assert!(taken(bind(second, &[])), "{second}");
                let beside = bind(second, &[kept.standing()]).unwrap();
                for address in [kept.address(), beside.address()] {
                    assert!(taken(bind(address, &[])), "{address}");
                }
            }
        }
    }

    /// TCP and UDP ports are independent.
    #[tokio::test]
    async fn a_socket_of_another_kind_is_not_shared() {
        let is_shared = |listener: &Listener| match &listener.sockets {
            Sockets::Dns(_, tcp) | Sockets::Stream(tcp, _) => SockRef::from(&**tcp).reuse_port(),
            Sockets::Quic(quic, _) => SockRef::from(&quic.socket).reuse_port(),
        };
        let [_, https, quic] = BINDS;
        for (first, second) in [(https, quic), (quic, https)] {
            // Another process may have the port of the other protocol.
            let mut ports = (0..100).filter_map(|_| {
                let kept = first(([0, 0, 0, 0], 0).into(), &[]).unwrap();
                let port = kept.address().port();
                let beside = second(([127, 0, 0, 1], port).into(), &[kept.standing()]);
                Some((kept, beside.ok()?))
            });
            let (kept, beside) = ports.next().unwrap();
            for listener in [&kept, &beside] {
                assert!(!is_shared(listener).unwrap(), "{listener:?}");
            }
        }
    }
}
