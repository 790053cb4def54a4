//! `transfer [ZONES...] { to …; allow …; source ADDRESS }`: the peers that may transfer a zone, and the secondaries
//! that are notified.
//!
//! `to` is CoreDNS's, with `key` and `tls` added; `to *` means `allow *`. `allow` and ranges are ours, and so is `tls`
//! on a line of its own, which demands TLS of all peers. NOTIFY is sent over UDP, from the third try over TCP too, and
//! never over TLS.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use corefile::address::{AddressError, DNS_PORT, parse_dns_address, parse_linked};
use corefile::lexer::Token;
use corefile::parser::{Line, Statement};
use corefile::place::{Place, Report};
use dns::Name;
use dns::Network;
use rustls::pki_types::ServerName;
use transfer::{PeerAddress, TlsDemand};

use crate::config::block::{Directive, Repeat, ServerBlock};
use crate::config::zone;
use crate::config::zoned::{self, Zoned};

/// The access to some zones. A peer that is not listed has none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transfer {
    /// Its place in the Corefile.
    pub place: Place,
    /// The zones that it applies to, and all zones below them.
    pub zones: Vec<Name>,
    /// Servers that may transfer and are notified, in the order of the file.
    pub secondaries: Vec<Secondary>,
    /// Peers that may transfer, in the order of the file.
    pub allow: Vec<Allow>,
    /// The addresses that NOTIFY is sent from: at most one of each family.
    pub sources: Vec<IpAddr>,
}

/// A server with copies of our zones: it may transfer, and is notified.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Secondary {
    /// The place of its address.
    pub place: Place,
    /// The address for NOTIFY. The secondary transfers from this address and any port.
    pub address: SocketAddr,
    /// Its requests must be signed with one of these keys; NOTIFY is signed with the first. Empty: no signing. The keys
    /// are in lower case, and defined on the same listener.
    pub keys: Vec<Name>,
    /// Whether its requests must come over TLS.
    pub tls: TlsDemand,
}

/// A peer that may transfer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allow {
    /// The place of its address.
    pub place: Place,
    /// Its address.
    pub peer: Peer,
    /// The link that requests from an IPv6 address must arrive on, by the system's number; 0 for any.
    pub link: u32,
    /// The request must be signed with one of these keys. Empty: no signing. The keys are in lower case, and defined on
    /// the same listener.
    pub keys: Vec<Name>,
    /// Whether the request must come over TLS.
    pub tls: TlsDemand,
}

/// The address of a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    /// Any address.
    Anyone,
    /// An address in this range.
    Network(Network),
}

impl Allow {
    /// Whether this line is for requests from a peer, whatever keys and TLS it demands.
    pub(crate) fn is_for(&self, peer: PeerAddress) -> bool {
        self.peer.contains(peer.ip) && (self.link == 0 || self.link == peer.link)
    }
}

impl Peer {
    /// Whether the range contains an address.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match self {
            Self::Anyone => true,
            Self::Network(network) => network.contains(address),
        }
    }
}

impl Transfer {
    /// The address that NOTIFY to `target` is sent from; `None` means the system's choice.
    #[must_use]
    pub fn source_for(&self, target: IpAddr) -> Option<IpAddr> {
        self.sources
            .iter()
            .copied()
            .find(|source| source.is_ipv4() == target.is_ipv4())
    }

    /// Whether some line is for requests from a peer, whatever keys and TLS it demands.
    pub(crate) fn is_for(&self, peer: PeerAddress) -> bool {
        let mut to = self.secondaries.iter();
        to.any(|to| PeerAddress::from(to.address) == peer)
            || self.allow.iter().any(|allow| allow.is_for(peer))
    }

    /// The demands of all lines for TLS, each with the place of its address.
    pub(crate) fn demands(&self) -> impl Iterator<Item = (&Place, &TlsDemand)> {
        let of_secondaries = self.secondaries.iter().map(|to| (&to.place, &to.tls));
        let of_allowed = self.allow.iter().map(|allow| (&allow.place, &allow.tls));
        of_secondaries.chain(of_allowed)
    }

    /// All key names, each with the place of the line's address.
    pub(crate) fn key_names(&self) -> impl Iterator<Item = (&Place, &Name)> {
        let Self {
            place: _,
            zones: _,
            secondaries,
            allow,
            sources: _,
        } = self;
        let of_secondaries = secondaries.iter().map(|to| (&to.place, &to.keys));
        let of_allowed = allow.iter().map(|allow| (&allow.place, &allow.keys));
        of_secondaries
            .chain(of_allowed)
            .flat_map(|(place, keys)| keys.iter().map(move |key| (place, key)))
    }
}

/// The parts of a `to` or `allow` line.
struct Parts<'a> {
    peers: &'a [Token],
    keys: Vec<Name>,
    /// The demand for TLS.
    tls: TlsDemand,
}

impl Directive for Transfer {
    const WORD: &'static str = "transfer";
    const USAGE: &'static str = "transfer [ZONES…] { … }";
    const SUMMARY: &'static str = "the peers that may transfer the zones, and the secondaries that are notified. Without it no peer may";
    const OPTIONS: &'static str = "to, allow, source and tls";
    const REPEAT: Repeat = Repeat::Several;

    fn read(directive: &Statement, block_zones: &[Name], report: &mut Report) -> Option<Self> {
        let mut transfer = Transfer {
            place: directive.name.place.clone(),
            zones: zone::arguments(&directive.arguments, block_zones, report),
            secondaries: Vec::new(),
            allow: Vec::new(),
            sources: Vec::new(),
        };
        let (mut named, mut only_tls) = (false, false);
        for line in &directive.lines {
            match line.name.text.as_str() {
                "to" => {
                    named = true;
                    to(line, &mut transfer, report);
                }
                "allow" => {
                    named = true;
                    allow(line, &mut transfer, report);
                }
                "source" => source(line, &mut transfer.sources, report),
                "tls" => {
                    line.refuse_arguments(report);
                    only_tls = true;
                }
                _ => directive.unknown_option(line, Transfer::OPTIONS, report),
            }
        }
        if only_tls {
            let of_secondaries = transfer.secondaries.iter_mut().map(|to| &mut to.tls);
            let of_allowed = transfer.allow.iter_mut().map(|allow| &mut allow.tls);
            for demand in of_secondaries.chain(of_allowed) {
                if *demand == TlsDemand::Free {
                    *demand = TlsDemand::Any;
                }
            }
        }
        warn_of_unkeyed(&transfer, report);
        warn_of_twins(&transfer.secondaries, report);
        if !named {
            let message = "transfer names no peer";
            report.error(
                &transfer.place,
                message,
                "write a block with to ADDRESS or allow ADDRESS",
            );
        }
        Some(transfer)
    }

    fn check(blocks: &[ServerBlock], report: &mut Report) {
        zoned::check::<Self>(blocks, report);
    }
}

impl Zoned for Transfer {
    const IS_UNIQUE: bool = false;

    fn zones(&self) -> &[Name] {
        &self.zones
    }

    fn place(&self) -> &Place {
        &self.place
    }

    fn candidates(block: &ServerBlock) -> Vec<&Name> {
        block.zones_written().collect()
    }
}

/// Warns if one line demands a key or TLS of an address, and another line does not: the first line that matches
/// permits.
fn warn_of_unkeyed(transfer: &Transfer, report: &mut Report) {
    let asks = |keys: &[Name], tls: &TlsDemand| {
        let tls = match tls {
            TlsDemand::Free => 0,
            TlsDemand::Any => 1,
            TlsDemand::Named(_) => 2,
        };
        (!keys.is_empty(), tls)
    };
    let to = transfer.secondaries.iter().map(|to| {
        let PeerAddress { ip, link } = to.address.into();
        let network = Peer::Network(Network::of(ip));
        (&to.place, (network, link), asks(&to.keys, &to.tls))
    });
    let allowed = transfer.allow.iter();
    let allowed = allowed.map(|it| (&it.place, (it.peer, it.link), asks(&it.keys, &it.tls)));
    let all: Vec<_> = to.chain(allowed).collect();
    for (strict, (peer, link), (key, tls)) in &all {
        let lax = all
            .iter()
            .find_map(|(lax, (other, by), (other_key, other_tls))| {
                let is_weaker = *key && !other_key || tls > other_tls;
                let is_of_link = *link == 0 || *by == 0 || link == by;
                // A line for all addresses has its own warning.
                let (Peer::Network(one), Peer::Network(two)) = (peer, other) else {
                    return None;
                };
                let shared = if two.contains(one.address()) {
                    one.address()
                } else {
                    two.address()
                };
                let is_for_both = one.contains(shared) && two.contains(shared);
                (is_weaker && is_of_link && is_for_both)
                    .then_some((lax, shared, other_key, other_tls))
            });
        if let Some((lax, shared, lax_key, lax_tls)) = lax {
            let what = match (*key && !lax_key, lax_tls) {
                (true, _) => "a key",
                (false, 0) => "tls",
                (false, _) => "a certificate with a name",
            };
            let message = format!(
                "a peer at {shared} needs {what} in line {}, but not in this line",
                strict.line
            );
            report.warn(
                lax,
                message,
                "write the same key and tls on both, or remove one line",
            );
        }
    }
}

/// Warns about two secondaries at one address whose requests look the same: a transfer by one counts for the other too.
fn warn_of_twins(secondaries: &[Secondary], report: &mut Report) {
    for (place, to) in secondaries.iter().enumerate() {
        let shares = |other: &Secondary| {
            let is_neither_signed = to.keys.is_empty() && other.keys.is_empty();
            is_neither_signed || to.keys.iter().any(|key| other.keys.contains(key))
        };
        let is_twin = |other: &&Secondary| {
            PeerAddress::from(other.address) == PeerAddress::from(to.address) && shares(other)
        };
        if let Some(twin) = secondaries[..place].iter().find(is_twin) {
            let message = format!(
                "to {} and {} of line {} look the same when they transfer",
                to.address, twin.address, twin.place.line
            );
            report.warn(&to.place, message, "give each its own key");
        }
    }
}

/// Splits `ADDRESS... [key NAME...] [tls [NAME]]`.
fn parts<'a>(line: &'a Line, what: &str, report: &mut Report) -> Option<Parts<'a>> {
    let words = line.at_least_one(what, report)?;
    let at = |word: &str| words.iter().position(|token| token.text == word);
    let end = at("tls").unwrap_or(words.len());
    let tls = match &words[end..] {
        [] => TlsDemand::Free,
        [_, names @ ..] => tls_demand(names, &line.name.text, report),
    };
    let words = &words[..end];
    let (peers, keys) = match words.iter().position(|token| token.text == "key") {
        Some(at) => (&words[..at], Some((&words[at], &words[at + 1..]))),
        None => (words, None),
    };
    let option = &line.name.text;
    if peers.is_empty() {
        let message = format!("{option} has no address");
        report.error(&line.name.place, message, format!("write: {option} {what}"));
    }
    let mut names: Vec<Name> = Vec::new();
    if let Some((word, keys)) = keys {
        if keys.is_empty() {
            report.error(
                &word.place,
                "key has no name",
                format!("write: {option} {what}"),
            );
        }
        for token in keys {
            names.extend(zone::domain_name(token, report).filter(|name| !names.contains(name)));
        }
    }
    Some(Parts {
        peers,
        keys: names,
        tls,
    })
}

/// Reads the words after `tls`: none, or the name that the client's certificate must have.
fn tls_demand(names: &[Token], option: &str, report: &mut Report) -> TlsDemand {
    let [name, more @ ..] = names else {
        return TlsDemand::Any;
    };
    if let [extra, ..] = more {
        let message = format!("{} is one name too many after tls", extra.shown());
        let fix = format!("write tls last, with one name at most: {option} … tls NAME");
        report.error(&extra.place, message, fix);
    }
    let text = name.text.strip_suffix('.').unwrap_or(&name.text);
    if let Ok(name) = ServerName::try_from(text.to_owned()) {
        return TlsDemand::Named(name);
    }
    let message = format!("{} cannot be the name in a certificate", name.shown());
    let fix = "write a DNS name or an IP address from the client's certificate";
    report.error(&name.place, message, fix);
    TlsDemand::Any
}

/// Reads `to ADDRESS[:PORT]...|* [key NAME...] [tls [NAME]]`.
fn to(line: &Line, transfer: &mut Transfer, report: &mut Report) {
    let what = "ADDRESS[:PORT]...|* [key NAME...] [tls [NAME]]";
    let Some(Parts { peers, keys, tls }) = parts(line, what, report) else {
        return;
    };
    for token in peers {
        let place = token.place.clone();
        if token.text == "*" {
            open_to_all(token, "to *", &keys, report);
            transfer.allow.push(Allow {
                place,
                peer: Peer::Anyone,
                link: 0,
                keys: keys.clone(),
                tls: tls.clone(),
            });
            continue;
        }
        if token.text.starts_with("tls://") {
            let why = "NOTIFY goes over UDP and TCP; `tls` after an address is for its transfers";
            report.not_supported(&token.place, "tls://", why);
            continue;
        }
        let text = token.text.strip_prefix("dns://").unwrap_or(&token.text);
        let address = match parse_dns_address(text) {
            Ok(address) => address,
            Err(error) => {
                let fix = match text.parse::<Network>() {
                    Ok(_) => "a range cannot be notified: use allow".to_owned(),
                    Err(_) => format!("write an IP address, with :PORT unless it is {DNS_PORT}"),
                };
                let message = format!("to: {} {error}", token.shown());
                report.error(&place, message, error.fix(fix));
                continue;
            }
        };
        if let Some((message, fix)) = not_told(address) {
            report.error(&place, format!("to: {} {message}", token.shown()), fix);
            continue;
        }
        if let Some(other) = transfer
            .secondaries
            .iter()
            .find(|other| other.address == address)
        {
            let message = format!("to {address} is already in line {}", other.place.line);
            report.error(&place, message, "remove one; a line may have several keys");
            continue;
        }
        transfer.secondaries.push(Secondary {
            place,
            address,
            keys: keys.clone(),
            tls: tls.clone(),
        });
    }
}

/// The reason why an address cannot be notified, and the fix.
fn not_told(address: SocketAddr) -> Option<(&'static str, &'static str)> {
    let ip = address.ip().to_canonical();
    let is_broadcast = ip == IpAddr::V4(Ipv4Addr::BROADCAST);
    if ip.is_unspecified() || ip.is_multicast() || is_broadcast {
        return Some((
            "is not the address of a server",
            "write the secondary's own address",
        ));
    }
    match address {
        SocketAddr::V6(link) if link.ip().is_unicast_link_local() && link.scope_id() == 0 => {
            Some((
                "is link-local, but names no interface",
                "write the interface after it: fe80::1%eth0",
            ))
        }
        SocketAddr::V6(_) | SocketAddr::V4(_) => None,
    }
}

/// Reads `allow ADDRESS|CIDR|*... [key NAME...] [tls [NAME]]`.
fn allow(line: &Line, transfer: &mut Transfer, report: &mut Report) {
    let what = "ADDRESS|CIDR|*... [key NAME...] [tls [NAME]]";
    let Some(Parts { peers, keys, tls }) = parts(line, what, report) else {
        return;
    };
    for token in peers {
        let (peer, link) = if token.text == "*" {
            open_to_all(token, "allow *", &keys, report);
            (Peer::Anyone, 0)
        } else {
            match network(&token.text) {
                Ok((network, link)) => (Peer::Network(network), link),
                Err(error) => {
                    let what = match error {
                        AddressError::Nonsense => "is neither an address nor a range".to_owned(),
                        AddressError::NoLink(_)
                        | AddressError::NotOfLink
                        | AddressError::PortOfLink(..) => error.to_string(),
                    };
                    let message = format!("allow: {} {what}", token.shown());
                    let plain = "write an IP address, a range such as 10.0.0.0/8, or *";
                    report.error(&token.place, message, error.fix(plain.to_owned()));
                    continue;
                }
            }
        };
        transfer.allow.push(Allow {
            place: token.place.clone(),
            peer,
            link,
            keys: keys.clone(),
            tls: tls.clone(),
        });
    }
}

/// Reads an address or a range. An address may have a link; without one it is 0. An IPv4 address that is mapped into
/// IPv6 becomes IPv4, as the addresses of requests do.
fn network(text: &str) -> Result<(Network, u32), AddressError> {
    let plain = text.parse().map(Network::of).ok();
    match plain.or_else(|| text.parse().ok()) {
        Some(network) => Ok((network.to_canonical(), 0)),
        None => parse_linked(text).map(|(address, link)| (Network::of(address.into()), link)),
    }
}

/// Warns about a zone that everybody may transfer, unless a key is demanded.
fn open_to_all(token: &Token, option: &str, keys: &[Name], report: &mut Report) {
    if keys.is_empty() {
        let message = format!("{option} allows every peer to transfer, and notifies none");
        report.warn(
            &token.place,
            message,
            "name the secondaries' addresses, or add a key",
        );
    }
}

/// Reads `source ADDRESS`, once for each family.
fn source(line: &Line, sources: &mut Vec<IpAddr>, report: &mut Report) {
    let parse = |text: &str| text.parse::<IpAddr>().map_err(|_| "not an IP address");
    let Some(address) = line.value("ADDRESS", parse, report) else {
        return;
    };
    if sources
        .iter()
        .any(|other| other.is_ipv4() == address.is_ipv4())
    {
        let message = "there is already a source of this family";
        report.error(&line.name.place, message, "remove one");
    } else {
        sources.push(address);
    }
}

#[cfg(test)]
mod tests;
