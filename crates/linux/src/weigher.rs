//! The thread that measures weights of processes ([`crate::weight`]). A read of a process's `smaps_rollup` may
//! wait for a lock that the process holds while it waits for memory, so the killer and the recorder never make
//! one in their own threads. The killer waits for this thread for a bounded time, and decides without the
//! weights that are not known then; the recorder does not wait.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::Error;
use crate::held_process::HeldProcess;
use crate::weight::Weighed;

/// Processes of one request.
pub const AT_ONCE: usize = 16;
/// Smaller processes are not weighed.
const WEIGHED_MIN: u64 = 1 << 20;
/// Processes that free less than one part in this many of what the best candidate frees are not weighed.
pub const BEST_PART: u64 = 8;
const STACK: usize = 64 << 10;
/// A read that takes longer is stuck on a lock, and callers no longer wait for it.
const STUCK_AFTER: Duration = Duration::from_millis(500);
const UNPOISONED: &str = "no holder of this lock panics";

/// The smallest size of a process that is weighed, if the end of the best candidate frees `best` bytes.
pub fn smallest_weighed(best: u64) -> u64 {
    WEIGHED_MIN.max(best / BEST_PART)
}

/// A process to weigh.
pub struct Job {
    /// The process.
    pub process: HeldProcess,
    /// Identifies it to the caller, even if the PID is reused.
    pub serial: u64,
    /// The PID of its parent.
    pub parent: u32,
}

/// The result for a process.
#[derive(Clone, Copy, Debug)]
pub struct Weighing {
    /// The PID.
    pub number: u32,
    /// The serial of its [`Job`].
    pub serial: u64,
    /// The weight and the size at the read.
    pub weighed: Weighed,
    /// The end of the read, in nanoseconds of CLOCK_MONOTONIC.
    pub time_ns: u64,
}

/// The thread that weighs. When dropped, it ends after its current read.
pub struct Weigher {
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
    /// Starts the thread with the priority `nice`. Without the privilege, or if `nice` is None, the thread has
    /// the caller's priority.
    ///
    /// # Errors
    /// The operating system refuses.
    pub fn start(nice: Option<i32>) -> Result<Weigher, Error> {
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
        let thread = thread.spawn(move || work.work(nice));
        let thread = thread.map_err(|error| Error::call("clone", error))?;
        Ok(Weigher { shared, _thread: thread })
    }

    /// Weighs `jobs`, the first [`AT_ONCE`] of them, and after at most `time` calls `each` with the results so
    /// far, including late ones of earlier calls. Returns whether the thread is ready for more: while a read
    /// of an earlier call is stuck, this call neither starts a read nor waits.
    pub fn weigh(
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

    /// Queues `jobs`, the first [`AT_ONCE`] of them, and does not wait; [`Weigher::take`] returns the results.
    /// Ignores them if the thread is busy.
    pub fn post(&self, jobs: impl Iterator<Item = Job>) {
        let mut queue = self.shared.queue();
        if !queue.is_busy() {
            queue.jobs.iter_mut().zip(jobs).for_each(|(place, job)| *place = Some(job));
            self.shared.queued.notify_one();
        }
    }

    /// Whether all jobs are done.
    pub fn is_ready(&self) -> bool {
        !self.shared.queue().is_busy()
    }

    /// Calls `each` with the results since the last call, and does not wait.
    pub fn take(&self, each: impl FnMut(Weighing)) {
        self.shared.queue().done.iter_mut().filter_map(Option::take).for_each(each);
    }

    /// Waits, at most for `time`, while it reads process `number`: if the process died now, its memory would
    /// stay until the read ends.
    pub fn wait_while_reading(&self, number: u32, time: Duration) {
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

    fn work(&self, nice: Option<i32>) {
        // Without the privilege it keeps its priority.
        let _ = nice.map(crate::process::rank_this_thread);
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
            let Job { process, serial, parent } = &job;
            let weighed = Weighed::now(process, *parent);
            let (number, time_ns) = (process.number(), crate::system::monotonic_ns());
            let weighing = Weighing { number, serial: *serial, weighed, time_ns };
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Root;
    use crate::held_process::open_processes;
    use testkit::Sleeper;

    fn job(number: u32, serial: u64) -> Job {
        let processes = open_processes(&Root::system()).unwrap();
        Job { process: HeldProcess::open(&processes, number).unwrap(), serial, parent: 1 }
    }

    #[test]
    fn every_job_has_a_result() {
        let weigher = Weigher::start(None).unwrap();
        let sleepers: Vec<Sleeper> = (0..AT_ONCE).map(|_| Sleeper::start()).collect();
        for _ in 0..3 {
            let jobs = sleepers.iter().zip(0..).map(|(held, serial)| job(held.0.id(), serial));
            let mut found = Vec::new();
            let minute = Duration::from_secs(60);
            assert!(weigher.weigh(jobs, minute, |weighing| found.push(weighing)));
            let mut serials: Vec<u64> = found.iter().map(|found| found.serial).collect();
            serials.sort_unstable();
            assert_eq!(serials, (0..AT_ONCE as u64).collect::<Vec<_>>());
            let has_weight =
                |found: &Weighing| !found.weighed.is_borrowed && found.weighed.weight.is_some();
            assert!(found.iter().all(has_weight));
        }
    }

    #[test]
    fn a_late_result_comes_with_a_later_call_or_never() {
        let weigher = Weigher::start(None).unwrap();
        let this = std::process::id();
        let (mut jobs_sent, mut found) = (0, 0);
        // The first job may have started, so its result comes with a later call; the others never start.
        for _ in 0..1000 {
            jobs_sent += 2;
            let jobs = (0..2).map(|serial| job(this, serial));
            weigher.weigh(jobs, Duration::ZERO, |_| found += 1);
        }
        weigher.weigh(std::iter::empty(), Duration::from_secs(60), |_| found += 1);
        assert!(found <= jobs_sent, "{found} of {jobs_sent}");
        // The thread is ready again.
        while !weigher.weigh(std::iter::empty(), Duration::from_secs(60), |_| ()) {}
        let mut is_found = false;
        weigher.weigh(std::iter::once(job(this, 7)), Duration::from_secs(60), |weighing| {
            is_found |= weighing.serial == 7;
        });
        assert!(is_found);
    }

    #[test]
    fn a_later_take_has_the_results_of_a_post() {
        let weigher = Weigher::start(None).unwrap();
        let before_ns = crate::system::monotonic_ns();
        let this = std::process::id();
        weigher.post((0..3).map(|serial| job(this, serial)));
        let mut serials = Vec::new();
        while serials.len() < 3 {
            // Ignored while the thread is busy.
            weigher.post(std::iter::empty());
            weigher.take(|found| {
                assert!(found.time_ns >= before_ns && found.weighed.weight.is_some());
                serials.push(found.serial);
            });
            std::thread::yield_now();
        }
        assert_eq!(serials, [0, 1, 2]);
    }

    #[test]
    fn a_process_that_has_ended_has_no_weight() {
        let weigher = Weigher::start(None).unwrap();
        let mut sleeper = Sleeper::start();
        let job = job(sleeper.0.id(), 0);
        sleeper.0.kill().unwrap();
        sleeper.0.wait().unwrap();
        let mut found = None;
        weigher.weigh(std::iter::once(job), Duration::from_secs(60), |weighing| {
            found = Some(weighing.weighed.weight);
        });
        assert_eq!(found, Some(None));
    }
}
