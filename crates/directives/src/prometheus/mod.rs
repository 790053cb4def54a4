//! `prometheus [ADDR]`: metrics over HTTP.
//!
//! CoreDNS's `runtime_metrics` has no effect, its `tls` is refused.

use corefile::address::{HttpAddress, HttpHost};
use corefile::parser::Statement;
use corefile::place::{Place, Report};
use dns::Name;

use crate::config::block::Directive;

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

impl Directive for Prometheus {
    const WORD: &'static str = "prometheus";
    const USAGE: &'static str = "prometheus [ADDRESS] { runtime_metrics }";
    const SUMMARY: &'static str = "`/metrics`, `localhost:9153` unless given, in the text format 0.0.4, or OpenMetrics for who accepts that; `runtime_metrics` is accepted without effect";

    fn read(directive: &Statement, _: &[Name], report: &mut Report) -> Option<Self> {
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
        Some(Prometheus {
            place: directive.name.place.clone(),
            address,
        })
    }
}
