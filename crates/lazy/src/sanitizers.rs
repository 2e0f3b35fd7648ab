//! Programs built with a sanitizer of gcc's or clang's. Their runtime must be the first library of
//! the program (AddressSanitizer ends a program if it is not) and see every call of `malloc` and `mmap`.
//! A program that was started under this library gets both: calls pass through, and the list of
//! libraries omits this one.

use libc::{c_int, c_void, dl_phdr_info, size_t};

use crate::loaded::{Callback, iterate};
use crate::next::own_object;
use crate::objects::Object;

// The loader fills these in before any code of the program runs: 0 if the symbol does not exist.
#[cfg(not(test))]
std::arch::global_asm!(
    ".pushsection .data.rel.ro,\"aw\"",
    ".balign 8",
    ".weak __asan_init",
    ".weak __tsan_init",
    ".weak __msan_init",
    ".weak __hwasan_init",
    ".weak __lsan_init",
    ".globl pagewise_lazy_sanitizers",
    ".hidden pagewise_lazy_sanitizers",
    "pagewise_lazy_sanitizers:",
    ".quad __asan_init",
    ".quad __tsan_init",
    ".quad __msan_init",
    ".quad __hwasan_init",
    ".quad __lsan_init",
    ".popsection",
);

#[cfg(not(test))]
unsafe extern "C" {
    #[link_name = "pagewise_lazy_sanitizers"]
    static RUNTIMES: [usize; 5];
}
#[cfg(test)]
static RUNTIMES: [usize; 5] = [0; 5];

/// Whether the runtime of a sanitizer is loaded.
#[cfg_attr(test, allow(unused_unsafe, reason = "a plain static there"))]
pub fn are_loaded() -> bool {
    // SAFETY: written by the loader before this library's first instruction.
    unsafe { (&raw const RUNTIMES).read_volatile() }.iter().any(|&address| address != 0)
}

/// Arguments of a list of libraries without this one.
struct Others {
    callback: Callback,
    data: *mut c_void,
    own: Option<Object>,
}

/// # Safety
/// As for libc's `dl_iterate_phdr`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn dl_iterate_phdr(callback: Callback, data: *mut c_void) -> c_int {
    if !are_loaded() {
        // SAFETY: upheld by the caller.
        return unsafe { iterate(callback, data) };
    }
    let mut others = Others { callback, data, own: own_object() };
    // SAFETY: `unless_own` takes what `others` is.
    unsafe { iterate(unless_own, (&raw mut others).cast()) }
}

unsafe extern "C" fn unless_own(
    library: *mut dl_phdr_info,
    size: size_t,
    others: *mut c_void,
) -> c_int {
    // SAFETY: libc passes a library, and `dl_iterate_phdr` above its own structure.
    let (address, others) = unsafe { ((*library).dlpi_addr, &*others.cast::<Others>()) };
    if others.own.is_some_and(|own| own.has(address as usize)) {
        return 0;
    }
    // SAFETY: the program's own function with the program's own data.
    unsafe { (others.callback)(library, size, others.data) }
}
