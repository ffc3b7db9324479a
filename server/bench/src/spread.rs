//! Several measurements of one thing: the middle and how far they lie apart; and latencies.

use std::time::Duration;

use crate::table::number;

/// The same figure from each round.
#[derive(Clone, Debug, Default)]
pub(crate) struct Spread(Vec<f64>);

impl Spread {
    pub(crate) fn add(&mut self, value: f64) {
        self.0.push(value);
        self.0.sort_by(f64::total_cmp);
    }

    pub(crate) fn median(&self) -> f64 {
        let middle = self.0.len() / 2;
        self.0.get(middle).copied().unwrap_or(f64::NAN)
    }

    /// Lowest and highest.
    pub(crate) fn range(&self) -> String {
        let (low, high) = (self.0.first(), self.0.last());
        match (low, high) {
            (Some(low), Some(high)) => format!("{}..{}", number(*low), number(*high)),
            _ => "-".to_owned(),
        }
    }
}

/// How long each operation took.
#[derive(Clone, Debug, Default)]
pub(crate) struct Latencies(Vec<u32>);

impl Latencies {
    pub(crate) fn add(&mut self, took: Duration) {
        self.0
            .push(u32::try_from(took.as_micros()).unwrap_or(u32::MAX));
    }

    pub(crate) fn merge(&mut self, other: Self) {
        self.0.extend(other.0);
    }

    /// The `q`-quantiles in milliseconds.
    pub(crate) fn quantiles<const N: usize>(mut self, wanted: [f64; N]) -> [f64; N] {
        self.0.sort_unstable();
        wanted.map(|q| {
            let at = (self.0.len().saturating_sub(1) as f64 * q).round() as usize;
            self.0
                .get(at)
                .map_or(f64::NAN, |micros| f64::from(*micros) / 1000.0)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_of_three() {
        let mut spread = Spread::default();
        for value in [5.0, 1.0, 3.0] {
            spread.add(value);
        }
        assert_eq!(spread.median(), 3.0);
        assert_eq!(spread.range(), "1.00..5.00");
    }

    #[test]
    fn quantiles_are_in_milliseconds() {
        let mut latencies = Latencies::default();
        for micros in (0..=100).rev() {
            latencies.add(Duration::from_micros(micros * 1000));
        }
        assert_eq!(latencies.quantiles([0.5, 0.99]), [50.0, 99.0]);
    }
}
