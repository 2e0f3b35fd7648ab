//! Who holds the memory: at first every process what its end gives back; where that is little beside what
//! a family of forks shares, the family; where it is little beside shared memory that no process's end
//! gives back, nobody. After two kills in vain the killer weighs all anew, takes processes that look like
//! the victims for sharers of their memory, and compares the holders as equals.

use std::time::Duration;

use policy::kill::Memory;
use types::Nanos;

use super::{Killer, SAY_AGAIN};
use crate::explain::{put, put_words};
use crate::table::{Family, Name};

/// How long weights are waited for: with memory to spare, before a decision, and after kills in vain.
const WAIT_NEAR: Duration = Duration::from_millis(5);
const WAIT_SHORT: Duration = Duration::from_millis(30);
const WAIT_DOUBT: Duration = Duration::from_millis(200);
/// For how long the weight of a process that keeps its size is good, with memory to spare and without:
/// this bounds what reading costs where memory stays nearly short for hours.
const GOOD_NEAR: Nanos = Nanos(60_000_000_000);
const GOOD_SHORT: Nanos = Nanos(10_000_000_000);
/// Kills in a row that gave nothing back, from which on killd doubts.
const VAIN_MAX: u32 = 2;
/// A family holds the memory when it has this many times what the best candidate gives back.
const FAMILY_TIMES: u64 = 4;
/// Shared memory does when it has this many times that.
const SHARED_TIMES: u64 = 16;
/// A batch of kills that gains less than one part in this many of all memory is in vain.
const WORTH_PART: u64 = 4096;
/// Why no process dies for shared memory that stays.
const UNOWNED: &str =
    "memory is held by shared memory or files in memory, which no process's end gives back";

/// Who is taken to hold the memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Holder {
    /// The candidates, each its own.
    #[default]
    Processes,
    /// A family of processes that share it.
    Family(Family),
    /// No process holds it: bytes of shared memory or of files in memory.
    Unowned(u64),
}

/// What the killer makes of kills in vain.
#[derive(Debug, Default)]
pub(super) struct Doubt {
    pub holder: Holder,
    /// Kills in a row that gave nothing back.
    vain: u32,
    /// The name and the size of the last victim whose end gave nothing back.
    vain_victim: Option<(Name, u64)>,
    is_raised: bool,
    /// What was said last, and when.
    said: Option<(Nanos, Holder)>,
}

impl Killer {
    /// Has candidates weighed and finds out who holds the memory, the more thoroughly the less is left.
    pub(super) fn weigh(&mut self, now: Nanos, memory: &Memory, is_short: bool) {
        self.doubt.holder = Holder::Processes;
        if !is_short {
            self.table.weigh(&self.weigher, now, GOOD_NEAR, WAIT_NEAR);
            return;
        }
        let is_raised = self.doubt.vain >= VAIN_MAX;
        if is_raised {
            self.table.forget_weights();
            (self.doubt.vain, self.doubt.is_raised) = (0, true);
        }
        let wait = if is_raised { WAIT_DOUBT } else { WAIT_SHORT };
        self.table.weigh(&self.weigher, now, GOOD_SHORT, wait);
        if self.doubt.is_raised
            && let Some((name, resident)) = self.doubt.vain_victim
        {
            self.table.discount(name, resident);
        }
        let best = self.table.best_own();
        self.doubt.holder = self.holder(best);
        if let Holder::Family(family) = &self.doubt.holder {
            self.table.adopt(family);
        }
        self.say_reconsider(now, is_raised, best, memory);
    }

    fn holder(&mut self, best: u64) -> Holder {
        let (family_times, shared_times) =
            if self.doubt.is_raised { (1, 1) } else { (FAMILY_TIMES, SHARED_TIMES) };
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

    /// Why no process is to die now, whatever the policy says.
    pub(super) fn objection(&self) -> Option<&'static str> {
        matches!(self.doubt.holder, Holder::Unowned(_)).then_some(UNOWNED)
    }

    /// What came of the last kills.
    pub(super) fn learn(&mut self, memory: &Memory) {
        let batch = self.victims.batch();
        let is_vain = batch.is_vain(memory.total.0 / WORTH_PART);
        self.doubt.vain = if is_vain { self.doubt.vain.saturating_add(batch.victims) } else { 0 };
        self.doubt.vain_victim = if is_vain { self.victims.last() } else { None };
    }

    /// Memory is no longer short.
    pub(super) fn be_sure(&mut self) {
        self.doubt.is_raised = false;
        self.doubt.holder = Holder::Processes;
    }

    fn say_reconsider(&mut self, now: Nanos, is_raised: bool, best: u64, memory: &Memory) {
        let holder = self.doubt.holder;
        let is_same = |(then, said): (Nanos, Holder)| {
            now.0 - then.0 < SAY_AGAIN.0
                && std::mem::discriminant(&said) == std::mem::discriminant(&holder)
        };
        let is_news = holder != Holder::Processes && !self.doubt.said.is_some_and(is_same);
        if !is_raised && !is_news {
            return;
        }
        self.doubt.said = Some((now, holder));
        let why = match is_raised {
            true => "two kills gave nothing back",
            false => "no process has much memory of its own",
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
                    put(line, "process", table.candidates()[family.root].process)?;
                    put(line, "name", table.entries()[family.root].name.text())?;
                    put(line, "processes", family.processes)?;
                    put(line, "bytes", family.bytes)?;
                }
            }
            put(line, "best_bytes", best)?;
            put(line, "available_bytes", memory.available.0)
        });
    }
}
