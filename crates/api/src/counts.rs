//! The counts of the API.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use ops::metrics as m;
use ops::metrics::{Metric, Sample};

/// The counts of the API, over all its listeners.
#[derive(Debug, Default)]
pub struct Counts {
    /// Requests by endpoint and result.
    requests: Tally<2>,
    /// Reviews by kind and outcome.
    reviews: Tally<2>,
    /// Connections that were not served, by reason.
    refused: Tally<1>,
    open: AtomicU64,
}

/// A counter for each set of labels. The lock is held for one change or one reading.
#[derive(Debug)]
struct Tally<const N: usize>(Mutex<BTreeMap<[&'static str; N], u64>>);

impl<const N: usize> Default for Tally<N> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<const N: usize> Tally<N> {
    fn add(&self, labels: [&'static str; N]) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(labels).or_default() += 1;
    }

    #[allow(clippy::cast_precision_loss, reason = "a sample is a float")]
    fn samples(&self, metric: Metric, out: &mut Vec<Sample>) {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let samples = counts
            .iter()
            .map(|(labels, count)| Sample::new(metric, labels, *count as f64));
        out.extend(samples);
    }
}

/// An open connection. Dropping it counts it no longer.
#[derive(Debug)]
pub(crate) struct Open<'a>(&'a Counts);

impl Counts {
    pub(crate) fn request(&self, endpoint: &'static str, result: &'static str) {
        self.requests.add([endpoint, result]);
    }

    pub(crate) fn review(&self, kind: &'static str, outcome: &'static str) {
        self.reviews.add([kind, outcome]);
    }

    pub(crate) fn refused(&self, reason: &'static str) {
        self.refused.add([reason]);
    }

    pub(crate) fn open(&self) -> Open<'_> {
        self.open.fetch_add(1, Ordering::Relaxed);
        Open(self)
    }

    /// Adds the counts to those that are scraped.
    #[allow(clippy::cast_precision_loss, reason = "a sample is a float")]
    pub fn samples(&self, out: &mut Vec<Sample>) {
        self.requests.samples(m::HISTORY_API_REQUESTS, out);
        self.reviews.samples(m::HISTORY_API_REVIEWS, out);
        self.refused.samples(m::HISTORY_API_REFUSED, out);
        let open = self.open.load(Ordering::Relaxed) as f64;
        out.push(Sample::new(m::HISTORY_API_CONNECTIONS, &[], open));
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}
