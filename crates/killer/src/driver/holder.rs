//! Finds what holds the memory. Normally each process holds what its end frees. If that is little compared
//! with what a family of forks shares, the family holds it; if it is little compared with shared memory that
//! no process's end frees, no process does. After two kills in vain the killer measures all weights again,
//! assumes that processes that look like the victims share their memory, and compares all holders on equal
//! terms.

use std::time::Duration;

use daemon::log::{put, put_words};
use policy::kill::Memory;
use types::Nanos;

use super::{Killer, SAY_AGAIN};
use crate::table::{Family, Name};

/// How long the killer waits for weights: while memory is nearly short, before a decision, after kills in vain.
const WAIT_NEAR: Duration = Duration::from_millis(5);
const WAIT_SHORT: Duration = Duration::from_millis(30);
const WAIT_WIDE: Duration = Duration::from_millis(200);
/// How long the weight of a process that keeps its size is valid, while memory is nearly short and short:
/// this bounds the cost of reading if memory stays nearly short for hours.
const GOOD_NEAR: Nanos = Nanos(60_000_000_000);
const GOOD_SHORT: Nanos = Nanos(10_000_000_000);
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

/// What holds the memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Holder {
    /// The candidates, each its own memory.
    #[default]
    Processes,
    /// A family of processes that share it.
    Family(Family),
    /// No process holds it: bytes of shared memory or of files in memory.
    Unowned(u64),
}

/// The state of the search: kills in vain, and what holds the memory.
#[derive(Debug, Default)]
pub(super) struct HolderSearch {
    pub holder: Holder,
    /// Kills in vain in a row.
    vain_kills: u32,
    /// The name and the size of the last victim that was killed in vain.
    vain_victim: Option<(Name, u64)>,
    /// Whether all holders are compared on equal terms, because kills were in vain.
    is_wide: bool,
    /// The holder that was logged last, and when.
    logged: Option<(Nanos, Holder)>,
}

impl Killer {
    /// Measures the weights of candidates and, if memory is short, finds what holds it.
    pub(super) fn weigh(&mut self, now: Nanos, memory: &Memory, is_short: bool) {
        self.search.holder = Holder::Processes;
        if !is_short {
            self.table.weigh(&self.weigher, now, GOOD_NEAR, WAIT_NEAR);
            return;
        }
        let is_after_vain_kills = self.search.vain_kills >= VAIN_MAX;
        if is_after_vain_kills {
            self.table.forget_weights();
            (self.search.vain_kills, self.search.is_wide) = (0, true);
        }
        let wait = if is_after_vain_kills { WAIT_WIDE } else { WAIT_SHORT };
        self.table.weigh(&self.weigher, now, GOOD_SHORT, wait);
        if self.search.is_wide
            && let Some((name, resident)) = self.search.vain_victim
        {
            self.table.discount(name, resident);
        }
        let best = self.table.best_own();
        self.search.holder = self.holder(best);
        if let Holder::Family(family) = &self.search.holder {
            self.table.adopt(family);
        }
        self.say_reconsider(now, is_after_vain_kills, best, memory);
    }

    fn holder(&mut self, best: u64) -> Holder {
        let (family_times, shared_times) =
            if self.search.is_wide { (1, 1) } else { (FAMILY_TIMES, SHARED_TIMES) };
        let family = self.table.largest_family();
        if let Some(family) = family
            && family.bytes / family_times > best
        {
            return Holder::Family(family);
        }
        let shared = self.gauge.shared().unwrap_or(0);
        let unowned = shared.saturating_sub(self.table.shared_of_candidates());
        match unowned / shared_times > best {
            true => Holder::Unowned(unowned),
            false => Holder::Processes,
        }
    }

    /// The reason to kill no process now, even if the policy decides to kill.
    pub(super) fn reason_to_spare(&self, now: Nanos) -> Option<&'static str> {
        let enough = (self.table.best_own() / ENDING_PART).max(ENDING_MIN);
        match self.search.holder {
            Holder::Unowned(_) => Some(UNOWNED),
            _ => self.table.is_freeing(now, enough).then_some(ENDING),
        }
    }

    /// Counts the kills of a finished batch that were in vain.
    pub(super) fn note_batch(&mut self, memory: &Memory) {
        let batch = self.victims.batch();
        let is_vain = batch.is_vain(memory.total.0 / WORTH_PART);
        self.search.vain_kills =
            if is_vain { self.search.vain_kills.saturating_add(batch.victims) } else { 0 };
        self.search.vain_victim = if is_vain { self.victims.last() } else { None };
    }

    /// Ends the search: memory is no longer short.
    pub(super) fn reset_holder(&mut self) {
        self.search.is_wide = false;
        self.search.holder = Holder::Processes;
    }

    fn say_reconsider(
        &mut self,
        now: Nanos,
        is_after_vain_kills: bool,
        best: u64,
        memory: &Memory,
    ) {
        let holder = self.search.holder;
        let is_same = |(then, logged): (Nanos, Holder)| {
            now.0 - then.0 < SAY_AGAIN.0
                && std::mem::discriminant(&logged) == std::mem::discriminant(&holder)
        };
        let is_news = holder != Holder::Processes && !self.search.logged.is_some_and(is_same);
        if !is_after_vain_kills && !is_news {
            return;
        }
        self.search.logged = Some((now, holder));
        let why = match is_after_vain_kills {
            true => "two kills gave nothing back",
            false => "no process has much own memory",
        };
        let Killer { table, output, .. } = self;
        output.say(|line| {
            put(line, "event", "reconsider")?;
            put_words(line, "why", why)?;
            match holder {
                Holder::Processes => put(line, "holder", "process")?,
                Holder::Unowned(bytes) => {
                    put(line, "holder", "shared-memory")?;
                    put(line, "bytes", bytes)?;
                }
                Holder::Family(family) => {
                    put(line, "holder", "family")?;
                    put(line, "process", table.candidate(family.root).process)?;
                    put(line, "name", table.entry(family.root).name.text())?;
                    put(line, "processes", family.processes)?;
                    put(line, "bytes", family.bytes)?;
                }
            }
            put(line, "best_bytes", best)?;
            put(line, "available_bytes", memory.available.0)
        });
    }
}
