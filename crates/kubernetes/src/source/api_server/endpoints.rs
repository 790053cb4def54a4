//! The addresses of a Service's endpoints, ready or not, read with one request.
//!
//! They are in its EndpointSlices. A headless Service with `publishNotReadyAddresses` has all pods that its selector finds.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::core::params::ListParams;
use kube::core::{ObjectList, Request};

use super::Settings;
use super::connection::{Auth, ConnectError, Connection};

/// The label of a slice with the name of its Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// The reason why the endpoints are not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the endpoints of {service} cannot be read: {reason}")]
pub struct EndpointsFault {
    service: String,
    reason: String,
}

/// Reads the endpoints of one Service.
#[derive(Debug)]
pub struct EndpointsClient {
    connection: Connection,
    namespace: String,
    service: String,
    call_timeout: Duration,
}

impl EndpointsClient {
    /// Reads the configuration and creates a client. Sends no request. A request takes at most `call_timeout`.
    ///
    /// # Errors
    /// When the configuration, a certificate or a token cannot be read.
    pub async fn open(
        auth: Auth,
        (namespace, service): (String, String),
        call_timeout: Duration,
    ) -> Result<Self, ConnectError> {
        Ok(Self {
            connection: Connection::open(auth, &Settings::default()).await?,
            namespace,
            service,
            call_timeout,
        })
    }

    /// The addresses, each once. Without the Service there are none.
    ///
    /// # Errors
    /// [`EndpointsFault`] when the API server does not answer, or does not allow it.
    pub async fn addresses(&self) -> Result<BTreeSet<IpAddr>, EndpointsFault> {
        let fault = |reason: String| EndpointsFault {
            service: format!("{}/{}", self.namespace, self.service),
            reason,
        };
        let path = format!(
            "/apis/discovery.k8s.io/v1/namespaces/{}/endpointslices",
            self.namespace
        );
        let params = ListParams::default().labels(&format!("{SERVICE_NAME}={}", self.service));
        let request = Request::new(path).list(&params);
        let request = request.map_err(|error| fault(error.to_string()))?;
        let answer = self.connection.request(request, self.call_timeout).await;
        answer.map(addresses_of).map_err(|why| fault(why.text()))
    }
}

/// The addresses in slices. Other types than addresses have none.
fn addresses_of(list: ObjectList<EndpointSlice>) -> BTreeSet<IpAddr> {
    let slices = list.items.into_iter();
    let endpoints = slices.filter_map(|slice| slice.endpoints).flatten();
    let addresses = endpoints.flat_map(|endpoint| endpoint.addresses);
    addresses.filter_map(|it| it.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn addresses_are_those_of_all_endpoints_ready_or_not() {
        let slice = |addresses: &[&str], is_ready: bool| {
            json!({
                "metadata": {},
                "addressType": "IPv4",
                "endpoints": [{ "addresses": addresses, "conditions": { "ready": is_ready } }],
            })
        };
        let slices = [
            slice(&["192.0.2.1"], true),
            slice(&["192.0.2.2", "a.example"], false),
            slice(&["192.0.2.1", "2001:db8::1"], true),
        ];
        let list = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSliceList", "metadata": {}, "items": slices,
        });
        let found = addresses_of(serde_json::from_value(list).unwrap());
        let found: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(found, ["192.0.2.1", "192.0.2.2", "2001:db8::1"]);
    }
}
