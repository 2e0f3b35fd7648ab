//! Calls of the program that fail if the library has a thread, or whose effect would break that thread's
//! system calls: the helper ends before them.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use libc::{c_int, c_ulong, c_void};

use crate::confined::confine;
use crate::flag::take;
use crate::helper::{self, End};
use crate::{onward, waking};

/// Namespaces that only a process with one thread may leave.
const OF_ONE_THREAD: c_int =
    libc::CLONE_NEWUSER | libc::CLONE_VM | libc::CLONE_SIGHAND | libc::CLONE_THREAD;
/// Namespaces that any single thread may enter.
const OF_ANY_THREAD: c_int = libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWUTS;

/// libc's key of a value that the main thread has, plus 1; 0 without a key.
static KEY: AtomicU32 = AtomicU32::new(0);

/// Ends the helper when the main thread ends but the process continues. Called in the main thread.
pub fn watch_main_thread() {
    let mut key = 0;
    // SAFETY: the function lives as long as the program.
    if unsafe { libc::pthread_key_create(&mut key, Some(ended)) } == 0 {
        KEY.store(key + 1, Relaxed);
        mark_main_thread();
    }
}

/// Marks the main thread: libc calls `ended` if only this thread ends.
fn mark_main_thread() {
    if let Some(key) = KEY.load(Relaxed).checked_sub(1) {
        // SAFETY: the key is libc's, and any value but null will do.
        unsafe { libc::pthread_setspecific(key, (&raw const KEY).cast()) };
    }
}

/// Records that the calling thread is about to fork, and becomes its child's main thread.
pub fn note_forking_thread() {
    let is_marked = KEY.load(Relaxed).checked_sub(1).is_none_or(|key| {
        // SAFETY: the key is libc's.
        !unsafe { libc::pthread_getspecific(key) }.is_null()
    });
    if !is_marked {
        IS_OTHER.store(true, Relaxed);
    }
}

/// For the child: marks this thread as the main thread.
pub fn mark_if_other() {
    if take(&IS_OTHER) {
        mark_main_thread();
    }
}

/// Whether a thread other than the main thread forks.
#[cfg_attr(not(test), unsafe(link_section = ".data.pagewise_lazy"))]
static IS_OTHER: AtomicBool = AtomicBool::new(false);

unsafe extern "C" fn ended(_: *mut c_void) {
    end_helper(End::ForGood);
}

fn end_helper(end: End) {
    if waking::is_of_this_process() {
        helper::end(end);
    }
}

/// # Safety
/// As for the kernel's `unshare`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn unshare(flags: c_int) -> c_int {
    if flags & OF_ONE_THREAD != 0 {
        end_helper(End::ForNow);
    }
    // SAFETY: upheld by the caller.
    unsafe { onward::unshare(flags) }
}

/// # Safety
/// As for the kernel's `setns`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn setns(file: c_int, kinds: c_int) -> c_int {
    if kinds == 0 || kinds & !OF_ANY_THREAD != 0 {
        end_helper(End::ForNow);
    }
    // SAFETY: upheld by the caller.
    unsafe { onward::setns(file, kinds) }
}

/// # Safety
/// As for the kernel's `prctl`; arguments that an option does not have are ignored.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn prctl(
    option: c_int,
    second: c_ulong,
    third: c_ulong,
    fourth: c_ulong,
    fifth: c_ulong,
) -> c_int {
    if [libc::PR_SET_NO_NEW_PRIVS, libc::PR_SET_SECCOMP].contains(&option) {
        confine();
        end_helper(End::ForGood);
    }
    // SAFETY: upheld by the caller.
    unsafe { onward::prctl(option, [second, third, fourth, fifth]) }
}
