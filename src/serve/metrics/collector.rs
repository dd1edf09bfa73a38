//! Writes samples as metrics.

use super::METRICS;
use super::readings::{Samples, Value};
use crate::base::HistogramCounts;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;
use std::fmt;

/// The samples of one scrape.
#[derive(Debug)]
pub(super) struct Collector(pub(super) Samples);

impl prometheus_client::collector::Collector for Collector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for metric in METRICS {
            // The library adds the suffix of the kind to the samples.
            let suffix = match metric.kind {
                MetricType::Counter => "_total",
                MetricType::Info => "_info",
                _ => "",
            };
            let family = metric.name.strip_suffix(suffix).unwrap_or(metric.name);
            let mut family = encoder.encode_descriptor(family, metric.help, None, metric.kind)?;
            for (_, labels, value) in self.0.0.iter().filter(|(name, ..)| *name == metric.name) {
                match value {
                    Value::Info => family.encode_info(labels)?,
                    _ if labels.is_empty() => sample(&mut family, value)?,
                    _ => sample(&mut family.encode_family(labels)?, value)?,
                }
            }
        }
        Ok(())
    }
}

fn sample(encoder: &mut MetricEncoder<'_>, value: &Value) -> fmt::Result {
    match value {
        Value::Count(count) => encoder.encode_counter(count, None::<&Exemplar<NoLabelSet, u64>>),
        Value::Amount(amount) => encoder.encode_counter(amount, None::<&Exemplar<NoLabelSet, f64>>),
        Value::Level(level) => encoder.encode_gauge(level),
        Value::Histogram(counts, divisor) => histogram(encoder, counts, *divisor),
        Value::Info => Ok(()),
    }
}

#[allow(clippy::cast_precision_loss, reason = "a bound is below 2^27, and a sum is shown")]
fn histogram(encoder: &mut MetricEncoder<'_>, counts: &HistogramCounts, divisor: f64) -> fmt::Result {
    let bounded = counts.buckets.iter().map(|(bound, count)| (*bound as f64 / divisor, *count));
    let buckets: Vec<(f64, u64)> = bounded.chain([(f64::INFINITY, counts.above)]).collect();
    encoder.encode_histogram::<NoLabelSet>(counts.sum as f64 / divisor, counts.count(), &buckets, None)
}
