//! Replays the history of a program's large allocations against ways to hand out memory: which pages
//! fault, what is zeroed, what stays resident, and who is killed where memory is short.
//!
//! A block's pages are touched when it is given, since nobody recorded when in its life they were.
//! Blocks below 64 KiB and other memory of the program are not there.

mod allocators;
mod driver;
mod kernel;
mod outcome;
mod ranges;
mod space;
mod spans;

pub use allocators::{ALLOCATORS, Row, find};
pub use driver::{Options, replay, replay_all};
pub use outcome::{Counts, InUse, Outcome};
