//! Anonymous private mappings of the program itself. glibc's own mappings do not call these functions.

use core::ffi::{c_int, c_long, c_void};

use crate::log::{self, flag, kind, unseen};
use crate::real_mmap::real_mmap;
use crate::{ending, touched};

/// Mappings with any of these flags are no plain memory, have a fixed address, or are address space that
/// another allocator divides (NORESERVE: WebKit maps 64 GiB at a time).
const OTHER: c_int = libc::MAP_FIXED
    | libc::MAP_FIXED_NOREPLACE
    | libc::MAP_STACK
    | libc::MAP_GROWSDOWN
    | libc::MAP_HUGETLB
    | libc::MAP_LOCKED
    | libc::MAP_NORESERVE
    | libc::MAP_SHARED;

#[unsafe(no_mangle)]
unsafe extern "C" fn mmap(
    address: *mut c_void,
    bytes: usize,
    access: c_int,
    flags: c_int,
    file: c_int,
    offset: i64,
) -> *mut c_void {
    let is_replaced = flags & libc::MAP_FIXED != 0;
    if is_replaced {
        unseen(|| touched::record(kind::FREE, address as usize, bytes, flag::MAPPED));
    }
    // SAFETY: the caller's request, unchanged.
    let result = unsafe { real_mmap(address, bytes, access, flags, file, offset) };
    let is_plain = flags & libc::MAP_ANONYMOUS != 0
        && flags & OTHER == 0
        && access == libc::PROT_READ | libc::PROT_WRITE;
    if result != libc::MAP_FAILED && is_plain {
        let flags = flag::MAPPED | flag::ZEROED;
        unseen(|| log::event(kind::ALLOCATE, result as usize, bytes, 0, flags));
    }
    result
}

#[unsafe(no_mangle)]
unsafe extern "C" fn mmap64(
    address: *mut c_void,
    bytes: usize,
    access: c_int,
    flags: c_int,
    file: c_int,
    offset: i64,
) -> *mut c_void {
    // SAFETY: the same function, because file offsets have 64 bits.
    unsafe { mmap(address, bytes, access, flags, file, offset) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn munmap(address: *mut c_void, bytes: usize) -> c_int {
    unseen(|| touched::record(kind::FREE, address as usize, bytes, flag::MAPPED));
    // SAFETY: the caller's request, unchanged.
    unsafe { libc::syscall(libc::SYS_munmap, address, bytes) as c_int }
}

/// The last argument counts only with MREMAP_FIXED and is passed on unchanged.
#[unsafe(no_mangle)]
unsafe extern "C" fn mremap(
    address: *mut c_void,
    bytes_before: usize,
    bytes: usize,
    flags: c_int,
    target: *mut c_void,
) -> *mut c_void {
    let resized = flag::MAPPED | flag::RESIZED;
    unseen(|| touched::record(kind::FREE, address as usize, bytes_before, resized));
    // SAFETY: the caller's request, unchanged.
    let result =
        unsafe { libc::syscall(libc::SYS_mremap, address, bytes_before, bytes, flags, target) };
    let (place, length) = match result as *mut c_void {
        // The resize failed, so the mapping still exists.
        libc::MAP_FAILED => (address as usize, bytes_before),
        moved => (moved as usize, bytes),
    };
    unseen(|| log::event(kind::ALLOCATE, place, length, 0, resized));
    result as *mut c_void
}

#[unsafe(no_mangle)]
unsafe extern "C" fn madvise(address: *mut c_void, bytes: usize, advice: c_int) -> c_int {
    if matches!(advice, libc::MADV_DONTNEED | libc::MADV_FREE) {
        let flags = if advice == libc::MADV_FREE { flag::LAZY } else { 0 };
        unseen(|| touched::record(kind::DISCARD, address as usize, bytes, flags));
    }
    // SAFETY: the caller's request, unchanged.
    unsafe { libc::syscall(libc::SYS_madvise, address, bytes, advice) as c_int }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn _exit(status: c_int) -> ! {
    leave(status)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn _Exit(status: c_int) -> ! {
    leave(status)
}

fn leave(status: c_int) -> ! {
    ending::record();
    loop {
        // SAFETY: ends the process.
        unsafe { libc::syscall(libc::SYS_exit_group, c_long::from(status)) };
    }
}
