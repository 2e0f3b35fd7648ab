//! Replays a recording of memory and processes against kill policies: which processes they would have
//! killed, when and why, and why none the rest of the time.
//!
//! Each policy is driven as killd drives it: with the same search for what holds the memory, with weights that are
//! valid for a time, and with no decision while the memory of victims comes back.
//!
//! The recording continues as it was, less the memory of the victims: after its death, the memory of a
//! victim at each moment counts as free, and the victim is no candidate. Stalls stay as recorded, so the
//! relief of a kill is not simulated. If groups are not recorded, each process is a group of its own. The cost
//! of a restart follows from recorded processor time and major faults; rules of killd are not recorded.

mod freezes;
mod killer;
mod outcome;
mod replay;
mod waiting;
mod weights;

use types::Nanos;

pub use outcome::{
    Decision, Freeze, Judgement, Point, Reason, RecordedKill, Replay, ReplayOutcome, Victim,
};
pub use replay::Replayer;

/// A process: its id, and its start, which distinguishes it from later processes with that id.
type Identity = (u32, u64);

/// Definition of a freeze, and the window between a decision and a freeze.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Share of time in which every task must stall for memory, from 0 to 1.
    pub freeze_share: f64,
    /// Time for which that share must hold.
    pub freeze_time: Nanos,
    /// Time after a decision within which a freeze belongs to it.
    pub window: Nanos,
    /// Whether a killer makes several decisions at once, and counts the memory of their victims as free; if not, it makes
    /// the next when that memory is back (`kills` in the settings of killd).
    pub is_batch: bool,
}

impl Default for Settings {
    /// At least half of a second, within ten seconds, the kernel's averaging time.
    fn default() -> Settings {
        let second = 1_000_000_000;
        Settings {
            freeze_share: 0.5,
            freeze_time: Nanos(second),
            window: Nanos(10 * second),
            is_batch: false,
        }
    }
}

#[cfg(test)]
mod tests;
