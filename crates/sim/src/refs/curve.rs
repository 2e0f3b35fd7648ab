//! Results from the stack distances of one page size.

use super::ByKind;
use types::ReferenceKind;

/// Misses of every fully associative LRU memory with pages of one size: a TLB by its entries, or
/// a memory by its frames, whose misses are page faults.
///
/// Exact from `FILTER_BLOCKS` frames up; below, a lower bound, because references to pages that the
/// filter holds are not in the trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Curve {
    cold: ByKind,
    /// Misses by number of frames, cold ones included, up to the number from which all misses are
    /// cold.
    misses: Vec<ByKind>,
    /// Dirty pages evicted, by number of frames, up to the number from which there are none.
    write_backs: Vec<u64>,
}

impl Curve {
    /// A curve from first references, other references by distance, and for each number of frames the change
    /// in write-backs from one frame less.
    pub(super) fn new(cold: ByKind, by_distance: &[ByKind], write_backs: &[i64]) -> Curve {
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
        let mut sum = 0;
        let mut write_backs: Vec<u64> = write_backs
            .iter()
            .map(|more| {
                sum += more;
                sum as u64
            })
            .collect();
        let used = write_backs.iter().rposition(|&count| count != 0);
        write_backs.truncate(used.map_or(0, |last| last + 1));
        write_backs.push(0);
        Curve { cold, misses, write_backs }
    }

    /// What was counted after `before`, a curve of the same pages at an earlier time.
    pub fn since(&self, before: &Curve) -> Curve {
        let misses = self.misses.iter().enumerate();
        let write_backs = self.write_backs.iter().enumerate();
        Curve {
            cold: less(self.cold, before.cold),
            misses: misses
                .map(|(frames, &misses)| less(misses, before.misses(frames as u64)))
                .collect(),
            write_backs: write_backs
                .map(|(frames, &count)| count - before.write_backs(frames as u64))
                .collect(),
        }
    }

    /// First references to a page, by kind: misses at every size.
    pub fn cold(&self) -> ByKind {
        self.cold
    }

    /// Dirty pages that a memory of `frames` evicts, each a write to storage. Pages that are dirty
    /// at the end of the trace do not count.
    pub fn write_backs(&self, frames: u64) -> u64 {
        self.write_backs[at(frames, self.write_backs.len())]
    }

    /// Misses with `frames`, cold ones included, by kind of reference.
    pub fn misses(&self, frames: u64) -> ByKind {
        self.misses[at(frames, self.misses.len())]
    }

    /// Misses of references of one kind with 0, 1, 2, ... frames, cold ones included; the last entry holds
    /// for more frames too.
    pub fn misses_by_frames(&self, kind: ReferenceKind) -> impl ExactSizeIterator<Item = u64> {
        self.misses.iter().map(move |misses| misses[kind as usize])
    }

    /// Write-backs with 0, 1, 2, ... frames; zero with more.
    pub fn write_backs_by_frames(&self) -> &[u64] {
        &self.write_backs
    }
}

/// The counts without those of `before`.
pub fn less(counts: ByKind, before: ByKind) -> ByKind {
    std::array::from_fn(|kind| counts[kind] - before[kind])
}

/// The index for `frames` in a list of `counts` entries, whose last holds for more frames too.
fn at(frames: u64, counts: usize) -> usize {
    usize::try_from(frames).map_or(counts - 1, |frames| frames.min(counts - 1))
}
