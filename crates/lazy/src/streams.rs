//! libc's lock on its list of streams. `fork` takes it once its handlers have run, and who flushes
//! all streams holds it while waiting for one, whose user may wait for memory: taken after the
//! pool's lock it would make all three wait for ever. So it is taken before, as by glibc's own
//! allocator (its bug 19431).
//!
//! One order stays reversed. glibc takes its lock on the name service before that on the list, and
//! holds it while it opens /etc/nsswitch.conf, once in a program's life: a thread that does so in the
//! microsecond between the end of `fork`'s handlers and glibc's own locks makes both wait.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use crate::real;

static LOCK: Function = Function::new(c"_IO_list_lock");
static UNLOCK: Function = Function::new(c"_IO_list_unlock");
static RESET: Function = Function::new(c"_IO_list_resetlock");
/// libc's word on whether the process has one thread; glibc has it since 2.32.
static IS_SINGLE: AtomicUsize = AtomicUsize::new(0);

/// Told and asked by who holds the lock.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// Looks the functions up, where that is allowed: not in `fork`, which a handler may call.
pub fn find() {
    for function in [&LOCK, &UNLOCK, &RESET] {
        function.address.store(real::next(function.name.as_ptr()), Relaxed);
    }
    IS_SINGLE.store(real::next(c"__libc_single_threaded".as_ptr()), Relaxed);
}

/// Takes the lock, unless there is one thread: libc takes none then, and resets none in the child.
pub fn lock() {
    let word = IS_SINGLE.load(Relaxed) as *const u8;
    // SAFETY: null or the address of libc's word, which is there as long as the program.
    if word.is_null() || unsafe { word.read_volatile() } == 0 {
        LOCK.call();
        IS_TAKEN.store(true, Relaxed);
    }
}

/// Gives it back, in the process that goes on.
pub fn unlock() {
    if IS_TAKEN.swap(false, Relaxed) {
        UNLOCK.call();
    }
}

/// Gives it back in the child, where libc has reset it already if it thought of threads.
pub fn reset() {
    if IS_TAKEN.swap(false, Relaxed) {
        RESET.call();
    }
}

/// A function of libc's without arguments, or none.
struct Function {
    name: &'static CStr,
    address: AtomicUsize,
}

impl Function {
    const fn new(name: &'static CStr) -> Function {
        Function { name, address: AtomicUsize::new(0) }
    }

    fn call(&self) {
        let address = self.address.load(Relaxed);
        if address != 0 {
            // SAFETY: the address is that of libc's function of this name and type.
            let function: unsafe extern "C" fn() = unsafe { std::mem::transmute(address) };
            // SAFETY: locks and unlocks come in pairs, in one thread.
            unsafe { function() };
        }
    }
}
