//! When the library lets everything through to libc and the kernel, and why.

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering::Relaxed};

use crate::chunks::PAGE;
use crate::knobs::{knobs, say, variable};
use crate::text::{Text, number, read};

/// Bytes from which on requests are served; none are before the library's constructor has decided.
static SERVED_FROM: AtomicUsize = AtomicUsize::new(usize::MAX);
/// Whether a call of libc's own came to this library's `realloc`; see [`is_malloc_ours`].
static PROBE: AtomicU8 = AtomicU8::new(UNASKED);

const UNASKED: u8 = 0;
const ASKED: u8 = 1;
const ANSWERED: u8 = 2;

/// Bytes from which on a request is served; the largest number where none is.
#[inline]
pub fn served_from() -> usize {
    SERVED_FROM.load(Relaxed)
}

/// Decides, when the program has been loaded. Says whether requests are served.
pub fn decide() -> bool {
    let reason = reason();
    match reason {
        None => SERVED_FROM.store(knobs().block_min, Relaxed),
        Some(reason) => tell(reason),
    }
    reason.is_none()
}

/// From now on requests go to libc.
pub fn stop_serving() {
    SERVED_FROM.store(usize::MAX, Relaxed);
}

/// The pool cannot be had after all.
pub fn refuses_overcommit() -> bool {
    let mut room = [0; 16];
    let mode = read(&Text::of(&[b"/proc/sys/vm/overcommit_memory"]), &mut room).and_then(number);
    let is_refused = mode == Some(2);
    if is_refused {
        tell(b"vm.overcommit_memory is 2: the kernel counts address space as memory");
    }
    is_refused
}

/// `realloc` was called, perhaps by the probe.
#[inline]
pub fn answer_probe() {
    if PROBE.load(Relaxed) == ASKED {
        PROBE.store(ANSWERED, Relaxed);
    }
}

fn tell(reason: &[u8]) {
    if knobs().is_verbose {
        say(&[b"stands aside: ", reason]);
    }
}

fn reason() -> Option<&'static [u8]> {
    if !knobs().is_on {
        return Some(b"PAGEWISE_LAZY_SWITCH is off");
    }
    if variable(b"LD_PRELOAD").is_some_and(|list| contains(list, b"vgpreload")) {
        return Some(b"the program runs under valgrind");
    }
    let sanitizers = [c"__asan_init", c"__tsan_init", c"__msan_init", c"__hwasan_init"];
    if sanitizers.iter().any(|symbol| is_loaded(symbol)) {
        return Some(b"the program was built with a sanitizer");
    }
    if !is_malloc_ours() {
        return Some(b"the program brings its own malloc");
    }
    // SAFETY: asks for a number.
    if unsafe { libc::sysconf(libc::_SC_PAGESIZE) } != PAGE as libc::c_long {
        return Some(b"pages of this kernel are not of 4 KiB");
    }
    let limits = [libc::RLIMIT_AS, libc::RLIMIT_DATA];
    if limits.into_iter().any(is_limited) {
        return Some(b"the address space of the program is limited (RLIMIT_AS or RLIMIT_DATA)");
    }
    None
}

/// Whether the program's `malloc` is this library's. libc's own `reallocarray` calls whichever
/// `realloc` came first, so it is asked for memory to see whether the call arrives here.
fn is_malloc_ours() -> bool {
    PROBE.store(ASKED, Relaxed);
    // SAFETY: asks for memory, and gives it back. Unless the optimizer is kept from looking it finds
    // both calls needless.
    unsafe { libc::free(std::hint::black_box(reallocarray(std::ptr::null_mut(), 1, 1))) };
    PROBE.swap(UNASKED, Relaxed) == ANSWERED
}

unsafe extern "C" {
    fn reallocarray(
        pointer: *mut libc::c_void,
        count: libc::size_t,
        size: libc::size_t,
    ) -> *mut libc::c_void;
}

fn is_loaded(symbol: &std::ffi::CStr) -> bool {
    // SAFETY: the symbol is a C string.
    !unsafe { libc::dlsym(libc::RTLD_DEFAULT, symbol.as_ptr()) }.is_null()
}

fn is_limited(resource: libc::__rlimit_resource_t) -> bool {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    // SAFETY: writes the limit to where it is told, or nothing.
    unsafe { libc::getrlimit(resource, &mut limit) };
    limit.rlim_cur != libc::RLIM_INFINITY
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}
