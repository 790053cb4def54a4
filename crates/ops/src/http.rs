//! The HTTP endpoints `/metrics`, `/health` and `/ready`, each on the listener that its directive names.

use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use http::{HeaderMap, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Mutex;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::exposition;
use crate::places::{Place, PlaceLimits, Places, Usage};

/// Connections of one listener. One more ends the one that has been idle longest.
const PLACES: PlaceLimits = PlaceLimits {
    most: 64,
    most_of_source: usize::MAX,
    reserved: 0,
};
/// How long a client may take to send the header of its first or of a further request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a response may be waited for: a scrape waits for the one before it.
const RESPONSE_TIMEOUT: Duration = Duration::from_secs(60);
/// How long a client may take to read its response when the listener ends.
const END_TIMEOUT: Duration = Duration::from_secs(5);
/// How long accepting rests when the process has no descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Lists the names of the parts that are not ready yet.
pub type ReadyCheck = Arc<dyn Fn() -> Vec<String> + Send + Sync>;
/// Writes the metrics in the OpenMetrics text format.
pub type MetricsText = Arc<dyn Fn() -> String + Send + Sync>;

/// The endpoints of a listener.
#[derive(Clone, Default)]
pub struct HttpEndpoints {
    /// Source of `/metrics`, when this listener has it.
    pub metrics: Option<MetricsText>,
    /// Whether this listener has `/health`.
    pub health: bool,
    /// Source of `/ready`, when this listener has it.
    pub ready: Option<ReadyCheck>,
    /// Set when the shutdown begins; `/ready` then fails.
    pub stopping: Arc<AtomicBool>,
}

impl std::fmt::Debug for HttpEndpoints {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpEndpoints")
            .field("metrics", &self.metrics.is_some())
            .field("health", &self.health)
            .field("ready", &self.ready.is_some())
            .finish_non_exhaustive()
    }
}

/// The endpoints of a running listener; a reload replaces them.
pub type CurrentEndpoints = Arc<ArcSwap<HttpEndpoints>>;

/// Serves until cancelled, then ends connections once their request is answered.
pub async fn serve(listener: TcpListener, endpoints: CurrentEndpoints, cancel: CancellationToken) {
    let places = Places::default();
    let scrape = Arc::new(Mutex::new(()));
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = cancel.cancelled() => break,
            Some(_ended) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => match places.take(peer.ip(), PLACES, false) {
                    Some(place) => {
                        let endpoints = Arc::clone(&endpoints);
                        let connection = Connection {
                            endpoints,
                            scrape: Arc::clone(&scrape),
                            usage: place.usage().clone(),
                        };
                        connections.spawn(connection.serve(stream, place, cancel.clone()));
                    }
                    None => debug!(%peer, "too many HTTP connections"),
                },
                Err(error) => {
                    warn!(%error, "accepting HTTP connections pauses");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    while connections.join_next().await.is_some() {}
}

struct Connection {
    endpoints: CurrentEndpoints,
    /// Locked while metrics are written, for one client at a time.
    scrape: Arc<Mutex<()>>,
    usage: Usage,
}

impl Connection {
    async fn serve(self, stream: TcpStream, place: Place, cancel: CancellationToken) {
        let service = service_fn(|request| async {
            self.usage.work();
            let response = tokio::time::timeout(RESPONSE_TIMEOUT, self.respond(request)).await;
            self.usage.rest();
            let unavailable = |_| text(StatusCode::SERVICE_UNAVAILABLE, "too many scrapes");
            Ok::<_, Infallible>(response.unwrap_or_else(unavailable))
        });
        let serving = async {
            let mut connection = pin!(
                http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEADER_TIMEOUT)
                    .serve_connection(TokioIo::new(stream), service)
            );
            tokio::select! {
                ended = connection.as_mut() => return ended,
                () = cancel.cancelled() => {}
            }
            connection.as_mut().graceful_shutdown();
            // A client that does not read must not hold up the end.
            let finished = tokio::time::timeout(END_TIMEOUT, connection).await;
            finished.unwrap_or(Ok(()))
        };
        match place.while_held(serving).await {
            Some(Ok(())) => {}
            Some(Err(error)) => debug!(%error, "an HTTP connection broke off"),
            None => debug!("an idle HTTP connection makes room"),
        }
    }

    async fn respond(&self, request: Request<Incoming>) -> Response<String> {
        let endpoints = self.endpoints.load_full();
        let path = request.uri().path();
        match &endpoints.metrics {
            Some(metrics) if path == "/metrics" => {
                let _alone = self.scrape.lock().await;
                let metrics = Arc::clone(metrics);
                let headers = request.headers().clone();
                // Writing them takes long in a large cluster: nobody else's thread is held up.
                let scraped = tokio::task::spawn_blocking(move || scrape(&metrics, &headers)).await;
                scraped.unwrap_or_else(|_| text(StatusCode::INTERNAL_SERVER_ERROR, "no metrics"))
            }
            Some(_) | None => endpoints.answer(path),
        }
    }
}

/// Writes metrics in the format that the client accepts.
fn scrape(metrics: &MetricsText, headers: &HeaderMap) -> Response<String> {
    let accept = headers.get_all(header::ACCEPT).iter();
    let mut accept = accept.filter_map(|value| value.to_str().ok());
    let (kind, body) = if accept.any(exposition::wants_openmetrics) {
        (exposition::OPENMETRICS, metrics())
    } else {
        (exposition::PLAIN, exposition::plain(&metrics()))
    };
    let mut response = Response::new(body);
    let kind = header::HeaderValue::from_static(kind);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

fn text(status: StatusCode, text: impl Into<String>) -> Response<String> {
    let mut response = Response::new(text.into());
    *response.status_mut() = status;
    let kind = header::HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

impl HttpEndpoints {
    /// The first directive that needs the listener, for messages.
    #[must_use]
    pub fn directive(&self) -> &'static str {
        match (&self.metrics, self.health) {
            (Some(_), _) => "prometheus",
            (None, true) => "health",
            (None, false) => "ready",
        }
    }

    /// The directives that need the listener.
    #[must_use]
    pub fn directives(&self) -> Vec<&'static str> {
        let all = [
            ("prometheus", self.metrics.is_some()),
            ("health", self.health),
            ("ready", self.ready.is_some()),
        ];
        let here = all.into_iter().filter(|(_, is_here)| *is_here);
        here.map(|(word, _)| word).collect()
    }

    /// Answers a request for a path other than that of metrics. As in CoreDNS, the method does not matter.
    fn answer(&self, path: &str) -> Response<String> {
        match (path, self.health, &self.ready) {
            ("/health", true, _) => text(StatusCode::OK, "OK"),
            ("/ready", _, Some(ready)) => {
                if self.stopping.load(Ordering::Relaxed) {
                    return text(StatusCode::SERVICE_UNAVAILABLE, "Shutting down");
                }
                let missing = ready();
                if missing.is_empty() {
                    text(StatusCode::OK, "OK")
                } else {
                    text(StatusCode::SERVICE_UNAVAILABLE, missing.join(","))
                }
            }
            _ => text(StatusCode::NOT_FOUND, "404 page not found\n"),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;
    use crate::testing::soon;

    #[test]
    fn metrics_are_openmetrics_for_clients_that_accept_it_and_plain_for_all_others() {
        let metrics: MetricsText = Arc::new(|| "# TYPE a counter\na_total 1\n# EOF\n".to_owned());
        for (accept, want) in [
            (None, "text/plain; version=0.0.4; charset=utf-8"),
            (
                Some("text/plain"),
                "text/plain; version=0.0.4; charset=utf-8",
            ),
            (
                Some("application/openmetrics-text; version=1.0.0"),
                "application/openmetrics-text; version=1.0.0; charset=utf-8",
            ),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(accept) = accept {
                headers.insert(header::ACCEPT, accept.parse().unwrap());
            }
            let response = scrape(&metrics, &headers);
            assert_eq!(response.headers()[header::CONTENT_TYPE], want, "{accept:?}");
        }
    }
    struct Site {
        address: std::net::SocketAddr,
        cancel: CancellationToken,
        task: JoinSet<()>,
    }

    impl Site {
        async fn start(endpoints: HttpEndpoints) -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = listener.local_addr().unwrap();
            let (cancel, mut task) = (CancellationToken::new(), JoinSet::new());
            let endpoints = Arc::new(ArcSwap::from_pointee(endpoints));
            task.spawn(serve(listener, endpoints, cancel.clone()));
            Self {
                address,
                cancel,
                task,
            }
        }

        /// Sends some octets on a new connection.
        async fn send(&self, octets: &str) -> TcpStream {
            let mut stream = TcpStream::connect(self.address).await.unwrap();
            stream.write_all(octets.as_bytes()).await.unwrap();
            stream
        }

        async fn get(&self, path: &str) -> String {
            let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
            read(&mut self.send(&request).await).await
        }
    }

    /// All that comes on a connection until it ends.
    async fn read(stream: &mut TcpStream) -> String {
        let mut got = Vec::new();
        // Whether it is closed or reset is not the matter.
        let _ended = soon(stream.read_to_end(&mut got)).await;
        String::from_utf8(got).unwrap()
    }

    fn healthy() -> HttpEndpoints {
        HttpEndpoints {
            health: true,
            ..HttpEndpoints::default()
        }
    }

    /// security 10: "600 half-sent requests stay for 60 s+".
    #[tokio::test]
    async fn half_a_request_ends() {
        let site = Site::start(healthy()).await;
        let mut half = site.send("GET /health HTTP/1.1\r\nhost:").await;
        let began = tokio::time::Instant::now();
        assert_eq!(read(&mut half).await, "");
        assert!(
            began.elapsed() < 2 * HEADER_TIMEOUT,
            "{:?}",
            began.elapsed()
        );
    }

    /// security 10: "64 connections". The 65th is served, and the one that was idle longest ends.
    #[tokio::test]
    async fn idle_connections_make_room_for_a_probe() {
        let site = Site::start(healthy()).await;
        let began = tokio::time::Instant::now();
        let mut idle = Vec::new();
        for _ in 0..PLACES.most {
            idle.push(site.send("GET").await);
        }
        assert!(site.get("/health").await.ends_with("OK"));
        assert_eq!(read(&mut idle[0]).await, "");
        // Not by the time limit of its header.
        assert!(began.elapsed() < HEADER_TIMEOUT, "{:?}", began.elapsed());
        let mut site = site;
        site.cancel.cancel();
        soon(site.task.join_next()).await;
    }

    /// security 10: "one scrape at a time", and a slow one holds up no probe.
    #[tokio::test]
    async fn a_slow_scrape_holds_up_the_next_scrape_alone() {
        let (begun, mut begins) = tokio::sync::mpsc::unbounded_channel();
        let (finish, finished) = std::sync::mpsc::channel::<()>();
        let finished = std::sync::Mutex::new(finished);
        let metrics: MetricsText = Arc::new(move || {
            begun.send(()).unwrap();
            finished.lock().unwrap().recv().unwrap();
            "# EOF\n".to_owned()
        });
        let site = Site::start(HttpEndpoints {
            metrics: Some(metrics),
            ..healthy()
        })
        .await;
        let scrape = "GET /metrics HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
        let mut scrapes = [site.send(scrape).await, site.send(scrape).await];
        soon(begins.recv()).await;
        assert!(site.get("/health").await.ends_with("OK"));
        assert!(begins.try_recv().is_err());
        finish.send(()).unwrap();
        finish.send(()).unwrap();
        for scrape in &mut scrapes {
            assert!(read(scrape).await.starts_with("HTTP/1.1 200"));
        }
    }
}
