//! The launch lab: real applications, visited in rounds under a memory budget, frozen in between. A
//! launch lasts from the request until the first interaction is answered.
//!
//! Decided first (`plan`, `schedule`, `steps`), done by `changes`, `application` and `run`. It knows
//! how applications are launched and what a machine is changed for; it must not know what the
//! results mean.

mod application;
mod balloon;
pub mod changes;
mod error;
mod guard;
mod interface;
mod killd;
mod killer;
mod lock;
pub mod plan;
mod preparation;
mod recording;
mod results;
mod run;
pub mod schedule;
mod size;
pub mod steps;
mod text;
mod waits;
mod watch;

pub use error::Error;
pub use lock::Lock;
pub use preparation::Preparation;
pub use results::Visited;
pub use run::{Observer, Outcome, run};
