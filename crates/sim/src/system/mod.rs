//! What a system trace answers: what launches of apps waited for, which processes were killed and whether that
//! was needed, and when memory was short and because of whom.
//!
//! [`Analyzer`] takes the events in the order of time, once, and keeps bounded state: limits are next to what they
//! bound, and what is beyond them is counted. The events are those of every format that `trace::system` reads.

mod analyzer;
mod answers;
mod counted;
mod evicted;
mod heat;
mod judge;
mod kill_texts;
mod kills;
mod launches;
mod memory;
mod moments;
mod outcome;
mod pressure;
mod schedule;
mod spans;
mod split;
mod tasks;

pub use analyzer::Analyzer;
pub use outcome::{
    About, Answers, Cause, FileReads, HeatRange, Interval, IntervalKind, Judged, Kills, Launches,
    Parts, PressureFound, RegionHeat, ThreadTimes, TraceKill, TraceLaunch, UnfinishedLaunch,
};
