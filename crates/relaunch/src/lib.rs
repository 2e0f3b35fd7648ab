//! Brings back what a thawed application used before: it learns which pages each visit took out of swap, reads those
//! that the next visit is expected to use before the application runs again, and lets the others leave memory first
//! when it freezes.
//!
//! `scores` predicts, `order` sorts and `application` decides, all without I/O. `uses` notes the order of use from faults
//! that a [`Follow`] passes on; this crate does not know where they come from. `driver` is the daemon: it reads page maps, gives
//! advice, freezes and thaws. docs/relaunchd.md describes the settings.

mod application;
mod config;
mod control;
mod driver;
mod examine;
mod members;
mod notes;
mod order;
mod ranges;
mod room;
mod scores;
mod statistics;
mod uses;

pub use daemon::{Control, Error, Output};

pub use config::{Config, DEFAULT_CONTROL, Order, Paths, Watched};
pub use control::{Answer, Request, ask};
pub use driver::Relauncher;
pub use examine::{Examined, examine};
pub use statistics::{Counters, Report, State, Statistics};
pub use uses::{Drained, Follow, SwapIn, Take};
