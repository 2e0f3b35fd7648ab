//! Forks. After a fork every page that both processes share is copied at its next write, which costs
//! more than a fresh page, and a shared page cannot be lazily freed. So free memory stays with the
//! parent (`MADV_WIPEONFORK`, Linux 4.14): its child finds it clean. If the kernel refuses, little is
//! carried across, and the child gives back even that at its first use of the pool.
//!
//! The handlers here are registered first, so the pool is locked after all other prepare handlers
//! have run and unlocked before their other handlers run, like glibc's own allocator: those handlers may
//! allocate, and wait for threads that do.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use libc::{MADV_KEEPONFORK, MADV_WIPEONFORK, PROT_NONE, c_int, c_void};

use crate::arena::Arena;
use crate::chunks::{self, CHUNK_PAGES, PAGE, address_of};
use crate::flag::take;
use crate::function::Function;
use crate::huge_pages::{self, HUGE_PAGES};
use crate::pool::perform;
use crate::retired::is_retired;
use crate::stand_aside::{may_serve, served_from};
use crate::{front_process, locking, premap, streams, system, vault, waking};

/// Limits on the memory that the parent keeps, in pages and in spans: each span costs a call before the
/// fork and one in either process after it.
const KEPT_PAGES: u64 = (4 << 20) / PAGE as u64;
const KEPT_SPANS: usize = 12;

// Data written around a fork shares one page with the pool, so either process makes one copy:
// the section places it there, here and elsewhere.

/// Whether `prepare` took the lock; it does not in a handler that interrupted the lock's holder.
#[cfg_attr(not(test), unsafe(link_section = ".data.pagewise_lazy"))]
static IS_LOCKED: AtomicBool = AtomicBool::new(false);

/// Whether the fork under way leaves free memory to the parent.
#[cfg_attr(not(test), unsafe(link_section = ".data.pagewise_lazy"))]
static IS_WIPED: AtomicBool = AtomicBool::new(false);

/// Whether memory was kept from children, so that their arena has holes there.
static HAS_HOLES: AtomicBool = AtomicBool::new(false);

/// Records that children do not inherit some memory.
pub fn leaves_holes() {
    HAS_HOLES.store(true, Relaxed);
}

/// Type of a fork handler.
type Handler = Option<unsafe extern "C" fn()>;

/// Registers the three functions below, which run around every `fork`.
pub fn watch() {
    static IS_WATCHED: AtomicBool = AtomicBool::new(false);
    if !IS_WATCHED.swap(true, Relaxed) {
        streams::find();
        // SAFETY: the functions live as long as the program.
        unsafe { libc::pthread_atfork(Some(prepare), Some(parent), Some(child)) };
    }
}

/// Target of `pthread_atfork` in every library: constructors that run before this library's own
/// register their handlers here.
///
/// # Safety
/// As for glibc's.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn __register_atfork(
    prepare: Handler,
    parent: Handler,
    child: Handler,
    library: *mut c_void,
) -> c_int {
    type Register = unsafe extern "C" fn(Handler, Handler, Handler, *mut c_void) -> c_int;
    static REGISTER: Function<Register> = Function::new(c"__register_atfork");
    if may_serve() {
        watch();
    }
    let Some(register) = REGISTER.get().or_else(|| REGISTER.find()) else { return libc::ENOMEM };
    // SAFETY: upheld by the caller.
    unsafe { register(prepare, parent, child, library) }
}

unsafe extern "C" fn prepare() {
    front_process::note_forking_thread();
    // Without an arena, only another thread could be about to make one.
    if chunks::count() == 0 && (served_from() == usize::MAX || streams::is_single()) {
        return;
    }
    give_most_back();
    streams::lock();
    if locking::lock_for_fork() {
        IS_LOCKED.store(true, Relaxed);
        // SAFETY: this thread has the lock.
        IS_WIPED.store(wipe(unsafe { locking::locked() }), Relaxed);
    }
}

/// Keeps free memory from the child. False if the kernel refuses: the child inherits all of it.
fn wipe(arena: &Arena) -> bool {
    let parts = kept_parts(arena);
    let is_wiped = parts.into_iter().flatten().all(|part| advise(arena, part, MADV_WIPEONFORK));
    if !is_wiped {
        keep(arena);
    }
    is_wiped
}

/// Lets children inherit the memory at these addresses again.
fn keep(arena: &Arena) {
    for part in kept_parts(arena).into_iter().flatten() {
        advise(arena, part, MADV_KEEPONFORK);
    }
}

fn advise(arena: &Arena, (first, pages): (u32, u32), advice: c_int) -> bool {
    let mut places = vault::places(first, pages, arena.bits.aside);
    places.all(|(address, length)| system::advise(address, length, advice).is_ok())
}

/// Free memory that the parent keeps: first page and number of pages of each part. Only whole huge pages
/// are included: others would be split.
fn kept_parts(arena: &Arena) -> [Option<(u32, u32)>; KEPT_SPANS] {
    let mut parts = arena.kept_spans().filter_map(|span| match huge_pages::are_used() {
        true => {
            let first = span.first.next_multiple_of(HUGE_PAGES);
            let end = span.end() / HUGE_PAGES * HUGE_PAGES;
            (first < end).then(|| (first, end - first))
        }
        false => Some((span.first, span.pages)),
    });
    std::array::from_fn(|_| parts.next())
}

fn give_most_back() {
    let Some(mut arena) = locking::lock() else { return };
    while arena.hot_pages() + arena.lazy_pages() > KEPT_PAGES
        || arena.kept_spans().nth(KEPT_SPANS).is_some()
    {
        let Some(work) = arena.oldest() else { break };
        perform(work, arena.bits.aside);
        arena.finish();
    }
}

unsafe extern "C" fn parent() {
    if take(&IS_LOCKED) {
        // SAFETY: this thread locked it in `prepare`.
        unsafe {
            if IS_WIPED.load(Relaxed) {
                keep(locking::locked());
            }
            locking::unlock_after_fork();
        }
    }
    streams::unlock();
}

unsafe extern "C" fn child() {
    streams::reset();
    waking::forget();
    waking::forget_process();
    front_process::mark_if_other();
    vault::forget();
    premap::forget_look();
    locking::forget_work();
    if take(&IS_LOCKED) {
        // SAFETY: the child's only thread is the one that locked it in `prepare`.
        unsafe { locking::unlock_after_fork() };
        if let Some(mut arena) = locking::lock() {
            if IS_WIPED.load(Relaxed) {
                find_clean(&mut arena);
            }
            if arena.is_working() || arena.hot_pages() + arena.lazy_pages() > 0 {
                let now = system::now();
                arena.recover(now);
                arena.pressure(now);
            }
            if HAS_HOLES.load(Relaxed) && !is_retired() {
                close_holes(&arena);
            }
        }
    }
}

/// Marks the memory that the parent kept as clean in the child.
fn find_clean(arena: &mut Arena) {
    keep(arena);
    for (first, pages) in kept_parts(arena).into_iter().flatten() {
        if let Some(part) = arena.carve(first, pages) {
            arena.deposit_clean(part.first, part.pages);
        }
    }
}

/// Closes the holes among pages whose attributes were changed: otherwise the kernel would put other
/// mappings there, which are not the arena's.
fn close_holes(arena: &Arena) {
    for chunk in 0..chunks::count() as u32 {
        let first = chunk * CHUNK_PAGES;
        for (from, to) in arena.bits.tainted.runs(first, first + CHUNK_PAGES, true) {
            close_hole(from, to - from);
        }
    }
}

/// Halves a range that is present only in part.
fn close_hole(first: u32, pages: u32) {
    if !vault::fill(address_of(first), pages as usize * PAGE, PROT_NONE) && pages > 1 {
        close_hole(first, pages / 2);
        close_hole(first + pages / 2, pages - pages / 2);
    }
}
