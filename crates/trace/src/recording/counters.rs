//! Counters, which several parts of a recording hold.

use std::collections::BTreeMap;

/// Kernel counters by the kernel's own names.
pub type Counters = BTreeMap<String, u64>;
