//! Counts of values by their order of magnitude.

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};
use std::borrow::Cow;

/// Counts values in buckets that double: one for 0, then one each for 1, 2 to 3, 4 to 7, ... In
/// JSON a list of [largest value of the bucket, count] up to the last bucket with a count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    counts: [u64; BUCKETS],
}

/// One bucket for each number of significant bits.
const BUCKETS: usize = u64::BITS as usize + 1;

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: [0; BUCKETS] }
    }
}

impl Histogram {
    /// Counts `value` `times`.
    #[inline(always)]
    pub fn add(&mut self, value: u64, times: u64) {
        self.counts[(u64::BITS - value.leading_zeros()) as usize] += times;
    }

    /// The count of every bucket, from that of 0 on.
    pub(super) fn counts_mut(&mut self) -> &mut [u64] {
        &mut self.counts
    }

    /// (largest value of the bucket, count) of each bucket up to the last with a count.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        let largest = |bucket: usize| if bucket == 0 { 0 } else { u64::MAX >> (64 - bucket) };
        let used = self.counts.iter().rposition(|&count| count > 0).map_or(0, |last| last + 1);
        self.counts[..used].iter().enumerate().map(move |(bucket, &count)| (largest(bucket), count))
    }
}

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.buckets())
    }
}

impl JsonSchema for Histogram {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Histogram".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        <Vec<(u64, u64)>>::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_double() {
        let mut histogram = Histogram::default();
        for value in [0, 1, 2, 3, 4, 7, 8] {
            histogram.add(value, 1);
        }
        histogram.add(1, 10);
        let buckets: Vec<_> = histogram.buckets().collect();
        assert_eq!(buckets, [(0, 1), (1, 11), (3, 2), (7, 2), (15, 1)]);
    }

    #[test]
    fn the_largest_value_has_a_bucket() {
        let mut histogram = Histogram::default();
        histogram.add(u64::MAX, 1);
        assert_eq!(histogram.buckets().last(), Some((u64::MAX, 1)));
    }
}
