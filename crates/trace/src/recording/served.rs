//! What a recording of the swap server says about it: enough to decide the same moves again.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The tiers of a swap server.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServedTiers {
    /// Name of the policy: that of its architecture.
    pub policy: String,
    /// Every option of the policy with its value in effect.
    pub options: BTreeMap<String, String>,
    /// Size of the swap area.
    pub size_bytes: u64,
    /// Size of the fast tier.
    pub fast_bytes: u64,
    /// The most frames of a compressed fast tier, which may hold more pages than its size has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub frames: Option<u64>,
    /// The times by which the policy weighs the tiers.
    pub latencies: ServedLatencies,
    /// Devices that the tiers were slowed to, by tier.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub emulated: BTreeMap<String, String>,
}

/// Times of one page.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServedLatencies {
    /// Reading from the fast tier.
    pub fast_read_ns: u64,
    /// Writing to the fast tier.
    pub fast_write_ns: u64,
    /// Reading from the slow tier.
    pub slow_read_ns: u64,
    /// Writing to the slow tier.
    pub slow_write_ns: u64,
}
