//! From the configuration to servers: which zones on which sockets, who may transfer, who is notified.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use corefile::{HttpAddress, HttpHost};
use directives::config::{
    Bind, BindHost, Config, Cookies, Errors, Https3Limits, HttpsLimits, Listener, LogRule, Nsid,
    Prometheus, QuicLimits, Scheme, ServerBlock, Sockets, Timeouts, Tsig, TsigKey, transfers_on,
};
use directives::handlers::{
    Consolidated, Context, Counts as HandlerCounts, QueryLog, Resolved, Rules, UpstreamSockets,
};
use dns::tsig::{self, KeyRing, Keys};
use dns::{CookieSecrets, Name};
use ops::{Clock, HandlerMetrics};
use ring::rand::{SecureRandom, SystemRandom};
use server::ExchangeLog;
use server::{Common, Identity, Parts, Server, Settings};
use transfer::{Access, Peers, Rule, Secondary};
use zone::{Zone, ZoneSet};

use crate::plan::addresses::interface_addresses;
use crate::plan::hosts::bound_addresses;
use crate::runtime::certificates;
use crate::runtime::chain::{self, keys_of_block};
use crate::runtime::deployment::Deployment;
use crate::runtime::followed_files::{Contents, Reload};
use crate::runtime::reused_handlers::ReusableBlocks;

/// A server that is made and not yet in use.
pub(crate) struct Made {
    /// The server.
    pub(crate) server: Server,
    /// Where it is to answer.
    pub(crate) listeners: Vec<Listener>,
    /// The keys that its ring is to hold: it may be one that is in use.
    pub(crate) keys: Keys,
    /// The files to follow.
    pub(crate) reloads: Vec<Reload>,
    /// Of each key of its blocks the zone, where queries are counted.
    pub(crate) counted: Vec<Option<String>>,
    /// The first zone of each block that is counted, with the words that take part in its answers.
    pub(crate) words: Vec<(String, Vec<&'static str>)>,
}

/// Kept from one configuration to the next.
pub(crate) struct Lasting<'a> {
    /// Shared by all servers.
    pub(crate) common: &'a Common,
    /// The settings of all servers, those of the Corefile apart.
    pub(crate) settings: Settings,
    /// Makes cookies.
    pub(crate) cookies: &'a CookieSecrets,
    /// The time.
    pub(crate) clock: &'a Arc<dyn Clock>,
    /// The keys of the servers of now, by their listeners.
    pub(crate) rings: Vec<(Vec<Listener>, Arc<KeyRing>)>,
    /// Counters of handlers.
    pub(crate) metrics: &'a HandlerMetrics,
    /// The running handlers.
    pub(crate) handlers: ReusableBlocks,
    /// The addresses of upstreams that are written as names.
    pub(crate) resolved: &'a Resolved,
    /// How many sockets towards upstreams there may be.
    pub(crate) sockets: &'a UpstreamSockets,
}

/// Makes a server for every group of listeners that have the same keys of the same blocks.
pub(crate) fn make_servers(
    config: &Config,
    deployment: &Deployment,
    lasting: &mut Lasting<'_>,
) -> anyhow::Result<Vec<Made>> {
    let mut groups: BTreeMap<Vec<(usize, Vec<&Name>)>, Vec<Listener>> = BTreeMap::new();
    for (listener, blocks) in config.listeners() {
        let places = blocks
            .iter()
            .filter_map(|block| {
                let mut servers = config.servers.iter();
                let place = servers.position(|other| std::ptr::eq(other, *block))?;
                let keys = block.keys_on(&listener).map(|key| &key.apex);
                Some((place, keys.collect()))
            })
            .collect();
        groups.entry(places).or_default().push(listener);
    }
    let mut notified = BTreeSet::new();
    let mut made = Vec::new();
    for (places, listeners) in groups {
        let blocks: Vec<&ServerBlock> = places
            .iter()
            .map(|(place, _)| &config.servers[*place])
            .collect();
        made.push(make(
            &blocks,
            listeners,
            deployment,
            lasting,
            &mut notified,
        )?);
    }
    Ok(made)
}

/// Makes the server of some blocks.
fn make(
    blocks: &[&ServerBlock],
    listeners: Vec<Listener>,
    deployment: &Deployment,
    lasting: &mut Lasting<'_>,
    notified: &mut BTreeSet<(Name, SocketAddr)>,
) -> anyhow::Result<Made> {
    // Who shares a listener with a server of before has its ring: those who are told go on with it.
    let is_its = |(of, _): &(Vec<Listener>, _)| of.iter().any(|it| listeners.contains(it));
    let ring = match lasting.rings.iter().position(is_its) {
        Some(place) => lasting.rings.swap_remove(place).1,
        None => Arc::default(),
    };
    let keys = keys_of(blocks.iter().flat_map(|block| block.keys()));
    let mut reloads: Vec<Reload> = follow_keys(blocks, &ring).into_iter().collect();
    let tls = if listeners.iter().any(|it| it.scheme.encrypted().is_some()) {
        let (identity, reload) = certificates::open(blocks)?;
        reloads.push(reload);
        Some(identity)
    } else {
        None
    };
    let server_label = server_label(&listeners, blocks);
    let hostname = hostname();
    let context = Context {
        clock: lasting.clock,
        counts: HandlerCounts {
            metrics: lasting.metrics,
            server: &server_label,
        },
        hostname: &hostname,
        clients: None,
        resolved: lasting.resolved,
        sockets: lasting.sockets,
    };
    let reusable = (&mut lasting.handlers, &*listeners);
    let router = chain::router_of(blocks, deployment, &context, reusable)?;
    let Transfers {
        zones,
        access,
        secondaries,
    } = transfers((blocks, &listeners), deployment, notified);
    let nsid = blocks
        .iter()
        .find_map(|block| block.get())
        .map(|nsid| match nsid {
            Nsid::Text(text) => text.clone(),
            Nsid::Hostname => hostname.clone(),
        });
    let mut cookies = blocks.iter().filter_map(|block| block.get::<Cookies>());
    let cookies = cookies.find_map(|cookies| Some(cookies.secrets.clone()?.1));
    let server = Server::new(Parts {
        zones: Arc::new(ZoneSet::new(zones)),
        access,
        secondaries,
        router: Arc::new(router),
        keys: ring,
        tls,
        identity: Identity {
            nsid: nsid.map(|text| text.into_bytes().into()),
            cookies: cookies.unwrap_or_else(|| lasting.cookies.clone()),
        },
        settings: settings_of(blocks, lasting.settings),
        clock: Arc::clone(lasting.clock),
        query_log: QueryLog::new(blocks.iter().map(|block| rules(block)).collect())
            .map(|log| Arc::new(log) as Arc<dyn ExchangeLog>),
        common: lasting.common.clone(),
    });
    let (counted, words) = counts_of(blocks, &listeners, &server);
    Ok(Made {
        server,
        listeners,
        keys,
        reloads,
        counted,
        words,
    })
}

/// The address of a server as CoreDNS writes it in labels: `dns://:53`, `tls://127.0.0.1:853`.
pub(crate) fn label(scheme: Scheme, address: SocketAddr) -> String {
    let scheme = scheme.as_str();
    if address.ip().is_unspecified() {
        format!("{scheme}://:{}", address.port())
    } else {
        format!("{scheme}://{address}")
    }
}

/// The log settings of a block.
fn rules(block: &ServerBlock) -> Rules {
    Rules {
        logs: block.all().cloned().collect(),
        errors: block
            .get::<Errors>()
            .map(|errors| Arc::new(Consolidated::new(&errors.consolidations))),
        metadata: block
            .get::<directives::config::Metadata>()
            .map(|metadata| metadata.zones.clone())
            .unwrap_or_default(),
    }
}

/// What handlers of these blocks write in that label: the first address of the first listener.
fn server_label(listeners: &[Listener], blocks: &[&ServerBlock]) -> String {
    let first = listeners.first().and_then(|listener| {
        let addresses = addresses_of(listener, blocks, &interface_addresses).ok()?;
        Some(label(listener.scheme, *addresses.first()?))
    });
    first.unwrap_or_default()
}

/// Of a server: the zone of each key, where its queries are counted; and the first zone of each block that
/// is counted, with the words that take part in its answers.
pub(crate) type Counts = (Vec<Option<String>>, Vec<(String, Vec<&'static str>)>);

/// The counters of the queries of some blocks.
fn counts_of(blocks: &[&ServerBlock], listeners: &[Listener], server: &Server) -> Counts {
    let blocks = blocks.iter().zip(server.router().blocks());
    let (mut counted, mut words) = (Vec::new(), Vec::new());
    for (block, chain) in blocks {
        let is_counted = block.has::<Prometheus>();
        let zones = keys_of_block(block, listeners).map(|key| key.apex.to_string());
        counted.extend(zones.map(|zone| is_counted.then_some(zone)));
        if let Some(key) = keys_of_block(block, listeners)
            .next()
            .filter(|_| is_counted)
        {
            let watching = [
                ("prometheus", true),
                ("errors", block.has::<Errors>()),
                ("log", block.has::<LogRule>()),
            ];
            let watching = watching.into_iter().filter(|(_, is_on)| *is_on);
            let all = watching.map(|(word, _)| word);
            let all = all.chain(chain.handlers().iter().map(|handler| handler.name()));
            words.push((key.apex.to_string(), all.collect()));
        }
    }
    (counted, words)
}

/// The limits and times of the listeners of some blocks: of two that say the same the last counts.
pub(crate) fn settings_of(blocks: &[&ServerBlock], mut settings: Settings) -> Settings {
    for block in blocks {
        let Timeouts {
            read,
            write,
            idle,
            max_age,
            max_queries,
        } = block.get().copied().unwrap_or_default();
        let tcp = &mut settings.tcp;
        tcp.first_request_timeout = read.unwrap_or(tcp.first_request_timeout);
        tcp.stall_timeout = write.unwrap_or(tcp.stall_timeout);
        tcp.idle_timeout = idle.unwrap_or(tcp.idle_timeout);
        tcp.max_age = max_age.unwrap_or(tcp.max_age);
        tcp.max_queries = max_queries.or(tcp.max_queries);
    }
    // Of sockets and of the limits of encrypted listeners the first.
    if let Some(limits) = blocks.iter().find_map(|block| block.get::<HttpsLimits>()) {
        limits.apply(&mut settings);
    }
    if let Some(limits) = blocks.iter().find_map(|block| block.get::<Https3Limits>()) {
        limits.apply(&mut settings);
    }
    if let Some(limits) = blocks.iter().find_map(|block| block.get::<QuicLimits>()) {
        limits.apply(&mut settings);
    }
    let mut sockets = blocks.iter().filter_map(|block| block.get());
    settings.udp_sockets = match sockets.next() {
        None => settings.udp_sockets,
        Some(Sockets::Number(number)) => number.get(),
        Some(Sockets::Processors) => {
            std::thread::available_parallelism().map_or(settings.udp_sockets, NonZero::get)
        }
    };
    settings
}

/// The zones of some blocks, the peers that may transfer them, the secondaries that are notified.
struct Transfers {
    /// The zones.
    zones: Vec<Arc<Zone>>,
    /// Which peer may transfer which zone.
    access: HashMap<Name, Access>,
    /// Which secondary is notified of which zone.
    secondaries: Vec<Secondary>,
}

/// What some blocks say about zones and transfers on their listeners, which all have the same keys; `notified`: who is
/// told already, by others.
fn transfers(
    (blocks, listeners): (&[&ServerBlock], &[Listener]),
    deployment: &Deployment,
    notified: &mut BTreeSet<(Name, SocketAddr)>,
) -> Transfers {
    let mut zones: Vec<Arc<Zone>> = Vec::new();
    let mut access = HashMap::new();
    let mut secondaries = Vec::new();
    let listener = listeners.first();
    for block in blocks {
        for apex in block.zones_written() {
            let Some(zone) = deployment.zones.get(apex) else {
                continue;
            };
            if !listener.is_some_and(|listener| transfers_on(blocks, listener, block, apex)) {
                continue;
            }
            if !zones.iter().any(|known| Arc::ptr_eq(known, zone)) {
                zones.push(Arc::clone(zone));
            }
            let Some(transfer) = block.for_zone(apex) else {
                continue;
            };
            access
                .entry(apex.clone())
                .or_insert_with(|| access_of(transfer));
            for secondary in &transfer.secondaries {
                // The secondaries of a zone on several listeners are notified once.
                if notified.insert((apex.clone(), secondary.address)) {
                    secondaries.push(Secondary {
                        zone: apex.clone(),
                        target: secondary.address,
                        keys: secondary.keys.clone(),
                        source: transfer.source_for(secondary.address.ip()),
                    });
                }
            }
        }
    }
    Transfers {
        zones,
        access,
        secondaries,
    }
}

/// The secret of the cookies of this run.
pub(crate) fn new_cookies() -> anyhow::Result<CookieSecrets> {
    let mut secret = [0; 16];
    if SystemRandom::new().fill(&mut secret).is_err() {
        bail!("the system gives no random numbers");
    }
    Ok(CookieSecrets::new(secret, &[]))
}

/// The name of the machine, as far as it is known.
pub(crate) fn hostname() -> String {
    let of_kernel = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = of_kernel.or_else(|| std::env::var("HOSTNAME").ok());
    let name = name.map(|name| name.trim().to_owned());
    name.filter(|name| !name.is_empty())
        .unwrap_or_else(|| "localhost".to_owned())
}

/// The access list of a `transfer`.
fn access_of(transfer: &directives::config::Transfer) -> Access {
    let to = transfer.secondaries.iter().map(|secondary| Rule {
        peers: vec![Peers::single(secondary.address.into())],
        keys: secondary.keys.clone(),
        tls: secondary.tls.clone(),
    });
    let allow = transfer.allow.iter().map(|allow| Rule {
        peers: vec![match allow.peer {
            directives::config::Peer::Anyone => Peers::Any,
            directives::config::Peer::Network(network) => Peers::Net {
                network: network.into(),
                link: allow.link,
            },
        }],
        keys: allow.keys.clone(),
        tls: allow.tls.clone(),
    });
    Access::new(to.chain(allow).collect())
}

/// Keys as signatures are checked with them.
pub(crate) fn keys_of<'a>(keys: impl IntoIterator<Item = &'a TsigKey>) -> Keys {
    let usable = |key: &TsigKey| tsig::Key::new(&key.name, key.algorithm, key.secret.expose());
    Keys::new(keys.into_iter().map(usable))
}

/// Follows the key files of some blocks, if there are any.
fn follow_keys(blocks: &[&ServerBlock], ring: &Arc<KeyRing>) -> Option<Reload> {
    let tsigs = blocks.iter().flat_map(|block| block.all::<Tsig>());
    let files = tsigs.flat_map(|tsig| &tsig.files);
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
        let keys = directives::config::read_keys_again(&blocks)
            .map_err(|problems| problems.iter().map(ToString::to_string).collect::<Vec<_>>())?;
        ring.replace(keys_of(&keys));
        Ok(())
    };
    Some(Reload::new("keys", files, seen, Box::new(take)))
}

/// The addresses of a listener on which some of its blocks are not excepted; `local` gives those of an
/// interface.
pub(crate) fn addresses_of(
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
                let bind = blocks.iter().find_map(|block| block.get::<Bind>());
                let place = bind.map_or_else(String::new, |it| format!("{}: bind: ", it.place));
                bail!(
                    "{place}interface {name} has no address; see `ip address`, or bind an address"
                );
            }
            let excepted: Vec<Vec<IpAddr>> = blocks
                .iter()
                .map(|block| {
                    let except = block.get().map_or(&[][..], |bind: &Bind| &bind.except);
                    bound_addresses(except, local)
                })
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
pub(crate) async fn bind_http(
    address: &HttpAddress,
    what: &str,
) -> anyhow::Result<tokio::net::TcpListener> {
    let hosts: Vec<SocketAddr> = match &address.host {
        HttpHost::Any => vec![
            SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), address.port),
            SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), address.port),
        ],
        HttpHost::Address(ip) => vec![SocketAddr::new(*ip, address.port)],
        HttpHost::Name(name) => tokio::net::lookup_host((name.as_str(), address.port))
            .await
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
            "cannot listen on {host} for {what}: {error}; find its process with `ss -lnp`, or choose another port"
        ),
        None => bail!("{what}: no address to listen on"),
    }
}

#[cfg(test)]
mod tests;
