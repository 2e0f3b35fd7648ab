//! Pages of zeros, which no swap device writes or reads from Linux 6.12 on: what a trace knows about
//! them.

use serde::{Deserialize, Serialize};

/// The kernel's counts over a trace that marks pages of zeros. A count is absent if the kernel's counter
/// covers more than what was recorded, or less.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Zeros {
    /// Pages of zeros that the kernel swapped out meanwhile, as it counted them (`swpout_zero`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_outs: Option<u64>,
    /// Those that it brought back (`swpin_zero`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel_ins: Option<u64>,
}
