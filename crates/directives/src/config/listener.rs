//! Finds the server blocks that share a socket, and checks that no socket has a zone twice.

use std::collections::BTreeMap;
use std::net::IpAddr;

use corefile::place::{Place, Report};
use dns::Name;

use crate::bind::{Bind, BindHost};
use crate::config::block::ServerBlock;
use crate::config::zone::{Scheme, ZoneKey};

/// A socket address: the UDP and TCP sockets on it share the keys of all its blocks.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Listener {
    /// The protocol of queries.
    pub scheme: Scheme,
    /// The host that it is bound to. `None` means all addresses of both families.
    pub host: Option<BindHost>,
    /// The port.
    pub port: u16,
}

impl Listener {
    /// The address that it is bound to; `None` for an interface or for all addresses.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        match self.host {
            Some(BindHost::Address(address)) => Some(address),
            Some(BindHost::Interface(_)) | None => None,
        }
    }
}

impl ServerBlock {
    /// The keys of the block that are on a listener: those with its scheme and port.
    pub fn keys_on(&self, listener: &Listener) -> impl Iterator<Item = &ZoneKey> {
        let (scheme, port) = (listener.scheme, listener.port);
        let keys = self.zones.iter();
        keys.filter(move |key| key.scheme == scheme && key.port == port)
    }

    /// The listeners of this block, each once, in the order of keys and hosts.
    #[must_use]
    pub fn listeners(&self) -> Vec<Listener> {
        let mut listeners = Vec::new();
        for key in &self.zones {
            for listener in of_key(self, key) {
                if !listeners.contains(&listener) {
                    listeners.push(listener);
                }
            }
        }
        listeners
    }
}

/// The block among those of a listener that has the questions for a name: the one with the longest key at or above it.
#[must_use]
pub fn block_for<'a>(
    blocks: &[&'a ServerBlock],
    listener: &Listener,
    name: &Name,
) -> Option<&'a ServerBlock> {
    let keys = blocks
        .iter()
        .flat_map(|block| block.keys_on(listener).map(move |key| (*block, &key.apex)));
    let above = keys.filter(|(_, key)| name.is_within(key));
    // Of equal keys the first counts.
    let longest = above.reduce(
        |best, other| match other.1.label_count() > best.1.label_count() {
            true => other,
            false => best,
        },
    );
    longest.map(|(block, _)| block)
}

/// Whether a block transfers its zone on one of its listeners, whose blocks are `blocks`: where it has the questions for
/// the zone, because `acl` and TLS apply to both. A catalog may be below no key of its block. It is on all listeners of the
/// block, unless another block has the questions there.
#[must_use]
pub fn transfers_on(
    blocks: &[&ServerBlock],
    listener: &Listener,
    block: &ServerBlock,
    zone: &Name,
) -> bool {
    match block_for(blocks, listener, zone) {
        None => !block.zones.iter().any(|key| zone.is_within(&key.apex)),
        Some(found) => std::ptr::eq(found, block),
    }
}

/// The listeners of some blocks, each once, with its blocks in the order of the file.
#[must_use]
pub(crate) fn listeners(blocks: &[ServerBlock]) -> Vec<(Listener, Vec<&ServerBlock>)> {
    let mut listeners: Vec<(_, Vec<&ServerBlock>)> = Vec::new();
    for block in blocks {
        for listener in block.listeners() {
            match listeners.iter_mut().find(|(there, _)| *there == listener) {
                Some((_, blocks)) => blocks.push(block),
                None => listeners.push((listener, vec![block])),
            }
        }
    }
    listeners
}

/// The listeners of one key of a block.
fn of_key(block: &ServerBlock, key: &ZoneKey) -> Vec<Listener> {
    let listener = |host| Listener {
        scheme: key.scheme,
        host,
        port: key.port,
    };
    let Some(Bind { hosts, except, .. }) = block.get().filter(|it: &&Bind| !it.hosts.is_empty())
    else {
        return vec![listener(None)];
    };
    let hosts = hosts.iter().filter(|host| !except.contains(host));
    hosts.map(|host| listener(Some(host.clone()))).collect()
}

/// Reports zones that one listener has twice, and zones that are both on all addresses and on one of them.
pub(crate) fn check_zones(servers: &[ServerBlock], report: &mut Report) {
    let mut seen: BTreeMap<_, Vec<(Option<BindHost>, Place)>> = BTreeMap::new();
    for (block, key) in servers
        .iter()
        .flat_map(|b| b.zones.iter().map(move |key| (b, key)))
    {
        for Listener { scheme, host, port } in of_key(block, key) {
            let others = seen.entry((scheme, port, key.apex.clone())).or_default();
            let clash = others
                .iter()
                .find_map(|(other, place)| match (other, &host) {
                    (None, None) => Some((place, "is already served")),
                    (Some(other), Some(host)) if other == host => {
                        Some((place, "is already served"))
                    }
                    (Some(_), Some(_)) => None,
                    (None, Some(_)) => Some((place, "is already served on all addresses")),
                    (Some(_), None) => Some((place, "is already served on one address")),
                });
            if let Some((other, what)) = clash {
                let on = host
                    .as_ref()
                    .map_or(String::new(), |host| format!(" on {host}"));
                let message = format!(
                    "{}:{port}{on} {what}, see {}:{}",
                    key.apex, other.file, other.line
                );
                let fix = "remove one, or bind the two blocks to different addresses";
                report.error(&key.place, message, fix);
            }
            others.push((host, key.place.clone()));
        }
    }
}

/// Whether one listener has all addresses because its block has no `bind`, and the other names all of a family.
fn takes_all(one: &Listener, other: &Listener) -> bool {
    let names_all = |listener: &Listener| listener.address().is_some_and(|it| it.is_unspecified());
    let is_pair = one.host.is_none() && names_all(other) || other.host.is_none() && names_all(one);
    let is_same = one.scheme == other.scheme || one.scheme.shares_sockets_with(other.scheme);
    is_pair && is_same && one.port == other.port && one.port != 0
}

/// Reports listeners that need the same socket for different protocols or blocks.
pub(crate) fn check_sockets(servers: &[ServerBlock], report: &mut Report) {
    let mut seen: Vec<(Listener, &Place)> = Vec::new();
    let keys = servers
        .iter()
        .flat_map(|b| b.zones.iter().map(move |key| (b, key)));
    let wanted =
        keys.flat_map(|(block, key)| of_key(block, key).into_iter().map(move |it| (it, key)));
    for (listener, key) in wanted {
        let clash = seen.iter().find(|(other, _)| {
            (&other.host, other.port) == (&listener.host, listener.port)
                && other.port != 0
                && other.scheme.shares_sockets_with(listener.scheme)
        });
        if let Some((_, place)) = seen.iter().find(|(other, _)| takes_all(other, &listener)) {
            let message = format!(
                "port {} on all addresses is for the block at {}:{} too: one of the two has no bind",
                listener.port, place.file, place.line
            );
            report.error(&key.place, message, "write the same bind in both blocks");
        }
        if let Some((other, place)) = clash {
            let (scheme, taken) = (listener.scheme.as_str(), other.scheme.as_str());
            let message = format!(
                "{scheme}:// needs port {}, but {taken}:// uses it, see {}:{}",
                listener.port, place.file, place.line
            );
            report.error(&key.place, message, "give one of the two another port");
        }
        seen.push((listener, &key.place));
    }
}
