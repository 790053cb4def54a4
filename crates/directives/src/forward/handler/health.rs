//! The background work of `forward`: it checks upstreams that failed until they answer, and closes idle connections.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use server::Proto;
use tokio::sync::mpsc;
use tokio::time::{interval, sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::forward::handler::connection::Connection;
use crate::forward::handler::query::check;
use crate::forward::handler::{ForwardHandler, Upstream};

/// The time limit of each step of a check.
const LIMIT: Duration = Duration::from_secs(1);
/// The shortest pause between two checks, if the interval is 0.
const LEAST_REST: Duration = Duration::from_millis(10);
/// The interval at which idle connections are closed.
const CLEANING: Duration = Duration::from_secs(10);

impl ForwardHandler {
    /// Checks upstreams and closes connections until cancelled.
    pub(super) async fn look_after(
        self: Arc<Self>,
        mut ill: mpsc::Receiver<usize>,
        cancel: CancellationToken,
    ) {
        let mut checks = FuturesUnordered::new();
        let mut cleaning = interval(CLEANING);
        loop {
            tokio::select! {
                () = cancel.cancelled() => return,
                Some(place) = ill.recv() => checks.push(self.until_well(place)),
                Some(()) = checks.next() => {}
                _ = cleaning.tick() => self.upstreams.iter().for_each(|it| it.close_old()),
            }
        }
    }

    /// Checks an upstream until it answers.
    async fn until_well(&self, place: usize) {
        let upstream = &self.upstreams[place];
        while !self.is_well(upstream).await {
            upstream.note_failed_check();
            sleep(self.config.health.interval.max(LEAST_REST)).await;
        }
        upstream.note_well();
    }

    /// Whether an upstream answers. The contents of the reply do not matter.
    async fn is_well(&self, upstream: &Upstream) -> bool {
        let health = &self.config.health;
        let mut query = check(&health.domain, health.recursion_desired);
        let transport = upstream.route.transport(if self.config.force_tcp {
            Proto::Tcp
        } else {
            Proto::Udp
        });
        let open = Connection::open(&upstream.route, transport, None);
        let Ok(Ok(mut connection)) = timeout(2 * LIMIT, open).await else {
            return false;
        };
        let id = query.renew_id();
        let sent = timeout(LIMIT, connection.send(&query)).await;
        if !matches!(sent, Ok(Ok(()))) {
            return false;
        }
        match timeout(LIMIT, connection.receive(&query, id)).await {
            Err(_) => false,
            // The reply has our ID and cannot be read. So a server is there.
            Ok(Err(error)) => error.kind() == std::io::ErrorKind::InvalidData,
            Ok(Ok(_)) => true,
        }
    }
}
