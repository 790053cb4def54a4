//! `quic { max_connections N; max_streams N; worker_pool_size N }`: limits of the listeners of a block's `quic://` keys.

use corefile::parser::Statement;
use corefile::place::Report;
use dns::Name;
use server::Settings;

use crate::config::block::{Directive, ServerBlock};
use crate::config::limits::{self, Limit};
use crate::config::zone::Scheme;

/// Limits of DNS over QUIC, where they are not the defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QuicLimits {
    /// The most connections of a listener; 0 is no limit.
    max_connections: Option<u32>,
    /// The most queries at once on a connection.
    max_streams: Option<u32>,
    /// The most queries at once of a listener.
    worker_pool_size: Option<u32>,
}

impl QuicLimits {
    /// Applies them to a listener's settings.
    pub fn apply(&self, settings: &mut Settings) {
        let limits = &mut settings.quic;
        limits.max_connections = limits::connections(self.max_connections, limits.max_connections);
        limits.max_streams = self.max_streams.unwrap_or(limits.max_streams);
        let workers = self.worker_pool_size.map(usize::try_from);
        if let Some(Ok(workers)) = workers {
            settings.quic_workers = workers;
        }
    }
}

impl Directive for QuicLimits {
    const WORD: &'static str = "quic";
    const USAGE: &'static str = "quic { … }";
    const SUMMARY: &'static str = "limits a listener of `quic://` keys: `max_connections N` (200 by default, 0 for any number), `max_streams N` (queries of a connection at once, 256 by default) and `worker_pool_size N` (queries of all connections at once, 1024 by default). If several blocks of a listener have it, the first counts";
    const OPTIONS: &'static str = "max_connections, max_streams and worker_pool_size";

    fn read(directive: &Statement, _: &[Name], report: &mut Report) -> Option<Self> {
        let mut read = Self::default();
        let max_connections = Limit {
            option: "max_connections",
            least: 0,
            value: &mut read.max_connections,
        };
        let max_streams = Limit {
            option: "max_streams",
            least: 1,
            value: &mut read.max_streams,
        };
        let workers = Limit {
            option: "worker_pool_size",
            least: 1,
            value: &mut read.worker_pool_size,
        };
        limits::read::<Self>(
            directive,
            &mut [max_connections, max_streams, workers],
            report,
        );
        Some(read)
    }

    fn check(blocks: &[ServerBlock], report: &mut Report) {
        limits::check_scheme::<Self>(blocks, Scheme::Quic, report);
    }
}
