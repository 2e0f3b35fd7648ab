//! Pure decisions: which page to evict, admit or place where, what to keep mapped, what to kill.
//!
//! A policy has no clock, no I/O and no threads; it owns no pages and counts nothing. The driver
//! (a simulator, or a live pager) keeps the map of where each page is, asks, acts and counts.

pub mod admission;
pub mod eviction;
pub mod kill;
mod lists;
mod options;
mod page_set;
pub mod placement;
pub mod retention;
pub mod tiers;

pub use options::{OptionRow, Values};
pub use page_set::PageSet;
