//! Waits until the memory of victims is back.
//!
//! `statm` of a victim drops before its pages are free. The difference is unseen: bytes that `statm` no longer
//! counts minus bytes that the group or the machine has gained, for all victims of a batch together. A victim
//! that has ended has released its memory before (do_exit in kernel/exit.c), so little of its memory is unseen,
//! unless another process shares its address space or reads its `smaps`, which holds the memory.

use std::time::Duration;

use linux::held_process::HeldProcess;
use policy::kill::search::{Batch, VAIN_PART};
use types::Nanos;

use crate::table::{Name, Seen};

/// Memory is back when at most one part in this many of what the victim had is left.
const REST: u64 = 10;
/// The longest time from when `statm` drops a page until the page is free: the kernel gathers up to 10,000
/// pages first (mm/mmu_gather.c, MAX_GATHER_BATCH_COUNT).
const GATHERED: Nanos = Nanos(20_000_000);
/// After this time the next victim is chosen, even if this one still frees memory.
const SETTLE_MAX: Nanos = Nanos(10_000_000_000);
/// A victim may free nothing for `PATIENCE` timeouts while less than one part in `FALLEN_PART` of the free memory
/// has been taken since the kill.
const FALLEN_PART: u64 = 16;
const PATIENCE: u32 = 10;
/// How much more than it had a victim accounts for: one part in `EXTRA_PART`, and at least `EXTRA_MIN`. The kernel
/// also frees page tables and stacks, and a victim may grow until it dies.
const EXTRA_PART: u64 = 2;
const EXTRA_MIN: u64 = 1 << 20;

/// A process that was killed.
pub(crate) struct Victim {
    pub process: HeldProcess,
    pub name: Name,
    pub why: &'static str,
    pub killed: Nanos,
    /// Bytes that its end is expected to free.
    pub had: u64,
    /// Whether the victim's memory comes back only with the last of the processes that are killed with it.
    pub is_joint: bool,
    /// The size of the victim when it was killed.
    seen: Seen,
    state: State,
}

/// The last measured state of a victim.
struct State {
    has_ended: bool,
    /// The part of `had` that `statm` still counts; None once it has released its address space.
    counted: Option<u64>,
    /// The fewest bytes that were left, and when.
    least: u64,
    progressed: Nanos,
}

/// The result for a victim whose memory is back or given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settled {
    pub is_back: bool,
    /// The part of `gained_bytes` that the victim can account for.
    pub freed_bytes: u64,
    /// What the group or the machine gained since the kill, without the parts of other victims of the batch.
    pub gained_bytes: u64,
    pub time: Nanos,
}

/// The victims of one batch.
pub(crate) struct Victims {
    list: Vec<Victim>,
    /// Bytes that were free before the first kill.
    free: u64,
    /// Bytes given back by the victims that are settled.
    given: u64,
    batch: Batch,
    /// The name of the last victim, and its resident bytes.
    last: Option<(Name, u64)>,
}

impl Victims {
    /// An empty batch with room for `count` victims.
    pub(crate) fn with_room(count: usize) -> Victims {
        Victims {
            list: Vec::with_capacity(count),
            free: 0,
            given: 0,
            batch: Batch::default(),
            last: None,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.list.len() == self.list.capacity()
    }

    /// Starts a batch with `free` bytes free.
    pub(crate) fn begin(&mut self, free: u64) {
        (self.free, self.given, self.batch) = (free, 0, Batch::default());
    }

    /// Lowers the starting point: memory fell further until the last kill.
    pub(crate) fn lower(&mut self, free: u64) {
        self.free = self.free.min(free);
    }

    /// The totals of the batch so far.
    pub(crate) fn batch(&self) -> Batch {
        self.batch
    }

    /// The name of the last victim, and its resident bytes.
    pub(crate) fn last(&self) -> Option<(Name, u64)> {
        self.last
    }

    /// Adds a victim, if there is room.
    pub(crate) fn push(&mut self, victim: Victim) {
        if !self.is_full() {
            self.batch.victims += 1;
            self.batch.had.0 += victim.had;
            self.last = Some((victim.name, victim.seen.resident));
            self.list.push(victim);
        }
    }

    /// Measures all victims. Read free memory after this, so that it includes what they have freed.
    pub(crate) fn measure(&mut self) {
        let page = rustix::param::page_size() as u64;
        self.list.iter_mut().for_each(|victim| victim.measure(page));
    }

    /// Calls `each` for the victims whose memory is back now that `free` bytes are free, and for those that have
    /// freed nothing for `timeout`, or ten times that while no process takes more memory.
    pub(crate) fn settle(
        &mut self,
        now: Nanos,
        free: u64,
        timeout: Duration,
        mut each: impl FnMut(&Victim, Settled),
    ) {
        let Victims { list, free: before, given, batch, .. } = self;
        // On busy processors a victim takes long to die, which is acceptable while no process takes more memory.
        let timeout = match free < *before - *before / FALLEN_PART {
            true => timeout,
            false => timeout * PATIENCE,
        };
        let risen = free.saturating_sub(*before);
        let all_given = *given + list.iter().map(Victim::given).sum::<u64>();
        let unseen = all_given.saturating_sub(risen);
        // Almost nothing was gained: another process reads their `smaps`, or shares their memory.
        let is_missed = risen < all_given / VAIN_PART;
        let joint = || list.iter().filter(|victim| victim.is_joint);
        let is_held = joint().any(|victim| !victim.state.has_ended);
        let joint_had: u64 = joint().map(|victim| victim.had).sum();
        let joint_progressed = joint().map(|victim| victim.state.progressed).max();
        let mut waited_for = list.len();
        list.retain_mut(|victim| {
            let left = match victim.is_joint && is_held {
                true => {
                    victim.left(now, unseen, None);
                    victim.state.progressed =
                        victim.state.progressed.max(joint_progressed.unwrap_or(now));
                    victim.had
                }
                false => victim.left(now, unseen, is_missed.then_some(timeout)),
            };
            let Some((is_back, time)) = victim.settled(now, left, timeout) else { return true };
            *given += victim.given();
            waited_for -= 1;
            let gained = risen.saturating_sub(batch.gained.0);
            // The last victim accounts for the rest.
            let gained_bytes = if waited_for > 0 { gained.min(victim.given()) } else { gained };
            batch.gained.0 += gained_bytes;
            let gave = match victim.is_joint {
                true => joint_had,
                false => victim.had.saturating_sub(left),
            };
            let freed_bytes = gained_bytes.min(gave + EXTRA_MIN.max(gave / EXTRA_PART));
            each(victim, Settled { is_back, freed_bytes, gained_bytes, time });
            false
        });
    }
}

impl Victim {
    /// A victim that was expected to free `had` bytes and had the size `seen` when it was killed.
    pub(crate) fn new(
        process: HeldProcess,
        name: Name,
        why: &'static str,
        killed: Nanos,
        had: u64,
        seen: Seen,
    ) -> Victim {
        let state = State { has_ended: false, counted: Some(had), least: had, progressed: killed };
        Victim { process, name, why, killed, had, is_joint: false, seen, state }
    }

    /// Measures it right after the kill, and adds what it has taken until then.
    pub(crate) fn grow(&mut self) {
        let mut buffer = [0; 128];
        let page = rustix::param::page_size() as u64;
        let statm = self.process.read(c"statm", &mut buffer).unwrap_or_default();
        let Some(seen) = Seen::of(statm, page) else { return };
        let more = seen.anonymous.saturating_sub(self.seen.anonymous);
        if more > 0 && self.had > 0 {
            self.had += more;
            (self.state.least, self.state.counted) = (self.had, Some(self.had));
            self.seen = seen;
        }
    }

    fn measure(&mut self, page: u64) {
        self.state.has_ended = self.process.has_ended(Duration::ZERO);
        self.state.counted = self.counted_bytes(page).filter(|_| !self.state.has_ended);
    }

    /// The part of `had` that `statm` still counts; None if it has no address space any more.
    fn counted_bytes(&self, page: u64) -> Option<u64> {
        let mut buffer = [0; 128];
        let statm = self.process.read(c"statm", &mut buffer).unwrap_or_default();
        let has_map = statm.first().is_some_and(|&byte| byte != b'0');
        let seen = Seen::of(statm, page).filter(|_| has_map)?;
        // File pages do not belong to `had`, unless that is mostly shared memory.
        let (now, then) = match self.seen.anonymous >= self.had / 2 {
            true => (seen.anonymous, self.seen.anonymous),
            false => (seen.resident, self.seen.resident),
        };
        let part = u128::from(self.had) * u128::from(now) / u128::from(then.max(1));
        Some(u64::try_from(part).unwrap_or(u64::MAX).min(self.had))
    }

    /// Bytes that `statm` no longer counts.
    fn given(&self) -> u64 {
        self.had.saturating_sub(self.state.counted.unwrap_or(0))
    }

    /// Bytes that it may still hold if `unseen` bytes of all victims are unseen. A victim that has ended may hold
    /// memory only if almost all is missing, and only for the time `missed`.
    fn left(&mut self, now: Nanos, unseen: u64, missed: Option<Duration>) -> u64 {
        let unseen = unseen.min(self.given());
        let state = &mut self.state;
        let left = match state.has_ended {
            true => 0,
            false => state.counted.unwrap_or(unseen),
        };
        if left < state.least {
            (state.least, state.progressed) = (left, now);
        }
        let wait = match state.has_ended {
            true => missed.map_or(0, |time| time.as_nanos() as i64),
            false => GATHERED.0,
        };
        let may_come = now.0 - state.progressed.0 < wait;
        if may_come { left.max(unseen) } else { left }
    }

    /// Whether the victim's memory is back and after how long, if it is settled with `left` bytes left.
    fn settled(&self, now: Nanos, left: u64, timeout: Duration) -> Option<(bool, Nanos)> {
        let is_late = now.0 - self.state.progressed.0 > timeout.as_nanos() as i64
            || now.0 - self.killed.0 > SETTLE_MAX.0;
        let is_back = left <= self.had / REST && (self.had > 0 || self.state.has_ended);
        let time = Nanos(now.0 - self.killed.0);
        (is_back || is_late).then_some((is_back, time))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linux::Root;
    use linux::held_process::open_processes;
    use testkit::Sleeper;
    use types::Bytes;

    const MIB: u64 = 1 << 20;
    const NOT: Option<Duration> = None;
    const MISSED: Option<Duration> = Some(Duration::from_millis(50));

    /// A victim of 100 MiB of which `statm` still counts `counted`.
    fn victim(counted: Option<u64>, has_ended: bool) -> (Sleeper, Victim) {
        let sleeper = Sleeper::start();
        let processes = open_processes(&Root::system()).unwrap();
        let process = HeldProcess::open(&processes, sleeper.0.id()).unwrap();
        let seen = Seen { resident: 120 * MIB, anonymous: 110 * MIB, swapped: 0 };
        let mut victim = Victim::new(process, Name([0; 16]), "a test", Nanos(0), 100 * MIB, seen);
        (victim.state.counted, victim.state.has_ended) = (counted, has_ended);
        (sleeper, victim)
    }

    fn at(ms: i64) -> Nanos {
        Nanos(ms * 1_000_000)
    }

    #[test]
    fn unseen_memory_counts_as_left_for_a_while_unless_the_victim_has_ended() {
        let (_sleeper, mut dying) = victim(Some(0), false);
        assert_eq!(dying.left(at(1), 60 * MIB, NOT), 60 * MIB, "gathered, not free");
        assert_eq!(dying.left(at(2), 300 * MIB, MISSED), 100 * MIB, "no more than it had");
        assert_eq!(dying.left(at(3), 0, NOT), 0);
        assert_eq!(dying.left(at(30), 60 * MIB, MISSED), 0, "other processes took it");
        let (_sleeper, mut without_map) = victim(None, false);
        assert_eq!(without_map.left(at(30), 60 * MIB, MISSED), 60 * MIB);
        let (_sleeper, mut ended) = victim(None, true);
        assert_eq!(ended.left(at(1), 60 * MIB, NOT), 0);
    }

    #[test]
    fn missing_memory_of_an_ended_victim_counts_as_left_for_a_while() {
        let (_sleeper, mut ended) = victim(None, true);
        assert_eq!(ended.left(at(1), 100 * MIB, MISSED), 100 * MIB, "a reader may hold it");
        assert_eq!(ended.left(at(52), 100 * MIB, MISSED), 0, "another process shares it");
    }

    #[test]
    fn memory_that_victims_share_is_back_with_the_last_of_them() {
        let mut victims = Victims::with_room(2);
        let (_first, mut ended) = victim(None, true);
        let (_second, mut dying) = victim(Some(90 * MIB), false);
        (ended.is_joint, dying.is_joint) = (true, true);
        victims.begin(0);
        victims.push(ended);
        victims.push(dying);
        let mut reports = Vec::new();
        let timeout = Duration::from_secs(60);
        victims.settle(at(1), 0, timeout, |_, report| reports.push(report));
        assert_eq!(reports, []);
        (victims.list[1].state.counted, victims.list[1].state.has_ended) = (None, true);
        victims.settle(at(2), 200 * MIB, timeout, |_, report| reports.push(report));
        let freed: Vec<u64> = reports.iter().map(|report| report.freed_bytes).collect();
        assert_eq!(freed, [100 * MIB, 100 * MIB]);
    }

    #[test]
    fn a_victim_has_more_time_while_no_process_takes_memory() {
        let timeout = Duration::from_millis(100);
        for (free, is_late) in [(64, [false, false, true]), (59, [false, true, true])] {
            for (after, expected) in [at(50), at(101), at(1001)].into_iter().zip(is_late) {
                let mut victims = Victims::with_room(1);
                let (_sleeper, stuck) = victim(Some(100 * MIB), false);
                victims.begin(64 * MIB);
                victims.push(stuck);
                let mut reports = Vec::new();
                victims
                    .settle(after, free * MIB, timeout, |_, report| reports.push(report.is_back));
                assert_eq!(reports, vec![false; usize::from(expected)], "{free} {after:?}");
            }
        }
    }

    #[test]
    fn growth_until_the_kill_is_gained_too() {
        let (_sleeper, ended) = victim(None, true);
        let mut victims = Victims::with_room(1);
        victims.begin(20 * MIB);
        // More is free already: the fall has begun.
        victims.lower(30 * MIB);
        victims.lower(5 * MIB);
        victims.push(ended);
        let mut reports = Vec::new();
        victims.settle(at(1), 120 * MIB, Duration::from_secs(1), |_, report| reports.push(report));
        assert_eq!((reports[0].gained_bytes, reports[0].freed_bytes), (115 * MIB, 115 * MIB));
    }

    /// The reports on victims that give these amounts, with a total gain.
    fn settled(victims: Vec<(Sleeper, Victim)>, gained: u64) -> (Vec<Settled>, Batch) {
        let mut all = Victims::with_room(4);
        all.begin(7 * MIB);
        let mut reports = Vec::new();
        let mut sleepers = Vec::new();
        for (sleeper, victim) in victims {
            sleepers.push(sleeper);
            all.push(victim);
        }
        for now in [at(1), at(20_000)] {
            all.settle(now, 7 * MIB + gained, Duration::from_secs(1), |_, report| {
                reports.push(report)
            });
        }
        (reports, all.batch())
    }

    #[test]
    fn freed_is_what_was_gained_as_far_as_the_victim_accounts_for_it() {
        for (gained, freed) in [(97, 97), (100, 100), (110, 110), (300, 150), (60, 60), (0, 0)] {
            let (reports, batch) = settled(vec![victim(None, true)], gained * MIB);
            let [report] = reports[..] else { panic!("{reports:?}") };
            assert_eq!((report.gained_bytes, report.freed_bytes), (gained * MIB, freed * MIB));
            assert!(report.is_back);
            assert_eq!(
                batch,
                Batch { victims: 1, had: Bytes(100 * MIB), gained: Bytes(gained * MIB) }
            );
            assert_eq!(batch.is_vain(Bytes(MIB)), gained == 0);
            assert!(batch.is_vain(Bytes(400 * MIB)), "not worth a kill");
        }
    }

    #[test]
    fn a_gain_is_counted_once_in_a_batch() {
        let (reports, batch) = settled(vec![victim(None, true), victim(None, true)], 150 * MIB);
        let gained: Vec<u64> = reports.iter().map(|report| report.gained_bytes).collect();
        assert_eq!(gained, [100 * MIB, 50 * MIB]);
        assert_eq!((batch.victims, batch.gained), (2, Bytes(150 * MIB)));
    }

    #[test]
    fn memory_of_an_ended_victim_is_not_counted_for_a_living_one() {
        let mut victims = Victims::with_room(2);
        let (sleeper, ended) = victim(None, true);
        drop(sleeper);
        let (_living, living) = victim(None, false);
        victims.begin(0);
        victims.push(ended);
        victims.push(living);
        let mut back = Vec::new();
        let timeout = Duration::from_secs(60);
        victims.settle(Nanos(1), 100 * MIB, timeout, |victim, settled| {
            back.push((victim.process.number(), settled.is_back));
        });
        assert_eq!((back.len(), victims.list.len()), (1, 1));
    }
}
