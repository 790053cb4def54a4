//! What is asked of the server: paths and selectors, and whether it is still the one we know.

use kube::core::Request;
use kube::core::params::ListParams;
use tokio::time::timeout;

use super::{End, Fault, KindWatch, Page, RUNNING_PODS, plural};
use crate::cluster::Kind;

impl KindWatch<'_> {
    /// The path of the kind.
    pub(super) fn request(&self) -> Request {
        let base = match self.kind {
            Kind::Namespace | Kind::Service | Kind::Pod => "/api/v1",
            Kind::EndpointSlice => "/apis/discovery.k8s.io/v1",
            Kind::ServiceImport if self.older => "/apis/multicluster.x-k8s.io/v1alpha1",
            Kind::ServiceImport => "/apis/multicluster.x-k8s.io/v1beta1",
        };
        Request::new(format!("{base}/{}", plural(self.kind)))
    }

    /// The labels that are asked for. An object that comes to have others is told as deleted.
    pub(super) fn labels(&self) -> Option<String> {
        let selector = self.shared.wanted.selector(self.kind)?;
        (!selector.is_everything()).then(|| selector.to_string())
    }

    /// The fields that are asked for: pods that have ended are not, as in CoreDNS.
    pub(super) fn fields(&self) -> Option<String> {
        match self.kind {
            Kind::Namespace | Kind::Service | Kind::EndpointSlice | Kind::ServiceImport => None,
            Kind::Pod => Some(RUNNING_PODS.to_owned()),
        }
    }

    /// Whether the server's position is before ours: behind the same address is another etcd, an empty one or
    /// one from a backup. It takes a watch from the future as any other and says nothing in it.
    /// Positions that are no numbers are not compared.
    pub(super) async fn has_gone_back(&self, version: &str) -> Result<bool, End> {
        let settings = &self.shared.settings;
        let params = ListParams::default().limit(1);
        let request = self.request().list(&params);
        let request = request.map_err(|error| Fault::Malformed(error.to_string()))?;
        let client = self.shared.connection.client().await.client;
        let _under_way = self.shared.throttle.enter().await;
        let text = timeout(settings.page_timeout, client.request_text(request))
            .await
            .map_err(|_| Fault::Silent(settings.page_timeout))?
            .map_err(|error| Fault::of(&error))?;
        let page: Page<'_> = serde_json::from_str(&text)
            .map_err(|error| Fault::Malformed(format!("a list: {error}")))?;
        let now = page
            .metadata
            .resource_version
            .and_then(|now| now.parse::<u64>().ok());
        let own = version.parse::<u64>().ok();
        Ok(now.zip(own).is_some_and(|(now, own)| now < own))
    }
}
