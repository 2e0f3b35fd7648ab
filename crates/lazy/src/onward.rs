//! The program's own calls about memory, passed on to whatever was loaded after this library (a
//! sanitizer's runtime follows mappings, too), or to the kernel where nothing else has the function.

use libc::{c_int, c_long, c_uchar, c_uint, c_ulong, c_void, off64_t, pid_t, rlimit, size_t};

use crate::next::Function;
use crate::system::{self, Errno, Mapping};

type Mmap = unsafe extern "C" fn(*mut c_void, size_t, c_int, c_int, c_int, off64_t) -> *mut c_void;
type Range = unsafe extern "C" fn(*const c_void, size_t) -> c_int;
type RangeAndFlags = unsafe extern "C" fn(*const c_void, size_t, c_int) -> c_int;
type Mremap = unsafe extern "C" fn(*mut c_void, size_t, size_t, c_int, ...) -> *mut c_void;
type PkeyMprotect = unsafe extern "C" fn(*mut c_void, size_t, c_int, c_int) -> c_int;
type Mlock2 = unsafe extern "C" fn(*const c_void, size_t, c_uint) -> c_int;
type Mbind =
    unsafe extern "C" fn(*mut c_void, c_ulong, c_int, *const c_ulong, c_ulong, c_uint) -> c_long;
type Mseal = unsafe extern "C" fn(*mut c_void, size_t, c_ulong) -> c_int;
type Mincore = unsafe extern "C" fn(*mut c_void, size_t, *mut c_uchar) -> c_int;
type Shmat = unsafe extern "C" fn(c_int, *const c_void, c_int) -> *mut c_void;
type Number = unsafe extern "C" fn(c_int) -> c_int;
type Numbers = unsafe extern "C" fn(c_int, c_int) -> c_int;
type Setrlimit = unsafe extern "C" fn(c_uint, *const rlimit) -> c_int;
type Prlimit = unsafe extern "C" fn(pid_t, c_uint, *const rlimit, *mut rlimit) -> c_int;
type Prctl = unsafe extern "C" fn(c_int, ...) -> c_int;

static MMAP: Function<Mmap> = Function::new(c"mmap");
static MUNMAP: Function<Range> = Function::new(c"munmap");
static MREMAP: Function<Mremap> = Function::new(c"mremap");
static MPROTECT: Function<RangeAndFlags> = Function::new(c"mprotect");
static PKEY_MPROTECT: Function<PkeyMprotect> = Function::new(c"pkey_mprotect");
static MADVISE: Function<RangeAndFlags> = Function::new(c"madvise");
static MLOCK: Function<Range> = Function::new(c"mlock");
static MLOCK2: Function<Mlock2> = Function::new(c"mlock2");
static MBIND: Function<Mbind> = Function::new(c"mbind");
static MSEAL: Function<Mseal> = Function::new(c"mseal");
static MINCORE: Function<Mincore> = Function::new(c"mincore");
static MSYNC: Function<RangeAndFlags> = Function::new(c"msync");
static SHMAT: Function<Shmat> = Function::new(c"shmat");
static MLOCKALL: Function<Number> = Function::new(c"mlockall");
static SETRLIMIT: Function<Setrlimit> = Function::new(c"setrlimit");
static PRLIMIT: Function<Prlimit> = Function::new(c"prlimit");
static UNSHARE: Function<Number> = Function::new(c"unshare");
static SETNS: Function<Numbers> = Function::new(c"setns");
static PRCTL: Function<Prctl> = Function::new(c"prctl");

/// Looks all of them up. Until then calls go to the kernel: signal handlers make some of them, and may
/// not look anything up.
pub fn find() {
    MMAP.find();
    MUNMAP.find();
    MREMAP.find();
    MPROTECT.find();
    PKEY_MPROTECT.find();
    MADVISE.find();
    MLOCK.find();
    MLOCK2.find();
    MBIND.find();
    MSEAL.find();
    MINCORE.find();
    MSYNC.find();
    SHMAT.find();
    MLOCKALL.find();
    SETRLIMIT.find();
    PRLIMIT.find();
    UNSHARE.find();
    SETNS.find();
    PRCTL.find();
}

/// `mmap`. Gives the address.
#[inline]
pub fn map(mapping: Mapping) -> Result<usize, Errno> {
    let Some(next) = MMAP.get() else { return system::map(mapping) };
    let Mapping { address, length, protection, flags, file, offset } = mapping;
    // SAFETY: the program asked for the call.
    let place = unsafe { next(address as *mut c_void, length, protection, flags, file, offset) };
    address_or_errno(place)
}

#[inline]
pub fn unmap(address: usize, length: usize) -> Result<(), Errno> {
    let Some(next) = MUNMAP.get() else { return system::unmap(address, length) };
    // SAFETY: the program asked for the call.
    match unsafe { next(address as *const c_void, length) } {
        0 => Ok(()),
        _ => Err(system::errno()),
    }
}

/// `mremap`. Gives the new address.
pub fn remap(
    address: usize,
    length: usize,
    new_length: usize,
    flags: c_int,
    new_address: usize,
) -> Result<usize, Errno> {
    let Some(next) = MREMAP.get() else {
        return system::remap(address, length, new_length, flags, new_address);
    };
    // SAFETY: the program asked for the call.
    address_or_errno(unsafe {
        next(address as *mut c_void, length, new_length, flags, new_address as *mut c_void)
    })
}

fn address_or_errno(place: *mut c_void) -> Result<usize, Errno> {
    if place == libc::MAP_FAILED { Err(system::errno()) } else { Ok(place as usize) }
}

/// # Safety
/// As of the kernel's `mprotect`.
#[inline]
pub unsafe fn mprotect(address: *mut c_void, length: size_t, protection: c_int) -> c_int {
    // SAFETY: as the caller vouches.
    match MPROTECT.get() {
        Some(next) => unsafe { next(address, length, protection) },
        None => unsafe { libc::syscall(libc::SYS_mprotect, address, length, protection) as c_int },
    }
}

/// # Safety
/// As of the kernel's `pkey_mprotect`.
pub unsafe fn pkey_mprotect(
    address: *mut c_void,
    length: size_t,
    protection: c_int,
    key: c_int,
) -> c_int {
    let number = libc::SYS_pkey_mprotect;
    // SAFETY: as the caller vouches.
    match PKEY_MPROTECT.get() {
        Some(next) => unsafe { next(address, length, protection, key) },
        None => unsafe { libc::syscall(number, address, length, protection, key) as c_int },
    }
}

/// # Safety
/// As of the kernel's `madvise`.
#[inline]
pub unsafe fn madvise(address: *mut c_void, length: size_t, advice: c_int) -> c_int {
    // SAFETY: as the caller vouches.
    match MADVISE.get() {
        Some(next) => unsafe { next(address, length, advice) },
        None => unsafe { libc::syscall(libc::SYS_madvise, address, length, advice) as c_int },
    }
}

/// # Safety
/// As of the kernel's `mlock`.
pub unsafe fn mlock(address: *const c_void, length: size_t) -> c_int {
    // SAFETY: as the caller vouches.
    match MLOCK.get() {
        Some(next) => unsafe { next(address, length) },
        None => unsafe { libc::syscall(libc::SYS_mlock, address, length) as c_int },
    }
}

/// # Safety
/// As of the kernel's `mlock2`.
pub unsafe fn mlock2(address: *const c_void, length: size_t, flags: c_uint) -> c_int {
    // SAFETY: as the caller vouches.
    match MLOCK2.get() {
        Some(next) => unsafe { next(address, length, flags) },
        None => unsafe { libc::syscall(libc::SYS_mlock2, address, length, flags) as c_int },
    }
}

/// # Safety
/// As of the kernel's `mbind`.
pub unsafe fn mbind(
    address: *mut c_void,
    length: c_ulong,
    mode: c_int,
    nodes: *const c_ulong,
    nodes_max: c_ulong,
    flags: c_uint,
) -> c_long {
    let number = libc::SYS_mbind;
    // SAFETY: as the caller vouches.
    match MBIND.get() {
        Some(next) => unsafe { next(address, length, mode, nodes, nodes_max, flags) },
        None => unsafe { libc::syscall(number, address, length, mode, nodes, nodes_max, flags) },
    }
}

/// # Safety
/// As of the kernel's `mseal` (Linux 6.10).
pub unsafe fn mseal(address: *mut c_void, length: size_t, flags: c_ulong) -> c_int {
    // SAFETY: as the caller vouches.
    match MSEAL.get() {
        Some(next) => unsafe { next(address, length, flags) },
        None => unsafe { libc::syscall(SYS_MSEAL, address, length, flags) as c_int },
    }
}

/// The number is the same on all machines.
const SYS_MSEAL: c_long = 462;

/// # Safety
/// As of the kernel's `mincore`.
pub unsafe fn mincore(address: *mut c_void, length: size_t, pages: *mut c_uchar) -> c_int {
    // SAFETY: as the caller vouches.
    match MINCORE.get() {
        Some(next) => unsafe { next(address, length, pages) },
        None => unsafe { libc::syscall(libc::SYS_mincore, address, length, pages) as c_int },
    }
}

/// # Safety
/// As of the kernel's `msync`.
pub unsafe fn msync(address: *mut c_void, length: size_t, flags: c_int) -> c_int {
    // SAFETY: as the caller vouches.
    match MSYNC.get() {
        Some(next) => unsafe { next(address, length, flags) },
        None => unsafe { libc::syscall(libc::SYS_msync, address, length, flags) as c_int },
    }
}

/// `shmat`. Gives the address.
pub fn attach(segment: c_int, address: usize, flags: c_int) -> Result<usize, Errno> {
    let place = address as *const c_void;
    // SAFETY: the program asked for the call.
    address_or_errno(match SHMAT.get() {
        Some(next) => unsafe { next(segment, place, flags) },
        None => unsafe { libc::syscall(libc::SYS_shmat, segment, place, flags) as *mut c_void },
    })
}

/// `mlockall`.
pub fn mlockall(flags: c_int) -> c_int {
    // SAFETY: changes how this process's memory is kept, as the program asked.
    match MLOCKALL.get() {
        Some(next) => unsafe { next(flags) },
        None => unsafe { libc::syscall(libc::SYS_mlockall, flags) as c_int },
    }
}

/// # Safety
/// `limit` points to a limit.
pub unsafe fn setrlimit(resource: c_uint, limit: *const rlimit) -> c_int {
    let none = std::ptr::null_mut::<rlimit>();
    // SAFETY: as the caller vouches.
    match SETRLIMIT.get() {
        Some(next) => unsafe { next(resource, limit) },
        None => unsafe { libc::syscall(libc::SYS_prlimit64, 0, resource, limit, none) as c_int },
    }
}

/// # Safety
/// `new` and `old` point to a limit or are null.
pub unsafe fn prlimit(
    process: pid_t,
    resource: c_uint,
    new: *const rlimit,
    old: *mut rlimit,
) -> c_int {
    // SAFETY: as the caller vouches.
    match PRLIMIT.get() {
        Some(next) => unsafe { next(process, resource, new, old) },
        None => unsafe { libc::syscall(libc::SYS_prlimit64, process, resource, new, old) as c_int },
    }
}

/// # Safety
/// As of the kernel's `unshare`.
pub unsafe fn unshare(flags: c_int) -> c_int {
    // SAFETY: as the caller vouches.
    match UNSHARE.get() {
        Some(next) => unsafe { next(flags) },
        None => unsafe { libc::syscall(libc::SYS_unshare, flags) as c_int },
    }
}

/// # Safety
/// As of the kernel's `setns`.
pub unsafe fn setns(file: c_int, kinds: c_int) -> c_int {
    // SAFETY: as the caller vouches.
    match SETNS.get() {
        Some(next) => unsafe { next(file, kinds) },
        None => unsafe { libc::syscall(libc::SYS_setns, file, kinds) as c_int },
    }
}

/// # Safety
/// As of the kernel's `prctl`.
pub unsafe fn prctl(option: c_int, arguments: [c_ulong; 4]) -> c_int {
    let [second, third, fourth, fifth] = arguments;
    // SAFETY: as the caller vouches.
    match PRCTL.get() {
        Some(next) => unsafe { next(option, second, third, fourth, fifth) },
        None => unsafe {
            libc::syscall(libc::SYS_prctl, option, second, third, fourth, fifth) as c_int
        },
    }
}
