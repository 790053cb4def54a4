//! The server that answers on a listener at present.
//!
//! Sockets and connections outlast a configuration: each request is answered by the server of its own time.

use std::net::SocketAddr;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Instant;

use arc_swap::{ArcSwap, Guard};

use crate::exchange::Scratch;
use crate::exchange_log::LoggedExchange;
use crate::message::Proto;
use crate::server::Server;
use crate::shared::Shared;
use crate::tally::{Counted, Tally};

/// The server that answers on a listener at present.
pub struct Now {
    shared: Arc<Shared>,
    /// Its counters on this listener.
    tally: Option<Tally>,
}

impl Deref for Now {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

impl Now {
    /// The time at which an answer begins, if queries are logged or counted.
    pub fn start(&self) -> Option<Instant> {
        let is_watched = self.tally.is_some() || self.shared.query_log.is_some();
        is_watched.then(|| self.shared.clock.now())
    }

    /// Counts a status of HTTP, or a code of QUIC.
    pub(crate) fn count_code(&self, code: u16) {
        if let Some(tally) = &self.tally {
            tally.count_code(code);
        }
    }

    /// Logs and counts a query with its reply. `start` is the time at which the answer began.
    pub(crate) fn note(
        &self,
        start: Option<Instant>,
        (query, reply): (&[u8], &[u8]),
        scratch: &Scratch,
        (peer, local): (SocketAddr, SocketAddr),
        proto: Proto,
    ) {
        let Some(start) = start else {
            return;
        };
        let now = self.shared.clock.now();
        let took = now.saturating_duration_since(start);
        if let Some(tally) = &self.tally {
            tally.count(&Counted {
                proto,
                peer,
                noted: scratch.noted,
                request: query.len(),
                reply,
                took,
            });
        }
        if let Some(log) = &self.shared.query_log {
            log.log(&LoggedExchange {
                query,
                reply,
                findings: scratch.findings(),
                block: scratch.noted.found.map(|found| found.block),
                router: &self.shared.router,
                peer,
                local,
                proto: crate::tally::PROTOS[proto.counted_as()],
                took,
                now,
            });
        }
    }
}

/// The server that answers on a listener. It can be replaced while it runs.
#[derive(Clone)]
pub struct Answering(Arc<ArcSwap<Now>>);

impl Answering {
    /// Begins with this server, counted by `tally`.
    #[must_use]
    pub fn new(server: &Server, tally: Option<Tally>) -> Self {
        let shared = Arc::clone(&server.shared);
        Self(Arc::new(ArcSwap::from_pointee(Now { shared, tally })))
    }

    /// Lets this server answer from now on. Answers in progress continue with the old one.
    pub fn replace(&self, server: &Server, tally: Option<Tally>) {
        let shared = Arc::clone(&server.shared);
        self.0.store(Arc::new(Now { shared, tally }));
    }

    /// The server for one request.
    pub fn now(&self) -> Guard<Arc<Now>> {
        self.0.load()
    }
}
