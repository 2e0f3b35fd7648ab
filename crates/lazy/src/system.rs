//! System calls, made without libc's functions of the same name, which this library replaces.
//!
//! Addresses are numbers here. The caller is responsible for the effect of a call on memory: pages of
//! the arena belong to the thread that took them out of it under the arena's lock, everything else to the
//! program, which made the call. Nothing here allocates.

use libc::{c_int, c_long, timespec};
use types::Nanos;

use crate::confined::is_confined;

/// The protection of memory that the program may use.
pub const OPEN: c_int = libc::PROT_READ | libc::PROT_WRITE;

/// The errno of a refused call.
pub type Errno = c_int;

/// Arguments of a mapping.
#[derive(Clone, Copy, Debug)]
pub struct Mapping {
    pub address: usize,
    pub length: usize,
    pub protection: c_int,
    pub flags: c_int,
    pub file: c_int,
    pub offset: libc::off64_t,
}

/// `mmap`. Returns the address.
pub fn map(mapping: Mapping) -> Result<usize, Errno> {
    let Mapping { address, length, protection, flags, file, offset } = mapping;
    // SAFETY: see the head of this file.
    result(unsafe {
        libc::syscall(libc::SYS_mmap, address, length, protection, flags, file, offset)
    })
}

/// `mmap` of private anonymous memory without swap reservation.
pub fn map_anonymous(
    address: usize,
    length: usize,
    protection: c_int,
    flags: c_int,
) -> Result<usize, Errno> {
    let flags = flags | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    map(Mapping { address, length, protection, flags, file: -1, offset: 0 })
}

pub fn unmap(address: usize, length: usize) -> Result<(), Errno> {
    // SAFETY: see the head of this file.
    result(unsafe { libc::syscall(libc::SYS_munmap, address, length) }).map(drop)
}

/// `mremap`. Returns the new address.
pub fn remap(
    address: usize,
    length: usize,
    new_length: usize,
    flags: c_int,
    new_address: usize,
) -> Result<usize, Errno> {
    // SAFETY: see the head of this file.
    result(unsafe {
        libc::syscall(libc::SYS_mremap, address, length, new_length, flags, new_address)
    })
}

pub fn protect(address: usize, length: usize, protection: c_int) -> Result<(), Errno> {
    // SAFETY: see the head of this file.
    result(unsafe { libc::syscall(libc::SYS_mprotect, address, length, protection) }).map(drop)
}

pub fn advise(address: usize, length: usize, advice: c_int) -> Result<(), Errno> {
    // SAFETY: see the head of this file.
    result(unsafe { libc::syscall(libc::SYS_madvise, address, length, advice) }).map(drop)
}

/// `mincore`: bit 0 of each byte is set if the page is in memory.
pub fn look(address: usize, pages: &mut [u8]) -> Result<(), Errno> {
    let length = pages.len() * types::PAGE_BYTES as usize;
    // SAFETY: the kernel writes a byte a page.
    result(unsafe { libc::syscall(libc::SYS_mincore, address, length, pages.as_mut_ptr()) })
        .map(drop)
}

/// Reads this process's own memory through the kernel, which refuses if none is mapped.
pub fn peek(address: usize, room: &mut [u8]) -> Result<(), Errno> {
    let local = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: room.len() };
    let call = libc::SYS_process_vm_readv;
    // SAFETY: only returns a number; the kernel writes at most the slice's length.
    result(unsafe {
        libc::syscall(call, libc::getpid(), &raw const local, 1, &raw const remote, 1, 0)
    })
    .and_then(|count| if count == room.len() { Ok(()) } else { Err(libc::EFAULT) })
}

/// `open` of a C string. A cancelled thread ends in libc's function of that name, which
/// must not happen inside `malloc`; the same holds for `read` and `close` below.
pub fn open(path: *const libc::c_char, flags: c_int) -> Result<c_int, Errno> {
    // SAFETY: the caller's path is a C string.
    let answer = unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path, flags) };
    result(answer).map(|file| file as c_int)
}

/// `read`. Returns the number of bytes read.
pub fn read(file: c_int, room: &mut [u8]) -> Result<usize, Errno> {
    // SAFETY: the kernel writes at most the slice's length.
    result(unsafe { libc::syscall(libc::SYS_read, file, room.as_mut_ptr(), room.len()) })
}

pub fn close(file: c_int) {
    // SAFETY: the caller uses the descriptor no more.
    unsafe { libc::syscall(libc::SYS_close, file) };
}

/// Fills memory with zeros.
pub fn zero(address: usize, length: usize) {
    // SAFETY: see the head of this file.
    unsafe { std::ptr::write_bytes(address as *mut u8, 0, length) }
}

/// Copies between spans that do not overlap.
pub fn copy(from: usize, to: usize, length: usize) {
    // SAFETY: see the head of this file.
    unsafe { std::ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, length) }
}

/// The clock of retention; coarse, since every `free` reads it.
pub fn now() -> Nanos {
    let mut time = timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes the time to the given place, or nothing.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &mut time) };
    Nanos(time.tv_sec * 1_000_000_000 + time.tv_nsec)
}

/// Blocks signals in this thread while it lives.
pub struct Signals(Option<u64>);

impl Signals {
    /// Blocks all signals; does nothing once the program has given up privileges, whose filter of system calls
    /// may not allow this one.
    pub fn block() -> Signals {
        if is_confined() {
            return Signals(None);
        }
        let (all, mut before) = (u64::MAX, 0_u64);
        Signals((set_mask(&raw const all, &raw mut before) == 0).then_some(before))
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        if let Some(before) = self.0 {
            set_mask(&raw const before, std::ptr::null_mut());
        }
    }
}

fn set_mask(mask: *const u64, before: *mut u64) -> c_long {
    let (call, how) = (libc::SYS_rt_sigprocmask, libc::SIG_SETMASK);
    // SAFETY: the kernel's sets of signals have 64 bits; the second place is null or takes one.
    unsafe { libc::syscall(call, how, mask, before, size_of::<u64>()) }
}

/// Preserves `errno` while it lives.
pub struct KeepErrno(c_int);

impl KeepErrno {
    pub fn new() -> KeepErrno {
        KeepErrno(errno())
    }
}

impl Drop for KeepErrno {
    fn drop(&mut self) {
        set_errno(self.0);
    }
}

pub fn errno() -> Errno {
    // SAFETY: libc keeps an errno for every thread.
    unsafe { *libc::__errno_location() }
}

pub fn set_errno(errno: Errno) {
    // SAFETY: libc keeps an errno for every thread.
    unsafe { *libc::__errno_location() = errno }
}

/// Writes `text` to standard error; a short write is ignored.
pub fn say(text: &[u8]) {
    let _errno = KeepErrno::new();
    // SAFETY: the kernel reads what the slice holds.
    unsafe { libc::syscall(libc::SYS_write, 2, text.as_ptr(), text.len()) };
}

fn result(answer: c_long) -> Result<usize, Errno> {
    if answer == -1 {
        return Err(errno());
    }
    Ok(answer as usize)
}
