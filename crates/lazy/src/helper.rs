//! A thread that gives memory back while the program makes no calls: by age, and when the kernel
//! reports that memory is short. It starts when it is first needed. Without it (refused, ended or
//! switched off) the program's own calls do the same, later.
//!
//! It ends where the program must have no extra thread: libc ends a process with its
//! last thread, which the helper would be.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed, Ordering::SeqCst};

use libc::{c_int, c_void, pthread_t};
use types::Nanos;

use crate::function::Function;
use crate::knobs::knobs;
use crate::pool::{give_back_tables, measure_memory, work};
use crate::pressure::Reports;
use crate::waking::{
    self, ABSENT, CHANGING, IS_IDLE, IS_OVER, IS_WANTED, REFUSED, THREAD, is_over, rest,
};
use crate::{core_files, lock, locking, next, system};

/// Pause between two rounds while memory is retained.
const PAUSE_MS: std::ops::RangeInclusive<i64> = 20..=1000;
/// Interval between measurements of the available memory.
const MEASURED_EVERY: Nanos = Nanos(1_000_000_000);
/// Pause after a report, when everything is given back. A machine that is short for long reports again
/// and again, and the program should still gain from what it freed since.
const REPORT_PAUSE_MS: i64 = 1000;
const STACK: usize = 128 << 10;

/// The thread id from the kernel.
#[cfg_attr(not(test), unsafe(link_section = ".data.pagewise_lazy"))]
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// Starts the thread if it is wanted and allowed. The caller does not hold the arena's lock.
#[inline]
pub fn start_if_wanted() {
    if IS_WANTED.load(Relaxed) && IS_WANTED.swap(false, Relaxed) && knobs().has_helper {
        start();
    }
}

/// Whether the thread may start again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    ForNow,
    ForGood,
}

/// Ends the thread, if there is one, and waits for its end: a tenth of a second, or until the current
/// release of memory is done.
#[cold]
pub fn end(end: End) {
    let after = if end == End::ForGood { REFUSED } else { ABSENT };
    for _ in 0..LOOKS_MAX {
        let thread = THREAD.load(SeqCst);
        match thread {
            REFUSED => return,
            // The other thread finishes soon, unless this is a handler that interrupted it.
            CHANGING => std::thread::yield_now(),
            _ => {
                let next = if thread == ABSENT { after } else { CHANGING };
                if THREAD.compare_exchange(thread, next, SeqCst, SeqCst).is_err() {
                    continue;
                }
                if thread != ABSENT {
                    join(thread as pthread_t);
                    THREAD.store(after, SeqCst);
                }
                return;
            }
        }
    }
}

const LOOKS_MAX: u32 = 100_000;

/// Returns when the thread no longer exists in libc or in the kernel.
fn join(thread: pthread_t) {
    IS_OVER.store(1, SeqCst);
    lock::wake(&IS_OVER);
    if IS_IDLE.swap(0, SeqCst) == 1 {
        lock::wake(&IS_IDLE);
    }
    let mut state: c_int = 0;
    // SAFETY: the thread may be joined, and only the thread that took its id out of `THREAD` does so. The wait
    // must not be a cancellation point, because the caller's own call is none.
    unsafe {
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &mut state);
        libc::pthread_join(thread, std::ptr::null_mut());
        pthread_setcancelstate(state, std::ptr::null_mut());
    }
    // The kernel reports a thread's end a moment before the thread is gone.
    let number = NUMBER.load(SeqCst);
    // SAFETY: only checks whether the thread exists.
    let is_there = || unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), number, 0) == 0 };
    let mut looks = 0;
    while is_there() && looks < LOOKS_MAX {
        looks += 1;
        std::thread::yield_now();
    }
    IS_OVER.store(0, SeqCst);
}

unsafe extern "C" {
    fn pthread_setcancelstate(state: c_int, before: *mut c_int) -> c_int;
}

const PTHREAD_CANCEL_DISABLE: c_int = 1;

#[cold]
fn start() {
    if THREAD.compare_exchange(ABSENT, CHANGING, SeqCst, SeqCst).is_err() {
        return;
    }
    waking::note_process();
    // A refused thread stays refused: the library does not try again.
    THREAD.store(create().map_or(REFUSED, |thread| thread as usize), SeqCst);
}

/// The thread that starts the helper waits for locks of libc's, whose holder may be suspended by a collector that
/// waits for this thread's signal: so signals are blocked in the new thread and not in this one.
fn create() -> Option<pthread_t> {
    // SAFETY: the structures are initialized by the calls before those that read them; the function
    // lives as long as the program.
    unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        let mut attributes = std::mem::zeroed();
        let mut thread = 0;
        if libc::pthread_attr_init(&mut attributes) != 0 {
            return None;
        }
        libc::pthread_attr_setstacksize(&mut attributes, STACK);
        let has_mask = SET_MASK.get().is_some_and(|set_mask| set_mask(&mut attributes, &all) == 0);
        if !has_mask {
            libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        }
        let refused =
            libc::pthread_create(&mut thread, &attributes, run, std::ptr::null_mut()) != 0;
        if !has_mask {
            libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        }
        libc::pthread_attr_destroy(&mut attributes);
        (!refused).then_some(thread)
    }
}

type SetMask =
    unsafe extern "C" fn(*mut libc::pthread_attr_t, *const libc::sigset_t) -> libc::c_int;

/// In glibc since 2.32.
static SET_MASK: Function<SetMask> = Function::new(c"pthread_attr_setsigmask_np");

/// Looks up the functions that start the thread, where a look-up is allowed.
pub fn find() {
    SET_MASK.find();
}

extern "C" fn run(_: *mut c_void) -> *mut c_void {
    // SAFETY: the name is a C string.
    unsafe { libc::syscall(libc::SYS_prctl, libc::PR_SET_NAME, c"pagewise-lazy".as_ptr()) };
    // SAFETY: only returns a number.
    NUMBER.store(unsafe { libc::gettid() } as u32, SeqCst);
    let reports = Reports::ask();
    let (mut measured_at, mut cleanings) = (None, 0);
    while !is_over() {
        let now = system::now();
        if measured_at.is_none_or(|at: Nanos| now.0 - at.0 >= MEASURED_EVERY.0) {
            measure_memory();
            leave_clean_out_of_core_files(&mut cleanings);
            measured_at = Some(now);
        }
        match give_back_what_is_due() {
            Some(pause_ms) => {
                if reports.come_within(pause_ms) {
                    give_back_everything();
                    rest(REPORT_PAUSE_MS);
                }
            }
            None => {
                next::trim();
                IS_IDLE.store(1, SeqCst);
                // The thread that ends the helper reads the two words in the reverse order.
                if !is_over() {
                    lock::sleep(&IS_IDLE, 1, None);
                }
                IS_IDLE.store(0, Relaxed);
            }
        }
    }
    std::ptr::null_mut()
}

/// Milliseconds until the next action is due; none if nothing is retained.
fn give_back_what_is_due() -> Option<i64> {
    work(locking::lock()?);
    let mut arena = locking::lock()?;
    if arena.hot_pages() + arena.lazy_pages() == 0 && !arena.is_working() {
        core_files::leave_out_clean(&mut arena);
        give_back_tables(&mut arena);
        return None;
    }
    // Memory that never becomes due by age is watched only for pressure.
    let due_ms = arena.due().map_or(i64::MAX, |due| (due.0 - system::now().0) / 1_000_000 + 1);
    Some(due_ms.clamp(*PAUSE_MS.start(), *PAUSE_MS.end()))
}

/// Excludes clean memory from core files if no pages became clean since the last call, which noted the arena's count in
/// `cleanings`.
fn leave_clean_out_of_core_files(cleanings: &mut u32) {
    if let Some(mut arena) = locking::lock() {
        let before = std::mem::replace(cleanings, arena.cleanings());
        if before == *cleanings {
            core_files::leave_out_clean(&mut arena);
        }
    }
}

fn give_back_everything() {
    if let Some(mut arena) = locking::lock() {
        arena.pressure(system::now());
        work(arena);
    }
    next::trim();
}
