//! What serves: listeners, handlers, those who are told of versions, HTTP; and how a new configuration takes
//! their place.
//!
//! Everything that may fail is done first, aside ([`Serving::prepare`]): servers are made, new addresses bound. Then
//! [`Serving::take`] puts it into use, which cannot fail. Whatever both configurations have stays as it is.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use arc_swap::ArcSwap;
use corefile::HttpAddress;
use directives::config::{Bind, Config, Listener, Scheme, ServerBlock, answering_words};
use directives::handlers::{UpstreamSockets, resolve_upstreams};
use dns::tsig::KeyRing;
use dns::{CookieSecrets, Name};
use futures_util::FutureExt;
use history::{ListenerLine, PastNow, SandboxLine};
use ops::http::{self, CurrentEndpoints, HttpEndpoints};
use ops::{Clock, HandlerMetrics, Tasks};
use server::tally::Tally;
use server::{Answering, BindError, Common, NamedTask, Server, Settings, Standing, overlap};
use server::{Block, Handler};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use transfer::Secondary;
use zone::Zone;

use crate::failure::HandlerFault;
use crate::plan::addresses::interface_addresses;
use crate::runtime::deployment::Deployment;
use crate::runtime::descriptors;
use crate::runtime::followed_files::{self, Reload};
use crate::runtime::health::HealthNow;
use crate::runtime::history_api::{ApiServing, PreparedApi, most_connections};
use crate::runtime::ingest::ToAsk;
use crate::runtime::listeners::{
    Counts, Lasting, Made, addresses_of, bind_http, hostname, label, make_servers, new_cookies,
    settings_of,
};
use crate::runtime::notes::{Notebooks, PreparedNotes};
use crate::runtime::observed::{Observed, ObservedParts};
use crate::runtime::reused_handlers::ReusableBlocks;
use crate::runtime::startup_gate::{Gate, Gates};
use crate::runtime::state_folder::StateFolder;
use crate::runtime::status::ListeningNow;

/// The sockets of one address.
type Socket = (Scheme, SocketAddr);

/// The place of a socket's server, its address, and itself if it is new.
type NewSocket = (usize, Socket, Option<server::Listener>);

/// A running HTTP listener: its endpoints, its bound address, its end.
type HttpListener = (CurrentEndpoints, SocketAddr, CancellationToken);

pub(crate) struct Serving {
    /// Shared by all servers.
    pub(crate) common: Common,
    /// The settings of all servers, those of the Corefile apart.
    settings: Settings,
    /// Counters of handlers.
    pub(crate) metrics: HandlerMetrics,
    /// Makes the cookies of this run.
    cookies: CookieSecrets,
    /// How many sockets towards upstreams there may be.
    upstream_sockets: UpstreamSockets,
    /// The time.
    clock: Arc<dyn Clock>,
    /// The servers, with their listeners.
    servers: Vec<(Vec<Listener>, Server)>,
    /// The sockets that are served.
    sockets: BTreeMap<Socket, (Answering, CancellationToken, Standing)>,
    /// The HTTP listeners.
    http: BTreeMap<HttpAddress, HttpListener>,
    /// The history over HTTPS.
    pub(crate) history_api: ApiServing,
    /// The sockets, for status.
    pub(crate) listening: ListeningNow,
    /// The HTTP listeners that tell health.
    pub(crate) health: HealthNow,
    /// The handlers that do something besides answering.
    handlers: Vec<(Arc<dyn Handler>, CancellationToken)>,
    /// The notified secondaries, with zones and keys.
    told: Vec<(Told, CancellationToken)>,
    /// The signed notes of versions.
    pub(crate) notes: Notebooks,
    /// Ends the following of keys and certificates.
    follow: CancellationToken,
}

/// A new HTTP listener and its address.
type NewHttp = (TcpListener, SocketAddr);

/// The scheme of HTTP listeners, for people.
const HTTP: &str = "http";

/// A secondary that is notified, the zone, the keys.
type Told = (Secondary, Arc<Zone>, Arc<KeyRing>);

/// A configuration that can be taken into use at once.
pub(crate) struct Prepared {
    /// The servers.
    servers: Vec<Made>,
    /// The sockets that each has, and those that are new.
    sockets: Vec<NewSocket>,
    /// What is answered over HTTP, and the listeners that are new.
    http: Vec<(HttpAddress, HttpEndpoints, Option<NewHttp>)>,
    /// The signed notes of versions.
    notes: Vec<PreparedNotes>,
    /// The history over HTTPS.
    history_api: Option<PreparedApi>,
}

impl Serving {
    /// Nothing yet; `settings` are those of all servers. `config` is that of the start.
    pub(crate) fn new(
        clock: &Arc<dyn Clock>,
        metrics: &HandlerMetrics,
        settings: Settings,
        config: &Config,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            metrics: metrics.clone(),
            common: Common::new(&settings, answering_words()),
            settings,
            cookies: new_cookies()?,
            upstream_sockets: descriptors::upstream_sockets(most_connections(config)),
            clock: Arc::clone(clock),
            servers: Vec::new(),
            sockets: BTreeMap::new(),
            http: BTreeMap::new(),
            history_api: ApiServing::new(),
            listening: ListeningNow::default(),
            health: HealthNow::default(),
            handlers: Vec::new(),
            told: Vec::new(),
            notes: Notebooks::new(clock, hostname()),
            follow: CancellationToken::new(),
        })
    }

    /// What observers see of these parts and of a deployment.
    pub(crate) fn observe(
        &self,
        deployment: &Arc<Deployment>,
        state: &StateFolder,
        sandbox: SandboxLine,
    ) -> Arc<Observed> {
        Arc::new(Observed::new(
            deployment,
            ObservedParts {
                common: &self.common,
                listening: &self.listening,
                notes: &self.notes.board,
            },
            &self.clock,
            state,
            sandbox,
        ))
    }

    /// Makes and binds everything that a configuration wants; nothing that is in use changes.
    pub(crate) async fn prepare(
        &self,
        config: &Config,
        deployment: &Deployment,
        ends: Vec<(HttpAddress, HttpEndpoints)>,
    ) -> anyhow::Result<Prepared> {
        let notes = self.notes.prepare(config, &deployment.zones)?;
        let resolved = resolve_upstreams(config).await?;
        let rings = self.servers.iter();
        let rings = rings.map(|(of, server)| (of.clone(), Arc::clone(server.keys())));
        let routers = self.servers.iter();
        let routers = routers.map(|(of, server)| (of.clone(), Arc::clone(server.router())));
        let mut lasting = Lasting {
            common: &self.common,
            settings: self.settings,
            cookies: &self.cookies,
            clock: &self.clock,
            rings: rings.collect(),
            metrics: &self.metrics,
            handlers: ReusableBlocks::new(routers),
            resolved: &resolved,
            sockets: &self.upstream_sockets,
        };
        let servers = make_servers(config, deployment, &mut lasting)?;
        let mut wanted = Vec::new();
        for (place, made) in servers.iter().enumerate() {
            for listener in &made.listeners {
                let blocks = blocks_on(config, listener);
                let addresses = addresses_of(listener, &blocks, &interface_addresses)?;
                wanted.extend(addresses.into_iter().map(|it| (place, listener, it)));
            }
        }
        // Whoever has all addresses comes first: so another process with the port is found out.
        wanted.sort_by_key(|(_, _, address)| !address.ip().is_unspecified());
        let standing = self.sockets.iter();
        let standing = standing.map(|((_, address), (_, _, it))| (*address, it.clone()));
        let mut standing: Vec<_> = standing.collect();
        let mut sockets = Vec::new();
        for (place, listener, address) in wanted {
            let socket = (listener.scheme, address);
            if self.sockets.contains_key(&socket) {
                sockets.push((place, socket, None));
            } else if let Some(new) = bind(config, listener, address, &standing)? {
                standing.push((address, new.standing()));
                sockets.push((place, socket, Some(new)));
            }
        }
        let mut http = Vec::new();
        for (address, ends) in ends {
            let new = match self.http.contains_key(&address) {
                true => None,
                false => Some(bind_http(&address, ends.directive()).await?),
            };
            let new = match new {
                Some(listener) => {
                    let bound = listener.local_addr().context("the address of a socket")?;
                    let endpoints = ends.directives().join(",");
                    tracing::info!(address = %bound, scheme = HTTP, transports = "tcp", endpoints, "listening");
                    Some((listener, bound))
                }
                None => None,
            };
            http.push((address, ends, new));
        }
        let history_api = self.history_api.prepare(config).await?;
        Ok(Prepared {
            servers,
            sockets,
            http,
            notes,
            history_api,
        })
    }

    /// Takes a configuration into use. Who serves and tells for the first time waits for its gate. Gives the
    /// secondaries that were not told of versions before.
    pub(crate) fn take(
        &mut self,
        prepared: Prepared,
        past: &PastNow,
        gates: Option<&Gates>,
        tasks: &mut Tasks,
    ) -> ToAsk {
        let Prepared {
            servers,
            sockets,
            http,
            notes,
            history_api,
        } = prepared;
        let mut reloads = Vec::new();
        let (mut now, mut counts) = (Vec::new(), Vec::new());
        for Made {
            server,
            listeners,
            keys,
            reloads: files,
            counted,
            words,
        } in servers
        {
            server.keys().replace(keys);
            reloads.extend(files);
            now.push((listeners, server));
            counts.push((counted, words));
        }
        self.common.secondaries.configure(
            now.iter()
                .flat_map(|(_, server)| server.secondaries())
                .map(|of| (of.zone.clone(), of.target, of.keys.clone())),
            self.clock.wall(),
        );
        let counts = self.count(&sockets, &counts);
        self.take_sockets(&now, (sockets, counts), gates, tasks);
        self.take_http(http, tasks);
        reloads.extend(self.history_api.take(history_api, past, tasks));
        self.listening.store(Arc::new(self.listener_lines()));
        self.take_handlers(&now, tasks);
        let to_ask = self.take_told(&now, gates, tasks);
        self.notes.take(notes, tasks);
        // The Corefile was read a while ago.
        reloads.iter_mut().for_each(Reload::settle);
        self.follow.cancel();
        self.follow = CancellationToken::new();
        let following = followed_files::run(reloads, self.follow.clone());
        tasks.spawn_until("keys and certificates", &self.follow, following);
        let log_tasks = now
            .iter()
            .flat_map(|(_, server)| server.log_tasks(&self.follow));
        for task in log_tasks {
            start(("errors".to_owned(), task), None, &self.follow, tasks);
        }
        self.servers = now;
        to_ask
    }

    /// The counters of each socket, and which words take part where.
    fn count(&self, sockets: &[NewSocket], counts: &[Counts]) -> Vec<Option<Tally>> {
        let mut words = Vec::new();
        let mut tallies = Vec::new();
        for (place, socket, _) in sockets {
            let (zones, of_blocks) = &counts[*place];
            let server = label(socket.0, socket.1);
            for (zone, names) in of_blocks {
                for name in names {
                    let enabled = (server.clone(), zone.clone(), *name);
                    if !words.contains(&enabled) {
                        words.push(enabled);
                    }
                }
            }
            tallies.push(Tally::new(&self.common.tallies, &server, zones));
        }
        self.common.tallies.set_words(words);
        tallies
    }

    /// Exchanges what answers on sockets that stay, starts new ones, ends the others.
    fn take_sockets(
        &mut self,
        servers: &[(Vec<Listener>, Server)],
        (sockets, counts): (Vec<NewSocket>, Vec<Option<Tally>>),
        gates: Option<&Gates>,
        tasks: &mut Tasks,
    ) {
        let mut old = std::mem::take(&mut self.sockets);
        for ((place, socket, new), tally) in sockets.into_iter().zip(counts) {
            let server = &servers[place].1;
            let (answering, stop, standing) = match (old.remove(&socket), &new) {
                (Some(kept), _) => {
                    kept.0.replace(server, tally);
                    kept
                }
                (None, Some(new)) => (
                    Answering::new(server, tally),
                    CancellationToken::new(),
                    new.standing(),
                ),
                (None, None) => continue,
            };
            let started = new.map(|it| it.run(&answering, &stop));
            let gate = gates.map(|gates| gates.for_zones(server.zones()));
            for task in started.into_iter().flatten() {
                start(task, gate.as_ref(), &stop, tasks);
            }
            self.sockets.insert(socket, (answering, stop, standing));
        }
        for ((scheme, address), (_, stop, _)) in old {
            tracing::info!(%address, scheme = scheme.as_str(), "no longer listening");
            stop.cancel();
        }
    }

    /// The same for HTTP.
    fn take_http(
        &mut self,
        http: Vec<(HttpAddress, HttpEndpoints, Option<NewHttp>)>,
        tasks: &mut Tasks,
    ) {
        let telling = http.iter().filter(|(_, ends, _)| ends.health);
        let telling = telling.map(|(address, _, _)| address.clone());
        self.health.store(Arc::new(telling.collect()));
        let mut old = std::mem::take(&mut self.http);
        for (address, ends, new) in http {
            let what = ends.directive();
            let known = match (old.remove(&address), new) {
                (Some(known), _) => {
                    known.0.store(Arc::new(ends));
                    known
                }
                (None, Some((listener, bound))) => {
                    let now = Arc::new(ArcSwap::from_pointee(ends));
                    let stop = CancellationToken::new();
                    let serving = http::serve(listener, Arc::clone(&now), stop.clone());
                    let serving = serving.map(Ok::<_, std::convert::Infallible>);
                    tasks.spawn_until(what, &stop, serving);
                    (now, bound, stop)
                }
                (None, None) => continue,
            };
            self.http.insert(address, known);
        }
        for (_, address, stop) in old.into_values() {
            tracing::info!(%address, scheme = HTTP, "no longer listening");
            stop.cancel();
        }
    }

    /// The sockets on which the server listens, in order.
    fn listener_lines(&self) -> Vec<ListenerLine> {
        let owned = |words: &[&str]| words.iter().map(ToString::to_string).collect();
        let of_dns = self.sockets.keys().map(|(scheme, address)| ListenerLine {
            address: address.to_string(),
            transports: owned(scheme.transports()),
            scheme: scheme.as_str().to_owned(),
            endpoints: Vec::new(),
        });
        let of_http = self.http.values().map(|(now, bound, _)| ListenerLine {
            address: bound.to_string(),
            transports: owned(&["tcp"]),
            scheme: HTTP.to_owned(),
            endpoints: owned(&now.load().directives()),
        });
        let of_api = self.history_api.listener_line();
        of_dns.chain(of_http).chain(of_api).collect()
    }

    /// Lets what handlers do besides answering go on where they stay, and begin or end where not.
    fn take_handlers(&mut self, servers: &[(Vec<Listener>, Server)], tasks: &mut Tasks) {
        let mut old = std::mem::take(&mut self.handlers);
        let blocks = servers
            .iter()
            .flat_map(|(_, server)| server.router().blocks());
        for handler in blocks.flat_map(Block::handlers) {
            let known = old.iter().position(|(it, _)| Arc::ptr_eq(it, handler));
            if let Some(place) = known {
                self.handlers.push(old.swap_remove(place));
                continue;
            }
            let stop = CancellationToken::new();
            if let Some(task) = Arc::clone(handler).background(stop.clone()) {
                let of = Arc::clone(handler);
                let ended = async move {
                    task.await;
                    of.fault().map_or(Ok(()), |said| Err(HandlerFault(said)))
                };
                tasks.spawn_until(handler.name(), &stop, ended);
                self.handlers.push((Arc::clone(handler), stop));
            }
        }
        old.into_iter().for_each(|(_, stop)| stop.cancel());
    }

    /// Goes on telling those who stay, begins and ends with others. Gives those who are new.
    fn take_told(
        &mut self,
        servers: &[(Vec<Listener>, Server)],
        gates: Option<&Gates>,
        tasks: &mut Tasks,
    ) -> ToAsk {
        let mut old = std::mem::take(&mut self.told);
        let mut new = Vec::new();
        for (_, server) in servers {
            for told in server.told() {
                let is_it =
                    |((secondary, zone, keys), _): &(Told, _)| told.is_same(secondary, zone, keys);
                if let Some(place) = old.iter().position(is_it) {
                    self.told.push(old.swap_remove(place));
                    continue;
                }
                let stop = CancellationToken::new();
                let of = (
                    told.secondary.clone(),
                    Arc::clone(&told.zone),
                    Arc::clone(&told.keys),
                );
                let gate = gates.map(|gates| gates.for_zones(server.zones()));
                start(told.run(stop.clone()), gate.as_ref(), &stop, tasks);
                new.extend(server.asked().filter(|(secondary, _)| *secondary == of.0));
                self.told.push((of, stop));
            }
        }
        old.into_iter().for_each(|(_, stop)| stop.cancel());
        new
    }

    /// Notifies the secondaries of a zone again: a task that begins announces the current version. Returns their addresses.
    pub(crate) fn notify_again(&mut self, zone: &Name, tasks: &mut Tasks) -> Vec<SocketAddr> {
        let mut notified = Vec::new();
        for (_, server) in &self.servers {
            for again in server.told().filter(|told| told.zone.apex() == zone) {
                let is_it = |((secondary, zone, keys), _): &&mut (Told, _)| {
                    again.is_same(secondary, zone, keys)
                };
                let Some((_, stop)) = self.told.iter_mut().find(is_it) else {
                    continue;
                };
                stop.cancel();
                *stop = CancellationToken::new();
                notified.push(again.secondary.target);
                start(again.run(stop.clone()), None, stop, tasks);
            }
        }
        notified
    }

    /// Ends everything.
    pub(crate) fn stop(&self) {
        let Self {
            common: _,
            settings: _,
            metrics: _,
            cookies: _,
            upstream_sockets: _,
            clock: _,
            servers: _,
            sockets,
            http,
            history_api,
            listening: _,
            health: _,
            handlers,
            told,
            notes,
            follow,
        } = self;
        sockets.values().for_each(|(_, stop, _)| stop.cancel());
        http.values().for_each(|(_, _, stop)| stop.cancel());
        history_api.stop();
        handlers.iter().for_each(|(_, stop)| stop.cancel());
        told.iter().for_each(|(_, stop)| stop.cancel());
        notes.stop();
        follow.cancel();
    }
}

impl Prepared {
    /// All secondaries that are notified of versions.
    pub(crate) fn has_secondaries(&self) -> bool {
        let mut servers = self.servers.iter();
        servers.any(|made| !made.server.secondaries().is_empty())
    }
}

/// Binds an address beside those that stand; `None` where it stands for all addresses of a family that this machine has
/// not.
fn bind(
    config: &Config,
    listener: &Listener,
    address: SocketAddr,
    standing: &[(SocketAddr, Standing)],
) -> anyhow::Result<Option<server::Listener>> {
    let blocks = blocks_on(config, listener);
    let settings = settings_of(&blocks, Settings::default());
    let beside = standing.iter().filter(|(it, _)| overlap(*it, address));
    let beside: Vec<_> = beside.map(|(_, it)| it.clone()).collect();
    let bound = match listener.scheme.encrypted() {
        None => server::Listener::bind(address, settings.udp_sockets, &beside),
        Some(proto) => server::Listener::bind_encrypted(address, proto, &beside),
    };
    let is_absent = |error: &BindError| error.is_of_absent_family();
    if listener.host.is_none() && address.is_ipv6() && bound.as_ref().is_err_and(is_absent) {
        tracing::info!(%address, "not listening: this machine has no IPv6");
        return Ok(None);
    }
    // A `bind` says where; else the keys of the block do.
    let place = blocks
        .iter()
        .map(|it| it.get::<Bind>().map_or(&it.place, |bind| &bind.place));
    let place = place.map(ToString::to_string).next().unwrap_or_default();
    let bound = bound.with_context(|| place)?;
    let scheme = listener.scheme.as_str();
    let transports = listener.scheme.transports().join(",");
    tracing::info!(address = %bound.address(), scheme, transports, "listening");
    Ok(Some(bound))
}

/// The blocks on a listener.
fn blocks_on<'a>(config: &'a Config, listener: &Listener) -> Vec<&'a ServerBlock> {
    let all = config.listeners().into_iter();
    all.filter(|(it, _)| it == listener)
        .flat_map(|(_, blocks)| blocks)
        .collect()
}

/// Starts a task, once `gate` is open.
fn start(
    (name, task): NamedTask,
    gate: Option<&Gate>,
    stop: &CancellationToken,
    tasks: &mut Tasks,
) {
    let (gate, cancel) = (gate.cloned(), stop.clone());
    tasks.spawn_until(name, stop, async move {
        if let Some(gate) = gate {
            tokio::select! {
                () = gate => {}
                () = cancel.cancelled() => {}
            }
        }
        task.await;
        Ok::<_, std::convert::Infallible>(())
    });
}
