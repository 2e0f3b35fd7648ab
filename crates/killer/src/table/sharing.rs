//! Memory that several processes share: weighs candidates, the largest first, and adds up families of processes
//! that share memory by fork.

use std::cmp::Reverse;
use std::time::{Duration, Instant};

use linux::weigher::{AT_ONCE, BEST_PART, Job, Weigher, smallest_weighed};
use policy::kill::{CandidateIndex, Standing};
use types::{Bytes, Nanos};

use super::{Name, Table, index_of};

/// Calls of the weigher per poll: at most 4 x 16 processes.
const CALLS_MAX: usize = 4;
/// Processes that share an address space have the same size, up to what changes between two measurements.
const SAME_MAP: u64 = 256 << 10;
/// Two processes with the same name are alike if their sizes differ by less than one part in this many.
const LIKE_PART: u64 = 16;
/// Ancestors that are followed.
const DEPTH_MAX: usize = 16;

/// Processes that share memory by fork or by shared memory without a name, which comes back when all have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Family {
    /// The value of `Entry::family` of its members.
    pub key: u32,
    /// The member that represents the family.
    pub root: CandidateIndex,
    pub processes: usize,
    /// What the end of all members frees.
    pub bytes: u64,
}

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

    /// The most that the end of one candidate frees, as far as is known.
    pub(crate) fn best_own(&self) -> u64 {
        let eligible = self.candidates.iter().filter(|candidate| candidate.is_eligible());
        eligible.map(|candidate| candidate.bytes().0).max().unwrap_or(0)
    }

    /// Shared memory that the end of candidates or families frees.
    pub(crate) fn shared_of_candidates(&self) -> u64 {
        self.entries.iter().map(super::Entry::shared_part).sum()
    }

    /// The family with the most memory, of the weighed families without a protected member.
    pub(crate) fn largest_family(&mut self) -> Option<Family> {
        self.order.clear();
        for index in (0..self.len()).map(CandidateIndex) {
            let key = self.family_of(index);
            self.entries[index.0].family = key;
            if key != 0 {
                self.order.push((u64::from(key), index));
            }
        }
        self.order.sort_unstable();
        let families = self.order.chunk_by(|first, second| first.0 == second.0);
        families.filter_map(|members| self.family(members)).max_by_key(|family| family.bytes)
    }

    fn family(&self, members: &[(u64, CandidateIndex)]) -> Option<Family> {
        let indexes = || members.iter().map(|&(_, index)| index);
        if members.len() < 2 || !indexes().all(|index| self.candidate(index).may_die()) {
            return None;
        }
        let share = |index| self.entry(index).share().unwrap_or(0);
        // The first of the largest members, so that it stays the same from poll to poll.
        let root = indexes().max_by_key(|&index| (share(index), Reverse(index)))?;
        Some(Family {
            key: members[0].0 as u32,
            root,
            processes: members.len(),
            bytes: indexes().map(share).sum(),
        })
    }

    /// The family of a process: the process group of its topmost ancestor that shares memory, too, so
    /// that orphans of one server stay together. 0 if it shares nothing.
    fn family_of(&self, index: CandidateIndex) -> u32 {
        let mut top = self.entry(index);
        if top.share().is_none() {
            return 0;
        }
        for _ in 0..DEPTH_MAX {
            match index_of(&self.entries, top.parent).map(|parent| self.entry(parent)) {
                Some(parent) if parent.share().is_some() => top = parent,
                _ => break,
            }
        }
        top.process_group
    }

    /// Assumes that the end of candidates with this name and size frees nothing, as it did for the last victim:
    /// they share memory in a way that weights do not show. Without a weight, nearly the same size is enough.
    /// If no other candidate has much memory, nothing changes.
    pub(crate) fn discount(&mut self, name: Name, resident: u64) {
        let Table { entries, candidates, .. } = self;
        let is_like = |entry: &super::Entry| {
            let most = if entry.has_weight() { SAME_MAP } else { resident / LIKE_PART };
            entry.name == name && entry.seen.resident.abs_diff(resident) <= most
        };
        let mut others = (entries.iter().zip(candidates.iter()))
            .filter(|(entry, candidate)| candidate.is_eligible() && !is_like(entry));
        if others.any(|(_, candidate)| candidate.bytes().0 >= resident / BEST_PART) {
            for (entry, candidate) in entries.iter().zip(candidates) {
                if is_like(entry) {
                    (candidate.resident, candidate.swapped) = (Bytes(0), Bytes(0));
                }
            }
        }
    }

    /// Gives the memory of the whole `family` to its root, so that policies see what the end of all members frees.
    pub(crate) fn adopt(&mut self, family: &Family) {
        let Table { entries, candidates, .. } = self;
        let mut lowest = None;
        for (entry, candidate) in entries.iter().zip(candidates.iter_mut()) {
            if entry.family == family.key {
                let standing = candidate.standing;
                lowest = Some(lowest.map_or(standing, |lowest| standing.min(lowest)));
                (candidate.resident, candidate.swapped) = (Bytes(0), Bytes(0));
            }
        }
        let root = &mut candidates[family.root.0];
        root.resident = Bytes(family.bytes);
        root.standing = lowest.unwrap_or(Standing::Neutral);
    }

    /// Counts for a process what its end frees if the whole family ends.
    pub(crate) fn count_share(&mut self, index: CandidateIndex) {
        if let Some(share) = self.entry(index).share() {
            self.candidates[index.0].resident = Bytes(share);
        }
    }

    /// The processes that use the memory of `lender`: its children between vfork and exec.
    pub(crate) fn borrowers(
        &self,
        lender: CandidateIndex,
    ) -> impl Iterator<Item = CandidateIndex> + '_ {
        let number = self.entry(lender).process.number();
        self.rows()
            .filter(move |(_, held, _)| held.parent == number && held.is_borrowed())
            .map(|(index, ..)| index)
    }
}
