//! What answers on a listener now.
//!
//! Sockets and connections outlast a configuration: each request takes what answers at its time.

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

/// What answers on a listener now.
pub struct Now {
    /// The server.
    shared: Arc<Shared>,
    /// Counts what it does on this listener.
    tally: Option<Tally>,
}

impl Deref for Now {
    type Target = Shared;

    fn deref(&self) -> &Shared {
        &self.shared
    }
}

impl Now {
    /// When an answer begins, where queries are logged or counted.
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

    /// Logs and counts a query that began to be answered at `start`, with its reply.
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

/// What answers on a listener; may be exchanged while it runs.
#[derive(Clone)]
pub struct Answering(Arc<ArcSwap<Now>>);

impl Answering {
    /// This server answers, counted by `tally`.
    #[must_use]
    pub fn new(server: &Server, tally: Option<Tally>) -> Self {
        let shared = Arc::clone(&server.shared);
        Self(Arc::new(ArcSwap::from_pointee(Now { shared, tally })))
    }

    /// From now on this server answers; what is being answered goes on as it began.
    pub fn replace(&self, server: &Server, tally: Option<Tally>) {
        let shared = Arc::clone(&server.shared);
        self.0.store(Arc::new(Now { shared, tally }));
    }

    /// What answers now, for one request.
    pub fn now(&self) -> Guard<Arc<Now>> {
        self.0.load()
    }
}
