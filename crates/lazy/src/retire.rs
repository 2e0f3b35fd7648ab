//! Gives the address space back for good, when the program does something incompatible with the arena:
//! locks all its memory, or limits its address space. Blocks and mappings that are in use stay
//! in place; later requests go to libc.

use std::sync::atomic::{AtomicBool, Ordering::AcqRel};

use crate::arena::Arena;
use crate::chunks::{self, CHUNK, CHUNK_PAGES, PAGE, address_of};
use crate::knobs::knobs;
use crate::lock::Guard;
use crate::reserve::release_unused_tables;
use crate::retired::note_retired;
use crate::{locking, stand_aside, system, vault};

/// Whether giving back the address space has begun.
static HAS_BEGUN: AtomicBool = AtomicBool::new(false);

pub fn retire() {
    stand_aside::stop_serving();
    // Done once: something else may be mapped beside the arena by now.
    if HAS_BEGUN.swap(true, AcqRel) {
        return;
    }
    let has_vault = knobs().has_vault() && vault::shut();
    while let Some(mut arena) = locking::lock() {
        // Another thread's system call is under way: its span is returned in a moment.
        if arena.is_working() {
            drop(arena);
            std::thread::yield_now();
            continue;
        }
        note_retired();
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
