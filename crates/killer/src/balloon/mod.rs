//! The balloon: takes memory on purpose, in a cgroup with a limit, so that others have little. It is
//! two processes and a guard. One in the cgroup holds memory (`hold`), the one that the user started
//! watches that the machine keeps a floor of memory (`supervise`), and the guard ends and removes
//! all however the other two end.

mod hold;
mod options;
mod supervise;

pub use hold::hold;
pub use options::{Kind, Options, Target};
pub use supervise::{Ending, stand_guard, supervise};
