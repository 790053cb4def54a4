//! The listener: connections within limits, and their handshakes.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use history::{PastNow, Turns};
use ops::{Place, PlaceLimits, Places};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::connection;
use crate::counts::Counts;
use crate::limits::{Rates, questions};
use crate::progress::{FIRST_REQUEST, Progress};
use crate::respond::{Responder, Shared};
use crate::site::Site;

/// How long accepting rests when the process has no descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The share of all connections that one source may have.
const SOURCE_SHARE: usize = 4;
/// How long answers may take when the listener ends.
const END: Duration = Duration::from_secs(5);

/// What stays for the life of a listener.
#[derive(Clone)]
pub struct Serving {
    /// The source of answers.
    pub past: PastNow,
    /// The turns of all who read much of the store.
    pub reading: Arc<Semaphore>,
    /// The counts.
    pub counts: Arc<Counts>,
}

impl fmt::Debug for Serving {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Serving").finish_non_exhaustive()
    }
}

/// Serves until cancelled, then lets running answers end for a short time.
pub async fn serve(
    listener: TcpListener,
    site: Arc<ArcSwap<Site>>,
    serving: Serving,
    cancel: CancellationToken,
) {
    let shared = Arc::new(Shared {
        past: serving.past,
        turns: Turns::within(&serving.reading),
        counts: serving.counts,
        questions: questions(),
        rates: Rates::default(),
        strangers: Rates::default(),
    });
    let places = Places::default();
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = cancel.cancelled() => break,
            Some(ended) = connections.join_next() => log_end(ended),
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    let most = site.load().limits.max_connections;
                    let limits = PlaceLimits {
                        most,
                        most_of_source: most.div_ceil(SOURCE_SHARE),
                        reserved: 0,
                    };
                    let Some(place) = places.take(peer.ip(), limits, false) else {
                        shared.counts.refused("limit");
                        debug!(%peer, "too many connections of history_api");
                        continue;
                    };
                    let accepted = Accepted {
                        shared: Arc::clone(&shared),
                        site: Arc::clone(&site),
                        peer,
                    };
                    connections.spawn(accepted.run(stream, place, cancel.clone()));
                }
                Err(error) => {
                    warn!(%error, "history_api cannot accept connections; trying again shortly");
                    sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    drop(listener);
    let ended = async { while connections.join_next().await.is_some() {} };
    if timeout(END, ended).await.is_err() {
        debug!("answers of history_api are cut off");
    }
}

/// Logs the panic of a connection.
fn log_end(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        tracing::error!(%error, "a connection of history_api failed");
    }
}

/// A connection before its handshake.
struct Accepted {
    shared: Arc<Shared>,
    site: Arc<ArcSwap<Site>>,
    peer: SocketAddr,
}

impl Accepted {
    async fn run(self, stream: TcpStream, place: Place, cancel: CancellationToken) {
        let Self { shared, site, peer } = self;
        let counts = Arc::clone(&shared.counts);
        let _open = counts.open();
        let usage = place.usage().clone();
        let serving = async {
            let tls = Arc::clone(&site.load().tls);
            let shaken = tokio::select! {
                () = cancel.cancelled() => return,
                shaken = timeout(FIRST_REQUEST, tls.accept_http(stream)) => shaken,
            };
            let (stream, tls) = match shaken {
                Ok(Ok(shaken)) => shaken,
                Ok(Err(error)) => return not_shaken(peer, &error, &counts),
                Err(late) => return not_shaken(peer, &late.into(), &counts),
            };
            let responder = Responder {
                shared,
                site,
                peer,
                tls,
                progress: Progress::new(usage),
            };
            Box::pin(connection::serve(responder, stream, &cancel)).await;
        };
        if place.while_held(serving).await.is_none() {
            counts.refused("limit");
            debug!(%peer, "an idle connection of history_api was closed for a new one");
        }
    }
}

/// Counts a handshake that failed.
fn not_shaken(peer: SocketAddr, error: &std::io::Error, counts: &Counts) {
    counts.refused("handshake");
    debug!(%peer, %error, "a handshake of history_api failed");
}
