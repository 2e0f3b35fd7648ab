//! Pages of zeros, which Linux 6.12 and later do not write to swap devices: their counts in a trace.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kernel's counts over a trace that marks pages of zeros. A count is absent if the kernel's counter
/// has another scope than the recording.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Zeros {
    /// Pages of zeros that the kernel swapped out during the recording (`swpout_zero`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_outs: Option<u64>,
    /// Pages of zeros that the kernel swapped in during the recording (`swpin_zero`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_ins: Option<u64>,
}
