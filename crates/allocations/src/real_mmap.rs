//! The kernel's mmap behind the function of the same name that this library puts in front of it.

use core::ffi::{c_int, c_void};

/// The system call itself, with glibc's error handling.
///
/// # Safety
/// The caller keeps what `mmap(2)` requires: a fixed mapping replaces only memory of the caller.
pub unsafe fn real_mmap(
    address: *mut c_void,
    bytes: usize,
    access: c_int,
    flags: c_int,
    file: c_int,
    offset: i64,
) -> *mut c_void {
    // SAFETY: as required of the caller.
    let result =
        unsafe { libc::syscall(libc::SYS_mmap, address, bytes, access, flags, file, offset) };
    result as *mut c_void
}
