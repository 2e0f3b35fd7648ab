//! Reclaims the memory of a killed process. A process that dies at once frees it by itself; for others a reaper
//! thread calls `process_mrelease`, which a frozen, starved or waiting victim needs most. Reaper threads have
//! ordinary priority: with more they would take the processors from the programs that need the memory.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use linux::Root;
use linux::confinement::{Confinement, FreezerState};
use linux::held_process::{HeldProcess, Release};

use crate::Error;
use crate::choices::Reclaim;
use crate::notes::VictimNote;

mod finish;

pub(crate) use finish::finish;

/// How often within the grace to check for threads in uninterruptible sleep: many enter it only because of the
/// kill (`request_wait_answer` in fs/fuse/dev.c).
const CHECKS: u32 = 4;
/// Threads of a victim that are checked.
const THREADS_MAX: usize = 256;
/// How often to call `process_mrelease` while another process holds the victim's mmap lock, once a millisecond.
const ATTEMPTS_MAX: u32 = 1000;
/// How long a thawed victim may take before its group is frozen again for the others in it.
const THAWED_FOR: Duration = Duration::from_millis(500);
const STACK: usize = 64 << 10;
/// Victims that wait at once; no more die in one batch.
const WAITING_MAX: usize = 32;

/// How memory came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reaped {
    /// The victim ended within the grace.
    ByItself,
    /// The kernel took its memory.
    Taken,
    /// The victim had freed it before the call.
    Gone,
    /// The kernel refused to take it.
    Refused,
    /// The memory was left to the victim to free.
    Left,
}

/// Reclaims the memory of `victim`, which has got SIGKILL; `is_slow` if it is known not to die soon by itself.
pub(crate) fn recover(
    victim: &HeldProcess,
    is_slow: bool,
    reclaim: Reclaim,
    grace: Duration,
    confinement: &Confinement,
    note: Option<&VictimNote>,
) -> Reaped {
    let mut buffer = [0; 1024];
    let groups = victim.read(c"cgroup", &mut buffer).unwrap_or_default();
    let frozen = confinement.frozen(groups);
    let is_slow = is_slow
        || reclaim == Reclaim::First
        || frozen.is_some()
        || confinement.has_processor_limit(groups);
    let reaped = if reclaim == Reclaim::Never {
        Reaped::Left
    } else if !is_slow && ends_within(victim, grace) {
        Reaped::ByItself
    } else {
        let reaped = take(victim);
        // Its threads end at ordinary priority.
        victim.make_ordinary(THREADS_MAX);
        reaped
    };
    if let Some(state) = frozen {
        thaw_for(victim, &state, note);
    }
    reaped
}

/// Whether the victim ends within the grace; false as soon as one of its threads cannot end.
fn ends_within(victim: &HeldProcess, grace: Duration) -> bool {
    for _ in 0..CHECKS {
        if victim.has_uninterruptible_thread(THREADS_MAX) {
            return false;
        }
        if victim.has_ended(grace / CHECKS) {
            return true;
        }
    }
    false
}

/// Kills one process as the killer does.
#[derive(Debug)]
pub struct Reaper(Confinement);

impl Reaper {
    /// A reaper for this machine.
    pub fn new(root: &Root) -> Reaper {
        Reaper(Confinement::find(root))
    }

    /// Kills `victim` and gets its memory back.
    ///
    /// # Errors
    /// The victim has ended, or may not be killed.
    pub fn reap(&self, victim: &HeldProcess, grace: Duration) -> Result<Reaped, Error> {
        victim.kill().map_err(|error| Error::refused("kill", error))?;
        Ok(recover(victim, false, Reclaim::Late, grace, &self.0, None))
    }
}

fn take(victim: &HeldProcess) -> Reaped {
    for _ in 0..ATTEMPTS_MAX {
        match victim.release_memory() {
            Release::Taken => return Reaped::Taken,
            Release::Gone => return Reaped::Gone,
            Release::Refused => return Reaped::Refused,
            Release::Busy if victim.has_ended(Duration::from_millis(1)) => return Reaped::Gone,
            Release::Busy => {}
        }
    }
    Reaped::Refused
}

/// Thaws a frozen victim until it has died, and freezes its group again for the other processes in it.
fn thaw_for(victim: &HeldProcess, state: &FreezerState, note: Option<&VictimNote>) {
    // Thaws even without a note, which matters only if this killer is killed meanwhile.
    let _ = note.zip(state.path()).map(|(note, path)| note.thaws(path));
    if state.thaw() {
        victim.has_ended(THAWED_FOR);
        state.freeze();
    }
}

/// A victim for one of the threads.
struct Job {
    victim: HeldProcess,
    is_slow: bool,
    reclaim: Reclaim,
    grace: Duration,
    note: Option<VictimNote>,
}

/// Threads that reclaim victims. When dropped, they end once their victims are dead.
pub(crate) struct Reapers {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    jobs: Mutex<[Option<Job>; WAITING_MAX]>,
    queued: Condvar,
    is_over: AtomicBool,
    confinement: Confinement,
}

impl Reapers {
    /// Starts `count` threads.
    ///
    /// # Errors
    /// The operating system refuses.
    pub(crate) fn start(root: &Root, count: usize) -> Result<Reapers, Error> {
        let shared = Arc::new(Shared {
            jobs: Mutex::new([const { None }; WAITING_MAX]),
            queued: Condvar::new(),
            is_over: AtomicBool::new(false),
            confinement: Confinement::find(root),
        });
        let mut threads = Vec::new();
        for _ in 0..count {
            let shared = Arc::clone(&shared);
            let thread = std::thread::Builder::new().name("reaper".to_owned()).stack_size(STACK);
            let thread = thread.spawn(move || shared.work());
            threads.push(thread.map_err(|error| Error::refused("start a thread", error))?);
        }
        Ok(Reapers { shared, threads })
    }

    /// Passes a killed victim to a thread; returns false if the queue is full, so that it dies by itself.
    pub(crate) fn send(
        &self,
        victim: HeldProcess,
        is_slow: bool,
        reclaim: Reclaim,
        grace: Duration,
        note: Option<VictimNote>,
    ) -> bool {
        let mut jobs = self.shared.jobs();
        let Some(place) = jobs.iter_mut().find(|place| place.is_none()) else { return false };
        *place = Some(Job { victim, is_slow, reclaim, grace, note });
        self.shared.queued.notify_one();
        true
    }
}

impl Drop for Reapers {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Relaxed);
        drop(self.shared.jobs());
        self.shared.queued.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn jobs(&self) -> MutexGuard<'_, [Option<Job>; WAITING_MAX]> {
        self.jobs.lock().expect("no holder of this lock panics")
    }

    fn work(&self) {
        loop {
            let mut jobs = self.jobs();
            let job = loop {
                if let Some(job) = jobs.iter_mut().find_map(Option::take) {
                    break job;
                }
                if self.is_over.load(Relaxed) {
                    return;
                }
                jobs = self.queued.wait(jobs).expect("no holder of this lock panics");
            };
            drop(jobs);
            let Job { victim, is_slow, reclaim, grace, note } = &job;
            recover(victim, *is_slow, *reclaim, *grace, &self.confinement, note.as_ref());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linux::held_process::open_processes;
    use testkit::Sleeper;

    pub(super) fn sleeper() -> (Sleeper, HeldProcess) {
        let sleeper = Sleeper::start();
        let processes = open_processes(&Root::system()).unwrap();
        let held = HeldProcess::open(&processes, sleeper.0.id()).unwrap();
        (sleeper, held)
    }

    #[test]
    fn a_victim_that_dies_in_time_needs_no_help() {
        let reaper = Reaper::new(&Root::system());
        let (mut sleeper, victim) = sleeper();
        let reaped = reaper.reap(&victim, Duration::from_secs(60)).unwrap();
        assert_eq!(reaped, Reaped::ByItself);
        sleeper.0.wait().unwrap();
        let again = reaper.reap(&victim, Duration::ZERO).unwrap_err().to_string();
        assert!(again.contains("cannot kill"), "{again}");
    }

    #[test]
    fn threads_reclaim_the_victims_that_they_get_and_end() {
        let reapers = Reapers::start(&Root::system(), 2).unwrap();
        let (_sleeper, victim) = sleeper();
        let (_other, living) = sleeper();
        let held = victim.try_clone().unwrap();
        victim.kill().unwrap();
        assert!(reapers.send(victim, true, Reclaim::Late, Duration::ZERO, None));
        drop(reapers);
        assert!(held.has_ended(Duration::from_secs(60)));
        assert!(!living.has_ended(Duration::ZERO));
    }
}
