//! Which server blocks share a socket, and what follows from that: no zone twice, keys in common.

use std::collections::BTreeMap;

use corefile::address::{HttpAddress, HttpHost};
use corefile::place::{Place, Report};

use crate::bind::BindHost;
use crate::config::blocks::ServerBlock;
use crate::config::known::Word;
use crate::config::zone::{Scheme, ZoneKey};
use crate::transfer::Transfer;
use crate::tsig::{KeyFile, TsigKey};

/// One pair of sockets, UDP and TCP. The blocks on it share its keys.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Listener {
    /// How queries arrive.
    pub scheme: Scheme,
    /// What it is bound to; `None`: all addresses, both families.
    pub host: Option<BindHost>,
    /// The port.
    pub port: u16,
}

impl ServerBlock {
    /// Its keys that are for a listener: those of its scheme and port.
    pub fn keys_on(&self, listener: &Listener) -> impl Iterator<Item = &ZoneKey> {
        let (scheme, port) = (listener.scheme, listener.port);
        let keys = self.zones.iter();
        keys.filter(move |key| key.scheme == scheme && key.port == port)
    }

    /// The listeners this block is on, each once, in the order of keys and hosts.
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

/// The listeners that one key of a block is on.
fn of_key(block: &ServerBlock, key: &ZoneKey) -> Vec<Listener> {
    let listener = |host| Listener {
        scheme: key.scheme,
        host,
        port: key.port,
    };
    if block.bind.hosts.is_empty() {
        return vec![listener(None)];
    }
    let hosts = block
        .bind
        .hosts
        .iter()
        .filter(|host| !block.bind.except.contains(host));
    hosts.map(|host| listener(Some(host.clone()))).collect()
}

/// Reports zones that stand twice on one listener, and zones that are both on all addresses and on
/// one of them.
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
                let mend = "take one out, or let both blocks bind different addresses";
                report.error(&key.place, message, mend);
            }
            others.push((host, key.place.clone()));
        }
    }
}

/// Gives each block the keys, and the key files, of all blocks on its listeners; reports two different
/// keys of one name.
pub(crate) fn share_keys(servers: &mut [ServerBlock], report: &mut Report) {
    let listeners: Vec<_> = servers.iter().map(ServerBlock::listeners).collect();
    let own: Vec<(Vec<TsigKey>, Vec<KeyFile>)> = servers
        .iter_mut()
        .map(|block| {
            let keys = std::mem::take(&mut block.keys);
            (keys, std::mem::take(&mut block.key_files))
        })
        .collect();
    for (index, block) in servers.iter_mut().enumerate() {
        for (other, (keys, files)) in own.iter().enumerate() {
            let mut theirs = listeners[other].iter();
            if other != index && !theirs.any(|listener| listeners[index].contains(listener)) {
                continue;
            }
            for key in keys {
                add_key(&mut block.keys, key, report);
            }
            block.key_files.extend(files.iter().cloned());
        }
    }
}

/// Adds a key unless it is there; another of its name is reported.
pub(crate) fn add_key(keys: &mut Vec<TsigKey>, key: &TsigKey, report: &mut Report) {
    match keys.iter().find(|there| there.name == key.name) {
        None => keys.push(key.clone()),
        Some(there) if there.same_key(key) => {}
        Some(there) => {
            let message = format!("another key {} stands at {}", key.name, there.place);
            report.error(&key.place, message, "give one of the two another name");
        }
    }
}

/// Reports keys that `transfer` names and no `tsig` on the listener has.
pub(crate) fn check_key_names(servers: &[ServerBlock], report: &mut Report) {
    for block in servers {
        check_key_names_of(block, &block.keys, report);
    }
}

/// Reports keys that `transfer` of a block names and that are not among these.
pub(crate) fn check_key_names_of(block: &ServerBlock, keys: &[TsigKey], report: &mut Report) {
    let named = block.transfers.iter().flat_map(Transfer::key_names);
    for (place, name) in named {
        if !keys.iter().any(|key| key.name == *name) {
            let message = format!("no tsig on this listener has the key {name}");
            let mend = format!("write in this block's tsig: secret {name} BASE64");
            report.error(place, message, mend);
        }
    }
}

/// Reports HTTP servers of different kinds on one port.
pub(crate) fn check_http(servers: &[ServerBlock], report: &mut Report) {
    let mut seen: Vec<(Word, &Place, &HttpAddress)> = Vec::new();
    for block in servers {
        let health = block
            .health
            .as_ref()
            .map(|h| (Word::Health, &h.place, &h.address));
        let ready = block
            .ready
            .as_ref()
            .map(|r| (Word::Ready, &r.place, &r.address));
        let metrics = block
            .prometheus
            .as_ref()
            .map(|p| (Word::Prometheus, &p.place, &p.address));
        for (word, place, address) in [health, ready, metrics].into_iter().flatten() {
            let clash = seen.iter().find(|(other, _, there)| {
                let any = HttpHost::Any;
                let same = there.host == address.host || there.host == any || address.host == any;
                *other != word && there.port == address.port && same && address.port != 0
            });
            if let Some((_, other, _)) = clash {
                let message = format!("{address} is already taken in line {}", other.line);
                report.error(place, message, "give one of the two another port");
            }
            seen.push((word, place, address));
        }
    }
}
