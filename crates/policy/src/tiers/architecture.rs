//! A swap architecture: its name, its options, and what its placement is built from.

use super::options::{Effective, OptionSpec, Profile};
use super::two_tiers::Rules;
use crate::placement::{Hand, Latencies, SlotOnSwapIn};

/// Role of an architecture in a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The baseline of the others: only the slow device.
    Baseline,
    /// A system that can be built.
    System,
    /// A lower bound of all systems; it cannot be built.
    Bound,
}

impl Role {
    /// Name in Python and in lists.
    pub fn name(self) -> &'static str {
        match self {
            Role::Baseline => "baseline",
            Role::System => "system",
            Role::Bound => "bound",
        }
    }
}

/// One row of a catalog of architectures.
#[derive(Clone, Copy, Debug)]
pub struct Architecture {
    /// Name on the command line, in Python and in results.
    pub name: &'static str,
    /// One line that says what it does.
    pub summary: &'static str,
    /// Role in a comparison.
    pub role: Role,
    /// Whether the decisions, and so the counts, depend on the latencies of the devices.
    pub decides_by_latency: bool,
    /// Options that users may set.
    pub options: &'static [OptionSpec],
    /// Named sets of options.
    pub profiles: &'static [Profile],
}

/// Input for building a placement and its rules.
#[derive(Clone, Copy, Debug)]
pub struct Setup<'a> {
    /// Frames of the fast tier.
    pub capacity: u64,
    /// Time of each operation on a page, in nanoseconds.
    pub latencies: Latencies,
    /// The options in effect.
    pub options: &'a Effective,
    /// Whether the placement decides for a server of requests, so that one decision must be short: the
    /// hand of CLOCK then passes a bounded number of pages.
    pub is_live: bool,
}

impl Setup<'_> {
    /// What happens to the slot of a page that is read.
    pub(super) fn slot_on_swapin(&self) -> SlotOnSwapIn {
        if self.options.is("slot_on_swapin", "free") {
            SlotOnSwapIn::Free
        } else {
            SlotOnSwapIn::Keep
        }
    }

    /// The pages that the hand of CLOCK may pass.
    pub(super) fn hand(&self) -> Hand {
        if self.is_live { Hand::SHORT } else { Hand::LAP }
    }

    /// The rules of an architecture that has no options about copies.
    pub(super) fn rules(&self) -> Rules {
        Rules {
            capacity: self.capacity,
            keeps_slow_copy: true,
            writes_through: false,
            drops_victims_in_memory: false,
            slot_on_swapin: SlotOnSwapIn::Keep,
        }
    }
}
