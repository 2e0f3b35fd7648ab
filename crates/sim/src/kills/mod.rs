//! Replays a recording of memory and processes against kill policies: which processes they would have
//! killed, when and why, and why none the rest of the time.
//!
//! The recording continues as it was, less the memory of the victims: after its death, the memory of a
//! victim at each moment counts as free, and the victim is no candidate. Stalls stay as recorded, so the
//! relief of a kill is not simulated. If groups are not recorded, each process is a group of its own. Costs
//! of a restart are not recorded.

mod freezes;
mod outcome;
mod replay;

use types::Nanos;

pub use outcome::{
    Decision, Freeze, Judgement, Point, Reason, RecordedKill, Replay, ReplayOutcome, Victim,
};
pub use replay::Replayer;

/// Definition of a freeze, and the window between a decision and a freeze.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Share of time in which every task must stall for memory, from 0 to 1.
    pub freeze_share: f64,
    /// Time for which that share must hold.
    pub freeze_time: Nanos,
    /// Time after a decision within which a freeze belongs to it.
    pub window: Nanos,
}

impl Default for Settings {
    /// At least half of a second, within ten seconds, the kernel's averaging time.
    fn default() -> Settings {
        let second = 1_000_000_000;
        Settings { freeze_share: 0.5, freeze_time: Nanos(second), window: Nanos(10 * second) }
    }
}

#[cfg(test)]
mod tests;
