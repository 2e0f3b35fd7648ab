//! The wait of a killer for the memory of its victims: it makes no other decision meanwhile.
//!
//! A victim that the recording shows dying is awaited until it has ended or is stuck, or until its recorded killer kills
//! again: that killer waits, too. If almost nothing was gained, another process may hold the memory, so the wait
//! is longer. A victim that lives on in the recording is awaited for the longest time that a killer
//! waits for a victim that frees nothing: the recorded killer may choose it a little later.

use policy::kill::search::{Batch, Lookalike, VAIN_PART};
use trace::recording::moments::{Liveness, Moment, STUCK_AFTER_NS};
use types::{Bytes, Nanos};

use super::Identity;

/// A victim of a policy under replay.
#[derive(Clone, Debug)]
pub(super) struct Awaited {
    /// Identifies the victim.
    pub identity: Identity,
    /// Name and size.
    pub looks: Lookalike,
    /// Bytes that its end was expected to free.
    pub had: u64,
}

/// The victims of a batch of kills, and the outcome so far.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    victims: Vec<Pending>,
    batch: Batch,
    last: Option<Lookalike>,
    /// The least memory that was available before the first victim died.
    before: u64,
    /// Bytes that victims free which live on in the recording.
    assumed: u64,
}

#[derive(Clone, Debug)]
struct Pending {
    victim: Awaited,
    /// The last moment at which the victim was there.
    seen: Nanos,
    decided: Nanos,
    has_died: bool,
}

/// A moment as [`Waiting`] needs it.
#[derive(Clone, Copy)]
pub(super) struct At<'a> {
    pub time: Nanos,
    pub moment: &'a Moment,
    /// Whether the process got its signal from the process that kills at this moment.
    pub is_same_killer: &'a dyn Fn(u32) -> bool,
    /// Whether the process was killed so shortly before that its killer may not have waited for it.
    pub is_of_batch: &'a dyn Fn(u32) -> bool,
}

impl Waiting {
    /// Whether the memory of a victim is awaited.
    pub(super) fn is_over(&self) -> bool {
        self.victims.is_empty()
    }

    /// Adds a victim that is killed at `now`, when `available` bytes are available in the recording.
    pub(super) fn push(&mut self, now: Nanos, available: u64, victim: Awaited) {
        if self.victims.is_empty() {
            *self = Waiting { before: available, ..Waiting::default() };
        }
        self.batch.victims += 1;
        self.batch.had.0 += victim.had;
        self.last = Some(victim.looks);
        self.victims.push(Pending { victim, seen: now, decided: now, has_died: false });
    }

    /// Looks for the victims at a moment. Returns the batch and its last victim once its memory is back
    /// or is not awaited any more.
    pub(super) fn settle(&mut self, at: At<'_>) -> Option<(Batch, Option<Lookalike>)> {
        if self.victims.is_empty() {
            return None;
        }
        let available = at.moment.memory.available;
        if self.victims.iter().all(|pending| !pending.has_died) {
            self.before = self.before.min(available);
        }
        let gained = available.saturating_sub(self.before);
        let (had, assumed) = (self.batch.had.0, &mut self.assumed);
        let is_missed = gained < had / VAIN_PART;
        self.victims.retain_mut(|pending| {
            let is_settled = pending.is_settled(at, is_missed);
            if is_settled && !pending.has_died {
                *assumed += pending.victim.had;
            }
            !is_settled
        });
        self.victims.is_empty().then(|| {
            let gained = Bytes(gained.saturating_add(self.assumed));
            (Batch { gained, ..self.batch }, self.last)
        })
    }
}

impl Pending {
    fn is_settled(&mut self, at: At<'_>, is_missed: bool) -> bool {
        let (process, start) = self.victim.identity;
        let is_late = |since: Nanos| at.time.0 - since.0 >= STUCK_AFTER_NS as i64;
        let state = at.moment.processes.iter();
        let mut state = state.filter(|state| (state.process, state.start) == (process, start));
        let life = state.next().map(|state| state.life);
        let is_killed_now = at.moment.victim == Some(process);
        self.has_died |= is_killed_now || life != Some(Liveness::Living);
        let is_over_for_its_killer = || !is_killed_now && (at.is_same_killer)(process);
        let is_settled = match life {
            Some(Liveness::Living) => !self.has_died && is_late(self.decided),
            Some(Liveness::Stuck) => true,
            Some(Liveness::Dying) => is_over_for_its_killer() && !(at.is_of_batch)(process),
            None => !is_missed || is_late(self.seen) || is_over_for_its_killer(),
        };
        if life.is_some() {
            self.seen = at.time;
        }
        is_settled
    }
}
