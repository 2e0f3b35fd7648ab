//! Replays a recording of memory and processes against kill policies: who would have been killed, when
//! and why, and why not the rest of the time.
//!
//! The recording goes on as it was, less what the victims had: from its death on, what a victim has
//! at each moment counts as free, and the victim is no candidate. How much tasks stalled is as
//! recorded, so what a kill would have spared them is not seen. Groups of processes are not recorded:
//! each process is one of its own. Nor is what a restart would cost.

mod freezes;
mod outcome;
mod replay;

use types::Nanos;

pub use outcome::{
    Decision, Freeze, Judgement, Outcome, Point, Reason, RecordedKill, Replay, Victim,
};
pub use replay::Replayer;

/// What counts as a freeze, and how far a decision and a freeze may lie apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// The share of time in which every task must have stalled for memory, of 1.
    pub freeze_share: f64,
    /// How long it must have been so.
    pub freeze_time: Nanos,
    /// A decision belongs to the freezes that begin within so long after it.
    pub window: Nanos,
}

impl Default for Settings {
    /// Half of a second at least, within ten seconds: the time over which the kernel averages.
    fn default() -> Settings {
        let second = 1_000_000_000;
        Settings { freeze_share: 0.5, freeze_time: Nanos(second), window: Nanos(10 * second) }
    }
}

#[cfg(test)]
mod tests;
