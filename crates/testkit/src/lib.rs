//! Naive reference models and generators, for tests only.

pub mod allocations;
pub mod counting;
pub mod eviction;
pub mod generate;
pub mod grouping;
pub mod kill;
pub mod lifecycle;
pub mod references;
pub mod retention;
mod skip;
mod sleeper;
pub mod swap;

pub use skip::{LEDGER, skipped};
pub use sleeper::Sleeper;
