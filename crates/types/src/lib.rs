//! Units and nouns shared by every crate, without dependencies: events and numbers, `prefetch` and
//! `HugeVec` for loops over scattered memory, seeded random numbers, and `shown` for names in text.

mod event;
mod huge_pages;
mod lazy_statistics;
mod prefetch;
mod progress;
pub mod random;
mod reference;
mod shown;
mod size;
mod units;

pub use event::{Event, EventFlags, EventKind, Events, PageClass};
pub use huge_pages::{HugeVec, advise_huge_pages};
pub use lazy_statistics::{LAZY_COUNTERS, LAZY_MAGIC, LAZY_SYMBOL, LazyCounter, LazyCounterRow};
pub use prefetch::prefetch;
pub use progress::{Cancelled, NoProgress, Progress};
pub use reference::{
    BLOCK_BYTES, FILTER_BLOCKS, LeftBlock, ReferenceKind, ReferenceStep, ReferenceTotals,
};
pub use shown::shown;
pub use units::{Bytes, Nanos, PAGE_BYTES, PageId, ProcessId};
