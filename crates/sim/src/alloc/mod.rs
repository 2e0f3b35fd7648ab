//! Replays the history of a program's large allocations against allocators: which pages
//! fault, which are zeroed, which stay resident, and which processes die when memory is short.
//!
//! A block's pages are touched when it is given, since recordings do not say when in its life they were.
//! Blocks below 64 KiB and other memory of the program are not simulated.

mod allocators;
mod driver;
mod kernel;
mod outcome;
mod ranges;
mod space;
mod spans;

pub use allocators::{ALLOCATORS, Row, find};
pub use driver::{Options, replay, replay_all};
pub use outcome::{AllocatorOutcome, Counts, InUse};
