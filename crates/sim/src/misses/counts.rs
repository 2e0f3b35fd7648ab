//! Result of `misses`.

use super::cell::CounterCell;
use crate::sample::Sample;
use policy::eviction::Choice;
use schemars::JsonSchema;
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::collections::BTreeMap;

/// Misses by policy and number of frames.
#[derive(Clone, Debug, PartialEq, serde::Serialize, JsonSchema)]
pub struct MissCounts {
    /// Name and version of this layout.
    pub schema: &'static str,
    /// Accesses of the trace.
    pub requests: u64,
    /// Distinct pages accessed.
    pub pages: u64,
    /// Counts in the order asked for; in JSON an object {policy: {frames: misses}}.
    #[serde(serialize_with = "as_object")]
    #[schemars(with = "BTreeMap<String, BTreeMap<u32, u64>>")]
    pub misses: Vec<PolicyMisses>,
    /// The sample, if only some of the pages were looked at: misses and pages are then estimates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<MissSample>,
}

/// The sample behind miss counts, and how far the estimates may be from the truth.
#[derive(Clone, Debug, PartialEq, serde::Serialize, JsonSchema)]
pub struct MissSample {
    /// The pages that were looked at.
    #[serde(flatten)]
    pub sample: Sample,
    /// Half of the width of the 95 % confidence interval of each miss ratio: an object {policy: {frames: share of
    /// requests}}.
    pub error: BTreeMap<String, BTreeMap<u32, f64>>,
}

/// Misses of one policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyMisses {
    /// Name in the catalog, with the options that were set.
    pub policy: String,
    /// (frames, misses), in the order asked for.
    pub by_frames: Vec<(u32, u64)>,
}

impl MissCounts {
    pub(super) fn new(
        requests: u64,
        pages: u64,
        choices: &[Choice],
        frames: &[u32],
        cells: &[CounterCell],
    ) -> MissCounts {
        let count = |policy: &str, size| {
            let found = cells.iter().find_map(|cell| cell.misses(policy, size));
            (size, found.expect("every policy and size has a cell"))
        };
        let misses = choices
            .iter()
            .map(|choice| PolicyMisses {
                policy: choice.label.clone(),
                by_frames: frames.iter().map(|&size| count(&choice.label, size)).collect(),
            })
            .collect();
        MissCounts { schema: "pagewise.misses/1", requests, pages, misses, sample: None }
    }

    /// Adds the counts of other policies and sizes on the same trace.
    pub(super) fn append(&mut self, others: MissCounts) {
        for other in others.misses {
            match self.misses.iter_mut().find(|known| known.policy == other.policy) {
                Some(known) => known.by_frames.extend(other.by_frames),
                None => self.misses.push(other),
            }
        }
    }

    /// Misses of this policy with this many frames, if asked for.
    pub fn of(&self, policy: &str, frames: u32) -> Option<u64> {
        let by_policy = self.misses.iter().find(|misses| misses.policy == policy)?;
        by_policy.by_frames.iter().find(|&&(size, _)| size == frames).map(|&(_, misses)| misses)
    }
}

impl Serialize for PolicyMisses {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.by_frames.iter().map(|(frames, misses)| (frames, misses)))
    }
}

fn as_object<S: Serializer>(misses: &[PolicyMisses], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(misses.len()))?;
    for policy in misses {
        map.serialize_entry(&policy.policy, policy)?;
    }
    map.end()
}
