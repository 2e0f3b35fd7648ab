//! What is kept of the arena's pages: a table of tags, one of entries, and the bits of each page. They lie
//! beside the arena and are mapped at once for all chunks that there may be.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use libc::{MADV_DONTDUMP, MADV_NOHUGEPAGE};
use policy::retention::Entry;

use crate::arena::Tables;
use crate::bits::PageBits;
use crate::chunks::{self, CHUNK_PAGES, CHUNKS_MAX};
use crate::spans::Tag;
use crate::system::{self, Errno, OPEN};

/// Address of the tables; 0 before there are any.
static TABLES: AtomicUsize = AtomicUsize::new(0);
/// Address of the tables of bits.
static BITS: AtomicUsize = AtomicUsize::new(0);

/// The tables with room for chunk `number` too. They are mapped for all chunks at once, so that they never
/// move, and as one mapping, since a fork copies each mapping.
pub fn up_to(number: usize) -> Result<Tables, Errno> {
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

/// Gives back what is reserved for chunks that will not come.
pub fn release_unused() {
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
