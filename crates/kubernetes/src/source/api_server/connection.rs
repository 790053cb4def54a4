//! The client: the API server's address and our credentials.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kube::client::{AuthError, ClientBuilder};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use serde::de::DeserializeOwned;
use thiserror::Error;
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::Settings;
use super::fault::Fault;

/// The settings for reaching the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Auth {
    /// As a pod of the cluster: its service account.
    InCluster,
    /// With a kubeconfig file.
    Kubeconfig {
        /// The file.
        file: PathBuf,
        /// A context of the file; its current one when `None`.
        context: Option<String>,
    },
    /// At a URL.
    Endpoint {
        /// `http://…` or `https://…`.
        url: String,
        /// Certificates, for `https`.
        tls: Option<Tls>,
    },
}

/// Certificate files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tls {
    /// Our certificate.
    pub cert: PathBuf,
    /// Its key.
    pub key: PathBuf,
    /// The authority that signed the API server's certificate.
    pub ca: PathBuf,
}

/// The reason why the client cannot be created.
#[derive(Debug, Error)]
pub enum ConnectError {
    /// This process is not in a pod.
    #[error("not in a cluster ({0}); name a kubeconfig file or an endpoint")]
    InCluster(String),
    /// The kubeconfig file cannot be read.
    #[error("kubeconfig {}: {reason}; name a kubeconfig file that can be read", file.display())]
    Kubeconfig {
        /// The file.
        file: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The URL is malformed.
    #[error("endpoint {url:?} is not a URL: {reason}; write http://HOST:PORT or https://HOST:PORT")]
    Url {
        /// The given text.
        url: String,
        /// The reason.
        reason: String,
    },
    /// A certificate file cannot be read.
    #[error("tls file {}: {reason}", file.display())]
    TlsFile {
        /// The file.
        file: PathBuf,
        /// The reason.
        reason: String,
    },
    /// An error of certificates or tokens.
    #[error("cannot create an API client: {0}; check the certificates and the token")]
    Client(String),
}

/// A client that can be recreated when its credentials have been replaced.
#[derive(Debug)]
pub(super) struct Connection {
    auth: Auth,
    /// The longest silence of a connection.
    read_timeout: Duration,
    current: Mutex<Numbered>,
}

/// A client with its number.
#[derive(Clone)]
pub(super) struct Numbered {
    pub(super) client: Client,
    pub(super) number: u64,
    /// Host and port of the server, for metrics.
    pub(super) host: Arc<str>,
}

impl std::fmt::Debug for Numbered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "client {}", self.number)
    }
}

impl Connection {
    /// Reads the configuration and creates a client.
    pub(super) async fn open(auth: Auth, settings: &Settings) -> Result<Self, ConnectError> {
        // Longer than our own timeouts, whose errors are more exact.
        let read_timeout =
            settings.page_timeout.max(settings.longest_silence()) + Duration::from_secs(5);
        let current = Mutex::new(client(&auth, read_timeout, 0).await?);
        Ok(Self {
            auth,
            read_timeout,
            current,
        })
    }

    /// The current client.
    pub(super) async fn client(&self) -> Numbered {
        self.current.lock().await.clone()
    }

    /// Reads configuration, token and certificates again, unless another kind has done so since client `number` was
    /// created.
    ///
    /// # Errors
    ///
    /// When they cannot be read. The client is kept.
    pub(super) async fn renew(&self, number: u64) -> Result<(), ConnectError> {
        let mut current = self.current.lock().await;
        if current.number == number {
            *current = client(&self.auth, self.read_timeout, number + 1).await?;
        }
        Ok(())
    }

    /// Sends one request, which may take so long. After an error that new credentials may mend they are read again for the next one.
    pub(super) async fn request<T: DeserializeOwned>(
        &self,
        request: http::Request<Vec<u8>>,
        patience: Duration,
    ) -> Result<T, Fault> {
        let Numbered { client, number, .. } = self.client().await;
        let fault = match timeout(patience, client.request::<T>(request)).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(error)) => Fault::of(&error),
            Err(_) => Fault::Silent(patience),
        };
        self.recover(&fault, number).await;
        Err(fault)
    }

    /// Reads the credentials again if that may help the next request.
    pub(super) async fn recover(&self, fault: &Fault, number: u64) {
        if fault.may_be_credentials()
            && let Err(error) = self.renew(number).await
        {
            tracing::debug!(%error, "credentials are not read");
        }
    }
}

/// Creates the client with this number.
async fn client(
    auth: &Auth,
    read_timeout: Duration,
    number: u64,
) -> Result<Numbered, ConnectError> {
    let mut config = config(auth).await?;
    // We retry ourselves: the default obeys any Retry-After and hides an outage for minutes.
    config.default_retry = false;
    config.read_timeout = Some(read_timeout);
    config.reset_reader_on_write = true;
    let host = host(auth, &config.cluster_url);
    let builder = ClientBuilder::try_from(config).map_err(|error| {
        let mut reason = error.to_string();
        if let Some(cause) = std::error::Error::source(&error) {
            reason = format!("{reason}: {cause}");
        }
        if let kube::Error::Auth(AuthError::AuthExecStart(cause)) = &error
            && cause.kind() == std::io::ErrorKind::PermissionDenied
        {
            reason += "; the sandbox starts no programs, so write tokenFile in the kubeconfig, or run --no-sandbox";
        }
        ConnectError::Client(reason)
    })?;
    Ok(Numbered {
        client: builder.build(),
        number,
        host,
    })
}

/// The host of a server as in CoreDNS's metrics: as it was written, in a cluster always with its port.
fn host(auth: &Auth, url: &http::Uri) -> Arc<str> {
    let authority = url.authority().map_or("none", http::uri::Authority::as_str);
    let (_, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    if matches!(auth, Auth::InCluster) && url.port().is_none() {
        format!("{host}:443").into()
    } else {
        host.into()
    }
}

async fn config(auth: &Auth) -> Result<Config, ConnectError> {
    match auth {
        Auth::InCluster => {
            Config::incluster().map_err(|error| ConnectError::InCluster(error.to_string()))
        }
        Auth::Kubeconfig { file, context } => {
            let wrong = |error: kube::config::KubeconfigError| {
                // This error repeats the file's name.
                let reason = if let kube::config::KubeconfigError::ReadConfig(cause, _) = &error {
                    cause.to_string()
                } else {
                    error.to_string()
                };
                // A YAML error continues with an excerpt of the file; its first line has the position.
                let reason = reason.lines().next().unwrap_or_default().to_owned();
                ConnectError::Kubeconfig {
                    file: file.clone(),
                    reason,
                }
            };
            let kubeconfig = Kubeconfig::read_from(file).map_err(wrong)?;
            let options = KubeConfigOptions {
                context: context.clone(),
                ..Default::default()
            };
            Config::from_custom_kubeconfig(kubeconfig, &options)
                .await
                .map_err(wrong)
        }
        Auth::Endpoint { url, tls } => {
            let wrong = |reason: String| ConnectError::Url {
                url: url.clone(),
                reason,
            };
            let uri: http::Uri = url.parse().map_err(|error| wrong(format!("{error}")))?;
            if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.authority().is_none() {
                return Err(wrong("scheme or host is missing".to_owned()));
            }
            let is_plain = uri.scheme_str() == Some("http");
            let mut config = Config::new(uri);
            // Without roots the client would read those of the system, which an image may lack.
            if is_plain || tls.is_some() {
                config.root_cert = Some(Vec::new());
            }
            if let Some(tls) = tls {
                for file in [&tls.cert, &tls.key, &tls.ca] {
                    std::fs::read(file).map_err(|error| ConnectError::TlsFile {
                        file: file.clone(),
                        reason: error.to_string(),
                    })?;
                }
                config.root_cert_file = Some(tls.ca.clone());
                let text = |file: &PathBuf| Some(file.to_string_lossy().into_owned());
                config.auth_info.client_certificate = text(&tls.cert);
                config.auth_info.client_key = text(&tls.key);
            }
            Ok(config)
        }
    }
}
