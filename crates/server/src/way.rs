//! The way a datagram came: from whom, and to which address of ours. Its reply goes back the same way, since
//! a client takes no reply from an address that it did not ask.
//!
//! A socket that is bound to one address sends from there. One of all addresses (`0.0.0.0`, `::`) would send
//! from the one that the routes prefer: it asks the system to tell where each datagram came to, and names that
//! address with each that it sends.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use nix::libc;
use nix::sys::socket::{ControlMessage, ControlMessageOwned, setsockopt, sockopt};
use socket2::Socket;

/// What stands for an address that the system does not tell.
pub(crate) const UNKNOWN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// From whom a datagram came, and to which address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Way {
    /// From whom.
    pub peer: SocketAddr,
    /// To which address of ours, if the socket has more than one.
    pub ours: Option<Ours>,
}

/// An address of ours among those of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ours {
    /// Of IPv4.
    V4(Ipv4Addr),
    /// Of IPv6; with the interface if the address says nothing without it.
    V6(Ipv6Addr, u32),
}

/// Asks the system to tell where datagrams came to, if the socket has more than one address.
pub(crate) fn ask(socket: &Socket, address: IpAddr) -> io::Result<()> {
    match address {
        IpAddr::V4(v4) if v4.is_unspecified() => {
            setsockopt(socket, sockopt::Ipv4PacketInfo, &true)?
        }
        // Sockets of ours for IPv6 take no IPv4.
        IpAddr::V6(v6) if v6.is_unspecified() => {
            setsockopt(socket, sockopt::Ipv6RecvPacketInfo, &true)?;
        }
        IpAddr::V4(_) | IpAddr::V6(_) => {}
    }
    Ok(())
}

/// Room for what the system tells of one datagram.
pub(crate) fn room() -> Vec<u8> {
    // That of IPv6 is the larger.
    nix::cmsg_space!(libc::in6_pktinfo)
}

impl Ours {
    /// What the system told of a datagram; `None` if nothing can be sent from there.
    pub(crate) fn of(told: impl Iterator<Item = ControlMessageOwned>) -> Option<Self> {
        told.into_iter().find_map(|message| {
            if let ControlMessageOwned::Ipv4PacketInfo(info) = message {
                // For what came to many (broadcast, multicast) this is our own address, `ipi_addr` theirs.
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
                // The way back is the routes' choice.
                0
            };
            (!address.is_multicast()).then_some(Self::V6(address, interface))
        })
    }

    /// Room for what the system is told: no more than that, for it would read the rest too.
    pub(crate) fn room(self) -> Vec<u8> {
        match self {
            Self::V4(_) => nix::cmsg_space!(libc::in_pktinfo),
            Self::V6(..) => nix::cmsg_space!(libc::in6_pktinfo),
        }
    }

    /// What the system is told.
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

/// What the system is told of the address to send from.
pub(crate) enum Told {
    /// Of IPv4.
    V4(libc::in_pktinfo),
    /// Of IPv6.
    V6(libc::in6_pktinfo),
}

impl Told {
    /// As it goes along with a datagram.
    pub(crate) const fn message(&self) -> ControlMessage<'_> {
        match self {
            Self::V4(info) => ControlMessage::Ipv4PacketInfo(info),
            Self::V6(info) => ControlMessage::Ipv6PacketInfo(info),
        }
    }
}
