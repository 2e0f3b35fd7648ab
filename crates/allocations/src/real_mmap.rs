//! The kernel's mmap behind the function of the same name that this library puts in front of it.

use core::ffi::{c_int, c_void};

/// The system call itself, with glibc's treatment of errors.
///
/// # Safety
/// As `mmap`.
pub unsafe fn real_mmap(
    address: *mut c_void,
    bytes: usize,
    access: c_int,
    flags: c_int,
    file: c_int,
    offset: i64,
) -> *mut c_void {
    // SAFETY: the caller's promise.
    let result =
        unsafe { libc::syscall(libc::SYS_mmap, address, bytes, access, flags, file, offset) };
    result as *mut c_void
}
