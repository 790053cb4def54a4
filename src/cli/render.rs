//! `render`: the zones as the sources stand now, without state and without a socket.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use directives::config::Config;
use dns::{Name, RecordText, Serial};
use history::{SCHEMA, each_record};
use kubernetes::facts::Part;
use kubernetes::schema::Problem;
use kubernetes::source::SourceEvent;
use ops::{Clock, RequestMetrics, SystemClock};
use provenance::Kind;
use serde_json::json;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use writer::{Input, Observer, Pipeline, SourceId, Store};
use zone::{Candidate, Journaled, Version};

use crate::plan::addresses::interface_addresses;
use crate::plan::clusters::PlannedCluster;
use crate::plan::model::Plan;
use crate::runtime::deployment::Deployment;
use crate::runtime::sources::Source;
use crate::runtime::zone_files::read_once;

/// How long an API server may take to list everything.
const LIST_TIME: Duration = Duration::from_secs(60);

/// A store that keeps nothing.
struct Nowhere;

impl Store for Nowhere {
    type Error = std::convert::Infallible;

    fn commit(&mut self, candidates: Vec<Candidate>) -> Result<Vec<Journaled>, Self::Error> {
        Ok(candidates.into_iter().map(Candidate::journaled).collect())
    }

    fn floor(&self, _: &Name) -> Option<Serial> {
        None
    }

    fn idle(&mut self) -> bool {
        false
    }
}

/// Prints problems only.
struct Problems;

impl Observer for Problems {
    fn published(&self, _: &Version, _: usize, _: usize) {}
    fn committed(&self, _: Duration, _: &[Duration]) {}
    fn failed(&self, _: &str) {}
    fn synced(&self, _: &str) {}

    fn problems(&self, _: &mut dyn Iterator<Item = &Problem>, new: &[Problem]) {
        for problem in new {
            tracing::warn!("{problem}");
        }
    }
}

/// A zone as text, with serial 0: a rendering is no version. A zone that is signed in its file has the file's serial, which
/// is signed too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RenderedZone {
    /// The zone's name.
    pub zone: Name,
    /// The master file.
    pub text: String,
}

impl RenderedZone {
    /// For programs: an object for each record.
    pub(crate) fn as_json(&self) -> String {
        let zone = self.zone.to_string();
        let line = |record| json!({ "schema": SCHEMA, "zone": zone, "record": record });
        let lines = self
            .text
            .lines()
            .map(|record| format!("{}\n", line(record)));
        lines.collect()
    }
}

/// Renders the zones of a configuration, in its order.
///
/// # Errors
/// When a source cannot be opened or does not list everything in time.
pub async fn render(config: &Config) -> anyhow::Result<Vec<RenderedZone>> {
    let plan = Plan::new(config, &interface_addresses);
    let requests = RequestMetrics::default();
    let deployment = Deployment::new(plan, &requests, &Deployment::default());
    let Deployment { plan, zones, .. } = &deployment;
    let clock = Arc::new(SystemClock);
    let clusters = plan.clusters.iter().map(|cluster| {
        let handles = deployment.cluster(cluster).handles.clone();
        (cluster.plan.clone(), handles)
    });
    let mut pipeline = Pipeline::new(
        Arc::clone(zones),
        clusters.collect(),
        Nowhere,
        clock.clone(),
        Box::new(Problems),
    )
    .with_files(deployment.files())
    .with_catalogs(plan.catalogs.clone());
    for file in &plan.files {
        let source = deployment.file(file).source;
        let event = read_once(file, clock.clone())?;
        pipeline.take(Input::File { source, event });
    }
    for etcd in &plan.etcd {
        let source = deployment.etcd_source(etcd);
        let clock: Arc<dyn Clock> = clock.clone();
        let listed = etcd.source(&clock).list_once().await;
        let zone = &etcd.plan.zone.name;
        let event = listed.map_err(|why| anyhow::anyhow!("{zone}: etcd cannot be used: {why}"))?;
        pipeline.take(Input::Etcd { source, event });
    }
    for cluster in &plan.clusters {
        let source = deployment.cluster(cluster).handles.source;
        feed(&mut pipeline, source, cluster).await?;
    }
    pipeline.commit();
    let mut rendered = Vec::new();
    for zone in zones.all() {
        // A zone whose ServiceImports cannot be seen; it was said why.
        let Some(version) = zone.current() else {
            tracing::warn!(zone = %zone.apex(), "not rendered");
            continue;
        };
        let mut text = String::new();
        let is_signed = version.contents.is_signed();
        let serial = if is_signed {
            version.serial.encode()
        } else {
            0
        };
        each_record(
            &version.contents,
            Serial::decode(serial),
            |rr| -> std::fmt::Result {
                use std::fmt::Write;
                writeln!(text, "{}", RecordText(rr))
            },
        )?;
        rendered.push(RenderedZone {
            zone: zone.apex().clone(),
            text,
        });
    }
    Ok(rendered)
}

/// Feeds the events of a cluster's source until everything is listed.
async fn feed(
    pipeline: &mut Pipeline<Nowhere>,
    source: SourceId,
    cluster: &PlannedCluster,
) -> anyhow::Result<()> {
    let clock = Arc::new(SystemClock);
    let opened = Source::open(
        &cluster.source,
        cluster.wanted.clone(),
        clock,
        Arc::default(),
    )
    .await?;
    let cancel = CancellationToken::new();
    let (tx, mut rx) = mpsc::channel(256);
    let run = opened.run(tx, cancel.clone());
    let mut with_imports = cluster.wanted.kinds.contains(Kind::ServiceImport);
    let listen = async {
        while let Some(event) = rx.recv().await {
            match event {
                event @ SourceEvent::Changed { .. } => {
                    pipeline.take(Input::Source { source, event });
                    if pipeline.is_synced(source, with_imports) {
                        return Ok(());
                    }
                }
                SourceEvent::Problem(problem) => tracing::warn!("{problem}"),
                SourceEvent::Stale {
                    part: Part::Cluster,
                    reason,
                    since: _,
                } => bail!("{reason}"),
                SourceEvent::Stale {
                    part: Part::Imports,
                    reason,
                    since: _,
                } => {
                    tracing::warn!("{reason}");
                    with_imports = false;
                    if pipeline.is_synced(source, with_imports) {
                        return Ok(());
                    }
                }
                SourceEvent::Fresh(_) => {}
            }
        }
        bail!("the source ended")
    };
    tokio::select! {
        listened = tokio::time::timeout(LIST_TIME, listen) => {
            listened.context("the source did not list everything in time")?
        }
        () = run => bail!("the source ended"),
    }
}
