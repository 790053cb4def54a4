//! Counters of handlers, by what they count: CoreDNS's metrics of its plugins.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use crate::ops::metrics::{Metric, Sample};

/// A metric with the label `server` in front, counted by its other labels.
#[derive(Debug)]
pub struct Tally {
    /// Which metric.
    metric: Metric,
    /// The counts by labels. The lock protects the map for one change or one reading.
    counts: Mutex<BTreeMap<Vec<String>, u64>>,
}

impl Tally {
    /// Counts of nothing yet.
    #[must_use]
    pub const fn new(metric: Metric) -> Self {
        Self {
            metric,
            counts: Mutex::new(BTreeMap::new()),
        }
    }

    /// One more of these labels, those behind `server`.
    pub fn increase(&self, labels: &[&str]) {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let labels = labels.iter().map(ToString::to_string).collect();
        *counts.entry(labels).or_default() += 1;
    }

    /// The values, for a server.
    #[expect(
        clippy::cast_precision_loss,
        reason = "counters beyond 2^53 lose their last digits"
    )]
    pub fn samples(&self, server: &str, out: &mut Vec<Sample>) {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        for (labels, count) in counts.iter() {
            let mut all = vec![server];
            all.extend(labels.iter().map(String::as_str));
            out.push(Sample::new(self.metric, &all, *count as f64));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::metrics::ACL_BLOCKED;

    #[test]
    fn counts_are_told_by_server_and_labels() {
        let tally = Tally::new(ACL_BLOCKED);
        tally.increase(&["z.", ""]);
        tally.increase(&["z.", ""]);
        tally.increase(&["y.", ""]);
        let mut out = Vec::new();
        tally.samples("dns://:53", &mut out);
        let said: Vec<_> = out
            .iter()
            .map(|it| (it.labels.join(" "), it.value))
            .collect();
        let want = [("dns://:53 y. ", 1.0), ("dns://:53 z. ", 2.0)];
        assert_eq!(said, want.map(|(labels, value)| (labels.to_owned(), value)));
    }
}
