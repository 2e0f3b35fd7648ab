//! Searches for what holds the memory. Normally each process holds what its end frees. If that is little compared
//! with what a family of forks shares, the family holds it; if it is little compared with shared memory that
//! no process's end frees, no process does. After two kills in vain the search starts again with fresh weights,
//! assumes that processes that look like the victims share their memory, and compares all holders on equal
//! terms.
//!
//! The driver measures candidates and how they share memory ([`Sharer`]), and reports how much each batch of kills
//! gained. killd and the replay of recordings drive the same object. It allocates nothing once made.

use types::{Bytes, Nanos};

use super::{Candidate, CandidateIndex, Memory};

mod sharing;
mod victims;

pub use sharing::{Family, Lookalike, Sharer, borrowers};
pub use victims::{Chosen, Part, VICTIMS_MAX};

/// How long the weight of a process that keeps its size is valid, while memory is nearly short and short:
/// this bounds the cost of reading if memory stays nearly short for hours.
pub const VALID_NEAR: Nanos = Nanos(60_000_000_000);
/// See [`VALID_NEAR`].
pub const VALID_SHORT: Nanos = Nanos(10_000_000_000);
/// A weight is valid for this long even if the process changes.
const VALID_ALWAYS: Nanos = Nanos(1_000_000_000);
/// A batch of kills is in vain if less than one part in this many of what the victims had was gained.
pub const VAIN_PART: u64 = 8;
/// Memory is nearly short when the margin above the threshold is less than one part in this many of all memory.
const NEAR: u64 = 8;
/// Kills in vain in a row that start a wide search.
const VAIN_MAX: u32 = 2;
/// A family holds the memory if it has more than this many times what the best candidate frees.
const FAMILY_TIMES: u64 = 4;
/// Shared memory holds the memory if it is more than this many times what the best candidate frees.
const SHARED_TIMES: u64 = 16;
/// A batch of kills that gains less than one part in this many of all memory is in vain.
const WORTH_PART: u64 = 4096;
/// The reason to kill no process for shared memory.
const UNOWNED: &str =
    "memory is held by shared memory or files in memory, which no process's end gives back";
/// A process that is ending is worth waiting for if its memory is one part in this many of what the best candidate
/// frees, and at least this number of bytes.
const ENDING_PART: u64 = 2;
const ENDING_MIN: u64 = 1 << 20;
/// The reason to kill no process while another one's memory comes back.
const ENDING: &str =
    "a process that killd did not kill is ending, and its memory is about to come back";

/// Whether memory is nearly short, or short, if `margin` is left above the policy's threshold.
pub fn is_near(margin: Bytes, memory: &Memory) -> bool {
    margin.0 < memory.total.0 / NEAR
}

/// Whether a weight of this age is valid: for a second in any case, and for `longest` while the size of the
/// process stays similar.
pub fn is_weight_valid(age: Nanos, longest: Nanos, is_similar: bool) -> bool {
    age < VALID_ALWAYS || (age < longest && is_similar)
}

/// What holds the memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Holder {
    /// The candidates, each its own memory.
    #[default]
    Processes,
    /// A family of processes that share it.
    Family(Family),
    /// No process holds it: bytes of shared memory or of files in memory.
    Unowned(Bytes),
}

/// The totals of a batch of kills.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// Number of victims.
    pub victims: u32,
    /// Bytes that their end was expected to free.
    pub had: Bytes,
    /// Bytes that became free.
    pub gained: Bytes,
}

impl Batch {
    /// Whether the kills gained less than `least` bytes, or little of what was expected.
    pub fn is_vain(&self, least: Bytes) -> bool {
        self.gained.0 < least.0.max(self.had.0 / VAIN_PART)
    }
}

/// The state of the search: kills in vain, and what holds the memory.
#[derive(Debug, Default)]
pub struct HolderSearch {
    holder: Holder,
    /// Kills in vain in a row.
    vain_kills: u32,
    /// The last victim that was killed in vain.
    vain_victim: Option<Lookalike>,
    /// Whether all holders are compared on equal terms, because kills were in vain.
    is_wide: bool,
    /// The family of each candidate at the last search, 0 if it shares nothing.
    families: Vec<u32>,
    /// Indexes of candidates that share memory, sorted by family.
    order: Vec<(u32, CandidateIndex)>,
}

impl HolderSearch {
    /// A search with room for this number of candidates.
    pub fn with_room(room: usize) -> HolderSearch {
        HolderSearch {
            families: Vec::with_capacity(room),
            order: Vec::with_capacity(room),
            ..HolderSearch::default()
        }
    }

    /// What holds the memory, as last found.
    pub fn holder(&self) -> Holder {
        self.holder
    }

    /// Forgets the holder: the candidates are measured again.
    pub fn forget_holder(&mut self) {
        self.holder = Holder::Processes;
    }

    /// Ends the search: memory is no longer short.
    pub fn end(&mut self) {
        self.is_wide = false;
        self.forget_holder();
    }

    /// Begins a search while memory is short. Returns whether kills were in vain, so that the driver must
    /// measure all weights again before it calls [`HolderSearch::find`].
    pub fn begin(&mut self) -> bool {
        self.forget_holder();
        let is_after_vain_kills = self.vain_kills >= VAIN_MAX;
        if is_after_vain_kills {
            (self.vain_kills, self.is_wide) = (0, true);
        }
        is_after_vain_kills
    }

    /// Finds what holds the memory, and changes `candidates`, which are in the order of their process ids, to what
    /// policies shall see. `sharers` has the same order; `shared` is all shared memory, or 0. Returns the most that the end of
    /// one candidate frees.
    pub fn find(
        &mut self,
        candidates: &mut [Candidate],
        sharers: &[Sharer],
        shared: impl FnOnce() -> Bytes,
    ) -> Bytes {
        debug_assert_eq!(candidates.len(), sharers.len());
        if self.is_wide
            && let Some(victim) = self.vain_victim
        {
            sharing::discount(candidates, sharers, victim);
        }
        let best = best_own(candidates);
        self.holder = self.holder_beside(best, candidates, sharers, shared);
        if let Holder::Family(family) = self.holder {
            sharing::adopt(candidates, &self.families, &family);
        }
        best
    }

    fn holder_beside(
        &mut self,
        best: Bytes,
        candidates: &[Candidate],
        sharers: &[Sharer],
        shared: impl FnOnce() -> Bytes,
    ) -> Holder {
        let (family_times, shared_times) =
            if self.is_wide { (1, 1) } else { (FAMILY_TIMES, SHARED_TIMES) };
        let HolderSearch { families, order, .. } = self;
        if let Some(family) = sharing::largest_family(candidates, sharers, families, order)
            && family.bytes.0 / family_times > best.0
        {
            return Holder::Family(family);
        }
        let of_candidates: u64 = sharers.iter().map(|sharer| sharer.shared.0).sum();
        let unowned = shared().0.saturating_sub(of_candidates);
        match unowned / shared_times > best.0 {
            true => Holder::Unowned(Bytes(unowned)),
            false => Holder::Processes,
        }
    }

    /// The reason to kill no process now, even if the policy decides to kill.
    pub fn reason_to_spare(
        &self,
        candidates: &[Candidate],
        sharers: &[Sharer],
    ) -> Option<&'static str> {
        let enough = (best_own(candidates).0 / ENDING_PART).max(ENDING_MIN);
        match self.holder {
            Holder::Unowned(_) => Some(UNOWNED),
            _ => sharers.iter().any(|sharer| sharer.ending.0 >= enough).then_some(ENDING),
        }
    }

    /// Counts the kills of a finished batch if they were in vain; `last` is its last victim.
    pub fn note_batch(&mut self, batch: &Batch, last: Option<Lookalike>, memory: &Memory) {
        let is_vain = batch.is_vain(Bytes(memory.total.0 / WORTH_PART));
        self.vain_kills = if is_vain { self.vain_kills.saturating_add(batch.victims) } else { 0 };
        self.vain_victim = if is_vain { last } else { None };
    }
}

/// The most that the end of one candidate frees, as far as is known.
fn best_own(candidates: &[Candidate]) -> Bytes {
    let eligible = candidates.iter().filter(|candidate| candidate.is_eligible());
    eligible.map(Candidate::bytes).max().unwrap_or(Bytes(0))
}

#[cfg(test)]
mod tests;
