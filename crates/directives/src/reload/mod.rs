//! `reload [INTERVAL] [JITTER]`: loads the Corefile again when it changes.

use std::time::Duration;

use corefile::parser::Statement;
use corefile::place::{Place, Report};
use corefile::quantity::go_duration;
use dns::Name;

use crate::config::block::{Directive, Repeat};

/// The default interval.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(30);
/// The default jitter.
const DEFAULT_JITTER: Duration = Duration::from_secs(15);
/// The least interval.
const LEAST_INTERVAL: Duration = Duration::from_secs(2);
/// The least jitter above zero.
const LEAST_JITTER: Duration = Duration::from_secs(1);

/// The settings for reloads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reload {
    /// Its place in the Corefile.
    pub place: Place,
    /// The interval at which the file is checked.
    pub interval: Duration,
    /// The width of the range that each interval is chosen from, around `interval`.
    pub jitter: Duration,
}

impl Directive for Reload {
    const WORD: &'static str = "reload";
    const USAGE: &'static str = "reload [INTERVAL] [JITTER]";
    const SUMMARY: &'static str = "follows the Corefile: changes count at once if the system reports them, else after INTERVAL (30s) plus or minus half of JITTER (15s), which also applies to imports. INTERVAL is at least 2s; JITTER is 0 or at least 1s, and at most half of INTERVAL. If several blocks have it, the last counts";
    const REPEAT: Repeat = Repeat::Joined(None);

    fn read(directive: &Statement, _: &[Name], report: &mut Report) -> Option<Self> {
        directive.refuse_options(report);
        let mut read = |at: usize, name: &str, least: Duration, default: Duration| {
            let Some(token) = directive.arguments.get(at) else {
                return default;
            };
            let fix = format!("write a duration of at least {least:?}");
            match go_duration(&token.text) {
                Ok(time) if time >= least || (at == 1 && time.is_zero()) => time,
                Ok(_) => {
                    let message = format!("reload: {name} {} is too short", token.shown());
                    report.error(&token.place, message, fix);
                    default
                }
                Err(error) => {
                    let message = format!("reload: {name} {}: {error}", token.shown());
                    report.error(&token.place, message, fix);
                    default
                }
            }
        };
        let interval = read(0, "interval", LEAST_INTERVAL, DEFAULT_INTERVAL);
        let jitter = read(1, "jitter", LEAST_JITTER, DEFAULT_JITTER);
        if let Some(more) = directive.arguments.get(2) {
            let message = format!("reload: {} is one argument too many", more.shown());
            report.error(&more.place, message, "remove it");
        }
        Some(Self {
            place: directive.name.place.clone(),
            interval,
            jitter: jitter.min(interval / 2),
        })
    }

    // As in CoreDNS the first `reload` of a block counts.
    fn read_again(self, again: &Statement, zones: &[Name], report: &mut Report) -> Option<Self> {
        Self::read(again, zones, report);
        Some(self)
    }
}
