//! How far the figures of an outcome may be from the truth if they are estimates from a sample.

use schemars::JsonSchema;
use serde::Serialize;

use crate::sample::Sample;

/// The sample behind an outcome, and how far its estimates may be from the truth.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SimulateSample {
    /// The pages that were replayed.
    #[serde(flatten)]
    pub sample: Sample,
    /// Half of the width of the 95 % confidence interval of each figure.
    pub error: SimulateError,
}

/// Half of the width of the 95 % confidence interval of each figure of an outcome.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SimulateError {
    /// Operations of the fast tier.
    pub fast: TierError,
    /// Operations of the slow tier.
    pub slow: TierError,
    /// Of `promotions`.
    #[schemars(range(min = 0))]
    pub promotions: f64,
    /// Of `demotions`.
    #[schemars(range(min = 0))]
    pub demotions: f64,
    /// Of `io_time_s`, with typical latencies.
    #[schemars(range(min = 0))]
    pub io_time_s: f64,
    /// Of `stall_time_s`, with typical latencies.
    #[schemars(range(min = 0))]
    pub stall_time_s: f64,
}

/// Half of the width of the 95 % confidence interval of the operations of a tier.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TierError {
    /// Of the pages read.
    #[schemars(range(min = 0))]
    pub reads: f64,
    /// Of the pages written.
    #[schemars(range(min = 0))]
    pub writes: f64,
}
