//! Moving the content of pages from one place of the arena to another.

use libc::{MREMAP_DONTUNMAP, MREMAP_FIXED, MREMAP_MAYMOVE};

use crate::arena::Grant;
use crate::chunks::{PAGE, address_of};
use crate::spans::Free;
use crate::system::{self, OPEN};
use crate::tables::page_bits;

/// Size below which copying is less work than two changes of the page tables.
const MOVED_PAGES_MIN: u32 = 64;

/// Moves `pages` pages from `from` on to the start of `to`: copies them if that memory is hot, else
/// moves the pages themselves. True if the source has no memory afterwards.
pub fn move_pages(from: u32, to: Grant, pages: u32) -> bool {
    let (source, target) = (address_of(from), address_of(to.first));
    let length = pages as usize * PAGE;
    if to.held != Free::Hot && pages >= MOVED_PAGES_MIN && hand_over(source, target, length) {
        // Moved pages keep their former offset, so the kernel joins their mapping to no other
        // until they are mapped again.
        let bits = page_bits();
        bits.tainted.set(to.first, pages);
        bits.moved.set(to.first, pages);
        return true;
    }
    system::copy(source, target, length);
    false
}

/// Moves the pages through addresses of the kernel's choice. The kernel clears the target
/// before it checks whether the source is one mapping, so a refusal must come before the target is
/// used. Kernels before 5.7 refuse to leave the source mapped.
fn hand_over(source: usize, target: usize, length: usize) -> bool {
    let flags = MREMAP_MAYMOVE | MREMAP_DONTUNMAP;
    let Ok(between) = system::remap(source, length, length, flags, 0) else { return false };
    let flags = MREMAP_MAYMOVE | MREMAP_FIXED;
    if system::remap(between, length, length, flags, target).is_ok() {
        return true;
    }
    // Out of mappings. The caller copies from the source, so the pages go back there.
    let _ = system::map_anonymous(target, length, OPEN, libc::MAP_FIXED);
    system::copy(between, source, length);
    let _ = system::unmap(between, length);
    false
}
