//! Duration of swap-in faults.

use super::histogram::Histogram;
use schemars::JsonSchema;
use serde::Serialize;
use trace::Rows;
use types::{EventFlags, EventKind};

/// Faults by whether they read the device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct FaultTime {
    /// Faults that read the device (major faults).
    pub device: Durations,
    /// Faults served without the device, from the swap cache.
    pub cached: Durations,
}

/// Durations in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Durations {
    /// Number of faults.
    pub count: u64,
    /// Sum of the durations.
    pub sum_ns: u64,
    /// Distribution: [largest value of the bucket, count].
    pub distribution_ns: Histogram,
}

impl FaultTime {
    /// Counts the faults of `rows` whose duration is known.
    pub(super) fn add(&mut self, rows: &Rows) {
        let events = rows.events.kind.iter().zip(&rows.events.flags).zip(&rows.duration_ns);
        for ((&kind, flags), &duration_ns) in events {
            if kind == EventKind::SwapIn && duration_ns > 0 {
                let is_major = flags.contains(EventFlags::MAJOR);
                let durations = if is_major { &mut self.device } else { &mut self.cached };
                durations.count += 1;
                durations.sum_ns += duration_ns;
                durations.distribution_ns.add(duration_ns, 1);
            }
        }
    }
}
