//! `health [ADDR] { lameduck DURATION }`: liveness over HTTP.

use std::time::Duration;

use corefile::address::{HttpAddress, HttpHost};
use corefile::parser::Statement;
use corefile::place::{Place, Report};
use corefile::quantity::go_duration;

/// Liveness is told at `/health`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// Where it stands.
    pub place: Place,
    /// Where it listens.
    pub address: HttpAddress,
    /// How long answering goes on after the order to stop.
    pub lameduck: Duration,
}

/// The port unless written, on all addresses.
const DEFAULT_PORT: u16 = 8080;

/// Reads the directive. As in CoreDNS it may stand again: the last address counts, and a `lameduck`
/// stays unless there is another.
pub(crate) fn parse(
    directive: &Statement,
    earlier: Option<&Health>,
    report: &mut Report,
) -> Health {
    let default = HttpAddress {
        host: HttpHost::Any,
        port: DEFAULT_PORT,
    };
    if let Some(earlier) = earlier {
        let message = format!(
            "health stands also in line {}, this address counts",
            earlier.place.line
        );
        report.warn(&directive.name.place, message, "take one out");
    }
    let address = directive.http_address(report).unwrap_or(default);
    let mut lameduck = None;
    for line in &directive.lines {
        match line.name.text.as_str() {
            "lameduck" => {
                let value = line.value("DURATION", go_duration, report);
                line.set(&mut lameduck, value, report);
            }
            _ => directive.unknown_option(line, "lameduck", report),
        }
    }
    let kept = earlier.map_or(Duration::ZERO, |health| health.lameduck);
    let place = directive.name.place.clone();
    Health {
        place,
        address,
        lameduck: lameduck.unwrap_or(kept),
    }
}
