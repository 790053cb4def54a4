//! The errors of upstreams, in the words that CoreDNS takes from Go: patterns of `errors consolidate` and people's
//! searches use them.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use server::Proto;

/// The ends of a connection.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Way {
    /// The protocol.
    pub(super) transport: Proto,
    /// Our address, if it is known.
    pub(super) from: Option<SocketAddr>,
    /// The upstream's address.
    pub(super) to: SocketAddr,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Go's name of the network.
        let network = if self.transport.is_over_udp() {
            "udp"
        } else {
            "tcp"
        };
        write!(f, "{network} ")?;
        if let Some(from) = self.from {
            write!(f, "{from}->")?;
        }
        write!(f, "{}", self.to)
    }
}

/// The reason for having no reply.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    /// A reused connection was closed meanwhile: another one is to be tried.
    #[error("cached connection was closed by peer")]
    ClosedBefore,
    /// It cannot be reached.
    #[error("dial {way}: connect: {why}", way = .0, why = words(.1))]
    Dial(Way, #[source] io::Error),
    /// Opening took too long.
    #[error("dial {0}: i/o timeout")]
    DialTimeout(Way),
    /// It closed the connection instead of a reply.
    #[error("EOF")]
    Closed,
    /// Sending failed.
    #[error("write {way}: write: {why}", way = .0, why = words(.1))]
    Write(Way, #[source] io::Error),
    /// Sending took too long.
    #[error("write {0}: i/o timeout")]
    WriteTimeout(Way),
    /// Receiving failed.
    #[error("read {way}: read: {why}", way = .0, why = words(.1))]
    Read(Way, #[source] io::Error),
    /// There was no reply in time.
    #[error("read {0}: i/o timeout")]
    ReadTimeout(Way),
    /// The process may open no further socket.
    #[error("the sockets that wait for upstreams reached the limit of open files")]
    NoSocket,
    /// The query's time is over.
    #[error("no upstream replied within {0:?} in all")]
    OutOfTime(Duration),
    /// The upstream sent something that is no reply.
    #[error("{0}")]
    Malformed(io::Error),
}

impl AskError {
    /// What an error of receiving says.
    pub(super) fn of_reading(way: Way, error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::UnexpectedEof {
            Self::Closed
        } else if error.kind() == io::ErrorKind::InvalidData {
            Self::Malformed(error)
        } else {
            Self::Read(way, error)
        }
    }
}

/// The C library's words for the error, in lower case and without the number, as Go has them.
fn words(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((text, _)) => text.to_lowercase(),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_read_as_in_coredns() {
        let way = |transport, from: Option<&str>| Way {
            transport,
            from: from.map(|it| it.parse().unwrap()),
            to: "192.0.2.1:53".parse().unwrap(),
        };
        let refused =
            || io::Error::from_raw_os_error(rustix::io::Errno::CONNREFUSED.raw_os_error());
        let from = Some("192.0.2.9:4711");
        for (error, text) in [
            (
                AskError::Read(way(Proto::Udp, from), refused()),
                "read udp 192.0.2.9:4711->192.0.2.1:53: read: connection refused",
            ),
            (
                AskError::Dial(way(Proto::Tls, None), refused()),
                "dial tcp 192.0.2.1:53: connect: connection refused",
            ),
            (
                AskError::ReadTimeout(way(Proto::Tcp, from)),
                "read tcp 192.0.2.9:4711->192.0.2.1:53: i/o timeout",
            ),
            (
                AskError::Dial(way(Proto::Tls, None), io::Error::other("bad certificate")),
                "dial tcp 192.0.2.1:53: connect: bad certificate",
            ),
        ] {
            assert_eq!(error.to_string(), text);
        }
    }
}
