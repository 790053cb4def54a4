//! `bind ADDR|IFACE... { except ADDR|IFACE... }`: the addresses on which a server block listens.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use corefile::lexer::Token;
use corefile::parser::Statement;
use corefile::place::{Place, Report};
use dns::Name;

use crate::config::block::{Directive, Repeat, ServerBlock};

/// The addresses of a server block. No `hosts` means all addresses of both families.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bind {
    /// The place of the first `bind`.
    pub place: Place,
    /// The addresses and interfaces to listen on, each once.
    pub hosts: Vec<BindHost>,
    /// The addresses and interfaces to leave out.
    pub except: Vec<BindHost>,
}

/// An address or an interface.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum BindHost {
    /// An address.
    Address(IpAddr),
    /// The name of an interface. It means all its addresses, which are looked up when sockets are bound.
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
    const SUMMARY: &'static str = "where the block listens, with `::` on all IPv4 addresses too unless another block has them; without it everywhere but at the addresses that the `bind` of another block takes on that port. A machine without IPv6 leaves `[::]` out";
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
                "except removes all addresses to listen on",
                "remove one from except",
            );
        }
        Some(self)
    }
}

/// Adds all IPv4 addresses to each `bind ::`: a socket of CoreDNS has them, too. Not where another block has them on a
/// port of the block.
pub(crate) fn add_ipv4(blocks: &mut [ServerBlock]) {
    let [ipv6, ipv4] = [
        IpAddr::from(Ipv6Addr::UNSPECIFIED),
        IpAddr::from(Ipv4Addr::UNSPECIFIED),
    ]
    .map(BindHost::Address);
    let has_ipv4 = |block: &ServerBlock| {
        let bind = block.get::<Bind>();
        bind.is_none_or(|bind| bind.hosts.is_empty() || bind.hosts.contains(&ipv4))
    };
    let owners: Vec<bool> = blocks.iter().map(has_ipv4).collect();
    for index in 0..blocks.len() {
        let ports: Vec<u16> = blocks[index].zones.iter().map(|key| key.port).collect();
        let mut others = blocks.iter().zip(&owners).filter(|(_, owns)| **owns);
        let is_taken =
            others.any(|(other, _)| other.zones.iter().any(|key| ports.contains(&key.port)));
        let is_wanted = |bind: &Bind| {
            bind.hosts.contains(&ipv6) && ![&ipv4, &ipv6].iter().any(|it| bind.except.contains(it))
        };
        if !is_taken
            && blocks[index].get().is_some_and(is_wanted)
            && let Some(mut bind) = blocks[index].take::<Bind>()
        {
            bind.hosts.push(ipv4.clone());
            blocks[index].add(bind);
        }
    }
}

/// Adds the hosts that are not in the list yet.
fn add(words: &[Token], hosts: &mut Vec<BindHost>, report: &mut Report) {
    for token in words {
        match host(&token.text) {
            Some(host) if hosts.contains(&host) => {}
            Some(host) => hosts.push(host),
            None => {
                let message = format!(
                    "{} is neither an IP address nor the name of an interface",
                    token.shown()
                );
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
