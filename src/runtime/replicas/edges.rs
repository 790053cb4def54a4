//! Who says which replica leads, and which other replicas there are.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use directives::config::{OtherReplicas, ReplicaRole, Replicas, Source};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use kubernetes::source::api_server::Auth;
use kubernetes::source::api_server::endpoints::EndpointsClient;
use kubernetes::source::api_server::lease::{LeaseClient, LeaseName};
use ops::Clock;
use replica_links::driver::Role;
use replica_links::lease_client::LeaseEdge;
use replica_links::roster::{FixedRoster, Roster};
use replicas::fixed::FixedRole;
use replicas::settings::Settings;

use crate::runtime::pod_namespace::namespace_of_account;
use crate::runtime::sources::auth_of;

/// The Lease, or a fixed role, and the other replicas.
pub(crate) struct Edges {
    pub(crate) role: Role,
    pub(crate) roster: Arc<dyn Roster>,
}

impl Edges {
    /// Opens clients of the API server where they are needed. Sends no request.
    pub(crate) async fn open(
        replicas: &Replicas,
        api: Option<&Source>,
        clock: &Arc<dyn Clock>,
        settings: &Settings,
    ) -> anyhow::Result<Self> {
        let auth = || -> anyhow::Result<Auth> {
            let auth = api.map(auth_of);
            let auth = auth.and_then(Result::ok);
            auth.ok_or_else(|| anyhow!("{}: no API server has the Lease", replicas.place))
        };
        let role = match &replicas.role {
            ReplicaRole::Primary => Role::Fixed(FixedRole::Primary),
            ReplicaRole::Follow(address) => Role::Fixed(FixedRole::Follow(address.clone())),
            ReplicaRole::Lease { namespace, name } => {
                let name = LeaseName {
                    namespace: namespace_of(replicas, namespace.as_ref())?,
                    name: name.clone(),
                };
                let client = LeaseClient::open(auth()?, name, settings.call_timeout).await;
                let client = client.context("the API server with the Lease")?;
                let clock = Arc::clone(clock);
                let edge = LeaseEdge::new(client, clock, settings.lease_duration);
                Role::Lease(Arc::new(edge))
            }
        };
        let roster: Arc<dyn Roster> = match &replicas.others {
            OtherReplicas::Listed(addresses) => Arc::new(FixedRoster(addresses.clone())),
            OtherReplicas::Service { namespace, name } => {
                let namespace = namespace_of(replicas, namespace.as_ref())?;
                let service = (namespace, name.clone());
                let client = EndpointsClient::open(auth()?, service, settings.call_timeout).await;
                Arc::new(ServiceRoster {
                    client: client.context("the API server with the Service of the replicas")?,
                    port: replicas.listen.port(),
                })
            }
        };
        Ok(Self { role, roster })
    }
}

/// The namespace of an object: the written one, or that of the pod.
fn namespace_of(replicas: &Replicas, written: Option<&String>) -> anyhow::Result<String> {
    let namespace = written.cloned().or_else(namespace_of_account);
    namespace.ok_or_else(|| {
        anyhow!(
            "{}: outside of a pod the Lease and the Service need a namespace: write NAMESPACE/NAME",
            replicas.place
        )
    })
}

/// The endpoints of a Service. All replicas listen at the same port.
struct ServiceRoster {
    client: EndpointsClient,
    port: u16,
}

impl fmt::Debug for ServiceRoster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceRoster").finish_non_exhaustive()
    }
}

impl Roster for ServiceRoster {
    fn addresses(&self) -> BoxFuture<'_, io::Result<Vec<String>>> {
        let reading = async move {
            let found: BTreeSet<_> = self.client.addresses().await.map_err(io::Error::other)?;
            let addresses = found.into_iter();
            let addresses = addresses.map(|it| SocketAddr::new(it, self.port).to_string());
            Ok(addresses.collect())
        };
        reading.boxed()
    }
}
