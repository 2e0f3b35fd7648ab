//! Memory that several processes share: weighs candidates, the largest first, and adds up families of processes
//! that share memory by fork.

use std::time::{Duration, Instant};

use linux::weigher::{AT_ONCE, BEST_PART, Job, Weigher, smallest_weighed};
use policy::kill::Standing;
use types::{Bytes, Nanos};

use super::{Name, Table};

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
    /// The place of the member that represents the family.
    pub root: usize,
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
            let mut places = [0; AT_ONCE];
            let count = self.largest_unweighed(now, longest, &mut places);
            let left = time.saturating_sub(begun.elapsed());
            if count == 0 || !self.weigh_places(weigher, now, left, &places[..count]) {
                return;
            }
        }
    }

    /// Weighs the candidate at `place`, unless it was weighed less than a second ago.
    pub(crate) fn weigh_one(
        &mut self,
        weigher: &Weigher,
        now: Nanos,
        time: Duration,
        place: usize,
    ) {
        if !self.entries[place].is_weighed(now, Nanos(0)) {
            self.weigh_places(weigher, now, time, &[place]);
        }
    }

    /// Discards all weights.
    pub(crate) fn forget_weights(&mut self) {
        self.entries.iter_mut().for_each(super::Entry::forget_weight);
    }

    /// Weighs the candidates at `places`; returns whether the weigher is ready for more.
    fn weigh_places(
        &mut self,
        weigher: &Weigher,
        now: Nanos,
        time: Duration,
        places: &[usize],
    ) -> bool {
        let Table { entries, candidates, .. } = self;
        let job = |&place: &usize| {
            let entry = &entries[place];
            // Without a free descriptor it is not weighed.
            let process = entry.process.try_clone().ok()?;
            Some(Job { process, serial: entry.serial, parent: entry.parent })
        };
        let mut jobs = [const { None }; AT_ONCE];
        jobs.iter_mut().zip(places.iter().filter_map(job)).for_each(|(to, job)| *to = Some(job));
        weigher.weigh(jobs.into_iter().flatten(), time, |found| {
            let place = entries.binary_search_by_key(&found.number, |held| held.process.number());
            let Some(place) = place.ok().filter(|&place| entries[place].serial == found.serial)
            else {
                return;
            };
            let entry = &mut entries[place];
            entry.weigh(now, found.weighed);
            (candidates[place].resident, candidates[place].swapped) =
                (entry.own(), entry.own_swapped());
        })
    }

    /// Fills `places` with the largest candidates to weigh, the largest first; returns their number.
    fn largest_unweighed(
        &self,
        now: Nanos,
        longest: Nanos,
        places: &mut [usize; AT_ONCE],
    ) -> usize {
        let weighed =
            self.entries.iter().zip(&self.candidates).filter(|(entry, _)| entry.has_weight());
        let best = weighed.map(|(_, candidate)| candidate.bytes().0).max().unwrap_or(0);
        let least = smallest_weighed(best);
        let size = |place: usize| self.entries[place].seen.all();
        let mut count = 0;
        for (place, entry) in self.entries.iter().enumerate() {
            if size(place) < least || entry.is_weighed(now, longest) || entry.is_dying(now) {
                continue;
            }
            let rank = places[..count].partition_point(|&other| size(other) >= size(place));
            if rank < AT_ONCE {
                count = (count + 1).min(AT_ONCE);
                places[rank..count].rotate_right(1);
                places[rank] = place;
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
        for place in 0..self.entries.len() {
            let key = self.family_of(place);
            self.entries[place].family = key;
            if key != 0 {
                self.order.push((u64::from(key), place));
            }
        }
        self.order.sort_unstable();
        let families = self.order.chunk_by(|first, second| first.0 == second.0);
        families.filter_map(|members| self.family(members)).max_by_key(|family| family.bytes)
    }

    fn family(&self, members: &[(u64, usize)]) -> Option<Family> {
        let places = || members.iter().map(|&(_, place)| place);
        if members.len() < 2 || !places().all(|place| self.candidates[place].may_die()) {
            return None;
        }
        let share = |place: usize| self.entries[place].share().unwrap_or(0);
        // The first of the largest members, so that it stays the same from poll to poll.
        let root = places().max_by_key(|&place| (share(place), usize::MAX - place))?;
        Some(Family {
            key: members[0].0 as u32,
            root,
            processes: members.len(),
            bytes: places().map(share).sum(),
        })
    }

    /// The family of the process at `place`: the process group of its topmost ancestor that shares memory, too, so
    /// that orphans of one server stay together. 0 if it shares nothing.
    fn family_of(&self, place: usize) -> u32 {
        let mut top = &self.entries[place];
        if top.share().is_none() {
            return 0;
        }
        for _ in 0..DEPTH_MAX {
            let above =
                self.entries.binary_search_by_key(&top.parent, |held| held.process.number());
            match above.ok().map(|place| &self.entries[place]) {
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
        let pairs = || entries.iter().zip(candidates.iter());
        let mut others =
            pairs().filter(|(entry, candidate)| candidate.is_eligible() && !is_like(entry));
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
        let members = || entries.iter().enumerate().filter(|(_, held)| held.family == family.key);
        let standing = members().map(|(place, _)| candidates[place].standing).min();
        for (place, _) in members() {
            (candidates[place].resident, candidates[place].swapped) = (Bytes(0), Bytes(0));
        }
        let root = &mut candidates[family.root];
        root.resident = Bytes(family.bytes);
        root.standing = standing.unwrap_or(Standing::Neutral);
    }

    /// Counts for the process at `place` what its end frees if the whole family ends.
    pub(crate) fn count_share(&mut self, place: usize) {
        if let Some(share) = self.entries[place].share() {
            self.candidates[place].resident = Bytes(share);
        }
    }

    /// Places of the processes that use the memory of the process at `place`: its children between vfork and
    /// exec.
    pub(crate) fn borrowers(&self, place: usize) -> impl Iterator<Item = usize> + '_ {
        let number = self.entries[place].process.number();
        let all = self.entries.iter().enumerate();
        all.filter(move |(_, held)| held.parent == number && held.is_borrowed())
            .map(|(place, _)| place)
    }
}
