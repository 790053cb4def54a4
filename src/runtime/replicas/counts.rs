//! The metrics of a replica, as it shows itself.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use directives::config::replica_metrics as m;
use ops::metrics::{Labels, Metric};
use ops::{HandlerMetrics, Tasks};
use replicas::chain::ReplicaId;
use replicas::status::Status;

use crate::runtime::replicas::role::Role;

/// How often the metrics are brought up to date.
const EVERY: Duration = Duration::from_secs(1);

/// Counts for as long as the process runs.
pub(crate) fn start(role: &Arc<Role>, metrics: &HandlerMetrics, tasks: &mut Tasks) {
    let (role, cancel) = (Arc::clone(role), tasks.cancel().clone());
    let mut counts = Counts {
        metrics: metrics.clone(),
        before: (0, 0, 0, 0),
        followers: BTreeSet::new(),
    };
    tasks.spawn("metrics of a replica", async move {
        loop {
            if let Some((me, status)) = role.status() {
                counts.take(me, &status);
            }
            tokio::select! {
                () = tokio::time::sleep(EVERY) => {}
                () = cancel.cancelled() => return Ok::<_, Infallible>(()),
            }
        }
    });
}

/// The counts of one replica.
struct Counts {
    metrics: HandlerMetrics,
    /// What was counted: terms, renewals, failed calls, refused frames.
    before: (u64, u64, u64, u64),
    /// The followers of which there is a lag.
    followers: BTreeSet<ReplicaId>,
}

impl Counts {
    /// Takes what the replica shows.
    fn take(&mut self, me: &ReplicaId, status: &Status) {
        let own = || vec![("replica", me.to_string())];
        #[expect(clippy::cast_precision_loss, reason = "there are fewer than 2^53")]
        let number = |value: u64| value as f64;
        for (metric, value) in [
            (m::LEADER, u64::from(status.is_leading)),
            (m::EPOCH, status.epoch.0),
            (m::IN_SYNC, status.in_sync.len() as u64),
            (m::NO_ELIGIBLE, u64::from(status.lacks_eligible)),
            (m::BEHIND, u64::from(status.is_behind)),
        ] {
            let gauge = self.metrics.gauge(metric);
            gauge.get_or_create(&own()).set(number(value));
        }
        let lags = self.metrics.gauge(m::LAG);
        let label = |follower: &ReplicaId| vec![("replica", follower.to_string())];
        for (follower, versions) in &status.lags {
            lags.get_or_create(&label(follower)).set(number(*versions));
        }
        // Followers that are gone leave no value behind.
        let followers: BTreeSet<_> = status.lags.keys().cloned().collect();
        for gone in self.followers.difference(&followers) {
            lags.remove(&label(gone));
        }
        self.followers = followers;
        let outcome = |word: &str| vec![("outcome", word.to_owned())];
        let (terms, written, failed, refused) = self.before;
        self.add(m::PROMOTIONS, &own(), status.promotions - terms);
        let renewals = status.renewals;
        self.add(m::RENEWALS, &outcome("written"), renewals.written - written);
        self.add(m::RENEWALS, &outcome("failed"), renewals.failed - failed);
        self.add(
            m::FRAMES,
            &outcome("refused"),
            status.refused_frames - refused,
        );
        self.before = (
            status.promotions,
            renewals.written,
            renewals.failed,
            status.refused_frames,
        );
    }

    fn add(&self, metric: Metric, labels: &Labels, count: u64) {
        self.metrics
            .counter(metric)
            .get_or_create(labels)
            .inc_by(count);
    }
}
