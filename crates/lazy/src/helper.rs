//! A thread that gives memory back when the program does not call: by age, and when the kernel
//! reports that memory is short. It comes when first needed. Without it, whether refused, ended or
//! switched off, the same is done at the program's own calls, later.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed, Ordering::Release};

use libc::c_void;
use types::Nanos;

use crate::chunks::PAGE;
use crate::knobs::knobs;
use crate::pool::{POOL, give_back_tables, measure_memory, work};
use crate::pressure::Reports;
use crate::{lock, real, system};

/// Free memory from which on a thread is worth it: a program that ends soon has none.
const WANTED_PAGES: u64 = (1 << 20) / PAGE as u64;
/// Between two looks while something is held.
const PAUSE_MS: std::ops::RangeInclusive<i64> = 20..=1000;
/// Between two looks at the memory in reach.
const MEASURED_EVERY: Nanos = Nanos(1_000_000_000);
/// After a report everything is given back. A machine that is short for long reports again and again,
/// and the program is to gain something of what it freed since.
const REPORT_PAUSE_MS: i64 = 1000;
const STACK: usize = 128 << 10;

static IS_THERE: AtomicBool = AtomicBool::new(false);
static IS_WANTED: AtomicBool = AtomicBool::new(false);
/// 1 while the thread sleeps because nothing is held.
static IS_IDLE: AtomicU32 = AtomicU32::new(0);

/// Pages held now, told under the pool's lock.
pub fn notice(held_pages: u64) {
    if held_pages < WANTED_PAGES {
        return;
    }
    if !IS_THERE.load(Relaxed) {
        IS_WANTED.store(true, Relaxed);
    } else if IS_IDLE.load(Relaxed) == 1 && IS_IDLE.swap(0, Release) == 1 {
        lock::wake(&IS_IDLE);
    }
}

/// Starts the thread if it is wanted and allowed. Called where a program may start threads: in
/// `malloc` and `free`, not in `mmap`, which signal handlers use.
#[inline]
pub fn start_if_wanted() {
    if IS_WANTED.load(Relaxed) && IS_WANTED.swap(false, Relaxed) && knobs().has_helper {
        start();
    }
}

/// This process has no such thread: it was the parent's.
pub fn forget() {
    IS_THERE.store(false, Relaxed);
    IS_WANTED.store(false, Relaxed);
    IS_IDLE.store(0, Relaxed);
}

#[cold]
fn start() {
    if IS_THERE.swap(true, Relaxed) {
        return;
    }
    // A thread that is refused stays refused: `IS_THERE` stays, and nothing is asked again.
    // SAFETY: the structures are initialized by the calls before those that read them; the function
    // lives as long as the program.
    unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        let mut attributes = std::mem::zeroed();
        let mut thread = 0;
        if libc::pthread_attr_init(&mut attributes) != 0 {
            return;
        }
        libc::pthread_attr_setstacksize(&mut attributes, STACK);
        libc::pthread_attr_setdetachstate(&mut attributes, libc::PTHREAD_CREATE_DETACHED);
        // The thread takes no signal of the program's: it begins with the mask of who starts it.
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        libc::pthread_create(&mut thread, &attributes, run, std::ptr::null_mut());
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        libc::pthread_attr_destroy(&mut attributes);
    }
}

extern "C" fn run(_: *mut c_void) -> *mut c_void {
    // SAFETY: the name is a C string.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"pagewise-lazy".as_ptr()) };
    let reports = Reports::ask();
    let mut measured_at = None;
    loop {
        let now = system::now();
        if measured_at.is_none_or(|at: Nanos| now.0 - at.0 >= MEASURED_EVERY.0) {
            measure_memory();
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
                real::trim();
                IS_IDLE.store(1, Release);
                lock::sleep(&IS_IDLE, 1, None);
                IS_IDLE.store(0, Relaxed);
            }
        }
    }
}

/// Does nothing for a while.
pub fn rest(milliseconds: i64) {
    static NOBODY_WAKES: AtomicU32 = AtomicU32::new(0);
    lock::sleep(&NOBODY_WAKES, 0, Some(milliseconds));
}

/// Milliseconds until something is due again; none where nothing is held.
fn give_back_what_is_due() -> Option<i64> {
    work(POOL.lock()?);
    let mut arena = POOL.lock()?;
    if arena.hot_pages() + arena.lazy_pages() == 0 {
        give_back_tables(&mut arena);
        return None;
    }
    // Memory that no age makes due is looked after for the sake of pressure alone.
    let due_ms = arena.due().map_or(i64::MAX, |due| (due.0 - system::now().0) / 1_000_000 + 1);
    Some(due_ms.clamp(*PAUSE_MS.start(), *PAUSE_MS.end()))
}

fn give_back_everything() {
    if let Some(mut arena) = POOL.lock() {
        arena.pressure(system::now());
        work(arena);
    }
    real::trim();
}
