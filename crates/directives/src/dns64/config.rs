//! `dns64 [PREFIX] { prefix PREFIX; translate_all; allow_ipv4 }`: IPv6 addresses for what has only IPv4.

use std::net::{IpAddr, Ipv6Addr};

use corefile::lexer::Token;
use corefile::parser::Statement;
use corefile::place::{Place, Report};
use dns::Network;

/// The options, for messages.
pub(crate) const OPTIONS: &str = "prefix, translate_all and allow_ipv4";
/// The prefix unless written (RFC 6052 section 2.1).
const WELL_KNOWN: Ipv6Addr = Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0);

/// How addresses are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dns64 {
    /// Where it stands.
    pub place: Place,
    /// The prefix.
    pub prefix: Ipv6Addr,
    /// How many of its octets count: 4 to 12.
    pub prefix_octets: usize,
    /// Whether names that have IPv6 addresses get made ones all the same.
    pub translates_all: bool,
    /// Whether clients that ask over IPv4 are served, too.
    pub allows_ipv4: bool,
}

/// Reads the directive; what it does not say, one that stands above it does.
pub(crate) fn parse(directive: &Statement, earlier: Option<Dns64>, report: &mut Report) -> Dns64 {
    let place = directive.name.place.clone();
    let mut dns64 = earlier.unwrap_or(Dns64 {
        place,
        prefix: WELL_KNOWN,
        prefix_octets: 12,
        translates_all: false,
        allows_ipv4: false,
    });
    if let Some(token) = directive.at_most_one(report) {
        set_prefix(&mut dns64, token, report);
    }
    for line in &directive.lines {
        match line.name.text.as_str() {
            "prefix" => {
                if let Some(token) = line.exactly_one("PREFIX", report) {
                    set_prefix(&mut dns64, token, report);
                }
            }
            "translate_all" => {
                line.refuse_arguments(report);
                dns64.translates_all = true;
            }
            "allow_ipv4" => {
                line.refuse_arguments(report);
                dns64.allows_ipv4 = true;
            }
            _ => directive.unknown_option(line, OPTIONS, report),
        }
    }
    dns64
}

/// Reads a prefix: IPv6, of 32 to 96 bits, whole octets (RFC 6052 section 2.2).
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
            let message = format!("{} is no prefix for IPv4 addresses", token.shown());
            let mend = "write an IPv6 range of 32, 40, 48, 56, 64, 72, 80, 88 or 96 bits, such as 64:ff9b::/96";
            report.error(&token.place, message, mend);
        }
    }
}
