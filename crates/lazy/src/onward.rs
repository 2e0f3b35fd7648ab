//! The program's own calls about memory, passed on to the libraries loaded after this one (a
//! sanitizer's runtime follows mappings, too), or to the kernel if none of them has the function.

use libc::{c_int, c_uchar, c_uint, c_ulong, c_void, off64_t, pid_t, rlimit, size_t};

use crate::function::Function;
use crate::system::{self, Errno, Mapping};

type Mmap = unsafe extern "C" fn(*mut c_void, size_t, c_int, c_int, c_int, off64_t) -> *mut c_void;
type Range = unsafe extern "C" fn(*const c_void, size_t) -> c_int;
type RangeAndFlags = unsafe extern "C" fn(*const c_void, size_t, c_int) -> c_int;
type Mremap = unsafe extern "C" fn(*mut c_void, size_t, size_t, c_int, ...) -> *mut c_void;
type PkeyMprotect = unsafe extern "C" fn(*mut c_void, size_t, c_int, c_int) -> c_int;
type Mlock2 = unsafe extern "C" fn(*const c_void, size_t, c_uint) -> c_int;
type Mincore = unsafe extern "C" fn(*mut c_void, size_t, *mut c_uchar) -> c_int;
type Shmat = unsafe extern "C" fn(c_int, *const c_void, c_int) -> *mut c_void;
type Number = unsafe extern "C" fn(c_int) -> c_int;
type Numbers = unsafe extern "C" fn(c_int, c_int) -> c_int;
type Setrlimit = unsafe extern "C" fn(c_uint, *const rlimit) -> c_int;
type Prlimit = unsafe extern "C" fn(pid_t, c_uint, *const rlimit, *mut rlimit) -> c_int;
type Vmsplice = unsafe extern "C" fn(c_int, *const libc::iovec, size_t, c_uint) -> libc::ssize_t;
type Prctl = unsafe extern "C" fn(c_int, ...) -> c_int;

static MMAP: Function<Mmap> = Function::new(c"mmap");
static MUNMAP: Function<Range> = Function::new(c"munmap");
static MREMAP: Function<Mremap> = Function::new(c"mremap");
static MPROTECT: Function<RangeAndFlags> = Function::new(c"mprotect");
static PKEY_MPROTECT: Function<PkeyMprotect> = Function::new(c"pkey_mprotect");
static MADVISE: Function<RangeAndFlags> = Function::new(c"madvise");
static MLOCK: Function<Range> = Function::new(c"mlock");
static MLOCK2: Function<Mlock2> = Function::new(c"mlock2");
static MINCORE: Function<Mincore> = Function::new(c"mincore");
static MSYNC: Function<RangeAndFlags> = Function::new(c"msync");
static SHMAT: Function<Shmat> = Function::new(c"shmat");
static MLOCKALL: Function<Number> = Function::new(c"mlockall");
static SETRLIMIT: Function<Setrlimit> = Function::new(c"setrlimit");
static PRLIMIT: Function<Prlimit> = Function::new(c"prlimit");
static VMSPLICE: Function<Vmsplice> = Function::new(c"vmsplice");
static UNSHARE: Function<Number> = Function::new(c"unshare");
static SETNS: Function<Numbers> = Function::new(c"setns");
static PRCTL: Function<Prctl> = Function::new(c"prctl");

/// Looks up all of them; libc has each, which matters since a failed look-up allocates. Until then calls
/// go to the kernel: signal handlers make some of them, and must not look anything up.
pub fn find() {
    MMAP.find();
    MUNMAP.find();
    MREMAP.find();
    MPROTECT.find();
    PKEY_MPROTECT.find();
    MADVISE.find();
    MLOCK.find();
    MLOCK2.find();
    MINCORE.find();
    MSYNC.find();
    SHMAT.find();
    MLOCKALL.find();
    SETRLIMIT.find();
    PRLIMIT.find();
    VMSPLICE.find();
    UNSHARE.find();
    SETNS.find();
    PRCTL.find();
}

/// `mmap`. Returns the address.
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

/// `mremap`. Returns the new address.
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
/// As for the kernel's `mprotect`.
#[inline]
pub unsafe fn mprotect(address: *mut c_void, length: size_t, protection: c_int) -> c_int {
    match MPROTECT.get() {
        // SAFETY: upheld by the caller.
        Some(next) => unsafe { next(address, length, protection) },
        // SAFETY: upheld by the caller.
        None => unsafe { libc::syscall(libc::SYS_mprotect, address, length, protection) as c_int },
    }
}

/// # Safety
/// As for the kernel's `pkey_mprotect`.
pub unsafe fn pkey_mprotect(
    address: *mut c_void,
    length: size_t,
    protection: c_int,
    key: c_int,
) -> c_int {
    let number = libc::SYS_pkey_mprotect;
    match PKEY_MPROTECT.get() {
        // SAFETY: upheld by the caller.
        Some(next) => unsafe { next(address, length, protection, key) },
        // SAFETY: upheld by the caller.
        None => unsafe { libc::syscall(number, address, length, protection, key) as c_int },
    }
}

/// # Safety
/// As for the kernel's `madvise`.
#[inline]
pub unsafe fn madvise(address: *mut c_void, length: size_t, advice: c_int) -> c_int {
    match MADVISE.get() {
        // SAFETY: upheld by the caller.
        Some(next) => unsafe { next(address, length, advice) },
        // SAFETY: upheld by the caller.
        None => unsafe { libc::syscall(libc::SYS_madvise, address, length, advice) as c_int },
    }
}

/// # Safety
/// As for the kernel's `mlock`.
pub unsafe fn mlock(address: *const c_void, length: size_t) -> c_int {
    match MLOCK.get() {
        // SAFETY: upheld by the caller.
        Some(next) => unsafe { next(address, length) },
        // SAFETY: upheld by the caller.
        None => unsafe { libc::syscall(libc::SYS_mlock, address, length) as c_int },
    }
}

/// # Safety
/// As for the kernel's `mlock2`.
pub unsafe fn mlock2(address: *const c_void, length: size_t, flags: c_uint) -> c_int {
    match MLOCK2.get() {
        // SAFETY: upheld by the caller.
        Some(next) => unsafe { next(address, length, flags) },
        // SAFETY: upheld by the caller.
        None => unsafe { libc::syscall(libc::SYS_mlock2, address, length, flags) as c_int },
    }
}

/// # Safety
/// As for the kernel's `mincore`.
pub unsafe fn mincore(address: *mut c_void, length: size_t, pages: *mut c_uchar) -> c_int {
    match MINCORE.get() {
        // SAFETY: upheld by the caller.
        Some(next) => unsafe { next(address, length, pages) },
        // SAFETY: upheld by the caller.
        None => unsafe { libc::syscall(libc::SYS_mincore, address, length, pages) as c_int },
    }
}

/// # Safety
/// As for the kernel's `msync`.
pub unsafe fn msync(address: *mut c_void, length: size_t, flags: c_int) -> c_int {
    match MSYNC.get() {
        // SAFETY: upheld by the caller.
        Some(next) => unsafe { next(address, length, flags) },
        // SAFETY: upheld by the caller.
        None => unsafe { libc::syscall(libc::SYS_msync, address, length, flags) as c_int },
    }
}

/// `shmat`. Returns the address.
pub fn attach(segment: c_int, address: usize, flags: c_int) -> Result<usize, Errno> {
    let place = address as *const c_void;
    address_or_errno(match SHMAT.get() {
        // SAFETY: upheld by the caller.
        Some(next) => unsafe { next(segment, place, flags) },
        // SAFETY: upheld by the caller.
        None => unsafe { libc::syscall(libc::SYS_shmat, segment, place, flags) as *mut c_void },
    })
}

/// `mlockall`.
pub fn mlockall(flags: c_int) -> c_int {
    // SAFETY: changes how this process's memory is kept, as the program asked.
    match MLOCKALL.get() {
        // SAFETY: upheld by the caller.
        Some(next) => unsafe { next(flags) },
        // SAFETY: upheld by the caller.
        None => unsafe { libc::syscall(libc::SYS_mlockall, flags) as c_int },
    }
}

/// # Safety
/// `limit` points to a limit.
pub unsafe fn setrlimit(resource: c_uint, limit: *const rlimit) -> c_int {
    let none = std::ptr::null_mut::<rlimit>();
    match SETRLIMIT.get() {
        // SAFETY: upheld by the caller.
        Some(next) => unsafe { next(resource, limit) },
        // SAFETY: upheld by the caller.
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
    match PRLIMIT.get() {
        // SAFETY: upheld by the caller.
        Some(next) => unsafe { next(process, resource, new, old) },
        // SAFETY: upheld by the caller.
        None => unsafe { libc::syscall(libc::SYS_prlimit64, process, resource, new, old) as c_int },
    }
}

/// # Safety
/// As for the kernel's `vmsplice`.
pub unsafe fn vmsplice(
    pipe: c_int,
    vectors: *const libc::iovec,
    count: size_t,
    flags: c_uint,
) -> libc::ssize_t {
    match VMSPLICE.get() {
        // SAFETY: upheld by the caller.
        Some(next) => unsafe { next(pipe, vectors, count, flags) },
        // SAFETY: upheld by the caller.
        None => unsafe {
            libc::syscall(libc::SYS_vmsplice, pipe, vectors, count, flags) as libc::ssize_t
        },
    }
}

/// # Safety
/// As for the kernel's `unshare`.
pub unsafe fn unshare(flags: c_int) -> c_int {
    match UNSHARE.get() {
        // SAFETY: upheld by the caller.
        Some(next) => unsafe { next(flags) },
        // SAFETY: upheld by the caller.
        None => unsafe { libc::syscall(libc::SYS_unshare, flags) as c_int },
    }
}

/// # Safety
/// As for the kernel's `setns`.
pub unsafe fn setns(file: c_int, kinds: c_int) -> c_int {
    match SETNS.get() {
        // SAFETY: upheld by the caller.
        Some(next) => unsafe { next(file, kinds) },
        // SAFETY: upheld by the caller.
        None => unsafe { libc::syscall(libc::SYS_setns, file, kinds) as c_int },
    }
}

/// # Safety
/// As for the kernel's `prctl`.
pub unsafe fn prctl(option: c_int, arguments: [c_ulong; 4]) -> c_int {
    let [second, third, fourth, fifth] = arguments;
    match PRCTL.get() {
        // SAFETY: upheld by the caller.
        Some(next) => unsafe { next(option, second, third, fourth, fifth) },
        // SAFETY: upheld by the caller.
        None => unsafe {
            libc::syscall(libc::SYS_prctl, option, second, third, fourth, fifth) as c_int
        },
    }
}
