//! When the helper's thread wakes, and when it is to end: what the thread and those who wake it share.

use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicU32, AtomicUsize, Ordering::Relaxed, Ordering::Release,
    Ordering::SeqCst,
};

use libc::pid_t;

use crate::chunks::PAGE;
use crate::flag::take;
use crate::lock;

/// Free memory from which the thread is worthwhile: a program that ends soon gets none.
const WANTED_PAGES: u64 = (1 << 20) / PAGE as u64;

/// The thread's id from libc, or one of the states below.
#[cfg_attr(not(test), unsafe(link_section = ".data.pagewise_lazy"))]
pub static THREAD: AtomicUsize = AtomicUsize::new(ABSENT);
/// A thread is starting or ending the helper.
pub const CHANGING: usize = 1;
/// There is no helper; it may start.
pub const ABSENT: usize = 0;
/// There is no helper, and it will not start again.
pub const REFUSED: usize = 2;

#[cfg_attr(not(test), unsafe(link_section = ".data.pagewise_lazy"))]
pub static IS_WANTED: AtomicBool = AtomicBool::new(false);
/// 1 while the thread sleeps because nothing is retained.
#[cfg_attr(not(test), unsafe(link_section = ".data.pagewise_lazy"))]
pub static IS_IDLE: AtomicU32 = AtomicU32::new(0);
/// 1 while the thread should end.
#[cfg_attr(not(test), unsafe(link_section = ".data.pagewise_lazy"))]
pub static IS_OVER: AtomicU32 = AtomicU32::new(0);
/// The process of the helper; 0 before the helper exists. A child by `vfork` or by the program's own system
/// calls is another process: it has no helper, though it sees what the parent recorded.
#[cfg_attr(not(test), unsafe(link_section = ".data.pagewise_lazy"))]
static PROCESS: AtomicI32 = AtomicI32::new(0);

/// Updates the number of retained pages. The caller has the arena's lock.
pub fn notice(held_pages: u64) {
    if held_pages < WANTED_PAGES {
        return;
    }
    if THREAD.load(Relaxed) == ABSENT {
        IS_WANTED.store(true, Relaxed);
    } else if IS_IDLE.load(Relaxed) == 1 && IS_IDLE.swap(0, Release) == 1 {
        lock::wake(&IS_IDLE);
    }
}

/// Whether the thread is to end.
pub fn is_over() -> bool {
    IS_OVER.load(SeqCst) == 1
}

/// Sleeps for a while, unless the thread should end.
pub fn rest(milliseconds: i64) {
    lock::sleep(&IS_OVER, 0, Some(milliseconds));
}

/// For the child of a fork: the thread was the parent's.
pub fn forget() {
    if ![ABSENT, REFUSED].contains(&THREAD.load(Relaxed)) {
        THREAD.store(ABSENT, Relaxed);
    }
    take(&IS_WANTED);
    for word in [&IS_IDLE, &IS_OVER] {
        if word.load(Relaxed) != 0 {
            word.store(0, Relaxed);
        }
    }
}

/// Records that the helper will belong to this process.
pub fn note_process() {
    PROCESS.store(process(), Relaxed);
}

/// For the child of a fork: the helper was its parent's.
pub fn forget_process() {
    if PROCESS.load(Relaxed) != 0 {
        PROCESS.store(0, Relaxed);
    }
}

/// Whether the helper belongs to this process, or to none yet.
pub fn is_of_this_process() -> bool {
    let of = PROCESS.load(Relaxed);
    of == 0 || of == process()
}

fn process() -> pid_t {
    // SAFETY: only returns a number.
    unsafe { libc::getpid() }
}
