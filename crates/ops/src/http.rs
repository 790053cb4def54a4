//! The HTTP endpoints `/metrics`, `/health` and `/ready`, each on the listener that its directive names.

use std::future::IntoFuture;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use axum::Router;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::exposition;

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

/// Serves until cancelled.
///
/// # Errors
/// When the listener fails for good.
pub async fn serve(
    listener: TcpListener,
    endpoints: CurrentEndpoints,
    cancel: CancellationToken,
) -> io::Result<()> {
    let answer = move |uri: Uri, headers: HeaderMap| {
        let endpoints = endpoints.load_full();
        async move { endpoints.answer(uri.path(), &headers) }
    };
    let router = Router::new().fallback(answer);
    let server = axum::serve(listener, router).with_graceful_shutdown(cancel.cancelled_owned());
    server.into_future().await
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

    /// Answers a request for a path. As in CoreDNS, the method does not matter.
    fn answer(&self, path: &str, headers: &HeaderMap) -> Response {
        match (path, &self.metrics, self.health, &self.ready) {
            ("/metrics", Some(metrics), _, _) => {
                let accept = headers.get_all(header::ACCEPT).iter();
                let mut accept = accept.filter_map(|value| value.to_str().ok());
                let (kind, text) = if accept.any(exposition::wants_openmetrics) {
                    (exposition::OPENMETRICS, metrics())
                } else {
                    (exposition::PLAIN, exposition::plain(&metrics()))
                };
                ([(header::CONTENT_TYPE, kind)], text).into_response()
            }
            ("/health", _, true, _) => "OK".into_response(),
            ("/ready", _, _, Some(ready)) => {
                let unavailable = |text| (StatusCode::SERVICE_UNAVAILABLE, text).into_response();
                if self.stopping.load(Ordering::Relaxed) {
                    return unavailable("Shutting down".to_owned());
                }
                let missing = ready();
                if missing.is_empty() {
                    "OK".into_response()
                } else {
                    unavailable(missing.join(","))
                }
            }
            _ => (StatusCode::NOT_FOUND, "404 page not found\n").into_response(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_openmetrics_for_clients_that_accept_it_and_plain_for_all_others() {
        let metrics: MetricsText = Arc::new(|| "# TYPE a counter\na_total 1\n# EOF\n".to_owned());
        let endpoints = HttpEndpoints {
            metrics: Some(metrics),
            ..HttpEndpoints::default()
        };
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
            let response = endpoints.answer("/metrics", &headers);
            assert_eq!(response.headers()[header::CONTENT_TYPE], want, "{accept:?}");
        }
    }
}
