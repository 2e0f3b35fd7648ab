//! Start-up, after the program has been loaded and before its own code runs.

use crate::{fork, front_process, helper, knobs, loaded, next, onward, stand_aside};

/// Runs after the constructors of libraries loaded before this one; requests until then go to libc.
#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array")]
static CONSTRUCTOR: extern "C" fn() = construct;

/// Amounts by which glibc trims and grows its heap. Both otherwise
/// follow its largest free block, which it no longer sees: it would trim the heap at
/// every `free` and grow it again.
const HEAP_TRIM: libc::c_int = 4 << 20;
const HEAP_PAD: libc::c_int = 512 << 10;

#[cfg_attr(test, allow(dead_code, reason = "nothing is served in unit tests"))]
extern "C" fn construct() {
    next::find_family();
    onward::find();
    loaded::find();
    if stand_aside::is_switched_off() {
        return stand_aside::obey_switch();
    }
    // SAFETY: this is the constructor.
    unsafe { knobs::load() };
    if stand_aside::decide() {
        helper::find();
        fork::watch();
        front_process::watch_main_thread();
        set_heap();
    }
}

fn set_heap() {
    let is_set = knobs::variable(b"MALLOC_TRIM_THRESHOLD_").is_some();
    if is_set || knobs::variable(b"GLIBC_TUNABLES").is_some() {
        return;
    }
    // SAFETY: sets numbers of glibc's.
    unsafe {
        libc::mallopt(libc::M_TRIM_THRESHOLD, HEAP_TRIM);
        libc::mallopt(libc::M_TOP_PAD, HEAP_PAD);
    }
}
