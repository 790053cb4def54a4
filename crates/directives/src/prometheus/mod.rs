//! `prometheus [ADDR]`: metrics over HTTP.
//!
//! CoreDNS's `runtime_metrics` has no effect. Its `tls` is refused.

use corefile::address::{HttpAddress, HttpHost};
use corefile::parser::Statement;
use corefile::place::{Place, Report};
use dns::Name;

use crate::config::block::Directive;

/// The HTTP server of metrics, at `/metrics`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prometheus {
    /// Its place in the Corefile.
    pub place: Place,
    /// Its address.
    pub address: HttpAddress,
}

/// The default port, on the loopback addresses.
const DEFAULT_PORT: u16 = 9153;

impl Directive for Prometheus {
    const WORD: &'static str = "prometheus";
    const USAGE: &'static str = "prometheus [ADDRESS] { runtime_metrics }";
    const SUMMARY: &'static str = "serves `/metrics` at `localhost:9153` by default, in the text format 0.0.4, or as OpenMetrics for clients that accept it. `runtime_metrics` is accepted without effect";

    fn read(directive: &Statement, _: &[Name], report: &mut Report) -> Option<Self> {
        let default = HttpAddress {
            host: HttpHost::Name("localhost".to_owned()),
            port: DEFAULT_PORT,
        };
        let address = directive.http_address(report).unwrap_or(default);
        for line in &directive.lines {
            match line.name.text.as_str() {
                "runtime_metrics" => {
                    let message =
                        "runtime_metrics has no effect: its metrics are those of Go's runtime";
                    report.warn(&line.name.place, message, "remove it");
                }
                "tls" => {
                    let why = "metrics are served only over HTTP: listen on 127.0.0.1, with a proxy beside it that serves them over TLS (such as kube-rbac-proxy)";
                    report.not_supported(&line.name.place, "prometheus tls", why);
                }
                _ => {
                    let message = format!("prometheus has no option {}", line.name.shown());
                    report.error(&line.name.place, message, "remove it");
                }
            }
        }
        Some(Prometheus {
            place: directive.name.place.clone(),
            address,
        })
    }
}
