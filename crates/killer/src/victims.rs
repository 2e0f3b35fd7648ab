//! Those that were killed and whose memory is not back yet.
//!
//! A victim's map counts less before its pages are free, so what its map no longer counts and the group
//! or the machine has not gained is unseen: given - gained, of all victims of a batch together. Of one
//! that has ended little is: it lets go of its memory before (do_exit in kernel/exit.c), except where
//! another process uses the same map or reads its `smaps`, which holds it.

use std::time::Duration;

use linux::held_process::HeldProcess;
use types::Nanos;

use crate::table::{Name, Seen};

/// Memory is back when this part of what the victim had is left, one part in so many.
const REST: u64 = 10;
/// So long after the last page left the count of a victim it is free: the kernel gathers up to 10,000 of
/// them first (mm/mmu_gather.c, MAX_GATHER_BATCH_COUNT).
const GATHERED: Nanos = Nanos(20_000_000);
/// However slowly a victim gives back, the next is chosen then.
const SETTLE_MAX: Nanos = Nanos(10_000_000_000);
/// While less than one part in this many of what was free has been taken since the kill, a victim may give
/// nothing back for this many times the timeout.
const FALLEN_PART: u64 = 16;
const PATIENCE: u32 = 10;
/// A kill is in vain where less than this part of what the victims had was gained.
const VAIN_PART: u64 = 8;
/// The kernel frees page tables and stacks, too, and a victim may grow until it dies: a victim accounts
/// for half more than it had, and for this much at least.
const EXTRA_PART: u64 = 2;
const EXTRA_MIN: u64 = 1 << 20;

/// One that was killed.
pub(crate) struct Victim {
    pub process: HeldProcess,
    pub name: Name,
    pub why: &'static str,
    pub killed: Nanos,
    /// What its end is taken to give back.
    pub had: u64,
    /// Whether its memory comes back only with the last of those that are killed with it.
    pub is_joint: bool,
    /// What its map counted when it was killed.
    seen: Seen,
    state: State,
}

/// What was last seen of a victim.
struct State {
    has_ended: bool,
    /// The part of `had` that its map counts; nothing where it has let go of its map.
    counted: Option<u64>,
    /// The least that was left, and when that was.
    least: u64,
    progressed: Nanos,
}

/// One whose memory is waited for no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settled {
    pub is_back: bool,
    /// What the group or the machine gained, as far as the victim accounts for it.
    pub freed_bytes: u64,
    /// What the group or the machine gained since the kill, less what other victims of the batch account
    /// for.
    pub gained_bytes: u64,
    pub time: Nanos,
}

/// What came of all kills of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Batch {
    pub victims: u32,
    pub had: u64,
    pub gained: u64,
}

impl Batch {
    /// Whether the kills gave nothing back that is worth `least` bytes.
    pub(crate) fn is_vain(&self, least: u64) -> bool {
        self.gained < least.max(self.had / VAIN_PART)
    }
}

/// All of one batch.
pub(crate) struct Victims {
    list: Vec<Victim>,
    /// What was free before the first was killed.
    free: u64,
    /// What those gave back that are waited for no longer.
    given: u64,
    batch: Batch,
    /// The name of the last victim, and the bytes that its map counted.
    last: Option<(Name, u64)>,
}

impl Victims {
    /// None, with room for as many.
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

    /// Whoever is killed from now on is killed with so much free.
    pub(crate) fn begin(&mut self, free: u64) {
        (self.free, self.given, self.batch) = (free, 0, Batch::default());
    }

    /// No more than this was free when the last one was killed.
    pub(crate) fn lower(&mut self, free: u64) {
        self.free = self.free.min(free);
    }

    /// What came of the batch so far.
    pub(crate) fn batch(&self) -> Batch {
        self.batch
    }

    /// The name of the last victim, and the bytes that its map counted.
    pub(crate) fn last(&self) -> Option<(Name, u64)> {
        self.last
    }

    /// One more, unless there is no room for it.
    pub(crate) fn push(&mut self, victim: Victim) {
        if !self.is_full() {
            self.batch.victims += 1;
            self.batch.had += victim.had;
            self.last = Some((victim.name, victim.seen.resident));
            self.list.push(victim);
        }
    }

    /// Looks at all. What is free is read after this, so that it has what victims gave by now.
    pub(crate) fn look(&mut self) {
        let page = rustix::param::page_size() as u64;
        self.list.iter_mut().for_each(|victim| victim.look(page));
    }

    /// With so much free now, tells `each` of the victims whose memory is back, and of those that have
    /// given nothing back for `timeout`, or ten times that while no process takes more memory.
    pub(crate) fn settle(
        &mut self,
        now: Nanos,
        free: u64,
        timeout: Duration,
        mut each: impl FnMut(&Victim, Settled),
    ) {
        let Victims { list, free: before, given, batch, .. } = self;
        // On processors that others use a victim takes long to die: while no process takes more memory it may.
        let timeout = match free < *before - *before / FALLEN_PART {
            true => timeout,
            false => timeout * PATIENCE,
        };
        let risen = free.saturating_sub(*before);
        let all_given = *given + list.iter().map(Victim::given).sum::<u64>();
        let unseen = all_given.saturating_sub(risen);
        // Next to nothing was gained: somebody reads their maps, or shares them.
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
            let gained = risen.saturating_sub(batch.gained);
            // The last one has the rest.
            let gained_bytes = if waited_for > 0 { gained.min(victim.given()) } else { gained };
            batch.gained += gained_bytes;
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
    /// One that had `had` bytes and as much in its map as was `seen` when it was killed.
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

    /// Looks at it right after the kill: what it took meanwhile is its own, too.
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

    fn look(&mut self, page: u64) {
        self.state.has_ended = self.process.has_ended(Duration::ZERO);
        self.state.counted = self.counted_bytes(page).filter(|_| !self.state.has_ended);
    }

    /// The part of what it had that its map still counts; none where it has no map.
    fn counted_bytes(&self, page: u64) -> Option<u64> {
        let mut buffer = [0; 128];
        let statm = self.process.read(c"statm", &mut buffer).unwrap_or_default();
        let has_map = statm.first().is_some_and(|&byte| byte != b'0');
        let seen = Seen::of(statm, page).filter(|_| has_map)?;
        // Pages of files are no part of what it had, unless that was shared memory.
        let (now, then) = match self.seen.anonymous >= self.had / 2 {
            true => (seen.anonymous, self.seen.anonymous),
            false => (seen.resident, self.seen.resident),
        };
        let part = u128::from(self.had) * u128::from(now) / u128::from(then.max(1));
        Some(u64::try_from(part).unwrap_or(u64::MAX).min(self.had))
    }

    /// Bytes that its map no longer counts.
    fn given(&self) -> u64 {
        self.had.saturating_sub(self.state.counted.unwrap_or(0))
    }

    /// Bytes that it may still have, where so much of what victims gave is unseen. Of a victim that has
    /// ended that counts where nearly all is `missed`, for so long.
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

    /// Whether its memory is back, and after how long, if it is waited for no longer with so much left.
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

    const MIB: u64 = 1 << 20;
    const NOT: Option<Duration> = None;
    const MISSED: Option<Duration> = Some(Duration::from_millis(50));

    /// A victim of 100 MiB of which its map counts so much.
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
    fn what_is_unseen_is_left_for_a_while_unless_it_has_ended() {
        let (_sleeper, mut dying) = victim(Some(0), false);
        assert_eq!(dying.left(at(1), 60 * MIB, NOT), 60 * MIB, "gathered, not free");
        assert_eq!(dying.left(at(2), 300 * MIB, MISSED), 100 * MIB, "no more than it had");
        assert_eq!(dying.left(at(3), 0, NOT), 0);
        assert_eq!(dying.left(at(30), 60 * MIB, MISSED), 0, "others took it");
        let (_sleeper, mut without_map) = victim(None, false);
        assert_eq!(without_map.left(at(30), 60 * MIB, MISSED), 60 * MIB);
        let (_sleeper, mut ended) = victim(None, true);
        assert_eq!(ended.left(at(1), 60 * MIB, NOT), 0);
    }

    #[test]
    fn what_an_ended_victim_does_not_give_is_waited_for_a_while() {
        let (_sleeper, mut ended) = victim(None, true);
        assert_eq!(ended.left(at(1), 100 * MIB, MISSED), 100 * MIB, "somebody reads its map");
        assert_eq!(ended.left(at(52), 100 * MIB, MISSED), 0, "or shares it");
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
        let mut told = Vec::new();
        let timeout = Duration::from_secs(60);
        victims.settle(at(1), 0, timeout, |_, one| told.push(one));
        assert_eq!(told, []);
        (victims.list[1].state.counted, victims.list[1].state.has_ended) = (None, true);
        victims.settle(at(2), 200 * MIB, timeout, |_, one| told.push(one));
        let freed: Vec<u64> = told.iter().map(|one| one.freed_bytes).collect();
        assert_eq!(freed, [100 * MIB, 100 * MIB]);
    }

    #[test]
    fn a_victim_has_time_while_nobody_takes_more_memory() {
        let timeout = Duration::from_millis(100);
        for (free, is_late) in [(64, [false, false, true]), (59, [false, true, true])] {
            for (after, expected) in [at(50), at(101), at(1001)].into_iter().zip(is_late) {
                let mut victims = Victims::with_room(1);
                let (_sleeper, stuck) = victim(Some(100 * MIB), false);
                victims.begin(64 * MIB);
                victims.push(stuck);
                let mut told = Vec::new();
                victims.settle(after, free * MIB, timeout, |_, one| told.push(one.is_back));
                assert_eq!(told, vec![false; usize::from(expected)], "{free} {after:?}");
            }
        }
    }

    #[test]
    fn what_a_victim_takes_until_its_end_is_gained_too() {
        let (_sleeper, ended) = victim(None, true);
        let mut victims = Victims::with_room(1);
        victims.begin(20 * MIB);
        // More is free already: the fall has begun.
        victims.lower(30 * MIB);
        victims.lower(5 * MIB);
        victims.push(ended);
        let mut told = Vec::new();
        victims.settle(at(1), 120 * MIB, Duration::from_secs(1), |_, one| told.push(one));
        assert_eq!((told[0].gained_bytes, told[0].freed_bytes), (115 * MIB, 115 * MIB));
    }

    /// The reports on victims that give these amounts, with a total gain.
    fn settled(victims: Vec<(Sleeper, Victim)>, gained: u64) -> (Vec<Settled>, Batch) {
        let mut all = Victims::with_room(4);
        all.begin(7 * MIB);
        let mut told = Vec::new();
        let mut sleepers = Vec::new();
        for (sleeper, victim) in victims {
            sleepers.push(sleeper);
            all.push(victim);
        }
        for now in [at(1), at(20_000)] {
            all.settle(now, 7 * MIB + gained, Duration::from_secs(1), |_, one| told.push(one));
        }
        (told, all.batch())
    }

    #[test]
    fn freed_is_what_was_gained_as_far_as_the_victim_accounts_for_it() {
        for (gained, freed) in [(97, 97), (100, 100), (110, 110), (300, 150), (60, 60), (0, 0)] {
            let (told, batch) = settled(vec![victim(None, true)], gained * MIB);
            let [one] = told[..] else { panic!("{told:?}") };
            assert_eq!((one.gained_bytes, one.freed_bytes), (gained * MIB, freed * MIB));
            assert!(one.is_back);
            assert_eq!(batch, Batch { victims: 1, had: 100 * MIB, gained: gained * MIB });
            assert_eq!(batch.is_vain(MIB), gained == 0);
            assert!(batch.is_vain(400 * MIB), "not worth a kill");
        }
    }

    #[test]
    fn a_gain_is_counted_once_in_a_batch() {
        let (told, batch) = settled(vec![victim(None, true), victim(None, true)], 150 * MIB);
        let gained: Vec<u64> = told.iter().map(|one| one.gained_bytes).collect();
        assert_eq!(gained, [100 * MIB, 50 * MIB]);
        assert_eq!((batch.victims, batch.gained), (2, 150 * MIB));
    }

    #[test]
    fn what_one_gave_back_is_not_taken_for_what_another_did() {
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
