//! Memory that several processes share: weighs candidates, the largest first.

use std::time::{Duration, Instant};

use linux::weigher::{AT_ONCE, Job, Weigher, smallest_weighed};
use policy::kill::search::Sharer;
use policy::kill::{Candidate, CandidateIndex};
use types::{Bytes, Nanos};

use super::{Table, index_of};

/// Calls of the weigher per poll: at most 4 x 16 processes.
const CALLS_MAX: usize = 4;
impl Table {
    /// Weighs candidates without a valid weight (`longest` as for `Entry::is_weighed`), the largest first, for up to
    /// `time`.
    pub(crate) fn weigh(&mut self, weigher: &Weigher, now: Nanos, longest: Nanos, time: Duration) {
        let begun = Instant::now();
        for _ in 0..CALLS_MAX {
            let mut largest = [CandidateIndex(0); AT_ONCE];
            let count = self.largest_unweighed(now, longest, &mut largest);
            let left = time.saturating_sub(begun.elapsed());
            if count == 0 || !self.weigh_all(weigher, now, left, &largest[..count]) {
                return;
            }
        }
    }

    /// Weighs a candidate, unless it was weighed less than a second ago.
    pub(crate) fn weigh_one(
        &mut self,
        weigher: &Weigher,
        now: Nanos,
        time: Duration,
        index: CandidateIndex,
    ) {
        if !self.entry(index).is_weighed(now, Nanos(0)) {
            self.weigh_all(weigher, now, time, &[index]);
        }
    }

    /// Discards all weights.
    pub(crate) fn forget_weights(&mut self) {
        self.entries.iter_mut().for_each(super::Entry::forget_weight);
    }

    /// Weighs these candidates; returns whether the weigher is ready for more.
    fn weigh_all(
        &mut self,
        weigher: &Weigher,
        now: Nanos,
        time: Duration,
        indexes: &[CandidateIndex],
    ) -> bool {
        let Table { entries, candidates, .. } = self;
        let job = |&CandidateIndex(index): &CandidateIndex| {
            let entry = &entries[index];
            // Without a free descriptor it is not weighed.
            let process = entry.process.try_clone().ok()?;
            Some(Job { process, serial: entry.serial, parent: entry.parent })
        };
        let mut jobs = [const { None }; AT_ONCE];
        jobs.iter_mut().zip(indexes.iter().filter_map(job)).for_each(|(to, job)| *to = Some(job));
        weigher.weigh(jobs.into_iter().flatten(), time, |found| {
            let Some(CandidateIndex(index)) = index_of(entries, found.number) else { return };
            let (entry, candidate) = (&mut entries[index], &mut candidates[index]);
            if entry.serial != found.serial {
                return;
            }
            entry.weigh(now, found.weighed);
            (candidate.resident, candidate.swapped) = (entry.own(), entry.own_swapped());
        })
    }

    /// Fills `largest` with candidates to weigh, the largest first; returns their number.
    fn largest_unweighed(
        &self,
        now: Nanos,
        longest: Nanos,
        largest: &mut [CandidateIndex; AT_ONCE],
    ) -> usize {
        let weighed = self.rows().filter(|(_, entry, _)| entry.has_weight());
        let best = weighed.map(|(_, _, candidate)| candidate.bytes().0).max().unwrap_or(0);
        let least = smallest_weighed(best);
        let mut count = 0;
        for (index, entry, _) in self.rows() {
            let size = entry.seen.all();
            if size < least || entry.is_weighed(now, longest) || entry.is_dying(now) {
                continue;
            }
            let is_larger = |&other: &CandidateIndex| self.entry(other).seen.all() >= size;
            let rank = largest[..count].partition_point(is_larger);
            if rank < AT_ONCE {
                count = (count + 1).min(AT_ONCE);
                largest[rank..count].rotate_right(1);
                largest[rank] = index;
            }
        }
        count
    }

    /// The candidates, and how each shares memory, as [`policy::kill::search`] needs them.
    pub(crate) fn with_sharers(&mut self, now: Nanos) -> (&mut [Candidate], &[Sharer]) {
        let Table { entries, candidates, sharers, .. } = self;
        sharers.clear();
        sharers.extend(entries.iter().map(|entry| entry.sharer(now)));
        (candidates, sharers)
    }

    /// Counts for a process what its end frees if the whole family ends.
    pub(crate) fn count_share(&mut self, index: CandidateIndex) {
        if let Some(share) = self.entry(index).share() {
            self.candidates[index.0].resident = Bytes(share);
        }
    }

    /// Whether a process uses the memory of this one: a child between vfork and exec.
    pub(crate) fn has_borrower(&self, lender: CandidateIndex) -> bool {
        let number = self.entry(lender).process.number();
        self.entries.iter().any(|entry| entry.parent == number && entry.is_borrowed())
    }
}
