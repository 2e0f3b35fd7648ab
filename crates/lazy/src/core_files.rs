//! Core files contain the memory in use and little else: free memory would add zeros to them, up to the most that the
//! program ever used.
//!
//! Free memory is excluded by whole huge pages, because a mapping that ends within one has none there. A huge page that
//! one call discards is excluded right after the call. The helper excludes the rest once no memory was discarded for a
//! second, so a program that uses its memory again soon pays no calls for it.

use libc::{MADV_DODUMP, MADV_DONTDUMP};

use crate::arena::{Arena, Grant};
use crate::bits::Bits;
use crate::chunks::{CHUNK, CHUNK_PAGES, PAGE, address_of};
use crate::huge_pages::HUGE_PAGES;
use crate::spans::FreeSpan;
use crate::tables::page_bits;
use crate::{locking, system};

/// Excludes the whole huge pages of a span without memory, which the caller has detached from the arena.
pub fn leave_out(span: FreeSpan) {
    let first = span.first.next_multiple_of(HUGE_PAGES);
    let end = span.end() / HUGE_PAGES * HUGE_PAGES;
    if first < end && exclude(address_of(first), first, end) {
        page_bits().undumped.set(first, end - first);
    }
}

/// Excludes the whole huge pages of the longest clean spans. The caller holds the lock, so that none of them is handed
/// out meanwhile. Does nothing while a span is detached: its pages may soon be clean too.
pub fn leave_out_clean(arena: &mut Arena) {
    if arena.is_working() {
        return;
    }
    let (bits, dumped) = (arena.bits, arena.dumped());
    // Calls that map over free memory wait for the end of this.
    locking::note_work(true);
    for span in arena.clean_spans() {
        let first = span.first.next_multiple_of(HUGE_PAGES);
        let end = span.end().min(dumped) / HUGE_PAGES * HUGE_PAGES;
        if bits.undumped.next(first, end, false) < end && exclude(address_of(first), first, end) {
            bits.undumped.set(first, end - first);
            for (from, to) in bits.aside.runs(first, end, true) {
                exclude(address_of(from) + CHUNK, from, to);
            }
            // The vault has no memory of these pages, and their place is closed: they count as closed in place, so
            // that no part of an excluded mapping is moved back.
            bits.aside.clear(first, end - first);
        }
    }
    locking::note_work(false);
    let used = arena.used().next_multiple_of(HUGE_PAGES);
    if used < dumped && bits.undumped.next(used, dumped, false) == dumped {
        bits.undumped.clear(used, dumped - used);
        arena.set_dumped(used);
    }
}

/// Includes the pages in use that core files do not include yet, and some ahead of them. The caller holds the lock.
pub fn include_ahead(arena: &mut Arena) {
    if let Some((first, pages)) = arena.wanted_dump() {
        dump(first, pages);
    }
}

/// Includes memory that was handed out.
pub fn include(grant: Grant, undumped: Bits) {
    if undumped.any(grant.first, grant.pages) {
        let first = grant.first / HUGE_PAGES * HUGE_PAGES;
        let pages = (grant.first + grant.pages).next_multiple_of(HUGE_PAGES) - first;
        dump(first, pages);
        undumped.clear(first, pages);
    }
}

/// Includes pages, which may lie in several chunks.
fn dump(first: u32, pages: u32) {
    let (mut page, end) = (first, first + pages);
    while page < end {
        let next = end.min((page / CHUNK_PAGES + 1) * CHUNK_PAGES);
        let length = (next - page) as usize * PAGE;
        let _ = system::advise(address_of(page), length, MADV_DODUMP);
        page = next;
    }
}

/// Excludes the memory of the pages from `first` to `end`, which is at `address`. False if the kernel refuses.
fn exclude(address: usize, first: u32, end: u32) -> bool {
    system::advise(address, (end - first) as usize * PAGE, MADV_DONTDUMP).is_ok()
}
