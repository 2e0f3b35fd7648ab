//! The malloc family. glibc also exports its functions under other names, so that no symbol lookup is
//! necessary while the program starts.

use core::ffi::{c_int, c_void};
use core::ptr::null_mut;

use crate::log::{self, flag, kind, unseen};
use crate::sizes::{LARGE_BYTES, PAGE_BYTES};
use crate::touched;

unsafe extern "C" {
    fn __libc_malloc(bytes: usize) -> *mut c_void;
    fn __libc_calloc(count: usize, bytes: usize) -> *mut c_void;
    fn __libc_realloc(block: *mut c_void, bytes: usize) -> *mut c_void;
    fn __libc_memalign(alignment: usize, bytes: usize) -> *mut c_void;
    fn __libc_free(block: *mut c_void);
}

/// Largest padding by glibc: a request that is smaller by this never reaches `LARGE_BYTES`.
const PADDING_BYTES: usize = 64;

/// Usable bytes of a large block; `None` for a small block.
fn large(block: *mut c_void) -> Option<usize> {
    // SAFETY: null, or a block of glibc's malloc, as `free` requires of its caller.
    let bytes = unsafe { libc::malloc_usable_size(block) };
    (bytes >= LARGE_BYTES).then_some(bytes)
}

/// Records a block that malloc returned.
fn handed_out(block: *mut c_void, bytes: usize, flags: u8) {
    if bytes < LARGE_BYTES - PADDING_BYTES || large(block).is_none() {
        if !block.is_null() {
            log::small(bytes);
        }
        return;
    }
    let place = if is_mapped(block) { 0 } else { flag::IN_HEAP };
    unseen(|| log::event(kind::ALLOCATE, block as usize, bytes, 0, flags | place));
}

/// Whether glibc mapped the block separately. The word before the block has this bit: IS_MMAPPED of
/// glibc's malloc/malloc.c, a stable part of its layout.
fn is_mapped(block: *mut c_void) -> bool {
    const IS_MMAPPED: usize = 2;
    // SAFETY: a block that glibc's malloc has just returned; its size is in the word before it.
    unsafe { *block.cast::<usize>().sub(1) & IS_MMAPPED != 0 }
}

/// Records a block that is about to be freed.
fn taken_back(block: *mut c_void, flags: u8) -> bool {
    let Some(bytes) = large(block) else { return false };
    unseen(|| touched::record(kind::FREE, block as usize, bytes, flags));
    true
}

#[unsafe(no_mangle)]
unsafe extern "C" fn malloc(bytes: usize) -> *mut c_void {
    log::begin();
    // SAFETY: the caller's request, unchanged.
    let block = unsafe { __libc_malloc(bytes) };
    handed_out(block, bytes, 0);
    block
}

#[unsafe(no_mangle)]
unsafe extern "C" fn calloc(count: usize, bytes: usize) -> *mut c_void {
    log::begin();
    // SAFETY: the caller's request, unchanged.
    let block = unsafe { __libc_calloc(count, bytes) };
    handed_out(block, count.saturating_mul(bytes), flag::ZEROED);
    block
}

/// A resize is recorded as a free and an allocation with `RESIZED`, which moves its pages.
#[unsafe(no_mangle)]
unsafe extern "C" fn realloc(block: *mut c_void, bytes: usize) -> *mut c_void {
    log::begin();
    let bytes_before = large(block);
    let was_large = taken_back(block, if bytes > 0 { flag::RESIZED } else { 0 });
    // SAFETY: the caller's request, unchanged.
    let resized = unsafe { __libc_realloc(block, bytes) };
    let flags = if was_large { flag::RESIZED } else { 0 };
    match bytes_before {
        // The resize failed, so the block still exists.
        Some(before) if resized.is_null() && bytes > 0 => handed_out(block, before, flags),
        _ => handed_out(resized, bytes, flags),
    }
    resized
}

#[unsafe(no_mangle)]
unsafe extern "C" fn reallocarray(block: *mut c_void, count: usize, bytes: usize) -> *mut c_void {
    match count.checked_mul(bytes) {
        // SAFETY: the caller's request, unchanged.
        Some(all) => unsafe { realloc(block, all) },
        None => {
            // SAFETY: the `errno` of this thread.
            unsafe { *libc::__errno_location() = libc::ENOMEM };
            null_mut()
        }
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn free(block: *mut c_void) {
    taken_back(block, 0);
    // SAFETY: the caller's block, unchanged.
    unsafe { __libc_free(block) };
}

#[unsafe(no_mangle)]
unsafe extern "C" fn memalign(alignment: usize, bytes: usize) -> *mut c_void {
    log::begin();
    // SAFETY: the caller's request, unchanged.
    let block = unsafe { __libc_memalign(alignment, bytes) };
    handed_out(block, bytes, 0);
    block
}

#[unsafe(no_mangle)]
unsafe extern "C" fn aligned_alloc(alignment: usize, bytes: usize) -> *mut c_void {
    // SAFETY: glibc's aligned_alloc accepts the same arguments as memalign.
    unsafe { memalign(alignment, bytes) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn valloc(bytes: usize) -> *mut c_void {
    // SAFETY: the size of a page is a valid alignment.
    unsafe { memalign(PAGE_BYTES, bytes) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn pvalloc(bytes: usize) -> *mut c_void {
    // SAFETY: as valloc; a request too large for rounding is refused by memalign.
    unsafe { memalign(PAGE_BYTES, bytes.checked_next_multiple_of(PAGE_BYTES).unwrap_or(bytes)) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn posix_memalign(
    place: *mut *mut c_void,
    alignment: usize,
    bytes: usize,
) -> c_int {
    if !alignment.is_power_of_two() || !alignment.is_multiple_of(size_of::<*mut c_void>()) {
        return libc::EINVAL;
    }
    // SAFETY: a valid alignment. posix_memalign must not change errno.
    let block = unseen(|| unsafe { memalign(alignment, bytes) });
    if block.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: the caller's pointer for the result.
    unsafe { *place = block };
    0
}
