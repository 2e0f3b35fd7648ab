//! Chunks of address space, and the map from addresses to pages of the arena.
//!
//! A chunk is 1 GiB at a multiple of 1 GiB, so that one load from a small table decides whether an
//! address is in the arena: `free` checks every block of the program.

use std::sync::atomic::{AtomicU8, AtomicU32, AtomicUsize, Ordering::Acquire, Ordering::Release};

/// The arena's page, 4 KiB; the library stands aside on machines with another base page.
pub const PAGE: usize = types::PAGE_BYTES as usize;
/// Size of a chunk in bytes.
pub const CHUNK: usize = 1 << CHUNK_BITS;
pub const CHUNK_PAGES: u32 = (CHUNK / PAGE) as u32;
/// Chunks at most; requests beyond them go to libc.
pub const CHUNKS_MAX: usize = 64;

/// Chunks are short in tests, which walk them page by page.
const CHUNK_BITS: u32 = if cfg!(test) { 24 } else { 30 };
/// User addresses have 47 bits on x86-64 and 48 on arm64 unless a program requests longer ones.
const ADDRESS_BITS: u32 = 48;
/// End of a program's addresses.
pub const USER_END: usize = 1 << if cfg!(target_arch = "x86_64") { 47 } else { ADDRESS_BITS };

/// For each GiB of the address space, the number of its chunk plus 1, or 0.
static CHUNK_AT: [AtomicU8; 1 << (ADDRESS_BITS - CHUNK_BITS)] =
    [const { AtomicU8::new(0) }; 1 << (ADDRESS_BITS - CHUNK_BITS)];
static ADDRESSES: [AtomicUsize; CHUNKS_MAX] = [const { AtomicUsize::new(0) }; CHUNKS_MAX];
static COUNT: AtomicU32 = AtomicU32::new(0);
/// Address of the lowest chunk, and distance from there to the end of the highest chunk.
static LOWEST: AtomicUsize = AtomicUsize::new(0);
static EXTENT: AtomicUsize = AtomicUsize::new(0);

/// Number of chunks so far.
pub fn count() -> usize {
    COUNT.load(Acquire) as usize
}

/// Registers the next chunk at `address`, a multiple of `CHUNK`; false if there is no
/// room for it.
pub fn add(address: usize) -> bool {
    let number = count();
    let (Some(place), Some(base)) = (CHUNK_AT.get(address >> CHUNK_BITS), ADDRESSES.get(number))
    else {
        return false;
    };
    base.store(address, Release);
    widen(address);
    place.store((number + 1) as u8, Release);
    COUNT.store(number as u32 + 1, Release);
    true
}

/// Extends the hull to the chunk at `address`. A thread that reads one number before and the other after a change
/// sees too wide a hull, never too narrow a one: the extent grows before the lowest address falls.
fn widen(address: usize) {
    let (lowest, extent) = (LOWEST.load(Acquire), EXTENT.load(Acquire));
    let first = if extent == 0 { address } else { lowest.min(address) };
    let end = (lowest + extent).max(address + CHUNK);
    EXTENT.store(end - first, Release);
    LOWEST.store(first, Release);
}

/// Whether `address` may be in the arena: it is between its ends. Cheaper than `page_of`, and sufficient for most
/// blocks of other allocators.
#[inline(always)]
pub fn may_have(address: usize) -> bool {
    let lowest = LOWEST.load(Acquire);
    address.wrapping_sub(lowest) < EXTENT.load(Acquire)
}

/// The page that contains `address`; none outside the arena.
#[inline]
pub fn page_of(address: usize) -> Option<u32> {
    let chunk = CHUNK_AT.get(address >> CHUNK_BITS)?.load(Acquire);
    let number = u32::from(chunk).checked_sub(1)?;
    Some(number * CHUNK_PAGES + ((address % CHUNK) / PAGE) as u32)
}

/// Address of a page of the arena.
pub fn address_of(page: u32) -> usize {
    let base = ADDRESSES.get((page / CHUNK_PAGES) as usize).map_or(0, |base| base.load(Acquire));
    base + (page % CHUNK_PAGES) as usize * PAGE
}

/// The part in the arena of `length` bytes from `address` on, both multiples of a page: first page and
/// number of pages, chunk by chunk.
pub fn overlaps(address: usize, length: usize) -> impl Iterator<Item = (u32, u32)> {
    let end = address.saturating_add(length);
    (0..count()).filter_map(move |number| {
        let base = ADDRESSES.get(number)?.load(Acquire);
        let (from, to) = (address.max(base), end.min(base + CHUNK));
        (from < to).then(|| {
            let first = number as u32 * CHUNK_PAGES + ((from - base) / PAGE) as u32;
            (first, ((to - from) / PAGE) as u32)
        })
    })
}
