//! Where freed memory lies while it is inaccessible: address space beside the arena, a page of it for
//! each page of the arena, that no program knows of. `mremap` moves pages there and back, and the place
//! they left is closed. It hands on page tables of 2 MiB whole, and touches no page's own record, so it
//! costs a fraction of two changes of protection; small spans are protected in place.
//!
//! Pages are moved by whom they belong to, so moves never overlap. Linux 5.7 and later leave the source of
//! a move mapped; older kernels refuse the first move, and all is protected in place. The kernel clears
//! the target before it looks at the source: where it then refuses, the target is a hole in which another
//! thread may be given a mapping. It is filled at once, but never over what came first.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed, Ordering::SeqCst};

use libc::{
    EFAULT, MADV_DONTNEED, MAP_FIXED_NOREPLACE, MREMAP_DONTUNMAP, MREMAP_FIXED, MREMAP_MAYMOVE,
    PROT_NONE, c_int,
};

use crate::bits::Bits;
use crate::chunks::{CHUNK, PAGE, address_of};
use crate::system::{self, OPEN};

/// Below this a move and a change of protection cost as much as protection alone.
const MOVED_PAGES_MIN: u32 = (256 << 10) / PAGE as u32;

/// Whether the kernel refused a move into the vault and may have left a hole there.
static IS_REFUSED: AtomicBool = AtomicBool::new(false);
/// Whether the vault is no more.
static IS_SHUT: AtomicBool = AtomicBool::new(false);
/// Threads that are moving pages.
#[cfg_attr(not(test), unsafe(link_section = ".data.pagewise_lazy"))]
static MOVING: AtomicU32 = AtomicU32::new(0);

/// What became of pages that were to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closing {
    /// The kernel has no room for one more mapping, or threads close much already: they are as they were.
    Refused,
    /// Inaccessible, in place.
    Closed,
    /// In the vault, and their place is inaccessible.
    Aside,
}

/// What became of pages that were to be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    Open,
    /// The kernel has no room for one more mapping: they are as they were.
    Refused,
    /// Something else may be mapped at their addresses: they must not be used again.
    Lost,
}

/// Pages that threads are closing now.
#[cfg_attr(not(test), unsafe(link_section = ".data.pagewise_lazy"))]
static CLOSING_PAGES: AtomicU32 = AtomicU32::new(0);

/// More are not closed at once: they are in use by no thread and cannot be handed out. 300 threads that free
/// blocks of 280 KiB were waiting for the kernel with 45 MiB.
const CLOSING_PAGES_MAX: u32 = (2 << 20) / PAGE as u32;

/// What `is_crowded` answers.
#[cfg_attr(not(test), unsafe(link_section = ".data.pagewise_lazy"))]
static IS_CROWDED: AtomicBool = AtomicBool::new(false);

/// Whether threads ever wanted to close more than `CLOSING_PAGES_MAX` pages at once. Memory that they are closing and
/// opening adds to what the pool holds.
pub fn is_crowded() -> bool {
    IS_CROWDED.load(Relaxed)
}

/// With this number of free spans, no more are closed. A closed span between blocks in use makes up to four mappings more:
/// its place and what follows it, and the same in the vault. The kernel grants a process 65,530, most of which are to
/// be left to the program.
const SPANS_MAX: u32 = 4096;

/// What `is_scattered` answers.
#[cfg_attr(not(test), unsafe(link_section = ".data.pagewise_lazy"))]
static IS_SCATTERED: AtomicBool = AtomicBool::new(false);

/// Notes how many free spans there are.
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

/// Makes pages that have no owner inaccessible, unless threads are closing much memory already.
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

/// Makes pages that have no owner inaccessible.
pub fn close(first: u32, pages: u32) -> Closing {
    let (address, length) = (address_of(first), pages as usize * PAGE);
    if pages >= MOVED_PAGES_MIN
        && !IS_REFUSED.load(Relaxed)
        && let Some(_moving) = Moving::begin()
        && put_aside(address, address + CHUNK, length)
    {
        // Where this is refused the place stays accessible, and empty.
        let _ = system::protect(address, length, PROT_NONE);
        return Closing::Aside;
    }
    match system::protect(address, length, PROT_NONE) {
        Ok(()) => Closing::Closed,
        Err(_) => Closing::Refused,
    }
}

/// Makes pages accessible that their owner was given: those that are `aside` are brought back, the rest
/// of the `closed` ones are unprotected.
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

/// Where the memory of free pages lies: address and bytes of each stretch.
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

/// Gives up what of these pages lies in the vault: their addresses are in use.
pub fn drop_aside(first: u32, pages: u32, aside: Bits) {
    for (from, to) in aside.runs(first, first + pages, true) {
        let (address, length) = (address_of(from) + CHUNK, (to - from) as usize * PAGE);
        let _ = system::advise(address, length, MADV_DONTNEED);
    }
    aside.clear(first, pages);
}

/// Moves memory out of sight. False where the kernel refuses.
fn put_aside(address: usize, vault: usize, length: usize) -> bool {
    let Err(errno) = system::remap(address, length, length, MOVE, vault) else { return true };
    // Several mappings in one (numpy asks for huge pages in part of a block) is what some kernels refuse,
    // after they have cleared the target.
    if errno != EFAULT || !fill(vault, length, PROT_NONE) {
        IS_REFUSED.store(true, Relaxed);
    }
    false
}

/// Moves memory back to where it was. Where the kernel refuses, it is lost, which free memory may be.
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

/// Maps memory where a hole was left. False where something lies there: it may be the program's.
pub fn fill(address: usize, length: usize, protection: c_int) -> bool {
    match system::map_anonymous(address, length, protection, MAP_FIXED_NOREPLACE) {
        Ok(place) if place == address => true,
        // A kernel before 4.17 takes the address for a wish.
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

/// Ends all moves for good. False where one is under way that does not end: it was interrupted by the
/// signal handler that calls.
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

/// Those that were closing or moving pages in the parent are not in this process.
pub fn forget() {
    for count in [&MOVING, &CLOSING_PAGES] {
        if count.load(SeqCst) != 0 {
            count.store(0, SeqCst);
        }
    }
}

/// While one lives, `shut` waits.
struct Moving;

impl Moving {
    /// None once the vault is shut.
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
