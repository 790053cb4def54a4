//! Where a peer is, as far as it tells one from another: whatever the port, and the form the address came in.

use std::net::{IpAddr, SocketAddr};

/// An address, and its link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PeerAddress {
    /// The address; never IPv4 mapped into IPv6.
    pub ip: IpAddr,
    /// The link of an IPv6 address that is a link's own, as the system numbers it; 0 where none is told, and for all
    /// other addresses.
    pub link: u32,
}

impl From<SocketAddr> for PeerAddress {
    fn from(address: SocketAddr) -> Self {
        let link = match address {
            SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() => v6.scope_id(),
            SocketAddr::V4(_) | SocketAddr::V6(_) => 0,
        };
        Self {
            ip: address.ip().to_canonical(),
            link,
        }
    }
}
