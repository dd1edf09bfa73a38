//! Count, sum, extremes, mean and deviation of numbers, in a form that merges.

use serde::{Deserialize, Serialize};

/// A column of one group, as far as it has been read.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
pub(crate) struct Moments {
    count: u64,
    /// Empty, or a word for "not available".
    missing: u64,
    /// Neither that nor a number.
    wrong: u64,
    sum: f64,
    min: Option<f64>,
    max: Option<f64>,
    mean: f64,
    /// The sum of squared deviations from the mean.
    m2: f64,
}

/// What is reported of a column of one group.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(crate) struct Summary {
    pub(crate) count: u64,
    pub(crate) missing: u64,
    pub(crate) wrong: u64,
    pub(crate) sum: f64,
    pub(crate) min: Option<f64>,
    pub(crate) max: Option<f64>,
    pub(crate) mean: Option<f64>,
    /// Of the sample (divided by one less than the count).
    pub(crate) variance: Option<f64>,
    pub(crate) stddev: Option<f64>,
}

const MISSING: [&str; 6] = ["NA", "N/A", "NaN", "null", "none", "-"];

// Counts stay far below the 2^52 up to which a double is exact.
#[allow(clippy::cast_precision_loss)]
fn float(count: u64) -> f64 {
    count as f64
}

impl Moments {
    pub(crate) fn hear(&mut self, field: &str) {
        if field.is_empty() || MISSING.iter().any(|word| word.eq_ignore_ascii_case(field)) {
            self.missing += 1;
            return;
        }
        match field.parse::<f64>() {
            Ok(value) if value.is_finite() => self.add(value),
            _ => self.wrong += 1,
        }
    }

    /// The update of Welford (Technometrics 4, 1962).
    fn add(&mut self, value: f64) {
        self.count += 1;
        self.sum += value;
        self.min = Some(self.min.map_or(value, |min| min.min(value)));
        self.max = Some(self.max.map_or(value, |max| max.max(value)));
        let before = value - self.mean;
        self.mean += before / float(self.count);
        self.m2 += before * (value - self.mean);
    }

    /// The merge of Chan, Golub and `LeVeque` (Stanford STAN-CS-79-773).
    pub(crate) fn merge(&mut self, other: &Self) {
        let count = self.count + other.count;
        if other.count > 0 {
            let (a, b, all) = (float(self.count), float(other.count), float(count));
            let delta = other.mean - self.mean;
            self.mean += delta * b / all;
            self.m2 += other.m2 + delta * delta * a * b / all;
        }
        self.count = count;
        self.missing += other.missing;
        self.wrong += other.wrong;
        self.sum += other.sum;
        self.min = extreme(self.min, other.min, f64::min);
        self.max = extreme(self.max, other.max, f64::max);
    }

    pub(crate) fn summary(&self) -> Summary {
        let variance = (self.count > 1).then(|| self.m2 / float(self.count - 1));
        Summary {
            count: self.count,
            missing: self.missing,
            wrong: self.wrong,
            sum: self.sum,
            min: self.min,
            max: self.max,
            mean: (self.count > 0).then_some(self.mean),
            variance,
            stddev: variance.map(f64::sqrt),
        }
    }
}

fn extreme(a: Option<f64>, b: Option<f64>, choose: fn(f64, f64) -> f64) -> Option<f64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(choose(a, b)),
        (a, b) => a.or(b),
    }
}
