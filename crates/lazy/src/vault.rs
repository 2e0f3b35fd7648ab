//! The place of freed memory while it is inaccessible: address space beside the arena, with a page for
//! each page of the arena, that no program knows of. `mremap` moves pages there and back, and the place
//! they left is closed. It moves page tables of 2 MiB whole, and touches no page's own record, so it
//! costs a fraction of two changes of protection; small spans are protected in place.
//!
//! Only the owner of pages moves them, so moves never overlap. Linux 5.7 and later leave the source of
//! a move mapped; older kernels refuse the first move, and all spans are protected in place. The kernel clears
//! the target before it examines the source: if it then refuses, the target is a hole in which another
//! thread may be given a mapping. The hole is filled at once, but never over another mapping.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed, Ordering::SeqCst};

use libc::{
    EFAULT, MADV_DONTNEED, MAP_FIXED_NOREPLACE, MREMAP_DONTUNMAP, MREMAP_FIXED, MREMAP_MAYMOVE,
    PROT_NONE, c_int,
};

use crate::bits::Bits;
use crate::chunks::{CHUNK, PAGE, address_of};
use crate::system::{self, OPEN};

/// Size below which a move and a change of protection cost as much as only protection.
const MOVED_PAGES_MIN: u32 = (256 << 10) / PAGE as u32;

/// Whether the kernel refused a move into the vault and may have left a hole there.
static IS_REFUSED: AtomicBool = AtomicBool::new(false);
/// Whether the vault is closed for good.
static IS_SHUT: AtomicBool = AtomicBool::new(false);
/// Number of threads that are moving pages.
#[cfg_attr(not(test), unsafe(link_section = ".data.pagewise_lazy"))]
static MOVING: AtomicU32 = AtomicU32::new(0);

/// Result of closing pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// The kernel has no room for one more mapping, or threads close much already: the pages are unchanged.
    Refused,
    /// Inaccessible, in place.
    Closed,
    /// In the vault, and their place is inaccessible.
    Aside,
}

/// Result of opening pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    Open,
    /// The kernel has no room for one more mapping: the pages are unchanged.
    Refused,
    /// Something else may be mapped at their addresses: they must not be used again.
    Lost,
}

/// Pages that threads are currently closing.
#[cfg_attr(not(test), unsafe(link_section = ".data.pagewise_lazy"))]
static CLOSING_PAGES: AtomicU32 = AtomicU32::new(0);

/// Limit of pages being closed at once: no thread uses them, and they cannot be handed out. 300 threads that
/// free blocks of 280 KiB waited for the kernel with 45 MiB.
const CLOSING_PAGES_MAX: u32 = (2 << 20) / PAGE as u32;

/// Result of `is_crowded`.
#[cfg_attr(not(test), unsafe(link_section = ".data.pagewise_lazy"))]
static IS_CROWDED: AtomicBool = AtomicBool::new(false);

/// Whether threads ever wanted to close more than `CLOSING_PAGES_MAX` pages at once. The memory being closed
/// and opened adds to what the pool retains.
pub fn is_crowded() -> bool {
    IS_CROWDED.load(Relaxed)
}

/// Number of free spans from which no more are closed. A closed span between blocks in use adds up to four
/// mappings: its place and what follows it, and the same in the vault. The kernel grants a process 65,530,
/// most of which must be left to the program.
const SPANS_MAX: u32 = 4096;

/// Result of `is_scattered`.
#[cfg_attr(not(test), unsafe(link_section = ".data.pagewise_lazy"))]
static IS_SCATTERED: AtomicBool = AtomicBool::new(false);

/// Records the number of free spans.
pub fn note_spans(count: u32) {
    let is_scattered = count >= SPANS_MAX;
    if IS_SCATTERED.load(Relaxed) != is_scattered {
        IS_SCATTERED.store(is_scattered, Relaxed);
    }
}

/// Whether there are `SPANS_MAX` free spans or more.
pub fn is_scattered() -> bool {
    IS_SCATTERED.load(Relaxed)
}

/// Makes unowned pages inaccessible, unless threads are already closing much memory.
pub fn close_unless_many_do(first: u32, pages: u32) -> Closing {
    if CLOSING_PAGES.fetch_add(pages, Relaxed) > CLOSING_PAGES_MAX {
        CLOSING_PAGES.fetch_sub(pages, Relaxed);
        IS_CROWDED.store(true, Relaxed);
        return Closing::Refused;
    }
    let closing = close(first, pages);
    CLOSING_PAGES.fetch_sub(pages, Relaxed);
    closing
}

/// Makes unowned pages inaccessible.
pub fn close(first: u32, pages: u32) -> Closing {
    let (address, length) = (address_of(first), pages as usize * PAGE);
    if pages >= MOVED_PAGES_MIN
        && !IS_REFUSED.load(Relaxed)
        && let Some(_moving) = Moving::begin()
        && put_aside(address, address + CHUNK, length)
    {
        // If this is refused, the place stays accessible, and empty.
        let _ = system::protect(address, length, PROT_NONE);
        return Closing::Aside;
    }
    match system::protect(address, length, PROT_NONE) {
        Ok(()) => Closing::Closed,
        Err(_) => Closing::Refused,
    }
}

/// Makes pages accessible to their new owner: those that are `aside` are moved back, the rest
/// of the `closed` pages are unprotected.
pub fn open(first: u32, pages: u32, closed: Bits, aside: Bits) -> Opening {
    let end = first + pages;
    for (from, to) in aside.runs(first, end, true) {
        let (address, length) = (address_of(from), (to - from) as usize * PAGE);
        let opening = match Moving::begin() {
            Some(_moving) => bring_back(address + CHUNK, address, length),
            None => unprotect(address, length),
        };
        if opening != Opening::Open {
            return opening;
        }
    }
    if closed.runs(first, end, true).any(|(from, to)| aside.next(from, to, false) < to) {
        return unprotect(address_of(first), pages as usize * PAGE);
    }
    Opening::Open
}

/// Where the memory of free pages is: address and bytes of each run.
pub fn places(first: u32, pages: u32, aside: Bits) -> impl Iterator<Item = (usize, usize)> {
    let end = first + pages;
    let mut page = first;
    std::iter::from_fn(move || {
        let from = page;
        let is_aside = aside.any(from, 1);
        page = aside.next(from, end, !is_aside);
        let address = address_of(from) + if is_aside { CHUNK } else { 0 };
        (from < end).then_some((address, (page - from) as usize * PAGE))
    })
}

/// Discards the content of these pages in the vault: their addresses are in use.
pub fn drop_aside(first: u32, pages: u32, aside: Bits) {
    for (from, to) in aside.runs(first, first + pages, true) {
        let (address, length) = (address_of(from) + CHUNK, (to - from) as usize * PAGE);
        let _ = system::advise(address, length, MADV_DONTNEED);
    }
    aside.clear(first, pages);
}

/// Moves memory into the vault. False if the kernel refuses.
fn put_aside(address: usize, vault: usize, length: usize) -> bool {
    let Err(errno) = system::remap(address, length, length, MOVE, vault) else { return true };
    // Some kernels refuse a range of several mappings (numpy asks for huge pages in part of a block),
    // after they have cleared the target.
    if errno != EFAULT || !fill(vault, length, PROT_NONE) {
        IS_REFUSED.store(true, Relaxed);
    }
    false
}

/// Moves memory back to its place. If the kernel refuses, the content is lost, which free memory tolerates.
fn bring_back(vault: usize, address: usize, length: usize) -> Opening {
    if system::remap(vault, length, length, MOVE, address).is_ok() {
        return Opening::Open;
    }
    let _ = system::advise(vault, length, MADV_DONTNEED);
    match fill(address, length, OPEN) {
        true => Opening::Open,
        false => Opening::Lost,
    }
}

const MOVE: c_int = MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP;

/// Maps memory in a hole. False if something is mapped there: it may be the program's.
pub fn fill(address: usize, length: usize, protection: c_int) -> bool {
    match system::map_anonymous(address, length, protection, MAP_FIXED_NOREPLACE) {
        Ok(place) if place == address => true,
        // A kernel before 4.17 treats the address as a hint.
        Ok(place) => {
            let _ = system::unmap(place, length);
            false
        }
        Err(_) => false,
    }
}

fn unprotect(address: usize, length: usize) -> Opening {
    match system::protect(address, length, OPEN) {
        Ok(()) => Opening::Open,
        Err(_) => Opening::Refused,
    }
}

/// Ends all moves for good. False if a move is under way that cannot end, because the calling signal
/// handler interrupted it.
pub fn shut() -> bool {
    IS_SHUT.store(true, SeqCst);
    let mut looks = 0;
    while MOVING.load(SeqCst) > 0 && looks < LOOKS_MAX {
        looks += 1;
        std::thread::yield_now();
    }
    looks < LOOKS_MAX
}

const LOOKS_MAX: u32 = 100_000;

/// For the child of a fork: the parent's threads that closed or moved pages are not in this process.
pub fn forget() {
    for count in [&MOVING, &CLOSING_PAGES] {
        if count.load(SeqCst) != 0 {
            count.store(0, SeqCst);
        }
    }
}

/// A move under way; `shut` waits while one lives.
struct Moving;

impl Moving {
    /// None once the vault is closed.
    fn begin() -> Option<Moving> {
        MOVING.fetch_add(1, SeqCst);
        let moving = Moving;
        (!IS_SHUT.load(SeqCst)).then_some(moving)
    }
}

impl Drop for Moving {
    fn drop(&mut self) {
        MOVING.fetch_sub(1, SeqCst);
    }
}

#[cfg(test)]
mod tests;
