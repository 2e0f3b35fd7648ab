//! The launch lab visits real applications in rounds under a memory budget, and freezes them in between. A
//! launch lasts from the request until the first answer.
//!
//! `plan`, `schedule` and `steps` decide; `changes`, `application` and `run` act. This crate knows how to launch
//! applications and to change a machine; it must not interpret the results.

mod application;
mod balloon;
pub mod changes;
mod error;
mod guard;
mod interface;
mod killd;
mod killer;
mod lock;
mod others;
pub mod plan;
mod preparation;
mod recording;
mod relaunchd;
mod results;
mod run;
pub mod schedule;
mod size;
pub mod steps;
mod storage;
mod text;
mod tiers;
mod validity;
mod waits;
mod watch;

pub use error::Error;
pub use lock::Lock;
pub use preparation::Preparation;
pub use results::Visited;
pub use run::{Observer, RunOutcome, run};
