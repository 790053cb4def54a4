//! One Lease (`coordination.k8s.io/v1`): read and written by single requests, and followed by a watch.
//!
//! A write names the `resourceVersion` and the uid of the Lease that it replaces, and the API server refuses it when either is another
//! one. The uid is not for decoration: the API server creates a Lease by PUT if there is none, whatever `resourceVersion` the request
//! names.
//!
//! No request is repeated here. The caller decides by the outcome what is next.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::{Duration, SystemTime};

use futures_util::io::AsyncBufRead;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::core::Request;
use kube::core::params::{GetParams, PostParams, WatchParams};
use tokio::time::{Instant, timeout};

use super::Settings;
use super::backoff::Backoff;
use super::connection::{Auth, ConnectError, Connection, Numbered};
use super::fault::Fault;
use super::wire::{Line, read_line};

/// A watch that ends earlier is opened again only after a pause.
const SHORT_WATCH: Duration = Duration::from_secs(1);

/// The name of a Lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseName {
    /// Its namespace, a label of RFC 1123.
    pub namespace: String,
    /// Its name, a subdomain of RFC 1123.
    pub name: String,
}

/// The content of a Lease. Times are to the microsecond, and before 1970 or after 9999 there are none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeaseObject {
    /// `metadata.uid`; empty for one that is to be created.
    pub uid: String,
    /// `metadata.resourceVersion`; empty for one that is to be created.
    pub resource_version: String,
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// `metadata.annotations`.
    pub annotations: BTreeMap<String, String>,
    /// `spec.holderIdentity`; `None` for an empty one, too.
    pub holder: Option<String>,
    /// `spec.leaseDurationSeconds`, at least 1.
    pub duration_seconds: Option<i32>,
    /// `spec.leaseTransitions`, at least 0.
    pub transitions: Option<i32>,
    /// `spec.acquireTime`.
    pub acquired: Option<SystemTime>,
    /// `spec.renewTime`.
    pub renewed: Option<SystemTime>,
}

/// The reason why a request gave no Lease.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LeaseFault {
    /// 404.
    #[error("there is no such Lease")]
    NotFound,
    /// 409: another version or uid, or a Lease that exists already.
    #[error("the Lease was changed by another client")]
    Conflict,
    /// Anything else. A write may have arrived, or may still arrive.
    #[error("{0}")]
    Failed(String),
}

/// Reads, writes and follows one Lease, with connections of its own.
#[derive(Debug)]
pub struct LeaseClient {
    connection: Connection,
    settings: Settings,
    name: LeaseName,
    /// The longest time for a request other than a watch.
    call_timeout: Duration,
}

impl LeaseClient {
    /// Reads the configuration and creates a client. Sends no request.
    ///
    /// # Errors
    /// When the configuration, a certificate or a token cannot be read.
    pub async fn open(
        auth: Auth,
        name: LeaseName,
        call_timeout: Duration,
    ) -> Result<Self, ConnectError> {
        let settings = Settings::default();
        Ok(Self {
            connection: Connection::open(auth, &settings).await?,
            settings,
            name,
            call_timeout,
        })
    }

    /// The Lease, from the quorum of the store.
    ///
    /// # Errors
    /// [`LeaseFault`].
    pub async fn get(&self) -> Result<LeaseObject, LeaseFault> {
        let request = self.request().get(&self.name.name, &GetParams::default());
        self.send(request).await
    }

    /// Writes a Lease in place of the one with its version and uid; gives what the API server has now.
    ///
    /// # Errors
    /// [`LeaseFault`].
    pub async fn replace(&self, object: LeaseObject) -> Result<LeaseObject, LeaseFault> {
        let body = self.encode(object)?;
        let request = self.request();
        let request = request.replace(&self.name.name, &PostParams::default(), body);
        self.send(request).await
    }

    /// Creates the Lease; gives what the API server has now. Version and uid are not sent.
    ///
    /// # Errors
    /// [`LeaseFault`].
    pub async fn create(&self, object: LeaseObject) -> Result<LeaseObject, LeaseFault> {
        let body = self.encode(LeaseObject {
            uid: String::new(),
            resource_version: String::new(),
            ..object
        })?;
        let request = self.request().create(&PostParams::default(), body);
        self.send(request).await
    }

    /// Gives the Lease as a watch has it: first as it is, then after each change. It may be older than what a request gave. The watch is
    /// opened again when it ends, after an error with a pause. Never returns. A deletion is not told.
    pub async fn follow(&self, mut take: impl FnMut(LeaseObject)) {
        let settings = &self.settings;
        let mut backoff = Backoff::new(settings.backoff_first, settings.backoff_longest);
        loop {
            let Numbered { number, .. } = self.connection.client().await;
            let begin = Instant::now();
            let end = self.watch(&mut take).await;
            if begin.elapsed() >= SHORT_WATCH {
                backoff.reset();
            }
            match &end {
                Ok(()) if begin.elapsed() >= SHORT_WATCH => continue,
                Ok(()) => {}
                Err(fault) => {
                    let reason = fault.text();
                    tracing::debug!(%reason, "the watch of the Lease ended");
                    self.connection.recover(fault, number).await;
                }
            }
            tokio::time::sleep(backoff.wait()).await;
        }
    }

    /// Opens a watch and reads it to its end.
    async fn watch(&self, take: &mut impl FnMut(LeaseObject)) -> Result<(), Fault> {
        let settings = &self.settings;
        let params = WatchParams {
            timeout: Some(settings.watch_seconds),
            field_selector: Some(format!("metadata.name={}", self.name.name)),
            ..WatchParams::default()
        };
        // Without a version the watch begins with the Lease as it is.
        let request = self.request().watch(&params, "").map_err(malformed)?;
        let Numbered { client, .. } = self.connection.client().await;
        let patience = settings.watch_start_timeout;
        let answer = timeout(patience, client.request_stream(request)).await;
        let body = answer.map_err(|_| Fault::Silent(patience))?;
        let body = body.map_err(|error| Fault::of(&error))?;
        self.read(body, take).await
    }

    /// Reads the lines of a watch.
    async fn read(
        &self,
        body: impl AsyncBufRead,
        take: &mut impl FnMut(LeaseObject),
    ) -> Result<(), Fault> {
        let silence = self.settings.longest_silence();
        let mut body = pin!(body);
        let mut bytes = Vec::new();
        loop {
            bytes.clear();
            let more = timeout(silence, read_line(body.as_mut(), &mut bytes)).await;
            if !more.map_err(|_| Fault::Silent(silence))?? {
                return Ok(());
            }
            let line: Line<'_> = serde_json::from_slice(&bytes)
                .map_err(|error| Fault::Malformed(error.to_string()))?;
            match &*line.word {
                "ADDED" | "MODIFIED" => {
                    let lease: Lease = serde_json::from_str(line.object.get())
                        .map_err(|error| Fault::Malformed(error.to_string()))?;
                    take(LeaseObject::from(lease));
                }
                "ERROR" => {
                    let status = serde_json::from_str(line.object.get())
                        .map_err(|error| Fault::Malformed(error.to_string()))?;
                    return Err(Fault::of_event(&status));
                }
                _ => {}
            }
        }
    }

    /// The path of Leases.
    fn request(&self) -> Request {
        let namespace = &self.name.namespace;
        Request::new(format!(
            "/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        ))
    }

    /// The body of a write.
    fn encode(&self, object: LeaseObject) -> Result<Vec<u8>, LeaseFault> {
        let lease = object.into_lease(&self.name);
        serde_json::to_vec(&lease).map_err(|error| LeaseFault::Failed(error.to_string()))
    }

    /// Sends one request.
    async fn send(
        &self,
        request: Result<http::Request<Vec<u8>>, kube::core::request::Error>,
    ) -> Result<LeaseObject, LeaseFault> {
        let request = request.map_err(|error| LeaseFault::Failed(error.to_string()))?;
        let answer = self.connection.request(request, self.call_timeout).await;
        answer
            .map(|lease: Lease| LeaseObject::from(lease))
            .map_err(|fault| match fault {
                Fault::Status { code: 404, .. } => LeaseFault::NotFound,
                Fault::Status { code: 409, .. } => LeaseFault::Conflict,
                Fault::Status { .. }
                | Fault::Transport(_)
                | Fault::Silent(_)
                | Fault::ErrorEvent { .. }
                | Fault::Malformed(_)
                | Fault::ClosedAtOnce => LeaseFault::Failed(fault.text()),
            })
    }
}

impl LeaseObject {
    /// Whether its version comes after that of another state of the same Lease. Versions of one kind can be compared as numbers; one
    /// that is none is not newer.
    #[must_use]
    pub fn is_newer_than(&self, other: &Self) -> bool {
        let number = |it: &Self| it.resource_version.parse::<u64>().unwrap_or_default();
        number(self) > number(other)
    }

    /// As the API has it.
    fn into_lease(self, name: &LeaseName) -> Lease {
        let some = |text: String| (!text.is_empty()).then_some(text);
        let time = |time: SystemTime| Timestamp::try_from(time).ok().map(MicroTime);
        Lease {
            metadata: ObjectMeta {
                name: Some(name.name.clone()),
                namespace: Some(name.namespace.clone()),
                uid: some(self.uid),
                resource_version: some(self.resource_version),
                labels: Some(self.labels),
                annotations: Some(self.annotations),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: self.holder,
                lease_duration_seconds: self.duration_seconds,
                lease_transitions: self.transitions,
                acquire_time: self.acquired.and_then(time),
                renew_time: self.renewed.and_then(time),
                ..LeaseSpec::default()
            }),
        }
    }
}

impl From<Lease> for LeaseObject {
    fn from(lease: Lease) -> Self {
        let Lease { metadata, spec } = lease;
        let spec = spec.unwrap_or_default();
        let time = |time: MicroTime| SystemTime::from(time.0);
        Self {
            uid: metadata.uid.unwrap_or_default(),
            resource_version: metadata.resource_version.unwrap_or_default(),
            labels: metadata.labels.unwrap_or_default(),
            annotations: metadata.annotations.unwrap_or_default(),
            holder: spec.holder_identity.filter(|it| !it.is_empty()),
            duration_seconds: spec.lease_duration_seconds,
            transitions: spec.lease_transitions,
            acquired: spec.acquire_time.map(time),
            renewed: spec.renew_time.map(time),
        }
    }
}

fn malformed(error: kube::core::request::Error) -> Fault {
    Fault::Malformed(error.to_string())
}
