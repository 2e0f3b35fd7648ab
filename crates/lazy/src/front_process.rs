//! Calls of the program that a thread of the library's would make fail, or that its system calls would
//! not outlive: the helper ends before them.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

use libc::{c_int, c_ulong, c_void};

use crate::confined::confine;
use crate::flag::take;
use crate::helper::{self, End};
use crate::{onward, waking};

/// What only a process with one thread may leave behind.
const OF_ONE_THREAD: c_int =
    libc::CLONE_NEWUSER | libc::CLONE_VM | libc::CLONE_SIGHAND | libc::CLONE_THREAD;
/// Namespaces that any thread may enter alone.
const OF_ANY_THREAD: c_int = libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWUTS;

/// libc's key of a value that the main thread has, 1 more than its number; 0 while there is none.
static KEY: AtomicU32 = AtomicU32::new(0);

/// Has the helper ended when the main thread ends but the process goes on. Called in the main thread.
pub fn watch_main_thread() {
    let mut key = 0;
    // SAFETY: the function lives as long as the program.
    if unsafe { libc::pthread_key_create(&mut key, Some(ended)) } == 0 {
        KEY.store(key + 1, Relaxed);
        mark_main_thread();
    }
}

/// This is the main thread: libc calls `ended` if it ends alone.
fn mark_main_thread() {
    if let Some(key) = KEY.load(Relaxed).checked_sub(1) {
        // SAFETY: the key is libc's, and any value but null will do.
        unsafe { libc::pthread_setspecific(key, (&raw const KEY).cast()) };
    }
}

/// The calling thread is about to fork, and will be its child's main thread.
pub fn note_forking_thread() {
    let is_marked = KEY.load(Relaxed).checked_sub(1).is_none_or(|key| {
        // SAFETY: the key is libc's.
        !unsafe { libc::pthread_getspecific(key) }.is_null()
    });
    if !is_marked {
        IS_OTHER.store(true, Relaxed);
    }
}

/// In the child: this thread is the main one now.
pub fn mark_if_other() {
    if take(&IS_OTHER) {
        mark_main_thread();
    }
}

/// Whether another thread than the main one forks.
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
/// As of the kernel's `unshare`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn unshare(flags: c_int) -> c_int {
    if flags & OF_ONE_THREAD != 0 {
        end_helper(End::ForNow);
    }
    // SAFETY: as the caller vouches.
    unsafe { onward::unshare(flags) }
}

/// # Safety
/// As of the kernel's `setns`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn setns(file: c_int, kinds: c_int) -> c_int {
    if kinds == 0 || kinds & !OF_ANY_THREAD != 0 {
        end_helper(End::ForNow);
    }
    // SAFETY: as the caller vouches.
    unsafe { onward::setns(file, kinds) }
}

/// # Safety
/// As of the kernel's `prctl`; arguments that an option has not are passed over.
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
    // SAFETY: as the caller vouches.
    unsafe { onward::prctl(option, [second, third, fourth, fifth]) }
}
