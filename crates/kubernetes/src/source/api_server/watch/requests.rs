//! The requests to the server: paths and selectors, and a check whether it is still the same server.

use std::time::{Duration, Instant};

use futures_util::io::AsyncBufRead;
use kube::core::Request;
use kube::core::params::{ListParams, WatchParams};
use provenance::Kind;
use tokio::time::error::Elapsed;
use tokio::time::timeout;

use super::{End, Fault, KindWatch, Page, RUNNING_PODS, plural};
use crate::source::EventSink;
use crate::source::api_server::connection::Numbered;
use crate::source::api_server::throttle::UnderWay;

impl<S: EventSink> KindWatch<'_, S> {
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

    /// The label selector. An object that no longer matches is sent as deleted.
    pub(super) fn labels(&self) -> Option<String> {
        let selector = self.shared.wanted.selector(self.kind)?;
        (!selector.is_everything()).then(|| selector.to_string())
    }

    /// The field selector: pods that have ended are left out, as in CoreDNS.
    pub(super) fn fields(&self) -> Option<String> {
        match self.kind {
            Kind::Namespace | Kind::Service | Kind::EndpointSlice | Kind::ServiceImport => None,
            Kind::Pod => Some(RUNNING_PODS.to_owned()),
        }
    }

    /// Whether the server's position is before ours, because another etcd is behind the same address, an empty one or
    /// one from a backup. Such a server accepts a watch from the future and sends nothing in it. Positions that are
    /// not numbers are not compared.
    pub(super) async fn has_gone_back(&self, version: &str) -> Result<bool, End> {
        let params = ListParams::default().limit(1);
        let text = self.ask_list(&params).await?;
        let page: Page<'_> = serde_json::from_str(&text)
            .map_err(|error| Fault::Malformed(format!("a list: {error}")))?;
        let now = page
            .metadata
            .resource_version
            .and_then(|now| now.parse::<u64>().ok());
        let own = version.parse::<u64>().ok();
        Ok(now.zip(own).is_some_and(|(now, own)| now < own))
    }

    /// Sends a list request and reads the whole answer.
    pub(super) async fn ask_list(&self, params: &ListParams) -> Result<String, End> {
        let patience = self.shared.settings.page_timeout;
        let request = self.request().list(params).map_err(malformed)?;
        let Numbered { client, host, .. } = self.shared.connection.client().await;
        let _under_way = self.enter(&host).await;
        let begin = self.shared.clock.now();
        let answer = timeout(patience, client.request_text(request)).await;
        let took = self.shared.clock.now().saturating_duration_since(begin);
        let requests = self.shared.stats.requests();
        requests.took(&host, took);
        requests.count(&host, code_of(&answer));
        taken(answer, patience)
    }

    /// Sends a watch request and waits until the watch is open. Returns it with the time of the request.
    pub(super) async fn ask_watch(
        &self,
        version: &str,
    ) -> Result<(impl AsyncBufRead + use<S>, Instant), End> {
        let settings = &self.shared.settings;
        let params = WatchParams {
            timeout: Some(settings.watch_seconds),
            bookmarks: true,
            label_selector: self.labels(),
            field_selector: self.fields(),
            ..WatchParams::default()
        };
        let patience = settings.watch_start_timeout;
        let request = self.request().watch(&params, version).map_err(malformed)?;
        let Numbered { client, host, .. } = self.shared.connection.client().await;
        let _under_way = self.enter(&host).await;
        let begin = self.shared.clock.now();
        let answer = timeout(patience, client.request_stream(request)).await;
        let requests = self.shared.stats.requests();
        requests.count(&host, code_of(&answer));
        Ok((taken(answer, patience)?, begin))
    }

    /// Waits until a request may be sent.
    async fn enter(&self, host: &str) -> UnderWay<'_> {
        let begin = self.shared.clock.now();
        let under_way = self.shared.throttle.enter().await;
        let waited = self.shared.clock.now().saturating_duration_since(begin);
        self.shared.stats.requests().waited(host, waited);
        under_way
    }
}

/// The answer to a request, or its timeout.
type InTime<T> = Result<Result<T, kube::Error>, Elapsed>;

/// The status code of an answer.
fn code_of<T>(answer: &InTime<T>) -> Option<u16> {
    match answer {
        Ok(Ok(_)) => Some(200),
        Ok(Err(kube::Error::Api(status))) => Some(status.code),
        Ok(Err(_)) | Err(_) => None,
    }
}

/// The answer, or its fault.
fn taken<T>(answer: InTime<T>, patience: Duration) -> Result<T, End> {
    let answer = answer.map_err(|_| Fault::Silent(patience))?;
    Ok(answer.map_err(|error| Fault::of(&error))?)
}

fn malformed(error: kube::core::request::Error) -> Fault {
    Fault::Malformed(error.to_string())
}
