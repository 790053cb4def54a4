//! From the configuration to servers: which zones on which sockets, who may transfer, who is notified.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use anyhow::{Context, bail};

use crate::app::plan::{Planned, interface_addresses};
use crate::corefile::{self, BindHost, Config, HttpAddress, HttpHost, Listener, ServerBlock};
use crate::dns::Name;
use crate::dns::tsig::{self, Keys};
use crate::live::{QueryLog, Rules};
use crate::ops::Clock;
use crate::serve::{Parts, Server, Settings};
use crate::transfer::{Access, Peers, Rule, Secondary};
use crate::zone::{Zone, ZoneSet};

/// Binds a server for every group of listeners that have the same blocks.
pub(super) fn bind_servers(
    config: &Config,
    planned: &Planned<'_>,
    settings: Settings,
    clock: &Arc<dyn Clock>,
) -> anyhow::Result<Vec<Server>> {
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
    let mut notified = BTreeSet::new();
    let mut servers = Vec::new();
    for (places, listeners) in groups {
        let blocks: Vec<&ServerBlock> =
            places.iter().map(|place| &config.servers[*place]).collect();
        let parts = parts_of(&blocks, planned, settings, clock, &mut notified)?;
        let mut server = Server::new(parts);
        for listener in &listeners {
            for address in addresses_of(listener)? {
                let bound = server.bind(address)?;
                tracing::info!(address = %bound, "listening");
            }
        }
        servers.push(server);
    }
    Ok(servers)
}

/// What the server of some blocks needs.
fn parts_of(
    blocks: &[&ServerBlock],
    planned: &Planned<'_>,
    settings: Settings,
    clock: &Arc<dyn Clock>,
    notified: &mut BTreeSet<(Name, SocketAddr)>,
) -> anyhow::Result<Parts> {
    let mut zones: Vec<Arc<Zone>> = Vec::new();
    let mut access = HashMap::new();
    let mut live = HashMap::new();
    let mut secondaries = Vec::new();
    for block in blocks {
        for apex in block.zones_written() {
            let Some(zone) = planned.zones.get(apex) else {
                continue;
            };
            if !zones.iter().any(|known| Arc::ptr_eq(known, zone)) {
                zones.push(Arc::clone(zone));
            }
            let names = planned.live_names(apex);
            if !names.is_empty() {
                live.insert(apex.clone(), names);
            }
            let Some(transfer) = block.transfer_for(apex) else {
                continue;
            };
            access
                .entry(apex.clone())
                .or_insert_with(|| access_of(transfer));
            for secondary in &transfer.secondaries {
                // A zone on several listeners has its secondaries told once.
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
    let keys = keys_of(blocks)?;
    let rules = |block: &&ServerBlock| Rules {
        zones: block.zones.iter().map(|key| key.apex.clone()).collect(),
        logs: block.logs.clone(),
        errors: block.errors.is_some(),
    };
    Ok(Parts {
        zones: Arc::new(ZoneSet::new(zones)),
        access,
        secondaries,
        live,
        keys: Arc::new(keys),
        settings,
        clock: Arc::clone(clock),
        query_log: QueryLog::new(blocks.iter().map(rules).collect()),
    })
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
    });
    Access::new(to.chain(allow).collect())
}

/// The keys of some blocks.
fn keys_of(blocks: &[&ServerBlock]) -> anyhow::Result<Keys> {
    let mut keys = Vec::new();
    for key in blocks.iter().flat_map(|block| &block.keys) {
        let algorithm: tsig::Algorithm = key
            .algorithm
            .as_str()
            .parse()
            .with_context(|| format!("{}: key {}", key.place, key.name))?;
        keys.push(tsig::Key::new(&key.name, algorithm, key.secret.expose()));
    }
    Ok(Keys::new(keys))
}

/// The addresses of a listener.
fn addresses_of(listener: &Listener) -> anyhow::Result<Vec<SocketAddr>> {
    if listener.scheme != corefile::Scheme::Dns {
        bail!("listeners other than dns:// are not supported yet");
    }
    let hosts = match &listener.host {
        None => vec![
            IpAddr::from(Ipv4Addr::UNSPECIFIED),
            IpAddr::from(Ipv6Addr::UNSPECIFIED),
        ],
        Some(BindHost::Address(address)) => vec![*address],
        Some(BindHost::Interface(name)) => {
            let found = interface_addresses(Some(name));
            if found.is_empty() {
                bail!("interface {name} has no address; see `ip address`, or bind an address");
            }
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
