//! Those that were killed and whose memory is not back yet.
//!
//! A victim's map counts less before its pages are free, so what its map no longer counts and has not
//! become available is unseen: given - risen, of all victims of a batch together. Of one that has ended
//! nothing is: it lets go of its memory before (do_exit in kernel/exit.c), and in none of 740 kills
//! was any of it seen later, but where another program was just reading its `smaps`, which holds it.

use std::time::Duration;

use linux::held_process::HeldProcess;
use types::{Bytes, Nanos};

use crate::table::{Name, own_pages};

/// Memory is back when this part of what the victim had is left, one part in so many.
const REST: u64 = 10;
/// So long after the last page left the count of a victim that has not ended it is free: the kernel gathers
/// up to 10,000 of them first (mm/mmu_gather.c, MAX_GATHER_BATCH_COUNT).
const GATHERED: Nanos = Nanos(20_000_000);
/// However slowly a victim gives back, the next is chosen then.
const SETTLE_MAX: Nanos = Nanos(10_000_000_000);

/// One that was killed.
pub(crate) struct Victim {
    pub process: HeldProcess,
    pub name: Name,
    pub why: &'static str,
    pub killed: Nanos,
    /// What it had.
    pub had: u64,
    state: State,
}

/// What was last seen of a victim.
struct State {
    has_ended: bool,
    /// What its map counts; nothing where it has let go of its map.
    counted: Option<u64>,
    /// The least that was left, and when that was.
    least: u64,
    progressed: Nanos,
}

/// One whose memory is waited for no longer.
pub(crate) struct Settled {
    pub is_back: bool,
    pub freed_bytes: u64,
    pub time: Nanos,
}

/// All of one batch.
pub(crate) struct Victims {
    list: Vec<Victim>,
    /// What was available before the first was killed.
    available: u64,
    /// What those gave back that are waited for no longer.
    given: u64,
}

impl Victims {
    /// None, with room for as many.
    pub(crate) fn with_room(count: usize) -> Victims {
        Victims { list: Vec::with_capacity(count), available: 0, given: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.list.len() == self.list.capacity()
    }

    /// Whoever is killed from now on is killed with so much available.
    pub(crate) fn begin(&mut self, available: Bytes) {
        (self.available, self.given) = (available.0, 0);
    }

    /// One more, unless there is no room for it.
    pub(crate) fn push(&mut self, victim: Victim) {
        if !self.is_full() {
            self.list.push(victim);
        }
    }

    /// Looks at all with so much available now; `each` is told of those whose memory is back, and of
    /// those that have given nothing back for `timeout`.
    pub(crate) fn settle(
        &mut self,
        now: Nanos,
        available: Bytes,
        timeout: Duration,
        mut each: impl FnMut(&Victim, Settled),
    ) {
        let page = rustix::param::page_size() as u64;
        let Victims { list, available: before, given } = self;
        list.iter_mut().for_each(|victim| victim.look(page));
        let all_given = *given + list.iter().map(Victim::given).sum::<u64>();
        let unseen = all_given.saturating_sub(available.0.saturating_sub(*before));
        list.retain_mut(|victim| {
            let left = victim.left(now, unseen);
            let Some(settled) = victim.settled(now, left, timeout) else { return true };
            *given += victim.given();
            each(victim, settled);
            false
        });
    }
}

impl Victim {
    /// One that had `had` bytes when it was killed.
    pub(crate) fn new(
        process: HeldProcess,
        name: Name,
        why: &'static str,
        killed: Nanos,
        had: u64,
    ) -> Victim {
        let state = State { has_ended: false, counted: Some(had), least: had, progressed: killed };
        Victim { process, name, why, killed, had, state }
    }

    fn look(&mut self, page: u64) {
        self.state.has_ended = self.process.has_ended(Duration::ZERO);
        self.state.counted = self.counted_bytes(page).filter(|_| !self.state.has_ended);
    }

    /// Bytes that its map counts; none where it has no map.
    fn counted_bytes(&self, page: u64) -> Option<u64> {
        let mut buffer = [0; 128];
        let statm = self.process.read(c"statm", &mut buffer).unwrap_or_default();
        let has_map = statm.first().is_some_and(|&byte| byte != b'0');
        own_pages(statm).filter(|_| has_map).map(|pages| pages * page)
    }

    /// Bytes that its map no longer counts.
    fn given(&self) -> u64 {
        self.had.saturating_sub(self.state.counted.unwrap_or(0))
    }

    /// Bytes that it may still have, where so much of what victims gave is unseen.
    fn left(&mut self, now: Nanos, unseen: u64) -> u64 {
        let unseen = unseen.min(self.given());
        let state = &mut self.state;
        if state.has_ended {
            return 0;
        }
        let left = state.counted.unwrap_or(unseen);
        if left < state.least {
            (state.least, state.progressed) = (left, now);
        }
        let is_gathering = now.0 - state.progressed.0 < GATHERED.0;
        if is_gathering { left.max(unseen) } else { left }
    }

    /// What became of it with so much left, if it is waited for no longer.
    fn settled(&self, now: Nanos, left: u64, timeout: Duration) -> Option<Settled> {
        let is_late = now.0 - self.state.progressed.0 > timeout.as_nanos() as i64
            || now.0 - self.killed.0 > SETTLE_MAX.0;
        let is_back = left <= self.had / REST;
        let freed_bytes = self.had.saturating_sub(left);
        let time = Nanos(now.0 - self.killed.0);
        (is_back || is_late).then_some(Settled { is_back, freed_bytes, time })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linux::Root;
    use linux::held_process::open_processes;
    use testkit::Sleeper;

    const MIB: u64 = 1 << 20;

    /// A victim of 100 MiB whose map counts so much.
    fn victim(counted: Option<u64>, has_ended: bool) -> (Sleeper, Victim) {
        let sleeper = Sleeper::start();
        let processes = open_processes(&Root::system()).unwrap();
        let process = HeldProcess::open(&processes, sleeper.0.id()).unwrap();
        let mut victim = Victim::new(process, Name([0; 16]), "a test", Nanos(0), 100 * MIB);
        (victim.state.counted, victim.state.has_ended) = (counted, has_ended);
        (sleeper, victim)
    }

    #[test]
    fn what_is_unseen_is_left_for_a_while_unless_it_has_ended() {
        let (_sleeper, mut dying) = victim(Some(0), false);
        let at = |ms: i64| Nanos(ms * 1_000_000);
        assert_eq!(dying.left(at(1), 60 * MIB), 60 * MIB, "gathered, not free");
        assert_eq!(dying.left(at(2), 300 * MIB), 100 * MIB, "no more than it had");
        assert_eq!(dying.left(at(3), 0), 0);
        assert_eq!(dying.left(at(30), 60 * MIB), 0, "others took it");
        let (_sleeper, mut without_map) = victim(None, false);
        assert_eq!(without_map.left(at(30), 60 * MIB), 60 * MIB);
        let (_sleeper, mut ended) = victim(None, true);
        assert_eq!(ended.left(at(1), 60 * MIB), 0);
    }

    #[test]
    fn what_one_gave_back_is_not_taken_for_what_another_did() {
        let mut victims = Victims::with_room(2);
        let (sleeper, ended) = victim(None, true);
        drop(sleeper);
        let (_living, living) = victim(None, false);
        victims.begin(Bytes(0));
        victims.push(ended);
        victims.push(living);
        let mut back = Vec::new();
        let timeout = Duration::from_secs(60);
        victims.settle(Nanos(1), Bytes(100 * MIB), timeout, |victim, settled| {
            back.push((victim.process.number(), settled.is_back));
        });
        assert_eq!((back.len(), victims.list.len()), (1, 1));
    }
}
