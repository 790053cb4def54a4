//! Writes a ConfigMap: the only thing that is ever written to an API server, and only where the configuration names one.
//!
//! It is a server-side apply, so one request creates the object or changes it, and fields of others stay. The rights are
//! `create` and `patch` on this one name.

use std::collections::BTreeMap;

use kube::Error;
use kube::core::params::{Patch, PatchParams};
use kube::core::{Request, Status};
use serde_json::{Value, json};

use super::Settings;
use super::connection::{Auth, ConnectError, Connection};
use super::fault::chain;

/// The field manager of the fields that are written.
const MANAGER: &str = "zonewright";

/// A ConfigMap and the content that it gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigMapText {
    /// Its namespace, a label of RFC 1123.
    pub namespace: String,
    /// Its name, a subdomain of RFC 1123.
    pub name: String,
    /// `data`.
    pub data: BTreeMap<String, String>,
    /// `binaryData`, each value in base64.
    pub binary_data: BTreeMap<String, String>,
}

/// The reason why a ConfigMap is not written.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// There is no client.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The API server does not allow it.
    #[error(
        "the API server does not allow it: {message}; give the account create and patch on the ConfigMap {name} in {namespace}"
    )]
    Forbidden {
        /// The namespace.
        namespace: String,
        /// The name.
        name: String,
        /// What the API server says.
        message: String,
    },
    /// The API server refuses it for another reason.
    #[error("the API server refuses it with status {code}: {message}")]
    Refused {
        /// The HTTP status.
        code: u16,
        /// What the API server says.
        message: String,
    },
    /// There is no answer.
    #[error("the API server cannot be reached: {0}")]
    Unreachable(String),
}

impl ConfigMapText {
    /// The object.
    fn object(&self) -> Value {
        let Self {
            namespace,
            name,
            data,
            binary_data,
        } = self;
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": { "namespace": namespace, "name": name },
            "data": data,
            "binaryData": binary_data,
        })
    }

    fn fault(&self, error: &Error) -> WriteError {
        let Error::Api(status) = error else {
            return WriteError::Unreachable(chain(error));
        };
        let Status { code, message, .. } = &**status;
        match code {
            403 => WriteError::Forbidden {
                namespace: self.namespace.clone(),
                name: self.name.clone(),
                message: message.clone(),
            },
            _ => WriteError::Refused {
                code: *code,
                message: message.clone(),
            },
        }
    }
}

/// Creates or changes a ConfigMap. Credentials are read anew each time, so replaced ones are used.
///
/// # Errors
/// [`WriteError`].
pub async fn apply_config_map(auth: Auth, written: &ConfigMapText) -> Result<(), WriteError> {
    let connection = Connection::open(auth, &Settings::default()).await?;
    let client = connection.client().await.client;
    let path = format!("/api/v1/namespaces/{}/configmaps", written.namespace);
    let parameters = PatchParams::apply(MANAGER).force();
    let patch = Patch::Apply(written.object());
    let request = Request::new(path).patch(&written.name, &parameters, &patch);
    let request = request.map_err(|error| WriteError::Unreachable(error.to_string()))?;
    let answer = client.request_text(request).await;
    answer.map(drop).map_err(|error| written.fault(&error))
}
