//! From the configuration to servers: which zones on which sockets, who may transfer, who is notified.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, bail};
use ring::rand::{SecureRandom, SystemRandom};

use crate::app::certificates;
use crate::app::chain::{self, Surroundings};
use crate::app::hosts::bound_addresses;
use crate::app::plan::{Planned, interface_addresses};
use crate::app::reload::{Contents, Reload};
use crate::corefile::{
    self, BindHost, Config, HttpAddress, HttpHost, Listener, Nsid, Scheme, ServerBlock, TsigKey,
};
use crate::dns::tsig::{self, KeyRing, Keys};
use crate::dns::{CookieSecret, Name};
use crate::live::{QueryLog, Rules};
use crate::ops::{Clock, HandlerMetrics};
use crate::serve::{Identity, Parts, Server, Settings};
use crate::transfer::{Access, Peers, Rule, Secondary, SecondaryTable};
use crate::zone::{Zone, ZoneSet};

/// The servers, and the files that they are to follow.
pub(super) struct Bound {
    /// The servers.
    pub(super) servers: Vec<Server>,
    /// What each secondary has, of all servers.
    pub(super) table: Arc<SecondaryTable>,
    /// The files.
    pub(super) reloads: Vec<Reload>,
}

/// Binds a server for every group of listeners that have the same blocks.
pub(super) fn bind_servers(
    config: &Config,
    planned: &Planned<'_>,
    settings: Settings,
    clock: &Arc<dyn Clock>,
    metrics: &HandlerMetrics,
) -> anyhow::Result<Bound> {
    let mut groups: BTreeMap<Vec<usize>, Vec<Listener>> = BTreeMap::new();
    for (listener, blocks) in config.listeners() {
        let places = blocks
            .iter()
            .filter_map(|block| {
                config
                    .servers
                    .iter()
                    .position(|other| std::ptr::eq(other, *block))
            })
            .collect();
        groups.entry(places).or_default().push(listener);
    }
    let groups: Vec<(Vec<&ServerBlock>, Vec<Listener>)> = groups
        .into_iter()
        .map(|(places, listeners)| {
            let blocks = places.iter().map(|place| &config.servers[*place]);
            (blocks.collect(), listeners)
        })
        .collect();
    let mut notified = BTreeSet::new();
    let secondaries: Vec<Vec<Secondary>> = groups
        .iter()
        .map(|(blocks, _)| secondaries_of(blocks, planned, &mut notified))
        .collect();
    // A secondary takes its zone from any of the servers that have it.
    let table = Arc::new(SecondaryTable::of(secondaries.iter().flatten()));
    let (mut servers, mut reloads) = (Vec::new(), Vec::new());
    for ((blocks, listeners), secondaries) in groups.into_iter().zip(secondaries) {
        let told = (secondaries, Arc::clone(&table));
        let server_label = listeners.first().map_or_else(String::new, server_label);
        let surroundings = Surroundings {
            clock,
            metrics,
            server: &server_label,
        };
        let parts = parts_of(&blocks, planned, settings, surroundings, told)?;
        reloads.extend(follow_keys(&blocks, &parts.keys));
        let mut server = Server::new(parts);
        let mut tls = None;
        for listener in &listeners {
            for address in addresses_of(listener, &blocks, &interface_addresses)? {
                let bound = match listener.scheme {
                    Scheme::Dns => server.bind(address)?,
                    Scheme::Tls => {
                        let identity = match &tls {
                            Some(identity) => Arc::clone(identity),
                            None => {
                                let (identity, reload) = certificates::open(&blocks)?;
                                reloads.push(reload);
                                Arc::clone(tls.insert(identity))
                            }
                        };
                        server.bind_tls(address, identity)?
                    }
                };
                let scheme = listener.scheme.as_str();
                tracing::info!(address = %bound, scheme, "listening");
            }
        }
        servers.push(server);
    }
    Ok(Bound {
        servers,
        table,
        reloads,
    })
}

/// A listener as metrics name it: `dns://:53`.
fn server_label(listener: &Listener) -> String {
    let (scheme, port) = (listener.scheme.as_str(), listener.port);
    match &listener.host {
        None => format!("{scheme}://:{port}"),
        Some(BindHost::Address(address)) => {
            format!("{scheme}://{}", SocketAddr::new(*address, port))
        }
        Some(BindHost::Interface(name)) => format!("{scheme}://{name}:{port}"),
    }
}

/// What the server of some blocks needs.
fn parts_of(
    blocks: &[&ServerBlock],
    planned: &Planned<'_>,
    settings: Settings,
    surroundings: Surroundings<'_>,
    (secondaries, table): (Vec<Secondary>, Arc<SecondaryTable>),
) -> anyhow::Result<Parts> {
    let mut zones: Vec<Arc<Zone>> = Vec::new();
    let mut access = HashMap::new();
    for block in blocks {
        for apex in block.zones_written() {
            let Some(zone) = planned.zones.get(apex) else {
                continue;
            };
            if !zones.iter().any(|known| Arc::ptr_eq(known, zone)) {
                zones.push(Arc::clone(zone));
            }
            let Some(transfer) = block.transfer_for(apex) else {
                continue;
            };
            access
                .entry(apex.clone())
                .or_insert_with(|| access_of(transfer));
        }
    }
    let keys = keys_of(blocks.iter().flat_map(|block| &block.keys));
    let rules = |block: &&ServerBlock| Rules {
        zones: block.zones.iter().map(|key| key.apex.clone()).collect(),
        logs: block.logs.clone(),
        errors: block.errors.is_some(),
    };
    Ok(Parts {
        zones: Arc::new(ZoneSet::new(zones)),
        access,
        secondaries,
        table,
        router: Arc::new(chain::router_of(blocks, planned, surroundings)?),
        keys: Arc::new(KeyRing::new(keys)),
        identity: identity_of(blocks)?,
        settings,
        clock: Arc::clone(surroundings.clock),
        query_log: QueryLog::new(blocks.iter().map(rules).collect()),
    })
}

/// Who is told of new versions by the server of some blocks, and by no server before it.
fn secondaries_of(
    blocks: &[&ServerBlock],
    planned: &Planned<'_>,
    notified: &mut BTreeSet<(Name, SocketAddr)>,
) -> Vec<Secondary> {
    let mut secondaries = Vec::new();
    for block in blocks {
        for apex in block.zones_written() {
            let transfer = block.transfer_for(apex);
            let Some(transfer) = transfer.filter(|_| planned.zones.get(apex).is_some()) else {
                continue;
            };
            for secondary in &transfer.secondaries {
                if notified.insert((apex.clone(), secondary.address)) {
                    secondaries.push(Secondary {
                        zone: apex.clone(),
                        target: secondary.address,
                        key: secondary.keys.first().cloned(),
                        source: transfer.source_for(secondary.address.ip()),
                    });
                }
            }
        }
    }
    secondaries
}

/// What the server of some blocks tells of itself. Its cookies are good for this run.
fn identity_of(blocks: &[&ServerBlock]) -> anyhow::Result<Identity> {
    let mut secret = [0; 16];
    if SystemRandom::new().fill(&mut secret).is_err() {
        bail!("the system gives no random numbers");
    }
    let nsid = corefile::nsid_of(blocks).map(|nsid| match nsid {
        Nsid::Text(text) => text.clone(),
        Nsid::Hostname => hostname(),
    });
    Ok(Identity {
        nsid: nsid.map(|text| text.into_bytes().into()),
        cookies: CookieSecret::new(secret),
    })
}

/// The name of the machine, as far as it is known.
pub(super) fn hostname() -> String {
    let of_kernel = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = of_kernel.or_else(|| std::env::var("HOSTNAME").ok());
    let name = name.map(|name| name.trim().to_owned());
    name.filter(|name| !name.is_empty())
        .unwrap_or_else(|| "localhost".to_owned())
}

/// The access list of a `transfer`.
fn access_of(transfer: &corefile::Transfer) -> Access {
    let single = |address: IpAddr| Peers::Net {
        address: address.to_canonical(),
        prefix: if address.to_canonical().is_ipv4() {
            32
        } else {
            128
        },
    };
    let to = transfer.secondaries.iter().map(|secondary| Rule {
        peers: vec![single(secondary.address.ip())],
        keys: secondary.keys.clone(),
        tls: secondary.tls.clone(),
    });
    let allow = transfer.allow.iter().map(|allow| Rule {
        peers: vec![match allow.peer {
            corefile::Peer::Anyone => Peers::Any,
            corefile::Peer::Network(network) => Peers::Net {
                address: network.address(),
                prefix: network.prefix_bits(),
            },
        }],
        keys: allow.keys.clone(),
        tls: allow.tls.clone(),
    });
    Access::new(to.chain(allow).collect())
}

/// Keys as signatures are checked with them.
pub(super) fn keys_of<'a>(keys: impl IntoIterator<Item = &'a TsigKey>) -> Keys {
    let usable = |key: &TsigKey| tsig::Key::new(&key.name, key.algorithm, key.secret.expose());
    Keys::new(keys.into_iter().map(usable))
}

/// Follows the key files of some blocks, if there are any.
fn follow_keys(blocks: &[&ServerBlock], ring: &Arc<KeyRing>) -> Option<Reload> {
    let files = blocks.iter().flat_map(|block| &block.key_files);
    let files: BTreeSet<PathBuf> = files.map(|file| PathBuf::from(&*file.path)).collect();
    if files.is_empty() {
        return None;
    }
    let files: Vec<PathBuf> = files.into_iter().collect();
    let seen = Contents::of(&files);
    let blocks: Vec<ServerBlock> = blocks.iter().copied().cloned().collect();
    let ring = Arc::clone(ring);
    let take = move || {
        let blocks: Vec<&ServerBlock> = blocks.iter().collect();
        let keys = corefile::read_keys_again(&blocks)
            .map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        ring.replace(keys_of(&keys));
        Ok(())
    };
    // The Corefile was read a while ago. What is wrong by now was right then, and stays in use.
    let _wrong_now = take();
    Some(Reload::new("keys", files, seen, Box::new(take)))
}

/// The addresses of a listener on which some of its blocks are not excepted; `local` gives those of an
/// interface.
fn addresses_of(
    listener: &Listener,
    blocks: &[&ServerBlock],
    local: &dyn Fn(Option<&str>) -> Vec<IpAddr>,
) -> anyhow::Result<Vec<SocketAddr>> {
    let hosts = match &listener.host {
        None => vec![
            IpAddr::from(Ipv4Addr::UNSPECIFIED),
            IpAddr::from(Ipv6Addr::UNSPECIFIED),
        ],
        Some(BindHost::Address(address)) => vec![*address],
        Some(BindHost::Interface(name)) => {
            let mut found = local(Some(name));
            if found.is_empty() {
                bail!("interface {name} has no address; see `ip address`, or bind an address");
            }
            let excepted: Vec<Vec<IpAddr>> = blocks
                .iter()
                .map(|block| bound_addresses(&block.bind.except, local))
                .collect();
            found.retain(|address| !excepted.iter().all(|it| it.contains(address)));
            found
        }
    };
    Ok(hosts
        .into_iter()
        .map(|host| SocketAddr::new(host, listener.port))
        .collect())
}

/// Binds an HTTP listener.
pub(super) async fn bind_http(
    address: &HttpAddress,
    what: &str,
) -> anyhow::Result<tokio::net::TcpListener> {
    let hosts: Vec<SocketAddr> = match &address.host {
        HttpHost::Any => vec![
            SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), address.port),
            SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), address.port),
        ],
        HttpHost::Address(ip) => vec![SocketAddr::new(*ip, address.port)],
        HttpHost::Name(name) => (name.as_str(), address.port)
            .to_socket_addrs()
            .with_context(|| format!("{what}: the host {name} is not known"))?
            .collect(),
    };
    let mut failure = None;
    for host in hosts {
        match tokio::net::TcpListener::bind(host).await {
            Ok(listener) => return Ok(listener),
            Err(error) => failure = Some((host, error)),
        }
    }
    match failure {
        Some((host, error)) => bail!(
            "cannot listen on {host} for {what}: {error}; see who has it with `ss -lnp`, or take \
             another port"
        ),
        None => bail!("{what}: no address to listen on"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corefile::{Overrides, parse_text};

    #[test]
    fn an_address_that_is_excepted_of_an_interface_is_not_bound() {
        let local = |_: Option<&str>| {
            ["192.0.2.1", "192.0.2.2"]
                .map(|it| it.parse().unwrap())
                .into()
        };
        let bound = |lines: &str| -> Vec<String> {
            let text = format!("z:53 {{\n{lines}\n}}\n");
            let loaded = parse_text("Corefile", &text, &Overrides::default(), &|_| None).unwrap();
            let listeners = loaded.config.listeners().into_iter();
            let all = listeners
                .flat_map(|(listener, blocks)| addresses_of(&listener, &blocks, &local).unwrap());
            all.map(|address| address.to_string()).collect()
        };
        assert_eq!(bound("bind eth0"), ["192.0.2.1:53", "192.0.2.2:53"]);
        let lines = "bind eth0 {\n except 192.0.2.2\n}";
        assert_eq!(bound(lines), ["192.0.2.1:53"]);
    }
}
