//! The balloon takes memory on purpose, in a cgroup with a limit, so that other programs have little. It
//! consists of three processes: one in the cgroup holds the memory (`hold`); the one that the user started
//! ends it if the machine has less than a floor of available memory (`supervise`); the guard ends the first
//! and removes the cgroup, however the other two end.

mod hold;
mod options;
mod supervise;

pub use hold::hold;
pub use options::{BalloonTarget, Kind, Options};
pub use supervise::{Ending, stand_guard, supervise};
