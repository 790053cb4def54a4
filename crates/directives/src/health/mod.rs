//! `health [ADDR] { lameduck DURATION }`: liveness over HTTP.

use std::time::Duration;

use corefile::address::{HttpAddress, HttpHost};
use corefile::parser::Statement;
use corefile::place::{Place, Report};
use corefile::quantity::go_duration;
use dns::Name;

use crate::config::block::{Directive, Repeat};

/// The HTTP server of liveness, at `/health`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// Its place in the Corefile.
    pub place: Place,
    /// Its address.
    pub address: HttpAddress,
    /// The time for which queries are still answered after the signal to stop.
    pub lameduck: Duration,
}

/// The default address: all addresses of the machine.
const DEFAULT: HttpAddress = HttpAddress {
    host: HttpHost::Any,
    port: 8080,
};

impl Directive for Health {
    const WORD: &'static str = "health";
    const USAGE: &'static str = "health [ADDRESS] { lameduck DURATION }";
    const SUMMARY: &'static str = "serves `/health` at `:8080` by default. `lameduck` is the time for which the server still answers after SIGTERM";
    const OPTIONS: &'static str = "lameduck";
    const REPEAT: Repeat = Repeat::Joined(Some("this address counts"));

    fn read(directive: &Statement, zones: &[Name], report: &mut Report) -> Option<Self> {
        let first = Self {
            place: directive.name.place.clone(),
            address: DEFAULT,
            lameduck: Duration::ZERO,
        };
        first.read_again(directive, zones, report)
    }

    fn read_again(self, again: &Statement, _: &[Name], report: &mut Report) -> Option<Self> {
        let address = again.http_address(report);
        let mut lameduck = None;
        for line in &again.lines {
            match line.name.text.as_str() {
                "lameduck" => {
                    let value = line.value("DURATION", go_duration, report);
                    line.set(&mut lameduck, value, report);
                }
                _ => again.unknown_option(line, Self::OPTIONS, report),
            }
        }
        Some(Self {
            place: again.name.place.clone(),
            address: address.unwrap_or(DEFAULT),
            lameduck: lameduck.unwrap_or(self.lameduck),
        })
    }
}
