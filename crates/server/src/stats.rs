//! Counters of the server, for metrics and status.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dns::Rcode;
use transfer::{TransferEvents, TransferKind, TransferOutcome};

use crate::Proto;

/// A number that only grows, or a size that goes up and down.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// The number.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Adds one.
    pub fn increase(&self) {
        self.add(1);
    }

    /// Adds `more`.
    pub fn add(&self, more: u64) {
        self.0.fetch_add(more, Ordering::Relaxed);
    }

    /// Subtracts one.
    pub fn decrease(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Counts something as open while this lives.
pub(crate) struct Opened {
    stats: Arc<Stats>,
    of: fn(&Stats) -> &Count,
}

impl Opened {
    /// Counts it.
    pub(crate) fn new(stats: &Arc<Stats>, of: fn(&Stats) -> &Count) -> Self {
        of(stats).increase();
        Self {
            stats: Arc::clone(stats),
            of,
        }
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        (self.of)(&self.stats).decrease();
    }
}

/// The response codes below this have a counter of their own: up to BADCOOKIE.
pub const RCODES: u16 = 24;

/// All counters.
#[derive(Debug, Default)]
pub struct Stats {
    /// Replies by protocol and response code.
    replies: [[Count; RCODES as usize]; Proto::ALL.len()],
    /// Requests that got no reply: too short, or responses.
    pub ignored: Count,
    /// Datagrams answered with TC.
    pub truncated: Count,
    /// Requests whose TSIG was not accepted.
    pub tsig_refused: Count,
    /// Transfers by kind and outcome.
    transfers: [[Count; 3]; 3],
    /// Records sent in transfers.
    pub transfer_records: Count,
    /// Octets of messages sent in transfers.
    pub transfer_octets: Count,
    /// Secondaries whose request found them up to date.
    pub transfers_up_to_date: Count,
    /// Requests of peers with a later serial than ours.
    pub transfers_ahead: Count,
    /// Requests for transfers that were denied.
    pub transfers_denied: Count,
    /// Requests for transfers over the limit.
    pub transfers_over_limit: Count,
    /// NOTIFY datagrams sent.
    pub notify_sent: Count,
    /// NOTIFY messages answered.
    pub notify_acknowledged: Count,
    /// NOTIFY messages without an answer to the last try.
    pub notify_given_up: Count,
    /// NOTIFY messages answered with an error.
    pub notify_refused: Count,
    /// TCP connections that are open.
    pub tcp_open: Count,
    /// TCP connections accepted.
    pub tcp_accepted: Count,
    /// TCP connections refused over a limit.
    pub tcp_refused: Count,
    /// TCP connections closed because the client did nothing for too long.
    pub tcp_timed_out: Count,
    /// TLS handshakes that failed, QUIC's among them.
    pub tls_failed: Count,
    /// Errors of accepting a connection.
    pub tcp_accept_errors: Count,
    /// QUIC connections that are open.
    pub quic_open: Count,
    /// QUIC connections accepted.
    pub quic_accepted: Count,
    /// QUIC connections refused over a limit.
    pub quic_refused: Count,
    /// QUIC connections closed because the client sent no request for too long.
    pub quic_timed_out: Count,
    /// Replies that were dropped over the rate limit.
    pub rate_dropped: Count,
    /// Replies that were sent with TC over the rate limit.
    pub rate_slipped: Count,
    /// Datagrams dropped because too many waited for an answer from a handler.
    pub udp_overload: Count,
    /// Messages whose answer panicked.
    pub panics: Count,
    /// Datagrams that could not be sent.
    pub udp_send_errors: Count,
}

impl Stats {
    /// The counter of replies with a response code. Codes without a counter of their own share the last one.
    #[must_use]
    pub fn replies(&self, proto: Proto, rcode: Rcode) -> &Count {
        &self.replies[proto as usize][usize::from(rcode.0.min(RCODES - 1))]
    }

    /// The counter of transfers of a kind and an outcome.
    #[must_use]
    pub fn transfers(&self, kind: TransferKind, outcome: TransferOutcome) -> &Count {
        let of_kind = match kind {
            TransferKind::Axfr => &self.transfers[0],
            TransferKind::Ixfr => &self.transfers[1],
            TransferKind::IxfrAsAxfr => &self.transfers[2],
        };
        match outcome {
            TransferOutcome::Done => &of_kind[0],
            TransferOutcome::Broken => &of_kind[1],
            TransferOutcome::Failed => &of_kind[2],
        }
    }
}

impl TransferEvents for Stats {
    fn transfer_ended(
        &self,
        kind: TransferKind,
        outcome: TransferOutcome,
        records: u64,
        octets: u64,
    ) {
        self.transfers(kind, outcome).increase();
        self.transfer_records.add(records);
        self.transfer_octets.add(octets);
    }

    fn notify_sent(&self) {
        self.notify_sent.increase();
    }

    fn notify_acknowledged(&self) {
        self.notify_acknowledged.increase();
    }

    fn notify_refused(&self) {
        self.notify_refused.increase();
    }

    fn notify_given_up(&self) {
        self.notify_given_up.increase();
    }
}
