//! Finds what holds the memory: drives [`policy::kill::search`] with the weights of the table, and logs
//! what it finds.

use std::time::Duration;

use daemon::log::{put, put_words};
use policy::kill::Memory;
use policy::kill::search::{Holder, Lookalike, VALID_NEAR, VALID_SHORT};
use types::{Bytes, Nanos};

use super::{Killer, SAY_AGAIN};

/// How long the killer waits for weights: while memory is nearly short, before a decision, after kills in vain.
const WAIT_NEAR: Duration = Duration::from_millis(5);
const WAIT_SHORT: Duration = Duration::from_millis(30);
const WAIT_WIDE: Duration = Duration::from_millis(200);

impl Killer {
    /// Measures the weights of candidates and, if memory is short, finds what holds it.
    pub(super) fn weigh(&mut self, now: Nanos, memory: &Memory, is_short: bool) {
        if !is_short {
            self.search.forget_holder();
            self.table.weigh(&self.weigher, now, VALID_NEAR, WAIT_NEAR);
            return;
        }
        let is_after_vain_kills = self.search.begin();
        if is_after_vain_kills {
            self.table.forget_weights();
        }
        let wait = if is_after_vain_kills { WAIT_WIDE } else { WAIT_SHORT };
        self.table.weigh(&self.weigher, now, VALID_SHORT, wait);
        let Killer { table, search, gauge, .. } = self;
        let (candidates, sharers) = table.with_sharers(now);
        let best = search.find(candidates, sharers, || Bytes(gauge.shared().unwrap_or(0))).0;
        self.say_reconsider(now, is_after_vain_kills, best, memory);
    }

    /// The reason to kill no process now, even if the policy decides to kill.
    pub(super) fn reason_to_spare(&mut self, now: Nanos) -> Option<&'static str> {
        let (candidates, sharers) = self.table.with_sharers(now);
        self.search.reason_to_spare(candidates, sharers)
    }

    /// Counts the kills of a finished batch that were in vain.
    pub(super) fn note_batch(&mut self, memory: &Memory) {
        let last = self.victims.last();
        let last = last.map(|(name, mapped)| Lookalike { name: name.0, mapped: Bytes(mapped) });
        self.search.note_batch(&self.victims.batch(), last, memory);
    }

    fn say_reconsider(
        &mut self,
        now: Nanos,
        is_after_vain_kills: bool,
        best: u64,
        memory: &Memory,
    ) {
        let holder = self.search.holder();
        let is_same = |(then, logged): (Nanos, Holder)| {
            now.0 - then.0 < SAY_AGAIN.0
                && std::mem::discriminant(&logged) == std::mem::discriminant(&holder)
        };
        let is_news = holder != Holder::Processes && !self.reconsidered.is_some_and(is_same);
        if !is_after_vain_kills && !is_news {
            return;
        }
        self.reconsidered = Some((now, holder));
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
                    put(line, "bytes", bytes.0)?;
                }
                Holder::Family(family) => {
                    put(line, "holder", "family")?;
                    put(line, "process", table.candidate(family.root).process)?;
                    put(line, "name", table.entry(family.root).name.text())?;
                    put(line, "processes", family.processes)?;
                    put(line, "bytes", family.bytes.0)?;
                }
            }
            put(line, "best_bytes", best)?;
            put(line, "available_bytes", memory.available.0)
        });
    }
}
