//! `history_api`: the history over HTTPS, its certificate, its readers, and how a reload exchanges them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::Context;
use api::{Access, AllowedName, CertificateRules, Counts, Limits, Reviewer, Site};
use arc_swap::ArcSwap;
use corefile::HttpAddress;
use directives::config::{Config, Directive, HistoryApi, ServerBlock, Source};
use history::{ListenerLine, PastNow, Turns};
use kubernetes::source::api_server::reviews::Reviews;
use ops::{BackgroundRuntime, Tasks};
use server::{TlsClients, TlsIdentity, TlsMaterial};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::failure::{Failure, one_line};
use crate::runtime::followed_files::{Contents, Reload};
use crate::runtime::listeners::bind_http;
use crate::runtime::sources::auth_of;

/// The scheme of the listener, for people.
const HTTPS: &str = "https";

/// The API of the process.
pub(crate) struct ApiServing {
    /// Its counts over all reloads.
    pub(crate) counts: Arc<Counts>,
    /// The turns of all who read much of the store.
    pub(crate) reading: Arc<Semaphore>,
    running: Option<Running>,
}

/// A running listener.
struct Running {
    address: HttpAddress,
    bound: std::net::SocketAddr,
    site: Arc<ArcSwap<Site>>,
    stop: CancellationToken,
}

/// An API that can be taken into use at once.
pub(crate) struct PreparedApi {
    address: HttpAddress,
    site: Site,
    reload: Reload,
    /// The listener, if it is new.
    new: Option<NewListener>,
}

/// A listener that does not serve yet.
struct NewListener {
    listener: TcpListener,
    bound: std::net::SocketAddr,
    /// Its threads, apart from those that answer DNS and commit.
    runtime: BackgroundRuntime,
}

/// The API of a configuration, with its block.
fn written(config: &Config) -> Option<(&ServerBlock, &HistoryApi)> {
    let mut blocks = config.servers.iter();
    blocks.find_map(|block| Some((block, block.get::<HistoryApi>()?)))
}

impl ApiServing {
    /// Nothing is served yet.
    pub(crate) fn new() -> Self {
        Self {
            counts: Arc::default(),
            reading: Turns::of_all(),
            running: None,
        }
    }

    /// Opens and binds what a configuration wants; nothing that is in use changes.
    pub(crate) async fn prepare(&self, config: &Config) -> anyhow::Result<Option<PreparedApi>> {
        let Some((block, wanted)) = written(config) else {
            return Ok(None);
        };
        let (tls, reload) = open_tls(wanted)?;
        let reviewer = reviewer(block, wanted).await;
        let reviewer = reviewer.with_context(|| wanted.place.to_string())?;
        let site = Site {
            tls,
            access: Access::new(reviewer, rules(wanted)),
            limits: limits(wanted),
        };
        let mut running = self.running.iter();
        let new = if running.any(|it| it.address == wanted.address) {
            None
        } else {
            let listener = bind_http(&wanted.address, HistoryApi::WORD).await?;
            let bound = listener.local_addr().context("the address of a socket")?;
            let endpoints = HistoryApi::WORD;
            tracing::info!(address = %bound, scheme = HTTPS, transports = "tcp", endpoints, "listening");
            let runtime = BackgroundRuntime::start(HistoryApi::WORD);
            Some(NewListener {
                listener,
                bound,
                runtime: runtime.context("threads of history_api")?,
            })
        };
        Ok(Some(PreparedApi {
            address: wanted.address.clone(),
            site,
            reload,
            new,
        }))
    }

    /// Takes an API into use. Gives the files to follow.
    pub(crate) fn take(
        &mut self,
        prepared: Option<PreparedApi>,
        past: &PastNow,
        tasks: &mut Tasks,
    ) -> Option<Reload> {
        let old = self.running.take();
        let mut files = None;
        if let Some(PreparedApi {
            address,
            site,
            reload,
            new,
        }) = prepared
        {
            files = Some(reload);
            match (new, old) {
                (None, Some(running)) => {
                    running.site.store(Arc::new(site));
                    self.running = Some(running);
                    return files;
                }
                (None, None) => return files,
                (Some(new), old) => {
                    stop(old);
                    self.start(address, new, site, past, tasks);
                    return files;
                }
            }
        }
        stop(old);
        files
    }

    /// Starts a listener.
    fn start(
        &mut self,
        address: HttpAddress,
        new: NewListener,
        site: Site,
        past: &PastNow,
        tasks: &mut Tasks,
    ) {
        let site = Arc::new(ArcSwap::from_pointee(site));
        let end = CancellationToken::new();
        let serving = api::Serving {
            past: Arc::clone(past),
            reading: Arc::clone(&self.reading),
            counts: Arc::clone(&self.counts),
        };
        let NewListener {
            listener,
            bound,
            runtime,
        } = new;
        let serving = api::serve(listener, Arc::clone(&site), serving, end.clone());
        tasks.spawn_until(HistoryApi::WORD, &end, async move {
            // The threads end after the last answer.
            runtime.handle().spawn(serving).await
        });
        self.running = Some(Running {
            address,
            bound,
            site,
            stop: end,
        });
    }

    /// The socket on which it listens.
    pub(crate) fn listener_line(&self) -> Option<ListenerLine> {
        let running = self.running.as_ref()?;
        Some(ListenerLine {
            address: running.bound.to_string(),
            transports: vec!["tcp".to_owned()],
            scheme: HTTPS.to_owned(),
            endpoints: vec![HistoryApi::WORD.to_owned()],
        })
    }

    /// Ends it.
    pub(crate) fn stop(&self) {
        self.running
            .iter()
            .for_each(|running| running.stop.cancel());
    }
}

/// Ends a listener.
fn stop(running: Option<Running>) {
    if let Some(Running { bound, stop, .. }) = running {
        tracing::info!(address = %bound, scheme = HTTPS, "no longer listening");
        stop.cancel();
    }
}

/// Opens the certificates, for `check`.
pub(crate) fn check_tls(config: &Config) -> Result<(), Failure> {
    let opened = written(config).map(|(_, wanted)| open_tls(wanted));
    let opened = opened.transpose();
    opened.map_err(|error| Failure::unusable(one_line(&error)))?;
    Ok(())
}

/// The TLS of the listener, and the files to follow.
fn open_tls(wanted: &HistoryApi) -> anyhow::Result<(Arc<TlsIdentity>, Reload)> {
    let HistoryApi {
        certificate,
        key,
        client_ca,
        crl,
        ..
    } = wanted;
    let files = [
        Some(certificate),
        Some(key),
        client_ca.as_ref(),
        crl.as_ref(),
    ];
    let files: Vec<PathBuf> = files.into_iter().flatten().cloned().collect();
    // Before they are read, so that a change meanwhile is seen.
    let seen = Contents::of(&files);
    let place = format!("{}: history_api", wanted.place);
    let identity = TlsIdentity::new(&read(wanted)?).with_context(|| place.clone())?;
    let identity = Arc::new(identity);
    let (used, wanted) = (Arc::clone(&identity), wanted.clone());
    let take = move || {
        let taken = read(&wanted).and_then(|material| {
            used.replace(&material).with_context(|| place.clone())?;
            Ok(())
        });
        taken.map_err(|error| vec![one_line(&error)])
    };
    let reload = Reload::new("certificates", files, seen, Box::new(take));
    Ok((identity, reload))
}

/// The contents of the files.
fn read(wanted: &HistoryApi) -> anyhow::Result<TlsMaterial> {
    let contents = |file: &Path| {
        std::fs::read(file)
            .with_context(|| format!("{}: cannot read {}", wanted.place, file.display()))
    };
    let clients = match &wanted.client_ca {
        None => None,
        Some(ca) => Some(TlsClients {
            authorities: contents(ca)?,
            revoked: wanted.crl.as_deref().map(contents).transpose()?,
            // Whoever has a token needs none.
            is_required: wanted.tokens.is_none(),
        }),
    };
    Ok(TlsMaterial {
        certificates: contents(&wanted.certificate)?,
        key: contents(&wanted.key)?,
        clients,
    })
}

/// The API server that reviews tokens.
async fn reviewer(
    block: &ServerBlock,
    wanted: &HistoryApi,
) -> anyhow::Result<Option<Arc<dyn Reviewer>>> {
    let Some(audiences) = &wanted.tokens else {
        return Ok(None);
    };
    let source: Option<&Source> = block.api_server();
    let Some(Ok(auth)) = source.map(auth_of) else {
        anyhow::bail!("no API server can check tokens");
    };
    let reviews = Reviews::open(auth, audiences.clone()).await;
    let reviews = reviews.context("the API server cannot be used")?;
    Ok(Some(Arc::new(reviews)))
}

/// What clients with a certificate may read.
fn rules(wanted: &HistoryApi) -> Option<CertificateRules> {
    wanted.client_ca.as_ref()?;
    if wanted.allowed.is_empty() {
        return Some(CertificateRules::Any);
    }
    let allowed = wanted.allowed.iter().map(|it| AllowedName {
        name: it.name.clone(),
        zones: it.zones.clone(),
    });
    Some(CertificateRules::Named(allowed.collect()))
}

/// The most connections of the API that a configuration has.
pub(crate) fn most_connections(config: &Config) -> usize {
    written(config).map_or(0, |(_, wanted)| limits(wanted).max_connections)
}

fn limits(wanted: &HistoryApi) -> Limits {
    let default = Limits::default();
    let connections = wanted.max_connections;
    let connections = connections.map(|it| usize::try_from(it).unwrap_or(usize::MAX));
    Limits {
        max_connections: connections.unwrap_or(default.max_connections),
        requests_per_second: wanted
            .requests_per_second
            .unwrap_or(default.requests_per_second),
    }
}
