//! The disks of the tiers: the requests that are gathered for each, and the moves that wait for a buffer of it.
//!
//! No two moves wait for each other: a buffer of a write is in use only while the disk writes. A buffer read from
//! the fast tier waits for one that writes the slow tier. A buffer read from the slow tier waits for a frame, and
//! for one that writes the fast tier.

use std::collections::VecDeque;

use policy::tiers::Step;

use super::clusters::{Clusters, Kind};
use crate::store::Tier;

/// What the disk of a tier does for a step.
pub(super) fn kind_of(step: Step, tier: Tier) -> Kind {
    match (step, tier) {
        (Step::ReadFast | Step::ReadSlow, _) => Kind::Read,
        (Step::Demote { .. }, Tier::Fast) => Kind::Victim,
        (Step::Demote { .. }, Tier::Slow) => Kind::Demotion,
        (Step::WriteFast | Step::WriteSlow | Step::Promote | Step::Free, _) => Kind::Write,
    }
}

/// The requests of a disk and the moves that wait for it.
pub(super) struct Lane {
    pub clusters: Clusters,
    wait_for_read: VecDeque<u32>,
    wait_for_write: VecDeque<u32>,
}

impl Lane {
    /// For a disk with this many buffers, and room for `moves` moves that wait.
    pub fn new(buffers: usize, moves: usize) -> Lane {
        let queue = || VecDeque::with_capacity(moves);
        Lane { clusters: Clusters::new(buffers), wait_for_read: queue(), wait_for_write: queue() }
    }

    /// The moves that wait for a buffer of this kind, in order.
    pub fn waiting(&mut self, kind: Kind) -> &mut VecDeque<u32> {
        if kind.is_read() { &mut self.wait_for_read } else { &mut self.wait_for_write }
    }
}
