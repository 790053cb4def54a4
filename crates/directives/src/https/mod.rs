//! `https { max_connections N; max_streams N }`: limits of the listeners of a block's `https://` keys.

use corefile::parser::Statement;
use corefile::place::Report;
use dns::Name;
use server::Settings;

use crate::config::block::{Directive, ServerBlock};
use crate::config::limits::{self, Limit};
use crate::config::zone::Scheme;

/// The meaning of 0 for the requests at once on a connection: the default of Go's HTTP/2, as in CoreDNS.
const TRANSPORT_STREAMS: u32 = 250;

/// Limits of HTTPS, where they are not the defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HttpsLimits {
    /// The most connections of a listener; 0 is no limit.
    max_connections: Option<u32>,
    /// The most requests at once on a connection; 0 is HTTP/2's default.
    max_streams: Option<u32>,
}

impl HttpsLimits {
    /// Applies them to a listener's settings.
    pub fn apply(&self, settings: &mut Settings) {
        let limits = &mut settings.https;
        limits.max_connections = limits::connections(self.max_connections, limits.max_connections);
        limits.max_streams = match self.max_streams {
            None => limits.max_streams,
            Some(0) => TRANSPORT_STREAMS,
            Some(number) => number,
        };
    }
}

impl Directive for HttpsLimits {
    const WORD: &'static str = "https";
    const USAGE: &'static str = "https { … }";
    const SUMMARY: &'static str = "limits a listener of `https://` keys: `max_connections N` (200 by default, 0 for any number) and `max_streams N` (requests of a connection at once, 250 by default and for 0). If several blocks of a listener have it, the first counts";
    const OPTIONS: &'static str = "max_connections and max_streams";

    fn read(directive: &Statement, _: &[Name], report: &mut Report) -> Option<Self> {
        let mut read = Self::default();
        let max_connections = Limit {
            option: "max_connections",
            least: 0,
            value: &mut read.max_connections,
        };
        let max_streams = Limit {
            option: "max_streams",
            least: 0,
            value: &mut read.max_streams,
        };
        limits::read::<Self>(directive, &mut [max_connections, max_streams], report);
        Some(read)
    }

    fn check(blocks: &[ServerBlock], report: &mut Report) {
        limits::check_scheme::<Self>(blocks, Scheme::Https, report);
    }
}
