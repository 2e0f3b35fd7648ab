//! Address space for the arena, a chunk at a time.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use libc::{MADV_DONTDUMP, PROT_NONE};

use crate::arena::Tables;
use crate::chunks::{self, CHUNK, CHUNK_PAGES, CHUNKS_MAX};
use crate::huge;
use crate::knobs::knobs;
use crate::stand_aside;
use crate::system::{self, OPEN};
use crate::tables;

/// Whether the system refused a chunk: no further request is made.
static IS_REFUSED: AtomicBool = AtomicBool::new(false);

/// Reserves the next chunk. Returns its first page and the tables up to its end; none if the
/// system refuses.
pub fn next_chunk() -> Option<(u32, Tables)> {
    let number = chunks::count();
    if number == CHUNKS_MAX || IS_REFUSED.load(Relaxed) {
        return None;
    }
    let tables = reserve(number);
    if tables.is_none() {
        IS_REFUSED.store(true, Relaxed);
    }
    Some((number as u32 * CHUNK_PAGES, tables?))
}

/// Reserves chunk `number` and its part of the tables.
fn reserve(number: usize) -> Option<Tables> {
    if number == 0 {
        if stand_aside::refuses_overcommit() {
            return None;
        }
        huge::decide();
    }
    let tables = tables::up_to(number).ok()?;
    chunk().is_some_and(chunks::add).then_some(tables)
}

/// Address space for one chunk at a multiple of its length, followed by its vault if it has one.
fn chunk() -> Option<usize> {
    let length = if knobs().has_vault() { 2 * CHUNK } else { CHUNK };
    // One additional chunk contains such a multiple at any address.
    let whole = system::map_anonymous(0, length + CHUNK, OPEN, 0).ok()?;
    let address = whole.next_multiple_of(CHUNK);
    let (before, after) = (address - whole, whole + CHUNK - address);
    for (address, length) in [(whole, before), (address + length, after)] {
        if length > 0 {
            system::unmap(address, length).ok()?;
        }
    }
    if knobs().has_vault() {
        system::protect(address + CHUNK, CHUNK, PROT_NONE).ok()?;
    }
    // Unused memory stays out of core files.
    let _ = system::advise(address, CHUNK, MADV_DONTDUMP);
    huge::prepare_chunk(address);
    Some(address)
}

/// Releases the address space of tables for chunks that will not come.
pub fn release_unused_tables() {
    IS_REFUSED.store(true, Relaxed);
    tables::release_unused();
}
