//! Messages to a secondary: sockets, IDs and questions.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use dns::{Name, Rtype};
use ring::rand::{SecureRandom, SystemRandom};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, UdpSocket};

/// A secondary that is notified of a zone's versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secondary {
    /// The zone.
    pub zone: Name,
    /// The address where it listens.
    pub target: SocketAddr,
    /// The keys that its messages may be signed with; ours are signed with the first that it accepts.
    pub keys: Vec<Name>,
    /// The address that our messages are sent from.
    pub source: Option<IpAddr>,
}

/// Sends a message over TCP and reads the answer. There is no time limit here.
pub(crate) async fn exchange(secondary: Secondary, octets: Vec<u8>) -> io::Result<Vec<u8>> {
    let socket = match secondary.target {
        SocketAddr::V4(_) => TcpSocket::new_v4()?,
        SocketAddr::V6(_) => TcpSocket::new_v6()?,
    };
    if let Some(source) = secondary.source {
        socket.bind((source, 0).into())?;
    }
    let mut stream = socket.connect(secondary.target).await?;
    let length = u16::try_from(octets.len()).map_err(io::Error::other)?;
    stream
        .write_all(&[&length.to_be_bytes(), &octets[..]].concat())
        .await?;
    let mut raw = vec![0; stream.read_u16().await?.into()];
    stream.read_exact(&mut raw).await?;
    Ok(raw)
}

/// A UDP socket for messages from and to the secondary only.
pub(crate) async fn connect(secondary: &Secondary) -> io::Result<UdpSocket> {
    let any = match secondary.target {
        SocketAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        SocketAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    let socket = UdpSocket::bind((secondary.source.unwrap_or(any), 0)).await?;
    socket.connect(secondary.target).await?;
    Ok(socket)
}

/// A random ID.
pub(crate) fn random_id() -> io::Result<u16> {
    let mut octets = [0; 2];
    SystemRandom::new()
        .fill(&mut octets)
        .map_err(|_| io::Error::other("the system has no random numbers"))?;
    Ok(u16::from_be_bytes(octets))
}

/// The question for a zone's SOA, in wire form.
pub(crate) fn soa_question(zone: &Name) -> Vec<u8> {
    [zone.as_wire(), &Rtype::SOA.0.to_be_bytes(), &[0, 1]].concat()
}
