//! Calls that change how memory is mapped. The change stays with the addresses, so the pages
//! are marked and mapped again when they are freed.

use libc::{ENOMEM, c_int, c_long, c_uchar, c_uint, c_ulong, c_void, size_t};

use crate::chunks::{self, PAGE};
use crate::front_mmap::claim;
use crate::retire::retire;
use crate::retired::is_retired;
use crate::stand_aside::{may_serve, served_from};
use crate::system::{self, Errno, OPEN};
use crate::tables::page_bits;
use crate::{fork, holes, onward};

/// Advice about the content of pages, not their mapping; and advice for huge pages, which may
/// stay with the addresses: numpy gives it for every large array, and the next owner sees no change.
const PASSING_ADVICE: [c_int; 9] = [
    libc::MADV_NORMAL,
    libc::MADV_WILLNEED,
    libc::MADV_DONTNEED,
    libc::MADV_FREE,
    libc::MADV_COLD,
    libc::MADV_PAGEOUT,
    libc::MADV_POPULATE_READ,
    libc::MADV_POPULATE_WRITE,
    libc::MADV_HUGEPAGE,
];

/// # Safety
/// As for the kernel's `mprotect`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn mprotect(address: *mut c_void, length: size_t, protection: c_int) -> c_int {
    if protection != OPEN {
        taint(address, length);
    }
    // SAFETY: upheld by the caller.
    before_hole(address, length, |length| unsafe { onward::mprotect(address, length, protection) })
}

/// # Safety
/// As for the kernel's `pkey_mprotect`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn pkey_mprotect(
    address: *mut c_void,
    length: size_t,
    protection: c_int,
    key: c_int,
) -> c_int {
    taint(address, length);
    // SAFETY: upheld by the caller.
    let call = |length| unsafe { onward::pkey_mprotect(address, length, protection, key) };
    before_hole(address, length, call)
}

/// # Safety
/// As for the kernel's `madvise`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn madvise(address: *mut c_void, length: size_t, advice: c_int) -> c_int {
    if !PASSING_ADVICE.contains(&advice) {
        taint(address, length);
    }
    if advice == libc::MADV_DONTFORK {
        fork::leaves_holes();
    }
    // SAFETY: upheld by the caller.
    before_hole(address, length, |length| unsafe { onward::madvise(address, length, advice) })
}

/// # Safety
/// As for the kernel's `mlock`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn mlock(address: *const c_void, length: size_t) -> c_int {
    taint(address, length);
    // SAFETY: upheld by the caller.
    before_hole(address, length, |length| unsafe { onward::mlock(address, length) })
}

/// # Safety
/// As for the kernel's `mlock2`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn mlock2(address: *const c_void, length: size_t, flags: c_uint) -> c_int {
    taint(address, length);
    // SAFETY: upheld by the caller.
    before_hole(address, length, |length| unsafe { onward::mlock2(address, length, flags) })
}

/// # Safety
/// As for the kernel's `mincore`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn mincore(address: *mut c_void, length: size_t, pages: *mut c_uchar) -> c_int {
    // SAFETY: upheld by the caller.
    before_hole(address, length, |length| unsafe { onward::mincore(address, length, pages) })
}

/// # Safety
/// As for the kernel's `msync`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn msync(address: *mut c_void, length: size_t, flags: c_int) -> c_int {
    // SAFETY: upheld by the caller.
    before_hole(address, length, |length| unsafe { onward::msync(address, length, flags) })
}

/// # Safety
/// As for libc's `shmat`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn shmat(segment: c_int, address: *const c_void, flags: c_int) -> *mut c_void {
    let call = || onward::attach(segment, address as usize, flags);
    let answer = match address.is_null() || chunks::count() == 0 {
        true => call(),
        false => attach_at(segment, address as usize, flags, call),
    };
    answer.map_or(libc::MAP_FAILED, |address| address as *mut c_void)
}

fn attach_at(
    segment: c_int,
    address: usize,
    flags: c_int,
    call: impl FnOnce() -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    // SAFETY: the structure takes what the call writes.
    let (status, known) = unsafe {
        let mut known: libc::shmid_ds = std::mem::zeroed();
        (libc::shmctl(segment, libc::IPC_STAT, &mut known), known)
    };
    let place = if flags & libc::SHM_RND == 0 { address } else { address / PAGE * PAGE };
    match status {
        0 if flags & libc::SHM_REMAP != 0 => {
            claim(place, known.shm_segsz);
            call()
        }
        0 => holes::map_by(place, known.shm_segsz, call),
        _ => call(),
    }
}

/// # Safety
/// As for the kernel's `mbind`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn mbind(
    address: *mut c_void,
    length: c_ulong,
    mode: c_int,
    nodes: *const c_ulong,
    nodes_max: c_ulong,
    flags: c_uint,
) -> c_long {
    taint(address, length as usize);
    // SAFETY: upheld by the caller.
    unsafe { libc::syscall(libc::SYS_mbind, address, length, mode, nodes, nodes_max, flags) }
}

/// Sealed memory cannot be mapped again, so it stays unowned when it is freed.
///
/// # Safety
/// As for the kernel's `mseal` (Linux 6.10).
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn mseal(address: *mut c_void, length: size_t, flags: c_ulong) -> c_int {
    taint(address, length);
    // SAFETY: upheld by the caller.
    unsafe { libc::syscall(SYS_MSEAL, address, length, flags) as c_int }
}

/// A pipe keeps the pages themselves until they are read, even if the program unmaps or frees them. So
/// they are not handed out again.
///
/// # Safety
/// As for the kernel's `vmsplice`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn vmsplice(
    pipe: c_int,
    vectors: *const libc::iovec,
    count: size_t,
    flags: c_uint,
) -> libc::ssize_t {
    // SAFETY: upheld by the caller.
    let answer = unsafe { onward::vmsplice(pipe, vectors, count, flags) };
    if answer > 0 {
        // SAFETY: the kernel has read all of them.
        for vector in unsafe { std::slice::from_raw_parts(vectors, count) } {
            let first = vector.iov_base as usize / PAGE * PAGE;
            let end = (vector.iov_base as usize).saturating_add(vector.iov_len);
            taint(first as *const c_void, end - first);
        }
    }
    answer
}

/// The number of `mseal`, equal on all machines.
const SYS_MSEAL: c_long = 462;

/// `mlockall`: locking everything would fill the arena's free address space with memory.
#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn mlockall(flags: c_int) -> c_int {
    retire_if_served();
    onward::mlockall(flags)
}

/// # Safety
/// `limit` points to a limit.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn setrlimit(
    resource: libc::__rlimit_resource_t,
    limit: *const libc::rlimit,
) -> c_int {
    // SAFETY: upheld by the caller.
    unsafe {
        heed(resource, limit.as_ref());
        onward::setrlimit(resource, limit)
    }
}

/// # Safety
/// As for `setrlimit`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn setrlimit64(
    resource: libc::__rlimit_resource_t,
    limit: *const libc::rlimit,
) -> c_int {
    // SAFETY: upheld by the caller.
    unsafe { setrlimit(resource, limit) }
}

/// # Safety
/// `new` and `old` point to a limit or are null.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn prlimit(
    process: libc::pid_t,
    resource: libc::__rlimit_resource_t,
    new: *const libc::rlimit,
    old: *mut libc::rlimit,
) -> c_int {
    // SAFETY: only returns a number.
    if process == 0 || process == unsafe { libc::getpid() } {
        // SAFETY: upheld by the caller.
        heed(resource, unsafe { new.as_ref() });
    }
    // SAFETY: upheld by the caller.
    unsafe { onward::prlimit(process, resource, new, old) }
}

/// Reacts to a limit that the program sets on its own address space.
fn heed(resource: libc::__rlimit_resource_t, limit: Option<&libc::rlimit>) {
    let is_finite = limit.is_some_and(|limit| limit.rlim_cur != libc::RLIM_INFINITY);
    if is_finite && [libc::RLIMIT_AS, libc::RLIMIT_DATA].contains(&resource) {
        retire_if_served();
    }
}

pub fn retire_if_served() {
    if may_serve() {
        retire();
    }
}

/// # Safety
/// As for `prlimit`.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn prlimit64(
    process: libc::pid_t,
    resource: libc::__rlimit_resource_t,
    new: *const libc::rlimit,
    old: *mut libc::rlimit,
) -> c_int {
    // SAFETY: upheld by the caller.
    unsafe { prlimit(process, resource, new, old) }
}

/// Makes a call on a range up to the first page that the program has unmapped; beyond it the call fails,
/// as in the kernel. `call` takes the length.
fn before_hole<T>(address: *const T, length: usize, call: impl Fn(usize) -> c_int) -> c_int {
    if served_from() == usize::MAX || chunks::count() == 0 {
        return call(length);
    }
    let Some(hole) = holes::first_unmapped(address as usize, length) else { return call(length) };
    let before = hole - address as usize;
    let status = if before > 0 { call(before) } else { call(0) };
    if status == 0 {
        system::set_errno(ENOMEM);
    }
    -1
}

fn taint<T>(address: *const T, length: usize) {
    if served_from() == usize::MAX || is_retired() {
        return;
    }
    let whole = length.checked_next_multiple_of(PAGE).unwrap_or(0);
    for (first, pages) in chunks::overlaps(address as usize, whole) {
        page_bits().taint(first, pages);
    }
}
