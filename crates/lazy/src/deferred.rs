//! Changes of the arena by a thread that cannot take its lock: the memory goes at once, and the change of
//! the arena is noted in the bits of the pages.

use std::sync::atomic::{AtomicBool, Ordering::AcqRel, Ordering::Relaxed, Ordering::Release};

use libc::{MAP_FIXED, PROT_NONE};

use crate::arena::{Arena, Owner};
use crate::bits::PageBits;
use crate::chunks::{CHUNK_PAGES, PAGE, address_of};
use crate::flag::take;
use crate::knobs::knobs;
use crate::system::OPEN;
use crate::tables::page_bits;
use crate::{huge_pages, retired, statistics, system, vault};

/// Whether a change is pending.
#[cfg_attr(not(test), unsafe(link_section = ".data.pagewise_lazy"))]
static IS_PENDING: AtomicBool = AtomicBool::new(false);
/// Whether the system call on the detached span is done.
#[cfg_attr(not(test), unsafe(link_section = ".data.pagewise_lazy"))]
static IS_FINISHED: AtomicBool = AtomicBool::new(false);

/// Records that the detached span may become free again.
pub fn finish() {
    IS_FINISHED.store(true, Release);
    IS_PENDING.store(true, Release);
}

/// Records that unowned pages without memory become free.
pub fn return_clean(first: u32, pages: u32) {
    page_bits().returned.set(first, pages);
    IS_PENDING.store(true, Release);
}

/// Records that the program maps over these pages: those that are free must not be handed out.
pub fn claim(first: u32, pages: u32) {
    let bits = page_bits();
    for (from, to) in bits.returned.runs(first, first + pages, true) {
        let to = bits.returned.take(from, to);
        bits.mapped.set(from, to - from);
    }
    bits.claimed.set(first, pages);
    IS_PENDING.store(true, Release);
}

/// Unmaps these pages for the program: those that it owned lose their memory and become free.
pub fn unmap(first: u32, pages: u32) {
    let (bits, end) = (page_bits(), first + pages);
    for (from, to) in bits.claimed.runs(first, end, true) {
        // These pages are free as far as the arena knows: they have the arena's mapping again.
        if bits.claimed.take(from, to) == to {
            map_again(from, to - from);
            bits.untaint(from, to - from);
        }
    }
    let mut page = first;
    loop {
        let from = bits.mapped.next(page, end, true);
        if from == end {
            return;
        }
        let to = bits.mapped.take(from, bits.mapped.next(from, end, false));
        if to > from && map_again(from, to - from) {
            bits.untaint(from, to - from);
            return_clean(from, to - from);
        }
        page = to.max(from + 1);
    }
}

/// Gives unowned pages a new, empty mapping of the arena's kind; closed if freed memory is inaccessible.
/// False if the kernel refuses: they stay unowned.
pub fn map_again(first: u32, pages: u32) -> bool {
    let (address, length) = (address_of(first), pages as usize * PAGE);
    let is_closed = knobs().closes(length) && !vault::is_scattered();
    let protection = if is_closed { PROT_NONE } else { OPEN };
    if system::map_anonymous(address, length, protection, MAP_FIXED).is_err() {
        return false;
    }
    if huge_pages::are_used() {
        // In base pages until it is handed out again.
        let _ = system::advise(address, length, libc::MADV_NOHUGEPAGE);
        page_bits().huge.clear(first, pages);
    }
    if is_closed {
        page_bits().closed.set(first, pages);
    }
    true
}

/// Applies the pending changes.
#[inline]
pub fn settle(arena: &mut Arena) {
    if IS_PENDING.load(Relaxed) {
        settle_now(arena);
    }
}

#[cold]
fn settle_now(arena: &mut Arena) {
    if !IS_PENDING.swap(false, AcqRel) {
        return;
    }
    if IS_FINISHED.swap(false, AcqRel) {
        arena.finish();
    }
    let used = arena.used();
    for first in (0..used).step_by(CHUNK_PAGES as usize) {
        settle_chunk(arena, first, used.min(first + CHUNK_PAGES));
    }
}

fn settle_chunk(arena: &mut Arena, first: u32, end: u32) {
    let PageBits { claimed, returned, .. } = arena.bits;
    for (from, to) in claimed.runs(first, end, true) {
        if claimed.take(from, to) == to {
            own_free(arena, from, to - from);
        }
    }
    for (from, to) in returned.runs(first, end, true) {
        let to = returned.take(from, to);
        if retired::is_retired() {
            let _ = system::unmap(address_of(from), (to - from) as usize * PAGE);
        } else if to > from {
            deposit_clean_locked(arena, from, to - from);
        }
    }
}

/// Makes pages free that are absent from memory, for a thread that holds the lock.
pub fn deposit_clean_locked(arena: &mut Arena, first: u32, pages: u32) {
    arena.deposit_clean(first, pages);
    statistics::count_free(pages);
}

/// Gives these pages, over which the program has mapped something, to the program if they were free.
pub fn own_free(arena: &mut Arena, first: u32, pages: u32) {
    let mut owned = 0;
    while let Some(free) = arena.carve(first, pages) {
        arena.own(free.first, free.pages, Owner::Map);
        owned += free.pages;
    }
    statistics::count_owned(owned);
    arena.bits.taint(first, pages);
    arena.bits.closed.clear(first, pages);
    arena.bits.undumped.clear(first, pages);
    vault::drop_aside(first, pages, arena.bits.aside);
}

/// For the child of a fork: the thread that was to finish is not in this process.
pub fn forget() {
    take(&IS_FINISHED);
}
