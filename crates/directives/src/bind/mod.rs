//! `bind ADDR|IFACE... { except ADDR|IFACE... }`: where a server block listens.

use std::net::IpAddr;

use corefile::lexer::Token;
use corefile::parser::Statement;
use corefile::place::{Place, Report};

/// Where a server block listens. Nothing to listen on: all addresses, both families.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Bind {
    /// Where it stands; of several the first.
    pub place: Option<Place>,
    /// What to listen on, each once.
    pub hosts: Vec<BindHost>,
    /// What not to listen on, of those.
    pub except: Vec<BindHost>,
}

/// An address or an interface.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BindHost {
    /// An address.
    Address(IpAddr),
    /// The name of an interface: all its addresses, looked up when it is bound.
    Interface(String),
}

impl std::fmt::Display for BindHost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Interface(name) => f.write_str(name),
        }
    }
}

/// The most octets of an interface's name: Linux's `IFNAMSIZ` without its closing zero.
const MAX_INTERFACE_OCTETS: usize = 15;

/// Reads one directive and adds what it says to `bind`.
pub(crate) fn parse(directive: &Statement, bind: &mut Bind, report: &mut Report) {
    let place: &Place = &directive.name.place;
    bind.place.get_or_insert_with(|| place.clone());
    if directive.arguments.is_empty() {
        report.error(
            place,
            "bind needs an argument",
            "write: bind ADDRESS|INTERFACE...",
        );
    }
    add(&directive.arguments, &mut bind.hosts, report);
    for line in &directive.lines {
        match line.name.text.as_str() {
            "except" => {
                let words = line
                    .at_least_one("ADDRESS|INTERFACE...", report)
                    .unwrap_or_default();
                add(words, &mut bind.except, report);
            }
            _ => directive.unknown_option(line, "except", report),
        }
    }
    if !bind.hosts.is_empty() && bind.hosts.iter().all(|host| bind.except.contains(host)) {
        report.error(
            place,
            "everything to listen on is excepted",
            "take one out of except",
        );
    }
}

/// Adds hosts that are not there yet.
fn add(words: &[Token], hosts: &mut Vec<BindHost>, report: &mut Report) {
    for token in words {
        match host(&token.text) {
            Some(host) if hosts.contains(&host) => {}
            Some(host) => hosts.push(host),
            None => {
                let message = format!("{} is no IP address and no interface's name", token.shown());
                let mend = "write an address such as 192.0.2.1, or an interface such as eth0";
                report.error(&token.place, message, mend);
            }
        }
    }
}

/// Reads an address or an interface's name.
fn host(text: &str) -> Option<BindHost> {
    if let Ok(address) = text.parse() {
        return Some(BindHost::Address(address));
    }
    let like_address = text.contains(':') || text.bytes().all(|c| c == b'.' || c.is_ascii_digit());
    let fits = (1..=MAX_INTERFACE_OCTETS).contains(&text.len());
    let strange = text.contains(|c: char| c == '/' || c == '%' || c.is_whitespace());
    (fits && !like_address && !strange).then(|| BindHost::Interface(text.to_owned()))
}
