//! The thread that measures weights of candidates (`linux::weight`). A read of a process's `smaps_rollup` may
//! wait for a lock that the process holds while it waits for memory, so the killer's own thread never makes
//! one: it waits for this thread for a bounded time, and decides without the weights that are not known then.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use linux::held_process::HeldProcess;
use linux::weight::Weight;

use crate::Error;
use crate::table::Seen;

/// Processes of one request.
pub(crate) const AT_ONCE: usize = 16;
const STACK: usize = 64 << 10;
/// The same as for the killer's thread, which waits for this one.
const OWN_NICE: i32 = -10;
/// A read that takes longer is stuck on a lock, and the killer no longer waits for it.
const STUCK_AFTER: Duration = Duration::from_millis(500);
const UNPOISONED: &str = "no holder of this lock panics";

/// A process to weigh.
pub(crate) struct Job {
    pub process: HeldProcess,
    pub serial: u64,
    pub parent: u32,
}

/// The result for a process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weighing {
    pub number: u32,
    pub serial: u64,
    /// None if its memory map could not be read.
    pub weight: Option<Weight>,
    /// Bytes of anonymous memory by `statm`, before and after the read.
    pub counted: (u64, u64),
    /// Whether it uses the address space of its parent.
    pub is_borrowed: bool,
}

/// The thread. When dropped, it ends after its current read.
pub(crate) struct Weigher {
    shared: Arc<Shared>,
    _thread: JoinHandle<()>,
}

struct Shared {
    queue: Mutex<Queue>,
    queued: Condvar,
    done: Condvar,
}

/// Requests and results of the two threads. `done` has room for all jobs and a late one.
struct Queue {
    jobs: [Option<Job>; AT_ONCE],
    done: [Option<Weighing>; AT_ONCE + 1],
    /// The start of the current read, and the process that it reads.
    reading: Option<(Instant, u32)>,
    is_over: bool,
}

impl Weigher {
    /// Starts the thread.
    ///
    /// # Errors
    /// What the operating system refuses.
    pub(crate) fn start() -> Result<Weigher, Error> {
        let queue = Queue {
            jobs: [const { None }; AT_ONCE],
            done: [None; AT_ONCE + 1],
            reading: None,
            is_over: false,
        };
        let shared = Arc::new(Shared {
            queue: Mutex::new(queue),
            queued: Condvar::new(),
            done: Condvar::new(),
        });
        let work = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("weigher".to_owned()).stack_size(STACK);
        let thread = thread.spawn(move || work.work());
        let thread = thread.map_err(|error| Error::refused("start a thread", error))?;
        Ok(Weigher { shared, _thread: thread })
    }

    /// Weighs `jobs`, the first [`AT_ONCE`] of them, and after at most `time` calls `each` with the results so
    /// far, including late ones of earlier calls. Returns whether the thread is ready for more: while a read
    /// of an earlier call is stuck, this call neither starts a read nor waits.
    pub(crate) fn weigh(
        &self,
        jobs: impl Iterator<Item = Job>,
        time: Duration,
        mut each: impl FnMut(Weighing),
    ) -> bool {
        let until = Instant::now() + time;
        let mut queue = self.shared.queue();
        if !queue.is_stuck() {
            // A read of an earlier call may still run.
            queue = self.wait(queue, until);
            if !queue.is_busy() {
                queue.jobs.iter_mut().zip(jobs).for_each(|(place, job)| *place = Some(job));
                self.shared.queued.notify_one();
                queue = self.wait(queue, until);
            }
        }
        // Jobs that have not started are dropped, since no caller waits for them.
        queue.jobs.iter_mut().for_each(|job| drop(job.take()));
        queue.done.iter_mut().filter_map(Option::take).for_each(&mut each);
        queue.reading.is_none()
    }

    /// Waits, at most for `time`, while it reads process `number`: if the process died now, its memory would
    /// stay until the read ends.
    pub(crate) fn wait_while_reading(&self, number: u32, time: Duration) {
        let queue = self.shared.queue();
        if queue.reading.is_some_and(|(_, read)| read == number) && !queue.is_stuck() {
            drop(self.wait(queue, Instant::now() + time));
        }
    }

    /// Waits until all jobs are done.
    fn wait<'a>(
        &'a self,
        mut queue: MutexGuard<'a, Queue>,
        until: Instant,
    ) -> MutexGuard<'a, Queue> {
        while queue.is_busy() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            (queue, _) = self.shared.done.wait_timeout(queue, left).expect(UNPOISONED);
        }
        queue
    }
}

impl Drop for Weigher {
    /// Does not wait for the thread, because its read may wait for a lock of another program.
    fn drop(&mut self) {
        self.shared.queue().is_over = true;
        self.shared.queued.notify_one();
    }
}

impl Queue {
    fn is_stuck(&self) -> bool {
        self.reading.is_some_and(|(since, _)| since.elapsed() >= STUCK_AFTER)
    }

    fn is_busy(&self) -> bool {
        self.reading.is_some() || self.jobs.iter().any(Option::is_some)
    }
}

impl Shared {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().expect(UNPOISONED)
    }

    fn work(&self) {
        // Without the privilege it keeps its priority.
        let _ = linux::process::rank_this_thread(OWN_NICE);
        let page = rustix::param::page_size() as u64;
        let mut queue = self.queue();
        loop {
            if queue.is_over {
                return;
            }
            let Some(job) = queue.jobs.iter_mut().find_map(Option::take) else {
                queue = self.queued.wait(queue).expect(UNPOISONED);
                continue;
            };
            queue.reading = Some((Instant::now(), job.process.number()));
            drop(queue);
            let weighing = weigh(&job, page);
            // Closes its descriptors.
            drop(job);
            queue = self.queue();
            queue.reading = None;
            if let Some(place) = queue.done.iter_mut().find(|place| place.is_none()) {
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
    // A read would hold the memory of a dying process.
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
    fn every_job_has_a_result() {
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
    fn a_late_result_comes_with_a_later_call_or_never() {
        let weigher = Weigher::start().unwrap();
        let this = std::process::id();
        let (mut asked, mut found) = (0, 0);
        // The first job may have started, so its result comes with a later call; the others never start.
        for _ in 0..1000 {
            asked += 2;
            let jobs = (0..2).map(|serial| job(this, serial));
            weigher.weigh(jobs, Duration::ZERO, |_| found += 1);
        }
        weigher.weigh(std::iter::empty(), Duration::from_secs(60), |_| found += 1);
        assert!(found <= asked, "{found} of {asked}");
        // The thread is ready again.
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
