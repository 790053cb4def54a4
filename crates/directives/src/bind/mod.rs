//! `bind ADDR|IFACE... { except ADDR|IFACE... }`: where a server block listens.

use std::net::IpAddr;

use corefile::lexer::Token;
use corefile::parser::Statement;
use corefile::place::{Place, Report};
use dns::Name;

use crate::config::block::{Directive, Repeat};

/// Where a server block listens. Nothing to listen on: all addresses, both families.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bind {
    /// Where it stands; of several the first.
    pub place: Place,
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

impl Directive for Bind {
    const WORD: &'static str = "bind";
    const USAGE: &'static str = "bind ADDRESS|INTERFACE… { except … }";
    const SUMMARY: &'static str = "where the block listens; without it everywhere but at the addresses that the `bind` of another block takes on that port. A machine without IPv6 leaves `[::]` out";
    const OPTIONS: &'static str = "except";
    const REPEAT: Repeat = Repeat::Joined(None);

    fn read(directive: &Statement, zones: &[Name], report: &mut Report) -> Option<Self> {
        let bind = Self {
            place: directive.name.place.clone(),
            hosts: Vec::new(),
            except: Vec::new(),
        };
        bind.read_again(directive, zones, report)
    }

    fn read_again(mut self, again: &Statement, _: &[Name], report: &mut Report) -> Option<Self> {
        let place = &again.name.place;
        if again.arguments.is_empty() {
            report.error(
                place,
                "bind needs an argument",
                "write: bind ADDRESS|INTERFACE...",
            );
        }
        add(&again.arguments, &mut self.hosts, report);
        for line in &again.lines {
            match line.name.text.as_str() {
                "except" => {
                    let words = line
                        .at_least_one("ADDRESS|INTERFACE...", report)
                        .unwrap_or_default();
                    add(words, &mut self.except, report);
                }
                _ => again.unknown_option(line, Self::OPTIONS, report),
            }
        }
        if !self.hosts.is_empty() && self.hosts.iter().all(|host| self.except.contains(host)) {
            report.error(
                place,
                "everything to listen on is excepted",
                "take one out of except",
            );
        }
        Some(self)
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
                let fix = "write an address such as 192.0.2.1, or an interface such as eth0";
                report.error(&token.place, message, fix);
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
