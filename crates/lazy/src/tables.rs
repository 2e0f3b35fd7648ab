//! The tables of the arena's pages, beside the arena: tags, entries and bits.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use libc::{MADV_DONTDUMP, MADV_NOHUGEPAGE};
use policy::retention::Entry;

use crate::arena::Tables;
use crate::bits::PageBits;
use crate::chunks::{self, CHUNK_PAGES, CHUNKS_MAX};
use crate::spans::Tag;
use crate::system::{self, Errno, OPEN};

/// Place of a table: bytes from the start of the tables, and bytes for one chunk.
#[derive(Clone, Copy)]
struct Table {
    start: usize,
    of_chunk: usize,
}

impl Table {
    const fn end(self) -> usize {
        self.start + CHUNKS_MAX * self.of_chunk
    }
}

const TAGS: Table = Table { start: 0, of_chunk: PAGES * size_of::<Tag>() };
const ENTRIES: Table = Table { start: TAGS.end(), of_chunk: PAGES * size_of::<Entry>() };
const BITS: Table = Table { start: ENTRIES.end(), of_chunk: WORDS * size_of::<AtomicU64>() };
/// Bytes of all tables, for all chunks that there may be.
const LENGTH: usize = BITS.end();

/// Elements for one chunk: one per page, or one per word of bits.
const PAGES: usize = CHUNK_PAGES as usize;
const WORDS: usize = PAGES / u64::BITS as usize * PageBits::COUNT;

/// Address of the tables; 0 before there are any and after `release_unused`.
static ADDRESS: AtomicUsize = AtomicUsize::new(0);
/// Address of the bits, which threads use without the arena's lock; 0 before there are any.
static ADDRESS_OF_BITS: AtomicUsize = AtomicUsize::new(0);

/// The tables with room for chunk `number` too. They are mapped for all chunks at once, so that they never
/// move, and as one mapping, since a fork copies each mapping.
pub fn up_to(number: usize) -> Result<Tables, Errno> {
    if ADDRESS.load(Relaxed) == 0 {
        let address = system::map_anonymous(0, LENGTH, OPEN, 0)?;
        for advice in [MADV_NOHUGEPAGE, MADV_DONTDUMP] {
            let _ = system::advise(address, LENGTH, advice);
        }
        ADDRESS.store(address, Relaxed);
        ADDRESS_OF_BITS.store(address + BITS.start, Relaxed);
    }
    let (address, chunks) = (ADDRESS.load(Relaxed), number + 1);
    // SAFETY: both tables are mapped, zeroed at first and never unmapped up to the last chunk, and begin at a
    // multiple of a page; zeros are a valid tag and a valid entry; the arena gives its former slices up.
    let (tags, entries) = unsafe {
        (
            std::slice::from_raw_parts_mut((address + TAGS.start) as *mut Tag, chunks * PAGES),
            std::slice::from_raw_parts_mut((address + ENTRIES.start) as *mut Entry, chunks * PAGES),
        )
    };
    Ok(Tables { tags, entries, bits: bits_of(chunks) })
}

/// The bits of all pages, for a thread without the arena's lock.
pub fn page_bits() -> PageBits {
    bits_of(chunks::count())
}

/// The bits of the pages of the first `chunks` chunks.
fn bits_of(chunks: usize) -> PageBits {
    let address = ADDRESS_OF_BITS.load(Relaxed);
    if address == 0 || chunks == 0 {
        return PageBits::new(&[]);
    }
    // SAFETY: mapped before the chunk was counted, zeroed at first, and never unmapped.
    PageBits::new(unsafe {
        std::slice::from_raw_parts(address as *const AtomicU64, chunks * WORDS)
    })
}

/// Gives back what is reserved for chunks that will not come.
pub fn release_unused() {
    let address = ADDRESS.swap(0, Relaxed);
    if address == 0 {
        return;
    }
    for table in [TAGS, ENTRIES, BITS] {
        let used = table.start + chunks::count() * table.of_chunk;
        let _ = system::unmap(address + used, table.end() - used);
    }
}
