//! What the stack distances of one page size answer.

use super::ByKind;
use types::ReferenceKind;

/// Misses of every fully associative LRU memory of pages of one size: a TLB of so many entries, or
/// a memory of so many frames, whose misses are page faults.
///
/// Exact from `FILTER_BLOCKS` frames up; below, a lower bound, because references to pages that the
/// filter holds are not seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Curve {
    cold: ByKind,
    /// Misses by the number of frames, cold ones included, up to the number from which on there are
    /// only cold ones.
    misses: Vec<ByKind>,
}

impl Curve {
    /// From first references, and the others by their distance.
    pub(super) fn new(cold: ByKind, by_distance: &[ByKind]) -> Curve {
        let used = by_distance.iter().rposition(|counts| *counts != ByKind::default());
        let mut sum = cold;
        let mut misses = vec![sum];
        for counts in by_distance[..used.map_or(0, |last| last + 1)].iter().rev() {
            for (sum, count) in sum.iter_mut().zip(counts) {
                *sum += count;
            }
            misses.push(sum);
        }
        misses.reverse();
        Curve { cold, misses }
    }

    /// Distinct pages.
    pub fn pages(&self) -> u64 {
        self.cold.iter().sum()
    }

    /// First references to a page, by what the reference did: misses at every size.
    pub fn cold(&self) -> ByKind {
        self.cold
    }

    /// Misses with `frames`, cold ones included, by what the reference did.
    pub fn misses(&self, frames: u64) -> ByKind {
        let last = self.misses.len() - 1;
        self.misses[usize::try_from(frames).map_or(last, |frames| frames.min(last))]
    }

    /// Misses of references of one kind with 0, 1, 2, ... frames, cold ones included; with more
    /// frames than the last there are as many as with the last.
    pub fn misses_by_frames(&self, kind: ReferenceKind) -> impl ExactSizeIterator<Item = u64> {
        self.misses.iter().map(move |misses| misses[kind as usize])
    }
}
