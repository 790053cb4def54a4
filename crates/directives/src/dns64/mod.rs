//! `dns64 [PREFIX] { prefix PREFIX; translate_all; allow_ipv4 }`: IPv6 addresses for names that have only IPv4
//! addresses.

pub(crate) mod handler;
pub(crate) mod metrics;

use std::net::{IpAddr, Ipv6Addr};

use corefile::lexer::Token;
use corefile::parser::Statement;
use corefile::place::{Place, Report};
use dns::{Name, Network};
use ops::metrics::Metric;

use crate::config::block::{Directive, Repeat, Role, ServerBlock};
use crate::dns64::handler::Dns64Handler;
use crate::handlers::chain::{BuildError, Chain};

/// The default prefix (RFC 6052 section 2.1).
const WELL_KNOWN: Ipv6Addr = Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0);

/// The settings of made addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dns64 {
    /// Its place in the Corefile.
    pub place: Place,
    /// The prefix.
    pub prefix: Ipv6Addr,
    /// The number of its octets that count: 4 to 12.
    pub prefix_octets: usize,
    /// Whether names with IPv6 addresses get made ones too.
    pub translates_all: bool,
    /// Whether clients that ask over IPv4 get them too.
    pub allows_ipv4: bool,
}

impl Directive for Dns64 {
    const WORD: &'static str = "dns64";
    const USAGE: &'static str = "dns64 [PREFIX]";
    const SUMMARY: &'static str = "makes IPv6 addresses from IPv4 ones";
    const OPTIONS: &'static str = "prefix, translate_all and allow_ipv4";
    const REPEAT: Repeat = Repeat::Joined(Some("of each option the last counts"));
    const ROLE: Role = Role::Decides;
    const METRICS: &'static [Metric] = metrics::METRICS;

    fn read(directive: &Statement, zones: &[Name], report: &mut Report) -> Option<Self> {
        let defaults = Self {
            place: directive.name.place.clone(),
            prefix: WELL_KNOWN,
            prefix_octets: 12,
            translates_all: false,
            allows_ipv4: false,
        };
        defaults.read_again(directive, zones, report)
    }

    fn read_again(mut self, again: &Statement, _: &[Name], report: &mut Report) -> Option<Self> {
        if let Some(token) = again.at_most_one(report) {
            set_prefix(&mut self, token, report);
        }
        for line in &again.lines {
            match line.name.text.as_str() {
                "prefix" => {
                    if let Some(token) = line.exactly_one("PREFIX", report) {
                        set_prefix(&mut self, token, report);
                    }
                }
                "translate_all" => {
                    line.refuse_arguments(report);
                    self.translates_all = true;
                }
                "allow_ipv4" => {
                    line.refuse_arguments(report);
                    self.allows_ipv4 = true;
                }
                _ => again.unknown_option(line, Self::OPTIONS, report),
            }
        }
        Some(self)
    }

    fn add_handlers(&self, _: &ServerBlock, chain: &mut Chain<'_>) -> Result<(), BuildError> {
        chain.add(Dns64Handler::new(self.clone(), chain.context.counts));
        Ok(())
    }
}

/// Reads a prefix: IPv6, 32 to 96 bits, whole octets (RFC 6052 section 2.2).
fn set_prefix(dns64: &mut Dns64, token: &Token, report: &mut Report) {
    let network = token.text.parse::<Network>().ok();
    let parts = network.and_then(|network| {
        let octets = usize::from(network.prefix_bits() / 8);
        let is_whole = network.prefix_bits() % 8 == 0 && (4..=12).contains(&octets);
        match network.address() {
            IpAddr::V6(address) if is_whole => Some((address, octets)),
            IpAddr::V4(_) | IpAddr::V6(_) => None,
        }
    });
    match parts {
        Some((prefix, octets)) => (dns64.prefix, dns64.prefix_octets) = (prefix, octets),
        None => {
            let message = format!("{} is not a prefix for IPv4 addresses", token.shown());
            let fix = "write an IPv6 range of 32, 40, 48, 56, 64, 72, 80, 88 or 96 bits, such as 64:ff9b::/96";
            report.error(&token.place, message, fix);
        }
    }
}
