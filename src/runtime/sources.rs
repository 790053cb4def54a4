//! Opens the source that a configuration names.

use std::sync::Arc;

use anyhow::Context;
use tokio_util::sync::CancellationToken;

use kubernetes::source::api_server::{Auth, KubernetesSource, Settings, Tls};
use kubernetes::source::manifests::{self, ManifestSource};
use kubernetes::source::{EventSink, SourceStats, Wanted};
use ops::Clock;

/// A source of either kind.
#[derive(Debug)]
pub(crate) enum Source {
    /// An API server.
    Kubernetes(Box<KubernetesSource>),
    /// A folder.
    Manifests(Box<ManifestSource>),
}

impl Source {
    /// Opens a source. An API server that is away is no reason not to start; a configuration that
    /// cannot be read is.
    pub(crate) async fn open(
        source: &directives::config::Source,
        wanted: Wanted,
        clock: Arc<dyn Clock>,
        stats: Arc<SourceStats>,
    ) -> anyhow::Result<Self> {
        if let directives::config::Source::Manifests { dir } = source {
            let settings = manifests::Settings::default();
            let source = ManifestSource::open(dir, wanted, settings, clock, stats)?;
            return Ok(Self::Manifests(Box::new(source)));
        }
        let auth = auth_of(source).context("there is no API server")?;
        let source = KubernetesSource::connect(auth, wanted, Settings::default(), clock, stats)
            .await
            .context("the API server cannot be used")?;
        Ok(Self::Kubernetes(Box::new(source)))
    }

    /// Follows the source until cancelled.
    pub(crate) async fn run(self, tx: impl EventSink, cancel: CancellationToken) {
        match self {
            Self::Kubernetes(source) => source.run(tx, cancel).await,
            Self::Manifests(source) => source.run(tx, cancel).await,
        }
    }
}

/// How the API server of a source is reached; `None` for a folder.
pub(crate) fn auth_of(source: &directives::config::Source) -> Option<Auth> {
    match source {
        directives::config::Source::InCluster => Some(Auth::InCluster),
        directives::config::Source::Kubeconfig { file, context } => Some(Auth::Kubeconfig {
            file: file.clone(),
            context: context.clone(),
        }),
        directives::config::Source::Endpoint { url, tls } => Some(Auth::Endpoint {
            url: url.clone(),
            tls: tls.as_ref().map(|tls| Tls {
                cert: tls.cert.clone(),
                key: tls.key.clone(),
                ca: tls.ca.clone(),
            }),
        }),
        directives::config::Source::Manifests { dir: _ } => None,
    }
}
