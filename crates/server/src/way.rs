//! The path of a datagram: its sender, and our address that it was sent to. The reply takes the same path back, since a
//! client accepts no reply from another address.
//!
//! A socket that is bound to one address sends from there. A socket on all addresses (`0.0.0.0`, `::`) would send from
//! the address that the routes prefer. So it asks the system for the address that each datagram was sent to, and names
//! that address with each reply.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use nix::libc;
use nix::sys::socket::{ControlMessage, ControlMessageOwned, setsockopt, sockopt};
use socket2::Socket;

/// Means that the system did not report an address.
pub(crate) const UNKNOWN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// The path of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Way {
    /// The sender.
    pub peer: SocketAddr,
    /// Our address, if the socket has more than one.
    pub ours: Option<Ours>,
}

/// One of a socket's addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ours {
    V4(Ipv4Addr),
    /// An IPv6 address, with its interface if it is link-local.
    V6(Ipv6Addr, u32),
}

/// Asks the system for the address that each datagram was sent to, if the socket has more than one.
pub(crate) fn ask(socket: &Socket, address: IpAddr) -> io::Result<()> {
    match address {
        IpAddr::V4(v4) if v4.is_unspecified() => {
            setsockopt(socket, sockopt::Ipv4PacketInfo, &true)?
        }
        // Our IPv6 sockets receive no IPv4.
        IpAddr::V6(v6) if v6.is_unspecified() => {
            setsockopt(socket, sockopt::Ipv6RecvPacketInfo, &true)?;
        }
        IpAddr::V4(_) | IpAddr::V6(_) => {}
    }
    Ok(())
}

/// Space for the address information of one datagram.
pub(crate) fn room() -> Vec<u8> {
    // The information for IPv6 is the larger one.
    nix::cmsg_space!(libc::in6_pktinfo)
}

impl Ours {
    /// Our address, from the information about a datagram. `None` if nothing can be sent from it.
    pub(crate) fn of(told: impl Iterator<Item = ControlMessageOwned>) -> Option<Self> {
        told.into_iter().find_map(|message| {
            if let ControlMessageOwned::Ipv4PacketInfo(info) = message {
                // For broadcast and multicast this is our own address; `ipi_addr` is the group's.
                let address = Ipv4Addr::from(info.ipi_spec_dst.s_addr.to_ne_bytes());
                return Some(Self::V4(address));
            }
            let ControlMessageOwned::Ipv6PacketInfo(info) = message else {
                return None;
            };
            let address = Ipv6Addr::from(info.ipi6_addr.s6_addr);
            let interface = if address.is_unicast_link_local() {
                info.ipi6_ifindex
            } else {
                // The routes choose the interface of the reply.
                0
            };
            (!address.is_multicast()).then_some(Self::V6(address, interface))
        })
    }

    /// Space for the information about the source. It must not be larger, as the system would read the rest too.
    pub(crate) fn room(self) -> Vec<u8> {
        match self {
            Self::V4(_) => nix::cmsg_space!(libc::in_pktinfo),
            Self::V6(..) => nix::cmsg_space!(libc::in6_pktinfo),
        }
    }

    /// The information for the system about the address to send from.
    pub(crate) fn told(self) -> Told {
        match self {
            Self::V4(address) => Told::V4(libc::in_pktinfo {
                ipi_ifindex: 0,
                ipi_spec_dst: libc::in_addr {
                    s_addr: u32::from_ne_bytes(address.octets()),
                },
                ipi_addr: libc::in_addr { s_addr: 0 },
            }),
            Self::V6(address, interface) => Told::V6(libc::in6_pktinfo {
                ipi6_addr: libc::in6_addr {
                    s6_addr: address.octets(),
                },
                ipi6_ifindex: interface,
            }),
        }
    }
}

/// The information for the system about the address to send from.
pub(crate) enum Told {
    V4(libc::in_pktinfo),
    V6(libc::in6_pktinfo),
}

impl Told {
    /// The control message of a datagram.
    pub(crate) const fn message(&self) -> ControlMessage<'_> {
        match self {
            Self::V4(info) => ControlMessage::Ipv4PacketInfo(info),
            Self::V6(info) => ControlMessage::Ipv6PacketInfo(info),
        }
    }
}
