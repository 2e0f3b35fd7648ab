//! libc's lock on its list of streams. `fork` takes it once its handlers have run, and a thread that
//! flushes all streams holds it while waiting for one, whose user may wait for memory: taken after the
//! arena's lock it would deadlock all three. So it is taken before, as in glibc's own
//! allocator (its bug 19431).
//!
//! One order stays reversed. glibc takes its lock on the name service before that on the list, and
//! holds it while it opens /etc/nsswitch.conf, once in a program's life: a thread that does so in the
//! microsecond between the end of `fork`'s handlers and glibc's own locks deadlocks both.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use crate::flag::take;
use crate::function::Function;

static LOCK: Function<unsafe extern "C" fn()> = Function::new(c"_IO_list_lock");
static UNLOCK: Function<unsafe extern "C" fn()> = Function::new(c"_IO_list_unlock");
static RESET: Function<unsafe extern "C" fn()> = Function::new(c"_IO_list_resetlock");
/// libc's flag for a process with one thread; in glibc since 2.32.
static IS_SINGLE: Function<*const u8> = Function::new(c"__libc_single_threaded");

/// Written and read only by the holder of the lock.
#[cfg_attr(not(test), unsafe(link_section = ".data.pagewise_lazy"))]
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// Looks up the functions, where that is allowed: not in `fork`, which a handler may call.
pub fn find() {
    LOCK.find();
    UNLOCK.find();
    RESET.find();
    IS_SINGLE.find();
}

/// Whether libc reports a single thread in this process.
pub fn is_single() -> bool {
    // SAFETY: the address of libc's flag, which exists as long as the program.
    IS_SINGLE.get().is_some_and(|word| unsafe { word.read_volatile() } != 0)
}

/// Takes the lock, unless there is one thread: libc then takes none, and resets none in the child.
pub fn lock() {
    if !is_single() {
        call(&LOCK);
        IS_TAKEN.store(true, Relaxed);
    }
}

/// Releases the lock, in the parent.
pub fn unlock() {
    if take(&IS_TAKEN) {
        call(&UNLOCK);
    }
}

/// Releases the lock in the child, where libc has already reset it if it assumed several threads.
pub fn reset() {
    if take(&IS_TAKEN) {
        call(&RESET);
    }
}

fn call(function: &Function<unsafe extern "C" fn()>) {
    if let Some(function) = function.get() {
        // SAFETY: locks and unlocks come in pairs, in one thread.
        unsafe { function() };
    }
}
