//! The log of a process: a file of records that is mapped shared and grows by chunks, so that the kernel
//! keeps all records after any end of the process.
//!
//! Layout, in this machine's byte order: a page with [`LogHeader`], then records in the layout of
//! `trace::recording::Record`. `kind` is written last, so 0 marks an unfinished record.

use core::cell::UnsafeCell;
use core::ffi::{c_char, c_int};
use core::mem::size_of;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering};

use crate::real_mmap::real_mmap;
use crate::sizes::{LARGE_BYTES, PAGE_BYTES};

/// The numbers of the kinds of records, as in `trace::recording::kind`.
pub mod kind {
    pub const EXEC: u8 = 6;
    pub const EXIT: u8 = 7;
    pub const FORK: u8 = 8;
    pub const ALLOCATE: u8 = 12;
    pub const FREE: u8 = 13;
    pub const DISCARD: u8 = 14;
    pub const TOUCHED: u8 = 15;
    pub const SMALL: u8 = 16;
    pub const USAGE: u8 = 17;
}

/// The bits of a record's flags, as in `trace::recording::flag`.
pub mod flag {
    pub const ZEROED: u8 = 1;
    pub const MAPPED: u8 = 2;
    pub const RESIZED: u8 = 4;
    pub const UNKNOWN: u8 = 8;
    pub const LAZY: u8 = 16;
    pub const AT_END: u8 = 32;
    pub const IN_HEAP: u8 = 64;
}

/// First bytes of a log.
const MAGIC: [u8; 8] = *b"pgwalc\x00\x01";

/// A record; `trace::recording::kind` documents the fields of each kind.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct Record {
    pub time_ns: u64,
    pub address: u64,
    pub object: u64,
    pub process: u32,
    pub auxiliary: u32,
    pub device: u32,
    pub pages: u16,
    pub kind: u8,
    pub flags: u8,
}

/// The first page of the file.
#[repr(C)]
struct LogHeader {
    magic: [u8; 8],
    /// Records dropped because the log was full.
    lost: AtomicU64,
    /// Records with a slot, which is the index of the next record.
    next: AtomicU64,
}

/// 1024 records fill 10 pages exactly.
const CHUNK_RECORDS: u64 = 1024;
const CHUNK_BYTES: usize = CHUNK_RECORDS as usize * size_of::<Record>();

/// 67 million records, 2.7 GB.
const CHUNKS_MAX: usize = 1 << 16;

const PATH_BYTES: usize = 4096;

/// Number of checks by a thread that waits while another thread maps the next chunk.
const GROWTH_CHECKS: u32 = 10_000;

/// Small allocations between two reads of the clock.
const SMALL_CALLS_PER_CHECK: u64 = 1024;
const SMALL_EVERY_NS: u64 = 1_000_000_000;

const CLOSED: u8 = 0;
const OPENING: u8 = 1;
const OPEN: u8 = 2;
const OFF: u8 = 3;

struct PathBuffer(UnsafeCell<[u8; PATH_BYTES]>);

// SAFETY: only the thread that holds OPENING writes it, and it is read only while the state is OPEN.
unsafe impl Sync for PathBuffer {}

static STATE: AtomicU8 = AtomicU8::new(CLOSED);
static PROCESS: AtomicU32 = AtomicU32::new(0);
/// The parent that forked this process, if the parent was recorded; otherwise 0.
static PARENT: AtomicU32 = AtomicU32::new(0);
static PATH: PathBuffer = PathBuffer(UnsafeCell::new([0; PATH_BYTES]));
static HEADER: AtomicPtr<LogHeader> = AtomicPtr::new(null_mut());
static CHUNKS: [AtomicPtr<Record>; CHUNKS_MAX] = [const { AtomicPtr::new(null_mut()) }; CHUNKS_MAX];
static IS_GROWING: AtomicBool = AtomicBool::new(false);
static SMALL_CALLS: AtomicU64 = AtomicU64::new(0);
static SMALL_BYTES: AtomicU64 = AtomicU64::new(0);
static SMALL_NEXT_NS: AtomicU64 = AtomicU64::new(0);

/// Opens the log of this process unless it is open; false if nothing is recorded.
pub fn begin() -> bool {
    match STATE.compare_exchange(CLOSED, OPENING, Ordering::Acquire, Ordering::Acquire) {
        Ok(_) => {
            let state = if has_environment() { open() } else { CLOSED };
            STATE.store(state, Ordering::Release);
            if state == OPEN {
                prepare_process();
            }
            state == OPEN
        }
        Err(state) => state == OPEN,
    }
}

fn has_environment() -> bool {
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    // SAFETY: a pointer of the C library, which is only read; it is null before the library starts.
    unsafe { !environ.is_null() }
}

/// Creates the file of this process, and returns the next state.
fn open() -> u8 {
    // SAFETY: the name ends in a zero; the value is copied at once.
    let folder = unsafe { libc::getenv(c"PAGEWISE_ALLOCATIONS".as_ptr()) };
    if folder.is_null() {
        return OFF;
    }
    // SAFETY: a system call without pointers.
    let process = unsafe { libc::getpid() } as u32;
    PROCESS.store(process, Ordering::Relaxed);
    let file = create(folder, process);
    if file < 0 {
        return OFF;
    }
    let header = map(file, 0, PAGE_BYTES).cast::<LogHeader>();
    let chunk = map(file, PAGE_BYTES, CHUNK_BYTES).cast::<Record>();
    // SAFETY: this function opened the descriptor.
    unsafe { libc::close(file) };
    if header.is_null() || chunk.is_null() {
        return OFF;
    }
    // SAFETY: a fresh mapping of a page, which has room for the header and no other writer.
    unsafe { (*header).magic = MAGIC };
    CHUNKS[0].store(chunk, Ordering::Release);
    HEADER.store(header, Ordering::Release);
    OPEN
}

/// Creates a file `FOLDER/PROCESS-NUMBER.log` and keeps its path for later chunks; negative on failure.
fn create(folder: *const c_char, process: u32) -> c_int {
    /// Largest number of programs that a process may execute in turn.
    const PROGRAMS_MAX: u32 = 1000;
    for number in 0..PROGRAMS_MAX {
        // SAFETY: the caller holds OPENING, so no other thread accesses the buffer.
        let path = unsafe { &mut *PATH.0.get() };
        // SAFETY: the buffer has the length given, and snprintf ends it with a zero; its format takes
        // a string and two unsigned numbers.
        let length = unsafe {
            libc::snprintf(
                path.as_mut_ptr().cast(),
                PATH_BYTES,
                c"%s/%u-%u.log".as_ptr(),
                folder,
                process,
                number,
            )
        };
        if length < 0 || length as usize >= PATH_BYTES {
            return -1;
        }
        let how = libc::O_CREAT | libc::O_EXCL | libc::O_RDWR | libc::O_CLOEXEC;
        // SAFETY: the path ends in a zero.
        let file = unsafe { libc::open(path.as_ptr().cast(), how, 0o600) };
        // SAFETY: the C library's `errno` of this thread.
        if file >= 0 || unsafe { *libc::__errno_location() } != libc::EEXIST {
            return file;
        }
    }
    -1
}

/// Allocates and maps a part of the file; null on failure. It allocates first, because a store to a
/// mapped page that does not fit on a full disk ends the process.
fn map(file: c_int, offset: usize, bytes: usize) -> *mut core::ffi::c_void {
    // SAFETY: system calls on a descriptor of this library; a fresh mapping overlaps nothing.
    unsafe {
        if libc::fallocate(file, 0, offset as i64, bytes as i64) != 0 {
            return null_mut();
        }
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let address = real_mmap(null_mut(), bytes, access, libc::MAP_SHARED, file, offset as i64);
        if address == libc::MAP_FAILED { null_mut() } else { address }
    }
}

/// Sets up the process after its log is open.
fn prepare_process() {
    static IS_FORK_WATCHED: AtomicBool = AtomicBool::new(false);
    // SAFETY: the calls take numbers, or a function that lives as long as this library.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, LARGE_BYTES as c_int);
        // glibc applies the threshold only if the heap has no room, so keep little free at its top.
        libc::mallopt(libc::M_TOP_PAD, LARGE_BYTES as c_int / 2);
        libc::mallopt(libc::M_TRIM_THRESHOLD, LARGE_BYTES as c_int);
        libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0);
        if !IS_FORK_WATCHED.swap(true, Ordering::Relaxed) {
            libc::pthread_atfork(None, None, Some(begin_in_child));
        }
    }
    let auxiliary = PARENT.load(Ordering::Relaxed);
    if auxiliary != 0 {
        append(Record { kind: kind::FORK, auxiliary, ..Record::default() });
    }
    let mut name = [0u64; 2];
    // SAFETY: the kernel writes at most 16 bytes, which the array has.
    unsafe { libc::prctl(libc::PR_GET_NAME, name.as_mut_ptr()) };
    let [address, object] = name;
    append(Record { address, object, kind: kind::EXEC, ..Record::default() });
}

/// A child writes a separate log. The mappings of its parent's log stay, unused.
unsafe extern "C" fn begin_in_child() {
    if STATE.load(Ordering::Acquire) != OPEN {
        return;
    }
    PARENT.store(PROCESS.load(Ordering::Relaxed), Ordering::Relaxed);
    STATE.store(CLOSED, Ordering::Release);
    IS_GROWING.store(false, Ordering::Release);
    for chunk in &CHUNKS {
        if chunk.swap(null_mut(), Ordering::Relaxed).is_null() {
            break;
        }
    }
    SMALL_CALLS.store(0, Ordering::Relaxed);
    SMALL_BYTES.store(0, Ordering::Relaxed);
    begin();
}

/// Whether this is the process whose log is open, not a child that shares its memory.
pub fn is_own() -> bool {
    // SAFETY: a system call without pointers.
    STATE.load(Ordering::Acquire) == OPEN
        && unsafe { libc::getpid() } as u32 == PROCESS.load(Ordering::Relaxed)
}

/// Records an allocation or its end; `touched` is the number of its touched pages.
pub fn event(kind: u8, address: usize, bytes: usize, touched: u32, flags: u8) {
    note_small(now_ns(), false);
    append(Record {
        kind,
        flags,
        address: address as u64,
        object: bytes as u64,
        // SAFETY: a system call without pointers.
        auxiliary: unsafe { libc::gettid() } as u32,
        device: touched,
        ..Record::default()
    });
}

/// Adds an allocation below `LARGE_BYTES` to the sum.
pub fn small(bytes: usize) {
    SMALL_BYTES.fetch_add(bytes as u64, Ordering::Relaxed);
    if (SMALL_CALLS.fetch_add(1, Ordering::Relaxed) + 1).is_multiple_of(SMALL_CALLS_PER_CHECK) {
        note_small(now_ns(), false);
    }
}

/// Writes the sum of small allocations if a second has passed or `at_end` is true.
pub fn note_small(time_ns: u64, at_end: bool) {
    let next_ns = SMALL_NEXT_NS.load(Ordering::Relaxed);
    if time_ns < next_ns && !at_end || STATE.load(Ordering::Acquire) != OPEN {
        return;
    }
    SMALL_NEXT_NS.store(time_ns + SMALL_EVERY_NS, Ordering::Relaxed);
    let calls = SMALL_CALLS.swap(0, Ordering::Relaxed);
    let object = SMALL_BYTES.swap(0, Ordering::Relaxed);
    if calls > 0 {
        let device = calls.min(u32::MAX.into()) as u32;
        append(Record { kind: kind::SMALL, object, device, ..Record::default() });
    }
}

/// Appends a record with the time and the process, or counts it as lost if the log is full.
pub fn append(record: Record) {
    if !begin() {
        return;
    }
    // SAFETY: null, or a mapping that is never unmapped.
    let Some(header) = (unsafe { HEADER.load(Ordering::Acquire).as_ref() }) else { return };
    let index = header.next.fetch_add(1, Ordering::Relaxed);
    let Some(slot) = slot(index) else {
        header.lost.fetch_add(1, Ordering::Relaxed);
        return;
    };
    let whole =
        Record { time_ns: now_ns(), process: PROCESS.load(Ordering::Relaxed), kind: 0, ..record };
    // SAFETY: the slot is in a mapped chunk, and only this call has its index. Readers of the file
    // check the kind, which is written last.
    unsafe {
        slot.write(whole);
        AtomicU8::from_ptr(&raw mut (*slot).kind).store(record.kind, Ordering::Release);
    }
}

/// The slot of a record; `None` if the file cannot grow.
fn slot(index: u64) -> Option<*mut Record> {
    let chunk = (index / CHUNK_RECORDS) as usize;
    let place = CHUNKS.get(chunk)?;
    for _ in 0..GROWTH_CHECKS {
        let address = place.load(Ordering::Acquire);
        if !address.is_null() {
            // SAFETY: the offset is below the number of records in a chunk.
            return Some(unsafe { address.add((index % CHUNK_RECORDS) as usize) });
        }
        if IS_GROWING.swap(true, Ordering::Acquire) {
            // A signal handler may have interrupted the growing thread, so the checks are bounded.
            // SAFETY: a system call without pointers.
            unsafe { libc::sched_yield() };
            continue;
        }
        if place.load(Ordering::Acquire).is_null() {
            place.store(new_chunk(chunk), Ordering::Release);
        }
        IS_GROWING.store(false, Ordering::Release);
        if place.load(Ordering::Acquire).is_null() {
            return None;
        }
    }
    None
}

/// Maps a new chunk. It opens the file again, because a program may close unknown descriptors.
fn new_chunk(chunk: usize) -> *mut Record {
    // SAFETY: the state is OPEN, so the path is complete and constant; this block opens the descriptor.
    unsafe {
        let path = (*PATH.0.get()).as_ptr().cast();
        let file = libc::open(path, libc::O_RDWR | libc::O_CLOEXEC);
        if file < 0 {
            return null_mut();
        }
        let address = map(file, PAGE_BYTES + chunk * CHUNK_BYTES, CHUNK_BYTES);
        libc::close(file);
        address.cast()
    }
}

/// Number of records with a slot.
pub fn count() -> u64 {
    let header = HEADER.load(Ordering::Acquire);
    // SAFETY: null, or a mapping that is never unmapped.
    unsafe { header.as_ref() }.map_or(0, |header| header.next.load(Ordering::Acquire))
}

/// The record with this index, if its chunk is mapped.
pub fn at(index: u64) -> Option<Record> {
    let chunk = CHUNKS.get((index / CHUNK_RECORDS) as usize)?.load(Ordering::Acquire);
    // SAFETY: a mapped chunk if not null, and the offset lies within it.
    (!chunk.is_null()).then(|| unsafe { chunk.add((index % CHUNK_RECORDS) as usize).read() })
}

/// Nanoseconds of CLOCK_MONOTONIC.
pub fn now_ns() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills the structure.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Runs `work` and restores `errno`, so that the program does not notice the recording.
pub fn unseen<T>(work: impl FnOnce() -> T) -> T {
    // SAFETY: the `errno` of this thread.
    let place = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *place };
    let result = work();
    // SAFETY: as above.
    unsafe { *place = before };
    result
}
