//! `https { max_connections N }`: limits of the listeners of a block's `https://` keys.

use corefile::parser::Statement;
use corefile::place::Report;
use dns::Name;
use server::Settings;

use crate::config::block::{Directive, ServerBlock};
use crate::config::limits::{self, Limit};
use crate::config::zone::Scheme;

/// Limits of HTTPS, where they are not the defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HttpsLimits {
    /// The most connections of a listener; 0 is no limit.
    max_connections: Option<u32>,
}

impl HttpsLimits {
    /// Applies them to a listener's settings.
    pub fn apply(&self, settings: &mut Settings) {
        let most = &mut settings.https.max_connections;
        *most = limits::connections(self.max_connections, *most);
    }
}

impl Directive for HttpsLimits {
    const WORD: &'static str = "https";
    const USAGE: &'static str = "https { max_connections N }";
    const SUMMARY: &'static str = "limits the connections of a listener of `https://` keys, 200 by default, 0 for any number. If several blocks of a listener have it, the first counts";
    const OPTIONS: &'static str = "max_connections";

    fn read(directive: &Statement, _: &[Name], report: &mut Report) -> Option<Self> {
        let mut read = Self::default();
        let max_connections = Limit {
            option: "max_connections",
            least: 0,
            value: &mut read.max_connections,
        };
        limits::read::<Self>(directive, &mut [max_connections], report);
        Some(read)
    }

    fn check(blocks: &[ServerBlock], report: &mut Report) {
        limits::check_scheme::<Self>(blocks, Scheme::Https, report);
    }
}
