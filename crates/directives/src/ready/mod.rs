//! `ready [ADDR] { monitor until-ready|continuously }`: readiness over HTTP.

use corefile::address::{HttpAddress, HttpHost};
use corefile::parser::Statement;
use corefile::place::{Place, Report};
use dns::Name;

use crate::config::block::Directive;

/// Readiness is told at `/ready`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ready {
    /// Where it stands.
    pub place: Place,
    /// Where it listens.
    pub address: HttpAddress,
    /// Whether what was ready is asked again.
    pub monitor: Monitor,
}

/// Whether what was ready once is asked again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Monitor {
    /// Once ready, ready for ever.
    UntilReady,
    /// Asked each time.
    Continuously,
}

/// The port unless written, on all addresses.
const DEFAULT_PORT: u16 = 8181;

impl Directive for Ready {
    const WORD: &'static str = "ready";
    const USAGE: &'static str = "ready [ADDRESS] { monitor until-ready|continuously }";
    const SUMMARY: &'static str = "`/ready`, `:8181` unless given: 200 once every zone has a version (but for those of ServiceImports that the cluster has not); until then 503 and `kubernetes`, and the log names the zones";
    const OPTIONS: &'static str = "monitor";

    fn read(directive: &Statement, _: &[Name], report: &mut Report) -> Option<Self> {
        let default = HttpAddress {
            host: HttpHost::Any,
            port: DEFAULT_PORT,
        };
        let address = directive.http_address(report).unwrap_or(default);
        let mut monitor = None;
        for line in &directive.lines {
            match line.name.text.as_str() {
                "monitor" => {
                    let parse = |text: &str| match text {
                        "until-ready" => Ok(Monitor::UntilReady),
                        "continuously" => Ok(Monitor::Continuously),
                        _ => Err("no such way to monitor"),
                    };
                    let value = line.value("until-ready|continuously", parse, report);
                    line.set(&mut monitor, value, report);
                }
                _ => directive.unknown_option(line, "monitor", report),
            }
        }
        let place = directive.name.place.clone();
        Some(Ready {
            place,
            address,
            monitor: monitor.unwrap_or(Monitor::UntilReady),
        })
    }
}
