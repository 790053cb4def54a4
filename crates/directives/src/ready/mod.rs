//! `ready [ADDR] { monitor until-ready|continuously }`: readiness over HTTP.

use corefile::address::{HttpAddress, HttpHost};
use corefile::parser::Statement;
use corefile::place::{Place, Report};
use dns::Name;

use crate::config::block::Directive;

/// The HTTP server of readiness, at `/ready`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ready {
    /// Its place in the Corefile.
    pub place: Place,
    /// Its address.
    pub address: HttpAddress,
    /// Whether a plugin that was ready is asked again.
    pub monitor: Monitor,
}

/// Whether a plugin that was ready is asked again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Monitor {
    /// Once ready, it stays ready.
    UntilReady,
    /// It is asked each time.
    Continuously,
}

/// The default port, on all addresses.
const DEFAULT_PORT: u16 = 8181;

impl Directive for Ready {
    const WORD: &'static str = "ready";
    const USAGE: &'static str = "ready [ADDRESS] { monitor until-ready|continuously }";
    const SUMMARY: &'static str = "serves `/ready` at `:8181` by default: 200 once every zone has a version, before that 503 and the text `kubernetes`. The log names the zones that have none. Zones of ServiceImports do not count if the cluster does not offer them";
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
                        _ => Err("not a way to monitor"),
                    };
                    let value = line.value("until-ready|continuously", parse, report);
                    line.set(&mut monitor, value, report);
                }
                _ => directive.unknown_option(line, Ready::OPTIONS, report),
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
