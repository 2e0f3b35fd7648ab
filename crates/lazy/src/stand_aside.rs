//! When the library passes everything through to libc and the kernel, and why.

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering::Relaxed};

use crate::chunks::PAGE;
use crate::knobs::{knobs, say, variable};
use crate::text::{Text, number, read};
use crate::{next, retired, sanitizers};

/// Smallest request that is served; the maximum, before the constructor has decided, serves none.
static SERVED_FROM: AtomicUsize = AtomicUsize::new(usize::MAX);
/// The decision of the constructor, or that there is none yet.
static DECISION: AtomicU8 = AtomicU8::new(OPEN);

const OPEN: u8 = 0;
const SERVE: u8 = 1;
const STAND_ASIDE: u8 = 2;

/// Smallest request that is served, in bytes; the largest number if none is.
#[inline]
pub fn served_from() -> usize {
    SERVED_FROM.load(Relaxed)
}

/// Serves nothing, and reports it if the user asked for the library; reads only the environment.
pub fn obey_switch() {
    DECISION.store(STAND_ASIDE, Relaxed);
    if matches!(variable(b"PAGEWISE_LAZY_VERBOSE"), Some(b"on" | b"1")) {
        say(&[b"stands aside: ", SWITCHED_OFF]);
    }
}

const SWITCHED_OFF: &[u8] = b"PAGEWISE_LAZY_SWITCH is off";

/// Decides, after the program has been loaded. Returns whether requests are served.
pub fn decide() -> bool {
    let reason = reason();
    match reason {
        None => {
            DECISION.store(SERVE, Relaxed);
            SERVED_FROM.store(knobs().block_min, Relaxed);
        }
        Some(reason) => {
            DECISION.store(STAND_ASIDE, Relaxed);
            tell(reason);
        }
    }
    reason.is_none()
}

/// Whether requests are served, or may be once the library's constructor has decided.
pub fn may_serve() -> bool {
    match DECISION.load(Relaxed) {
        // The environment is the one that the program began with.
        OPEN => !is_switched_off(),
        decision => decision == SERVE,
    }
}

/// Whether the environment switches the library off; reads no file.
pub fn is_switched_off() -> bool {
    matches!(variable(b"PAGEWISE_LAZY_SWITCH"), Some(b"off" | b"0"))
}

/// Sends later requests to libc.
pub fn stop_serving() {
    SERVED_FROM.store(usize::MAX, Relaxed);
}

/// Whether the kernel counts address space as memory, so that the pool cannot be reserved.
pub fn refuses_overcommit() -> bool {
    let mut room = [0; 16];
    let mode = read(&Text::of(&[b"/proc/sys/vm/overcommit_memory"]), &mut room).and_then(number);
    let is_refused = mode == Some(2);
    if is_refused {
        tell(b"vm.overcommit_memory is 2: the kernel counts address space as memory");
    }
    is_refused
}

fn tell(reason: &[u8]) {
    if knobs().is_verbose {
        say(&[b"stands aside: ", reason]);
    }
}

fn reason() -> Option<&'static [u8]> {
    if !knobs().is_on {
        return Some(SWITCHED_OFF);
    }
    if variable(b"LD_PRELOAD").is_some_and(|list| contains(list, b"vgpreload")) {
        return Some(b"the program runs under valgrind");
    }
    if sanitizers::are_loaded() {
        return Some(b"the program was built with a sanitizer");
    }
    if !next::is_family_ours() || !next::is_family_of_libc() {
        return Some(b"the program brings its own malloc");
    }
    // SAFETY: only returns a number.
    if unsafe { libc::sysconf(libc::_SC_PAGESIZE) } != PAGE as libc::c_long {
        return Some(b"pages of this kernel are not of 4 KiB");
    }
    let limits = [libc::RLIMIT_AS, libc::RLIMIT_DATA];
    if limits.into_iter().any(is_limited) {
        return Some(b"the address space of the program is limited (RLIMIT_AS or RLIMIT_DATA)");
    }
    if retired::is_retired() {
        return Some(b"a library locked all memory or opened another one with RTLD_DEEPBIND as it was loaded");
    }
    None
}

fn is_limited(resource: libc::__rlimit_resource_t) -> bool {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: writes the limit to the given place, or nothing.
    unsafe { libc::getrlimit(resource, &mut limit) };
    limit.rlim_cur != libc::RLIM_INFINITY
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}
