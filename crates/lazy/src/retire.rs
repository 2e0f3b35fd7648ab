//! Gives the address space back for good, when the program does something incompatible with the arena:
//! locks all its memory, or limits its address space. Blocks and mappings that are in use stay
//! in place; later requests go to libc.

use std::sync::atomic::{AtomicBool, Ordering::AcqRel, Ordering::Acquire, Ordering::Release};

use crate::arena::Arena;
use crate::chunks::{self, CHUNK, CHUNK_PAGES, PAGE, address_of};
use crate::knobs::knobs;
use crate::lock::Guard;
use crate::reserve::release_unused_tables;
use crate::{pool, stand_aside, system, vault};

static IS_RETIRED: AtomicBool = AtomicBool::new(false);
/// Whether addresses of the arena may have been given to the kernel.
static IS_SHARED: AtomicBool = AtomicBool::new(false);

/// Whether free memory of the arena is no longer mapped, and freed memory is unmapped.
pub fn is_retired() -> bool {
    IS_RETIRED.load(Acquire)
}

/// Whether giving back the address space has begun.
static HAS_BEGUN: AtomicBool = AtomicBool::new(false);

/// Whether addresses of the arena may have other mappings.
#[inline]
pub fn is_shared() -> bool {
    IS_SHARED.load(Acquire)
}

/// Records that addresses of the arena may have other mappings.
pub fn share() {
    IS_SHARED.store(true, Release);
}

pub fn retire() {
    stand_aside::stop_serving();
    // Done once: something else may be mapped beside the arena by now.
    if HAS_BEGUN.swap(true, AcqRel) {
        return;
    }
    let has_vault = knobs().has_vault() && vault::shut();
    while let Some(mut arena) = pool::lock() {
        // Another thread's system call is under way: its span is returned in a moment.
        if arena.is_working() {
            drop(arena);
            std::thread::yield_now();
            continue;
        }
        IS_RETIRED.store(true, Release);
        share();
        unmap_free(&mut arena);
        if has_vault {
            unmap_vault(&arena);
        }
        return release_unused_tables();
    }
}

fn unmap_free(arena: &mut Guard<'_, Arena>) {
    for chunk in 0..chunks::count() as u32 {
        while let Some(free) = arena.carve(chunk * CHUNK_PAGES, CHUNK_PAGES) {
            let _ = system::unmap(address_of(free.first), free.pages as usize * PAGE);
        }
    }
}

/// Unmaps the vault; what remains is in place, if anywhere.
fn unmap_vault(arena: &Arena) {
    for chunk in 0..chunks::count() as u32 {
        let first = chunk * CHUNK_PAGES;
        arena.bits.aside.clear(first, CHUNK_PAGES);
        let _ = system::unmap(address_of(first) + CHUNK, CHUNK);
    }
}
