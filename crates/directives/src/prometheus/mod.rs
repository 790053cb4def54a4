//! `prometheus [ADDR]`: metrics over HTTP.
//!
//! CoreDNS's `runtime_metrics` has no effect, its `tls` is refused.

use corefile::address::{HttpAddress, HttpHost};
use corefile::parser::Statement;
use corefile::place::{Place, Report};

/// Metrics are told at `/metrics`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prometheus {
    /// Where it stands.
    pub place: Place,
    /// Where it listens.
    pub address: HttpAddress,
}

/// The port unless written, on the loopback addresses.
const DEFAULT_PORT: u16 = 9153;

/// Reads the directive.
pub(crate) fn parse(directive: &Statement, report: &mut Report) -> Prometheus {
    let default = HttpAddress {
        host: HttpHost::Name("localhost".to_owned()),
        port: DEFAULT_PORT,
    };
    let address = directive.http_address(report).unwrap_or(default);
    for line in &directive.lines {
        match line.name.text.as_str() {
            "runtime_metrics" => {
                let message = "runtime_metrics has no effect: it counts what Go's runtime does";
                report.warn(&line.name.place, message, "take it out");
            }
            "tls" => {
                let why = "metrics are told over HTTP alone";
                report.not_supported(&line.name.place, "prometheus tls", why);
            }
            _ => {
                let message = format!("prometheus has no option {}", line.name.shown());
                report.error(&line.name.place, message, "take it out");
            }
        }
    }
    Prometheus {
        place: directive.name.place.clone(),
        address,
    }
}
