//! One connection to etcd: list, watch, leases. Nothing is decided here.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::{StreamExt, stream};
use http::uri::PathAndQuery;
use prost::Message;
use tonic::client::Grpc;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Request, Status, Streaming};
use tonic_prost::ProstCodec;

use crate::message::{
    AuthenticateRequest, AuthenticateResponse, RangeRequest, RangeResponse, TimeToLiveRequest,
    TimeToLiveResponse, WatchCreate, WatchRequest, WatchResponse,
};

/// How long a connection or an answer may take, as in CoreDNS.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How often a silent connection is tried, and how long it may stay silent then.
const PING: Duration = Duration::from_secs(5);
/// The most bytes of a message.
const MOST_BYTES: usize = 64 * 1024 * 1024;
/// Keys of one page.
const PAGE: i64 = 1000;

/// How etcd is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// Its members, as URLs; at least one.
    pub endpoints: Vec<String>,
    /// The user.
    pub credentials: Option<Credentials>,
    /// Certificates. Read again for each connection.
    pub tls: Tls,
}

/// A user of etcd.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The name.
    pub user: String,
    /// The password.
    pub password: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} with a password", self.user)
    }
}

/// Files of certificates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tls {
    /// Certificate and key of the client.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The authority of the servers; `None` for the system's.
    pub ca: Option<PathBuf>,
}

/// Why etcd could not be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Fault {
    #[error("cannot read {}: {error}", path.display())]
    File {
        path: PathBuf,
        error: std::io::Error,
    },
    #[error("cannot connect to {endpoint}: {text}")]
    Connect { endpoint: String, text: String },
    #[error("{0}")]
    Refused(String),
    #[error("{0}. If etcd wants a certificate of its clients, write in etcd: tls CERT KEY [CA]")]
    Certificate(String),
    #[error("the watch ended: {0}")]
    Ended(String),
    #[error("the watch begins before revision {0}, which is compacted")]
    Compacted(i64),
    #[error("there are more than {0} keys")]
    TooMany(usize),
}

impl From<Status> for Fault {
    /// With its causes: a server that wants a certificate says so at the first request.
    fn from(status: Status) -> Self {
        let said = format!("{}: {}", status.code(), status.message());
        let causes = std::error::Error::source(&status).map(chain);
        Self::Refused(
            [said]
                .into_iter()
                .chain(causes)
                .collect::<Vec<_>>()
                .join(": "),
        )
    }
}

/// A range of keys: the first, and the one after the last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) from: Vec<u8>,
    pub(crate) end: Vec<u8>,
}

impl Range {
    /// All keys with a prefix that ends with a slash.
    pub(crate) fn of(prefix: &str) -> Self {
        let from = prefix.as_bytes().to_vec();
        let mut end = from.clone();
        // The byte after a slash.
        end.pop();
        end.push(b'0');
        Self { from, end }
    }
}

/// A connection to one member.
#[derive(Debug, Clone)]
pub(crate) struct Connection {
    grpc: Grpc<Channel>,
    token: Option<tonic::metadata::AsciiMetadataValue>,
}

impl Connection {
    /// Connects and, with credentials, authenticates.
    pub(crate) async fn open(access: &Access, endpoint: &str) -> Result<Self, Fault> {
        let refused = |text: String| Fault::Connect {
            endpoint: endpoint.to_owned(),
            text,
        };
        let target = Endpoint::from_shared(endpoint.to_owned());
        let mut target = target
            .map_err(|error| refused(error.to_string()))?
            .connect_timeout(TIMEOUT)
            .http2_keep_alive_interval(PING)
            .keep_alive_timeout(TIMEOUT)
            .keep_alive_while_idle(true);
        if endpoint.starts_with("https:") {
            let tls = tls(&access.tls).await?;
            target = target
                .tls_config(tls)
                .map_err(|error| refused(chain(&error)))?;
        }
        // The limit of the target is for TCP alone: a member may accept and say nothing.
        let channel = tokio::time::timeout(TIMEOUT, target.connect()).await;
        let silent = format!("it says nothing within {} s", TIMEOUT.as_secs());
        let channel = channel.map_err(|_| refused(silent))?;
        let channel = channel.map_err(|error| refused(chain(&error)))?;
        let grpc = Grpc::new(channel).max_decoding_message_size(MOST_BYTES);
        let mut own = Self { grpc, token: None };
        if let Some(Credentials { user, password }) = &access.credentials {
            let request = AuthenticateRequest {
                name: user.clone(),
                password: password.clone(),
            };
            let answer: AuthenticateResponse =
                own.ask("/etcdserverpb.Auth/Authenticate", request).await?;
            let token = answer.token.parse();
            own.token = Some(token.map_err(|_| Fault::Ended("an unreadable token".to_owned()))?);
        }
        Ok(own)
    }

    async fn ready(&mut self) -> Result<(), Status> {
        let ready = self.grpc.ready().await;
        ready.map_err(|error| Status::unavailable(chain(&error)))
    }

    /// Adds the token. A member without a leader refuses the request, and ends a watch: it hears of no change.
    fn request<T>(&self, message: T) -> Request<T> {
        let mut request = Request::new(message);
        let needs_leader = tonic::metadata::AsciiMetadataValue::from_static("true");
        request.metadata_mut().insert("hasleader", needs_leader);
        if let Some(token) = &self.token {
            request.metadata_mut().insert("token", token.clone());
        }
        request
    }

    async fn ask<Q, A>(&mut self, path: &'static str, message: Q) -> Result<A, Status>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        self.ready().await?;
        let mut request = self.request(message);
        request.set_timeout(TIMEOUT);
        let path = PathAndQuery::from_static(path);
        let asked = self.grpc.unary(request, path, ProstCodec::default());
        match tokio::time::timeout(TIMEOUT, asked).await {
            Ok(answer) => Ok(answer?.into_inner()),
            Err(_) => Err(Status::deadline_exceeded("no answer in time")),
        }
    }

    /// One page of keys from `from` on, at a revision; 0 for the newest.
    pub(crate) async fn page(
        &mut self,
        range: &Range,
        from: Vec<u8>,
        revision: i64,
    ) -> Result<RangeResponse, Status> {
        let request = RangeRequest {
            key: from,
            range_end: range.end.clone(),
            limit: PAGE,
            revision,
        };
        self.ask("/etcdserverpb.KV/Range", request).await
    }

    /// The seconds that a lease was granted; `None` if it is over.
    pub(crate) async fn granted(&mut self, id: i64) -> Result<Option<u32>, Status> {
        let request = TimeToLiveRequest { id };
        let answer = self.ask("/etcdserverpb.Lease/LeaseTimeToLive", request);
        let TimeToLiveResponse { ttl, granted_ttl } = answer.await?;
        let seconds = u32::try_from(granted_ttl).unwrap_or(u32::MAX);
        Ok((ttl > 0).then_some(seconds))
    }

    /// Watches a range from a revision on.
    pub(crate) async fn watch(
        &mut self,
        range: &Range,
        from: i64,
    ) -> Result<Streaming<WatchResponse>, Status> {
        self.ready().await?;
        let create = WatchCreate {
            key: range.from.clone(),
            range_end: range.end.clone(),
            start_revision: from,
        };
        let first = WatchRequest {
            create: Some(create),
        };
        // The watch ends with its requests.
        let requests = stream::iter([first]).chain(stream::pending());
        let request = self.request(requests);
        let path = PathAndQuery::from_static("/etcdserverpb.Watch/Watch");
        let opened = self.grpc.streaming(request, path, ProstCodec::default());
        match tokio::time::timeout(TIMEOUT, opened).await {
            Ok(answer) => Ok(answer?.into_inner()),
            Err(_) => Err(Status::deadline_exceeded("no watch in time")),
        }
    }
}

/// Reads the certificates.
async fn tls(files: &Tls) -> Result<ClientTlsConfig, Fault> {
    async fn read(path: &Path) -> Result<Vec<u8>, Fault> {
        let path = path.to_owned();
        tokio::fs::read(&path)
            .await
            .map_err(|error| Fault::File { path, error })
    }
    let mut config = ClientTlsConfig::new();
    config = match &files.ca {
        Some(ca) => config.ca_certificate(Certificate::from_pem(read(ca).await?)),
        None => config.with_native_roots(),
    };
    if let Some((certificate, key)) = &files.identity {
        let identity = Identity::from_pem(read(certificate).await?, read(key).await?);
        config = config.identity(identity);
    }
    Ok(config)
}

/// An error with its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let texts: Vec<String> = causes.map(ToString::to_string).collect();
    texts.join(": ")
}
