//! The thread that weighs candidates (`linux::weight`): a read of a process's map may wait for a lock
//! that the process holds while it waits for memory, so the killer itself never makes one. It waits for
//! the weigher for a bounded time and goes on without what is not known by then.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use linux::held_process::HeldProcess;
use linux::weight::Weight;

use crate::Error;
use crate::table::Seen;

/// Processes that are weighed at once.
pub(crate) const AT_ONCE: usize = 16;
const STACK: usize = 64 << 10;
/// As the thread that looks, which waits for this one.
const OWN_NICE: i32 = -10;
/// A read that takes longer waits for a lock: it is not waited for any more.
const STUCK_AFTER: Duration = Duration::from_millis(500);
const UNPOISONED: &str = "no holder of this lock panics";

/// A process that is to be weighed.
pub(crate) struct Job {
    pub process: HeldProcess,
    pub serial: u64,
    pub parent: u32,
}

/// What was found of a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weighing {
    pub number: u32,
    pub serial: u64,
    /// None where its map could not be read.
    pub weight: Option<Weight>,
    /// Anonymous memory that its map counted before and after.
    pub counted: (u64, u64),
    /// Whether its map is that of its parent.
    pub is_borrowed: bool,
}

/// The thread. Dropped, it ends with the read that it makes.
pub(crate) struct Weigher {
    shared: Arc<Shared>,
    _thread: JoinHandle<()>,
}

struct Shared {
    mail: Mutex<Mail>,
    came: Condvar,
    done: Condvar,
}

/// What lies between the two threads. `done` has room for all jobs and one that is late.
struct Mail {
    jobs: [Option<Job>; AT_ONCE],
    done: [Option<Weighing>; AT_ONCE + 1],
    /// Since when it reads, and the map of which process.
    reading: Option<(Instant, u32)>,
    is_over: bool,
}

impl Weigher {
    /// Starts the thread.
    ///
    /// # Errors
    /// What the operating system refuses.
    pub(crate) fn start() -> Result<Weigher, Error> {
        let mail = Mail {
            jobs: [const { None }; AT_ONCE],
            done: [None; AT_ONCE + 1],
            reading: None,
            is_over: false,
        };
        let shared =
            Arc::new(Shared { mail: Mutex::new(mail), came: Condvar::new(), done: Condvar::new() });
        let work = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("weigher".to_owned()).stack_size(STACK);
        let thread = thread.spawn(move || work.work());
        let thread = thread.map_err(|error| Error::refused("start a thread", error))?;
        Ok(Weigher { shared, _thread: thread })
    }

    /// Has `jobs` weighed, the first [`AT_ONCE`] of them, and calls `each` with what is known after at
    /// most `time`, earlier reads that came late included. Returns whether it is ready for more: while a
    /// read of an earlier call is stuck nothing else begins, and nothing is waited for.
    pub(crate) fn weigh(
        &self,
        jobs: impl Iterator<Item = Job>,
        time: Duration,
        mut each: impl FnMut(Weighing),
    ) -> bool {
        let until = Instant::now() + time;
        let mut mail = self.shared.mail();
        if !mail.is_stuck() {
            // One that an earlier call did not wait for.
            mail = self.wait(mail, until);
            if !mail.is_busy() {
                mail.jobs.iter_mut().zip(jobs).for_each(|(place, job)| *place = Some(job));
                self.shared.came.notify_one();
                mail = self.wait(mail, until);
            }
        }
        // What has not begun is not begun without someone who waits for it.
        mail.jobs.iter_mut().for_each(|job| drop(job.take()));
        mail.done.iter_mut().filter_map(Option::take).for_each(&mut each);
        mail.reading.is_none()
    }

    /// Waits, at most for `time`, until it does not read the map of process `number`: the memory of a
    /// process that dies meanwhile stays until the read ends.
    pub(crate) fn let_go(&self, number: u32, time: Duration) {
        let mail = self.shared.mail();
        if mail.reading.is_some_and(|(_, read)| read == number) && !mail.is_stuck() {
            drop(self.wait(mail, Instant::now() + time));
        }
    }

    /// Waits until nothing is to be done any more.
    fn wait<'a>(&'a self, mut mail: MutexGuard<'a, Mail>, until: Instant) -> MutexGuard<'a, Mail> {
        while mail.is_busy() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            (mail, _) = self.shared.done.wait_timeout(mail, left).expect(UNPOISONED);
        }
        mail
    }
}

impl Drop for Weigher {
    /// The thread is not waited for: its read may take as long as another program likes.
    fn drop(&mut self) {
        self.shared.mail().is_over = true;
        self.shared.came.notify_one();
    }
}

impl Mail {
    fn is_stuck(&self) -> bool {
        self.reading.is_some_and(|(since, _)| since.elapsed() >= STUCK_AFTER)
    }

    fn is_busy(&self) -> bool {
        self.reading.is_some() || self.jobs.iter().any(Option::is_some)
    }
}

impl Shared {
    fn mail(&self) -> MutexGuard<'_, Mail> {
        self.mail.lock().expect(UNPOISONED)
    }

    fn work(&self) {
        // What is refused is gone on without.
        let _ = linux::process::rank_this_thread(OWN_NICE);
        let page = rustix::param::page_size() as u64;
        let mut mail = self.mail();
        loop {
            if mail.is_over {
                return;
            }
            let Some(job) = mail.jobs.iter_mut().find_map(Option::take) else {
                mail = self.came.wait(mail).expect(UNPOISONED);
                continue;
            };
            mail.reading = Some((Instant::now(), job.process.number()));
            drop(mail);
            let weighing = weigh(&job, page);
            // Closes its descriptors.
            drop(job);
            mail = self.mail();
            mail.reading = None;
            if let Some(place) = mail.done.iter_mut().find(|place| place.is_none()) {
                *place = Some(weighing);
            }
            self.done.notify_one();
        }
    }
}

fn weigh(job: &Job, page: u64) -> Weighing {
    let counted = || {
        let mut buffer = [0; 128];
        let statm = job.process.read(c"statm", &mut buffer).unwrap_or_default();
        Seen::of(statm, page).map_or(0, |seen| seen.anonymous)
    };
    let before = counted();
    // The memory of a dying process would be held by the read.
    let weight = match job.process.has_ended(Duration::ZERO) {
        true => None,
        false => Weight::of(&job.process).ok(),
    };
    let is_borrowed = job.process.shares_map_with(job.parent) == Some(true);
    let (number, serial) = (job.process.number(), job.serial);
    Weighing { number, serial, weight, counted: (before, counted()), is_borrowed }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linux::Root;
    use linux::held_process::open_processes;
    use testkit::Sleeper;

    fn job(number: u32, serial: u64) -> Job {
        let processes = open_processes(&Root::system()).unwrap();
        Job { process: HeldProcess::open(&processes, number).unwrap(), serial, parent: 1 }
    }

    #[test]
    fn all_that_are_asked_for_come_back() {
        let weigher = Weigher::start().unwrap();
        let sleepers: Vec<Sleeper> = (0..AT_ONCE).map(|_| Sleeper::start()).collect();
        for _ in 0..3 {
            let jobs = sleepers.iter().zip(0..).map(|(held, serial)| job(held.0.id(), serial));
            let mut found = Vec::new();
            let minute = Duration::from_secs(60);
            assert!(weigher.weigh(jobs, minute, |weighing| found.push(weighing)));
            let mut serials: Vec<u64> = found.iter().map(|found| found.serial).collect();
            serials.sort_unstable();
            assert_eq!(serials, (0..AT_ONCE as u64).collect::<Vec<_>>());
            assert!(found.iter().all(|found| !found.is_borrowed && found.weight.is_some()));
        }
    }

    #[test]
    fn what_is_not_known_in_time_comes_later_or_never() {
        let weigher = Weigher::start().unwrap();
        let this = std::process::id();
        let (mut asked, mut found) = (0, 0);
        // The first may be under way and come with a later call; the others are not begun any more.
        for _ in 0..1000 {
            asked += 2;
            let jobs = (0..2).map(|serial| job(this, serial));
            weigher.weigh(jobs, Duration::ZERO, |_| found += 1);
        }
        weigher.weigh(std::iter::empty(), Duration::from_secs(60), |_| found += 1);
        assert!(found <= asked, "{found} of {asked}");
        // It is as ready as before.
        while !weigher.weigh(std::iter::empty(), Duration::from_secs(60), |_| ()) {}
        let mut is_found = false;
        weigher.weigh(std::iter::once(job(this, 7)), Duration::from_secs(60), |weighing| {
            is_found |= weighing.serial == 7;
        });
        assert!(is_found);
    }

    #[test]
    fn a_process_that_has_ended_has_no_weight() {
        let weigher = Weigher::start().unwrap();
        let mut sleeper = Sleeper::start();
        let job = job(sleeper.0.id(), 0);
        sleeper.0.kill().unwrap();
        sleeper.0.wait().unwrap();
        let mut found = None;
        weigher.weigh(std::iter::once(job), Duration::from_secs(60), |weighing| {
            found = Some(weighing.weight);
        });
        assert_eq!(found, Some(None));
    }
}
