//! Address space for the arena, a chunk at a time, and for the tables about its pages.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

use libc::{MADV_DONTDUMP, MADV_NOHUGEPAGE, PROT_NONE, PROT_READ, PROT_WRITE};
use policy::retention::Entry;

use crate::arena::Tables;
use crate::bits::PageBits;
use crate::chunks::{self, CHUNK, CHUNK_PAGES, CHUNKS_MAX};
use crate::huge;
use crate::knobs::knobs;
use crate::spans::Tag;
use crate::stand_aside;
use crate::system::{self, Errno};

pub const OPEN: libc::c_int = PROT_READ | PROT_WRITE;

/// Whether the system refused a chunk: no further request is made.
static IS_REFUSED: AtomicBool = AtomicBool::new(false);
/// Address of the tables; 0 before there are any.
static TABLES: AtomicUsize = AtomicUsize::new(0);
/// Address of the tables of bits.
static BITS: AtomicUsize = AtomicUsize::new(0);

/// Reserves the next chunk. Returns its first page and the tables up to its end; none if the
/// system refuses.
pub fn next_chunk() -> Option<(u32, Tables)> {
    let number = chunks::count();
    if number == CHUNKS_MAX || IS_REFUSED.load(Relaxed) {
        return None;
    }
    let tables = match number {
        0 if stand_aside::refuses_overcommit() => None,
        0 => {
            huge::decide();
            tables(number).ok().filter(|_| chunk().is_some_and(chunks::add))
        }
        _ => tables(number).ok().filter(|_| chunk().is_some_and(chunks::add)),
    };
    if tables.is_none() {
        IS_REFUSED.store(true, Relaxed);
    }
    Some((number as u32 * CHUNK_PAGES, tables?))
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

/// The tables with room for chunk `number` too. They are mapped for all chunks at once, so that they never
/// move, and as one mapping, since a fork copies each mapping.
fn tables(number: usize) -> Result<Tables, Errno> {
    if TABLES.load(Relaxed) == 0 {
        let address = system::map_anonymous(0, CHUNKS_MAX * TABLES_OF_CHUNK, OPEN, 0)?;
        for advice in [MADV_NOHUGEPAGE, MADV_DONTDUMP] {
            let _ = system::advise(address, CHUNKS_MAX * TABLES_OF_CHUNK, advice);
        }
        TABLES.store(address, Relaxed);
        let pages = CHUNKS_MAX * PAGES * (size_of::<Tag>() + size_of::<Entry>());
        BITS.store(address + pages, Relaxed);
    }
    let mut place = Place { address: TABLES.load(Relaxed), chunks: number + 1 };
    Ok(Tables {
        tags: place.next::<Tag>(),
        entries: place.next::<Entry>(),
        bits: bits_of(number + 1),
    })
}

/// The bits of all pages, for a thread without the pool's lock.
pub fn page_bits() -> PageBits {
    bits_of(chunks::count())
}

/// The bits of the pages of the first `chunks` chunks.
fn bits_of(chunks: usize) -> PageBits {
    let address = BITS.load(Relaxed);
    if address == 0 || chunks == 0 {
        return PageBits::new(&[]);
    }
    // SAFETY: mapped before the chunk was counted, zeroed at first, and never unmapped.
    PageBits::new(unsafe {
        std::slice::from_raw_parts(address as *const AtomicU64, chunks * WORDS)
    })
}

/// Releases the address space of tables for chunks that will not come.
pub fn release_unused_tables() {
    IS_REFUSED.store(true, Relaxed);
    let mut table = TABLES.swap(0, Relaxed);
    if table == 0 {
        return;
    }
    let pages = [PAGES * size_of::<Tag>(), PAGES * size_of::<Entry>()];
    for length in pages.into_iter().chain([WORDS * size_of::<AtomicU64>()]) {
        let used = chunks::count() * length;
        let _ = system::unmap(table + used, CHUNKS_MAX * length - used);
        table += CHUNKS_MAX * length;
    }
}

/// Elements of a table for one chunk: one per page, or one per word of bits.
const PAGES: usize = CHUNK_PAGES as usize;
const WORDS: usize = PAGES / u64::BITS as usize * PageBits::COUNT;
const TABLES_OF_CHUNK: usize =
    PAGES * (size_of::<Tag>() + size_of::<Entry>()) + WORDS * size_of::<AtomicU64>();

/// Position of the next table, and the number of chunks it covers.
struct Place {
    address: usize,
    chunks: usize,
}

impl Place {
    /// The next table, with one element per page, up to its last chunk.
    ///
    /// All zero bytes must be a valid value of the element type: tags and entries.
    fn next<T>(&mut self) -> &'static mut [T] {
        let table = self.address;
        self.address += CHUNKS_MAX * PAGES * size_of::<T>();
        // SAFETY: the memory is mapped, zeroed at first and never unmapped; it is a multiple of a page from
        // the start of a mapping, so it is aligned; the arena gives its former slice up.
        unsafe { std::slice::from_raw_parts_mut(table as *mut T, self.chunks * PAGES) }
    }
}
