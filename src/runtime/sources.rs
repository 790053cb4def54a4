//! Opens the source that a configuration names.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use tokio_util::sync::CancellationToken;

use kubernetes::source::api_server::{Auth, KubernetesSource, Settings, Tls};
use kubernetes::source::manifests::{self, ManifestSource};
use kubernetes::source::{EventSink, SourceStats, Wanted};
use ops::Clock;

/// The way to an API server; a folder of manifests is no such source.
pub(crate) fn auth_of(source: &directives::config::Source) -> Result<Auth, &Path> {
    Ok(match source {
        directives::config::Source::Manifests { dir } => return Err(dir),
        directives::config::Source::InCluster => Auth::InCluster,
        directives::config::Source::Kubeconfig { file, context } => Auth::Kubeconfig {
            file: file.clone(),
            context: context.clone(),
        },
        directives::config::Source::Endpoint { url, tls } => Auth::Endpoint {
            url: url.clone(),
            tls: tls.as_ref().map(|tls| Tls {
                cert: tls.cert.clone(),
                key: tls.key.clone(),
                ca: tls.ca.clone(),
            }),
        },
    })
}

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
        let auth = match auth_of(source) {
            Ok(auth) => auth,
            Err(dir) => {
                let settings = manifests::Settings::default();
                let source = ManifestSource::open(dir, wanted, settings, clock, stats)?;
                return Ok(Self::Manifests(Box::new(source)));
            }
        };
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
