//! Values that are read at each scrape.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use crate::metrics::{Labels, Metric, MetricKind};

/// A value read at scrape.
#[derive(Debug, Clone)]
pub struct Sample {
    /// The metric.
    pub metric: Metric,
    /// The values of its labels, in their order.
    pub labels: Vec<String>,
    /// The value; for a histogram the sum.
    pub value: f64,
    /// For a histogram the bounds of its buckets, each with the count of values between it and the bound before.
    pub buckets: Vec<(f64, u64)>,
}

impl Sample {
    /// A histogram with its labels. `counts` has one number for each bound, and one for the values above all bounds.
    #[must_use]
    pub fn histogram(
        metric: Metric,
        labels: &[&str],
        bounds: &[f64],
        (counts, sum): (Vec<u64>, f64),
    ) -> Self {
        let bounds = bounds.iter().copied().chain([f64::MAX]);
        Self {
            buckets: bounds.zip(counts).collect(),
            ..Self::new(metric, labels, sum)
        }
    }

    /// A value with its labels.
    #[must_use]
    pub fn new(metric: Metric, labels: &[&str], value: f64) -> Self {
        debug_assert_eq!(metric.labels.len(), labels.len(), "{}", metric.name);
        Self {
            metric,
            labels: labels.iter().map(ToString::to_string).collect(),
            value,
            buckets: Vec::new(),
        }
    }
}

/// Reads the values.
pub type Gather = Arc<dyn Fn() -> Vec<Sample> + Send + Sync>;

/// Encodes the values that are read at scrape.
pub(super) struct Gathered(pub(super) Gather);

impl fmt::Debug for Gathered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gathered")
    }
}

impl Collector for Gathered {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut by_name: BTreeMap<&str, Vec<Sample>> = BTreeMap::new();
        for sample in (self.0)() {
            by_name.entry(sample.metric.name).or_default().push(sample);
        }
        for samples in by_name.values() {
            let metric = samples[0].metric;
            let kind = match metric.kind {
                MetricKind::Counter => MetricType::Counter,
                MetricKind::Gauge => MetricType::Gauge,
                MetricKind::Histogram => MetricType::Histogram,
            };
            let mut descriptor = encoder.encode_descriptor(metric.name, metric.help, None, kind)?;
            if metric.labels.is_empty() {
                // Without labels there are no braces either, as Prometheus's own clients write it.
                write_value(descriptor, &samples[0])?;
                continue;
            }
            for sample in samples {
                let labels: Labels = metric
                    .labels
                    .iter()
                    .copied()
                    .zip(sample.labels.iter().cloned())
                    .collect();
                write_value(descriptor.encode_family(&labels)?, sample)?;
            }
        }
        Ok(())
    }
}

/// Writes the value of a sample.
fn write_value(mut encoder: MetricEncoder<'_>, sample: &Sample) -> fmt::Result {
    match sample.metric.kind {
        MetricKind::Counter => ConstCounter::new(sample.value).encode(encoder),
        MetricKind::Gauge => ConstGauge::new(sample.value).encode(encoder),
        MetricKind::Histogram => {
            let count = sample.buckets.iter().map(|(_, count)| count).sum();
            encoder.encode_histogram::<Labels>(sample.value, count, &sample.buckets, None)
        }
    }
}
