//! `malloc` and its relatives for the program: large requests go to the pool, the rest to the
//! next allocator. Contracts are those of glibc's manual; `reallocarray` is left to glibc, which calls
//! `realloc`.

use libc::{EINVAL, ENOMEM, c_int, c_void, size_t};

use crate::arena::{Grant, Owner};
use crate::chunks::{PAGE, address_of, may_have, page_of};
use crate::knobs::knobs;
use crate::pool::{Content, Freed, extend, give_back, obtain};
use crate::relocate::move_pages;
use crate::spans::Free;
use crate::stand_aside::served_from;
use crate::system::{self, KeepErrno};
use crate::{helper, locking, next, retired};

/// Alignments above this go to glibc.
const ALIGNMENT_MAX: usize = 2 << 20;

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn malloc(size: size_t) -> *mut c_void {
    if size < served_from() {
        return next::malloc(size);
    }
    large(size)
}

// Small requests, the majority, pay for two comparisons: code that they do not need stays out of line.

#[inline(never)]
fn large(size: usize) -> *mut c_void {
    block(size, PAGE, Content::Any).unwrap_or_else(|| next::malloc(size))
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn calloc(count: size_t, size: size_t) -> *mut c_void {
    // glibc refuses a product that overflows.
    let bytes = count.checked_mul(size).unwrap_or(0);
    if bytes < served_from() {
        return next::calloc(count, size);
    }
    large_zeroed(count, size)
}

#[inline(never)]
fn large_zeroed(count: usize, size: usize) -> *mut c_void {
    block(count * size, PAGE, Content::Zeros).unwrap_or_else(|| next::calloc(count, size))
}

/// # Safety
/// `pointer` is null or a live block.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn free(pointer: *mut c_void) {
    if !may_have(pointer as usize) {
        // SAFETY: the block is not the pool's, so it is the next allocator's.
        return unsafe { next::free(pointer) };
    }
    free_in_arena(pointer);
}

#[inline(never)]
fn free_in_arena(pointer: *mut c_void) {
    match page_of(pointer as usize) {
        // SAFETY: the block is not the pool's, so it is the next allocator's.
        None => unsafe { next::free(pointer) },
        Some(page) => free_block(pointer, page),
    }
}

/// # Safety
/// `pointer` is null or a live block.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn realloc(pointer: *mut c_void, size: size_t) -> *mut c_void {
    if size < served_from() && !may_have(pointer as usize) {
        // SAFETY: upheld by the caller.
        return unsafe { next::realloc(pointer, size) };
    }
    // SAFETY: upheld by the caller.
    unsafe { resize(pointer, size) }
}

/// # Safety
/// `pointer` is null or a live block.
#[inline(never)]
unsafe fn resize(pointer: *mut c_void, size: usize) -> *mut c_void {
    match page_of_ours(pointer) {
        // SAFETY: upheld by the caller.
        None => unsafe { realloc_of_next(pointer, size) },
        Some(page) => realloc_block(pointer, page, size),
    }
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn memalign(alignment: size_t, size: size_t) -> *mut c_void {
    let alignment = alignment.checked_next_power_of_two().unwrap_or(usize::MAX);
    if size < served_from() || alignment > ALIGNMENT_MAX {
        return next::memalign(alignment, size);
    }
    let alignment = alignment.max(PAGE);
    block(size, alignment, Content::Any).unwrap_or_else(|| next::memalign(alignment, size))
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn aligned_alloc(alignment: size_t, size: size_t) -> *mut c_void {
    if size < served_from() {
        return next::aligned_alloc(alignment, size);
    }
    memalign(alignment, size)
}

/// # Safety
/// `place` takes a pointer.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn posix_memalign(
    place: *mut *mut c_void,
    alignment: size_t,
    size: size_t,
) -> c_int {
    if size < served_from() {
        // SAFETY: upheld by the caller.
        return unsafe { next::posix_memalign(place, alignment, size) };
    }
    if !alignment.is_power_of_two() || !alignment.is_multiple_of(size_of::<*mut c_void>()) {
        return EINVAL;
    }
    let errno = KeepErrno::new();
    let pointer = memalign(alignment, size);
    if pointer.is_null() {
        // errno stays as glibc leaves it; glibc's own tests check it.
        std::mem::forget(errno);
        return ENOMEM;
    }
    // SAFETY: upheld by the caller.
    unsafe { *place = pointer };
    0
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn valloc(size: size_t) -> *mut c_void {
    if size < served_from() {
        return next::valloc(size);
    }
    memalign(PAGE, size)
}

#[cfg_attr(not(test), unsafe(no_mangle))]
extern "C" fn pvalloc(size: size_t) -> *mut c_void {
    match size.checked_next_multiple_of(PAGE) {
        Some(size) if size >= served_from() => memalign(PAGE, size),
        _ => next::pvalloc(size),
    }
}

/// # Safety
/// `pointer` is null or a live block.
#[cfg_attr(not(test), unsafe(no_mangle))]
unsafe extern "C" fn malloc_usable_size(pointer: *mut c_void) -> size_t {
    match page_of_ours(pointer) {
        // SAFETY: upheld by the caller.
        None => unsafe { next::usable_size(pointer) },
        Some(page) => usable_pages(page).map_or(0, |pages| pages as usize * PAGE),
    }
}

/// The page of the pool that contains `pointer`. Once addresses of the arena were given back to the kernel,
/// it may have given them to other allocators.
fn page_of_ours(pointer: *mut c_void) -> Option<u32> {
    let page = page_of(pointer as usize)?;
    let is_ours = !retired::is_shared() || locking::lock()?.block(page).is_some();
    is_ours.then_some(page)
}

/// A block of the pool; none if the pool cannot serve it.
fn block(size: usize, alignment: usize, content: Content) -> Option<*mut c_void> {
    if size > knobs().block_max {
        return None;
    }
    helper::start_if_wanted();
    let grant = obtain(size, alignment, Owner::Block, content)?;
    Some(address_of(grant.first) as *mut c_void)
}

fn free_block(pointer: *mut c_void, page: u32) {
    let _errno = KeepErrno::new();
    // POSIX forbids `free` in a handler that interrupted the pool; if it is called, the block is lost.
    let Some(mut arena) = locking::lock() else { return };
    let Some(pages) = arena.disown_block(page) else {
        drop(arena);
        return free_other(pointer);
    };
    if !(pointer as usize).is_multiple_of(PAGE) {
        drop(arena);
        die(INVALID_FREE);
    }
    if retired::is_retired() {
        drop(arena);
        let _ = system::unmap(address_of(page), pages as usize * PAGE);
        return;
    }
    give_back(Some(arena), page, pages, Freed::Used, Owner::Block);
    helper::start_if_wanted();
}

/// Frees what is at an address of the arena and none of its blocks.
#[cold]
fn free_other(pointer: *mut c_void) {
    if !retired::is_shared() {
        die(INVALID_FREE);
    }
    // SAFETY: the kernel gave the address to another allocator, whose block this is.
    unsafe { next::free(pointer) }
}

const INVALID_FREE: &[u8] = b"pagewise-lazy: free(): invalid pointer\n";

/// # Safety
/// `pointer` is null or a live block of the next allocator's.
unsafe fn realloc_of_next(pointer: *mut c_void, size: usize) -> *mut c_void {
    // A block that was too large for the pool stays where it is.
    let is_large = |size: usize| size >= served_from() && size <= knobs().block_max;
    if !is_large(size) {
        // SAFETY: upheld by the caller.
        return unsafe { next::realloc(pointer, size) };
    }
    // SAFETY: upheld by the caller.
    let old = if pointer.is_null() { 0 } else { unsafe { next::usable_size(pointer) } };
    match block(size, PAGE, Content::Any) {
        Some(block) => {
            system::copy(pointer as usize, block as usize, old.min(size));
            // SAFETY: upheld by the caller.
            unsafe { next::free(pointer) };
            block
        }
        // SAFETY: upheld by the caller.
        None => unsafe { next::realloc(pointer, size) },
    }
}

fn realloc_block(pointer: *mut c_void, page: u32, size: usize) -> *mut c_void {
    if size == 0 {
        free_block(pointer, page);
        return std::ptr::null_mut();
    }
    // POSIX forbids `realloc` in a handler that interrupted the pool; if it is called, no memory is lost.
    let Some(old) = usable_pages(page) else { return no_memory() };
    let is_ours = size >= served_from() && size <= knobs().block_max;
    let pages = size.div_ceil(PAGE);
    if is_ours && pages <= old as usize {
        shrink(page, old, pages as u32);
        return pointer;
    }
    if is_ours && grow(page, old, pages as u32) {
        return pointer;
    }
    move_block(pointer, page, old, size)
}

/// Gives the tail back if it is worth a call: at least a quarter of the block.
fn shrink(page: u32, old: u32, pages: u32) {
    if old - pages <= old / 4 {
        return;
    }
    let Some(mut arena) = locking::lock() else { return };
    arena.own(page, pages, Owner::Block);
    give_back(Some(arena), page + pages, old - pages, Freed::Used, Owner::Block);
}

fn grow(page: u32, old: u32, pages: u32) -> bool {
    let owned = Grant::of(page, old, Free::Hot);
    extend(owned, pages - old, Owner::Block, Content::Any)
}

fn move_block(pointer: *mut c_void, page: u32, old: u32, size: usize) -> *mut c_void {
    let grant = (size >= served_from() && size <= knobs().block_max)
        .then(|| obtain(size, PAGE, Owner::Block, Content::Any))
        .flatten();
    if let Some(grant) = grant {
        let is_absent = move_pages(page, grant, old.min(grant.pages));
        free_moved(page, old, is_absent);
        return address_of(grant.first) as *mut c_void;
    }
    let block = next::malloc(size);
    if !block.is_null() {
        system::copy(pointer as usize, block as usize, size.min(old as usize * PAGE));
        free_block(pointer, page);
    }
    block
}

/// Frees the block at `page` after its content moved; `is_absent` if its pages moved with it.
fn free_moved(page: u32, pages: u32, is_absent: bool) {
    if !is_absent {
        return free_block(address_of(page) as *mut c_void, page);
    }
    if let Some(mut arena) = locking::lock() {
        arena.disown_block(page);
        let is_tainted = arena.bits.tainted.any(page, pages);
        let freed = if is_tainted { Freed::Tainted } else { Freed::Clean };
        give_back(Some(arena), page, pages, freed, Owner::Block);
    }
}

/// Number of pages of the block that begins at `page`; none if this thread was interrupted in the pool.
fn usable_pages(page: u32) -> Option<u32> {
    let pages = locking::lock()?.block(page);
    if pages.is_none() {
        die(b"pagewise-lazy: realloc(): invalid pointer\n");
    }
    pages
}

fn no_memory() -> *mut c_void {
    system::set_errno(ENOMEM);
    std::ptr::null_mut()
}

/// Aborts the program as glibc does on such a call.
#[cold]
fn die(message: &[u8]) -> ! {
    system::say(message);
    // SAFETY: aborts the program.
    unsafe { libc::abort() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::locking::count_taken;

    #[test]
    fn a_free_takes_the_lock_once_or_twice_if_it_examines_fresh_pages() {
        let length = 64 * PAGE;
        let takings = [(); 3].map(|()| {
            let pointer = block(length, PAGE, Content::Any).unwrap();
            system::zero(pointer as usize, length);
            count_taken(|| free_in_arena(pointer))
        });
        assert_eq!(takings, [2, 1, 1], "the first block has fresh pages");
    }
}
