//! Addresses that the program has unmapped and expects to be free. The arena keeps them
//! mapped; a mapping that requires them to be free is let in, and a stack that grows downwards
//! finds room and guard gap below it, as after the kernel's own `munmap`.

use crate::arena::{Arena, Owner};
use crate::bits::PageBits;
use crate::chunks::{self, CHUNK_PAGES, PAGE, address_of, page_of};
use crate::locking::{lock_at_rest, lock_patiently};
use crate::pool::{Freed, give_back};
use crate::system::{self, Errno, Mapping, OPEN};
use crate::tables::page_bits;
use crate::{onward, retired, statistics, vault};

/// Maps at the program's requested address if no memory of the program's is there. The arena's free pages there
/// make room, and are free again if the kernel chooses another place.
pub fn map(mapping: Mapping) -> Result<usize, Errno> {
    map_by(mapping.address, mapping.length, || onward::map(mapping))
}

/// `map` through any call of the program's that maps `length` bytes.
pub fn map_by(
    address: usize,
    length: usize,
    call: impl FnOnce() -> Result<usize, Errno>,
) -> Result<usize, Errno> {
    let whole = length.checked_next_multiple_of(PAGE).unwrap_or(0);
    let is_place = address.is_multiple_of(PAGE) && !retired::is_retired();
    let has_room = is_place && make_room(address, whole);
    let answer = call();
    if has_room && answer != Ok(address) {
        close_room(address, whole);
    }
    answer
}

/// Address of the first page, in `length` bytes from `address` on, that the program has unmapped; none
/// if there is none, or if that cannot be known now. A call on such a page must fail, as in the kernel.
pub fn first_unmapped(address: usize, length: usize) -> Option<usize> {
    let whole = length.checked_next_multiple_of(PAGE)?;
    if !address.is_multiple_of(PAGE) || retired::is_retired() {
        return None;
    }
    chunks::overlaps(address, whole).find_map(|(first, pages)| {
        let (mapped, end) = (page_bits().mapped, first + pages);
        if mapped.next(first, end, false) == end {
            return None;
        }
        let page = lock_patiently()?.first_free(first, end)?;
        Some(address_of(page))
    })
}

/// Unmaps the free pages at these addresses; false if memory of the program's is there.
fn make_room(address: usize, length: usize) -> bool {
    if chunks::overlaps(address, length).next().is_none() {
        return false;
    }
    let Some(mut arena) = lock_at_rest() else { return false };
    let is_free = |(first, pages)| arena.is_free_or_released(first, first + pages);
    if !chunks::overlaps(address, length).all(is_free) {
        return false;
    }
    for (first, pages) in chunks::overlaps(address, length) {
        while let Some(free) = arena.carve(first, pages) {
            arena.own(free.first, free.pages, Owner::Map);
            statistics::count_owned(free.pages);
            arena.bits.tainted.set(free.first, free.pages);
            unmap(arena.bits, free.first, free.pages);
        }
    }
    true
}

/// Takes back what `make_room` unmapped, unless it is mapped already.
fn close_room(address: usize, length: usize) {
    let bits = page_bits();
    for (first, pages) in chunks::overlaps(address, length) {
        for (from, to) in bits.mapped.runs(first, first + pages, true) {
            let is_filled = vault::fill(address_of(from), (to - from) as usize * PAGE, OPEN);
            if is_filled && bits.mapped.take(from, to) == to {
                give_back(None, from, to - from, Freed::Clean, Owner::Map);
            }
        }
    }
}

/// Gives the kernel all free addresses below `address` in its chunk, down to the first page in use.
pub fn open_below(address: usize) {
    let Some(last) = address.checked_sub(PAGE).and_then(page_of) else { return };
    let Some(mut arena) = lock_at_rest() else { return };
    let (mut page, start) = (last + 1, last / CHUNK_PAGES * CHUNK_PAGES);
    while page > start {
        page = match arena.bits.released.any(page - 1, 1) {
            true => page - 1,
            false => match release_before(&mut arena, page) {
                Some(first) => first,
                None => return,
            },
        };
    }
}

/// Gives the kernel the free span that ends before `page`. Returns its first page.
fn release_before(arena: &mut Arena, page: u32) -> Option<u32> {
    let span = arena.free_before(page)?;
    let free = arena.carve(span.first, span.pages)?;
    retired::share();
    arena.bits.released.set(free.first, free.pages);
    unmap(arena.bits, free.first, free.pages);
    Some(free.first)
}

/// Unmaps pages that are no longer free, and their content in the vault.
fn unmap(bits: PageBits, first: u32, pages: u32) {
    bits.closed.clear(first, pages);
    bits.undumped.clear(first, pages);
    vault::drop_aside(first, pages, bits.aside);
    let _ = system::unmap(address_of(first), pages as usize * PAGE);
}
