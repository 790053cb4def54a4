//! Why an upstream gave no reply, in the words CoreDNS has from Go: patterns of `errors consolidate` and people's searches
//! go by them.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use crate::forward::handler::route::Transport;

/// From where to where something went.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Way {
    /// Over what.
    pub(super) transport: Transport,
    /// Our address, where it is known.
    pub(super) from: Option<SocketAddr>,
    /// The upstream's.
    pub(super) to: SocketAddr,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.transport.network())?;
        if let Some(from) = self.from {
            write!(f, "{from}->")?;
        }
        write!(f, "{}", self.to)
    }
}

/// Why there is no reply.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    /// A connection that was kept is closed by now: another one is to be tried.
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
    /// As many sockets are open as there may be.
    #[error("as many sockets wait for upstreams as the limit of open files allows")]
    NoSocket,
    /// The time of the query is over.
    #[error("no upstream replied within {0:?} in all")]
    OutOfTime(Duration),
    /// What came is no reply.
    #[error("{0}")]
    Malformed(io::Error),
}

/// An error of the system in Go's words: those of the C library in lower case, without the number.
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
                AskError::Read(way(Transport::Udp, from), refused()),
                "read udp 192.0.2.9:4711->192.0.2.1:53: read: connection refused",
            ),
            (
                AskError::Dial(way(Transport::Tls, None), refused()),
                "dial tcp 192.0.2.1:53: connect: connection refused",
            ),
            (
                AskError::ReadTimeout(way(Transport::Tcp, from)),
                "read tcp 192.0.2.9:4711->192.0.2.1:53: i/o timeout",
            ),
            (
                AskError::Dial(
                    way(Transport::Tls, None),
                    io::Error::other("bad certificate"),
                ),
                "dial tcp 192.0.2.1:53: connect: bad certificate",
            ),
        ] {
            assert_eq!(error.to_string(), text);
        }
    }
}
