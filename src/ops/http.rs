//! The HTTP ends: `/metrics`, `/health`, `/ready`, each on the listener its directive names.

use std::future::IntoFuture;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::Router;
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Says who is not ready yet: names of parts, empty when all are.
pub type ReadyCheck = Arc<dyn Fn() -> Vec<String> + Send + Sync>;
/// Gives the metrics in the OpenMetrics text format.
pub type MetricsText = Arc<dyn Fn() -> String + Send + Sync>;

/// What one listener answers.
#[derive(Clone, Default)]
pub struct Ends {
    /// `/metrics`, when this listener has it.
    pub metrics: Option<MetricsText>,
    /// `/health`, when this listener has it.
    pub health: bool,
    /// `/ready`, when this listener has it.
    pub ready: Option<ReadyCheck>,
    /// Set once shutdown began: `/ready` says so.
    pub stopping: Arc<AtomicBool>,
}

impl std::fmt::Debug for Ends {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ends")
            .field("metrics", &self.metrics.is_some())
            .field("health", &self.health)
            .field("ready", &self.ready.is_some())
            .finish_non_exhaustive()
    }
}

/// Serves until cancelled.
///
/// # Errors
/// When the listener fails for good.
pub async fn serve(listener: TcpListener, ends: Ends, cancel: CancellationToken) -> io::Result<()> {
    let server =
        axum::serve(listener, router(ends)).with_graceful_shutdown(cancel.cancelled_owned());
    server.into_future().await
}

/// The routes of a listener.
fn router(ends: Ends) -> Router {
    let mut router = Router::new();
    if let Some(metrics) = ends.metrics {
        let answer = move || async move {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, kind)], metrics())
        };
        router = router.route("/metrics", get(answer));
    }
    if ends.health {
        router = router.route("/health", get(|| async { "OK" }));
    }
    if let Some(ready) = ends.ready {
        let stopping = ends.stopping;
        let answer = move || async move {
            if stopping.load(Ordering::Relaxed) {
                return (StatusCode::SERVICE_UNAVAILABLE, "Shutting down".to_owned())
                    .into_response();
            }
            let missing = ready();
            if missing.is_empty() {
                "OK".into_response()
            } else {
                (StatusCode::SERVICE_UNAVAILABLE, missing.join(",")).into_response()
            }
        };
        router = router.route("/ready", get(answer));
    }
    router
}
