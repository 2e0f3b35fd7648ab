//! The counters of the preload library, and how the agent finds them in a running process.

/// The library's symbol for its counters: `LAZY_MAGIC`, then a 64-bit number for each row.
pub const LAZY_SYMBOL: &str = "pagewise_lazy_statistics";

/// Marks counters of this layout; the last byte is the layout's version.
pub const LAZY_MAGIC: u64 = u64::from_le_bytes(*b"pwlazy\0\x01");

/// A counter of the preload library. Its discriminant is its index in memory; [`LAZY_COUNTERS`] says
/// what each counts.
#[allow(missing_docs, reason = "the rows of LAZY_COUNTERS say it")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum LazyCounter {
    Allocations,
    HotHits,
    LazyHits,
    Frees,
    FaultsSavedPages,
    ZeroedPages,
    PopulatedPages,
    LazilyFreedPages,
    DiscardedPages,
    HotPages,
    LazyPages,
    OwnedPages,
    ReservedPages,
    HotMaxPages,
}

/// A counter's name and meaning.
#[derive(Debug)]
pub struct LazyCounterRow {
    /// The counter that the row describes.
    pub counter: LazyCounter,
    /// Name of the counter in JSON.
    pub name: &'static str,
    /// What the counter counts, in one line.
    pub summary: &'static str,
}

/// All counters, in the order of their place in memory.
pub const LAZY_COUNTERS: &[LazyCounterRow] = &[
    row(LazyCounter::Allocations, "allocations", "allocations and mappings handed out"),
    row(LazyCounter::HotHits, "hits_hot", "of these, from memory that was hot"),
    row(LazyCounter::LazyHits, "hits_lazy", "of these, from memory that was lazily freed"),
    row(LazyCounter::Frees, "frees", "spans freed"),
    row(LazyCounter::FaultsSavedPages, "faults_saved", "pages handed out that were mapped already"),
    row(LazyCounter::ZeroedPages, "zeroed_pages", "pages zeroed for calloc and mmap"),
    row(LazyCounter::PopulatedPages, "populated_pages", "pages mapped before their first touch"),
    row(LazyCounter::LazilyFreedPages, "lazily_freed_pages", "pages trimmed by MADV_FREE"),
    row(LazyCounter::DiscardedPages, "discarded_pages", "pages trimmed by MADV_DONTNEED"),
    row(LazyCounter::HotPages, "hot_pages", "pages held hot now"),
    row(LazyCounter::LazyPages, "lazy_pages", "pages lazily freed now"),
    row(LazyCounter::OwnedPages, "owned_pages", "pages in use now"),
    row(LazyCounter::ReservedPages, "reserved_pages", "pages of address space reserved"),
    row(LazyCounter::HotMaxPages, "hot_pages_max", "pages held hot at most"),
];

const fn row(counter: LazyCounter, name: &'static str, summary: &'static str) -> LazyCounterRow {
    LazyCounterRow { counter, name, summary }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_index_of_a_row_is_its_counter() {
        for (index, row) in LAZY_COUNTERS.iter().enumerate() {
            assert_eq!(row.counter as usize, index, "{}", row.name);
        }
    }
}
