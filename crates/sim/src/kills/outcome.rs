//! What a replay tells. Times are seconds since the first moment, memory is bytes.

use schemars::JsonSchema;
use serde::Serialize;

/// A recording replayed against policies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Outcome {
    /// Moments of the recording.
    pub moments: u64,
    /// From the first moment to the last.
    #[schemars(range(min = 0))]
    pub duration_s: f64,
    /// All memory of the group or machine at the last moment.
    pub total_bytes: u64,
    /// Whether every moment has watermarks and what the kernel keeps; where not, `minfree` counts that
    /// as free and `lmkd` has no rule of low free memory.
    pub has_watermarks: bool,
    /// Whether the recording has weights of processes. If not, memory that processes share by fork counts in full
    /// for each of them.
    pub has_weights: bool,
    /// Available memory over time, thinned to its lowest within equal steps.
    pub memory: Vec<Point>,
    /// When no task got on.
    pub freezes: Vec<Freeze>,
    /// Who was killed while it was recorded.
    pub recorded: Vec<RecordedKill>,
    /// What each policy would have done, in the order asked for.
    pub policies: Vec<Replay>,
}

/// Memory at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "MemoryPoint")]
pub struct Point {
    /// When.
    #[schemars(range(min = 0))]
    pub time_s: f64,
    /// What could be had without swapping.
    pub available_bytes: u64,
    /// What is free of all swap.
    pub swap_free_bytes: u64,
}

/// A time in which no task got on for want of memory, or the kernel's own killer had to act.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Freeze {
    /// Its begin.
    #[schemars(range(min = 0))]
    pub from_s: f64,
    /// Its end; the begin, where the kernel killed.
    #[schemars(range(min = 0))]
    pub to_s: f64,
    /// Whether it is a kill of the kernel's.
    pub is_kernel_kill: bool,
}

/// A process that was killed while it was recorded.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RecordedKill {
    /// When.
    #[schemars(range(min = 0))]
    pub time_s: f64,
    /// Its number.
    pub process: u32,
    /// Its name, where it was seen alive.
    pub name: Option<String>,
    /// Whether the kernel's out-of-memory killer chose it.
    pub is_of_kernel: bool,
    /// Whether the recording has the moment of this kill: memory and processes before any of the victim's
    /// memory was given back. Without it the recording cannot tell what the killer saw.
    pub has_moment: bool,
}

/// What one policy would have done.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "PolicyReplay")]
pub struct Replay {
    /// Its name.
    pub policy: String,
    /// Its kills.
    pub decisions: Vec<Decision>,
    /// Why it did nothing, a row as long as the reason stays.
    pub reasons: Vec<Reason>,
    /// Rows of reasons beyond those kept.
    pub reasons_left_out: u64,
    /// Decisions after which the recording went on for the whole window without a freeze or a kill.
    pub false_alarms: u64,
    /// Freezes ahead of which, and in which, it decided nothing.
    pub missed_freezes: u64,
    /// Recorded victims that it would have killed too, at that time or within the window before it.
    pub victims_named: u64,
    /// Recorded victims that it would not have killed by then.
    pub victims_not_named: u64,
    /// The rest of the recorded victims: their kills have no moment.
    pub victims_unknown: u64,
}

/// One decision to kill.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Decision {
    /// When.
    #[schemars(range(min = 0))]
    pub time_s: f64,
    /// The rule that said so.
    pub why: &'static str,
    /// Available memory then, with what earlier victims would have left.
    pub available_bytes: u64,
    /// Who dies.
    pub victims: Vec<Victim>,
    /// Who would have been next, the first few.
    pub spared: Vec<Victim>,
    /// What the recording says of it.
    pub judgement: Judgement,
}

/// What the recording says of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Judgement {
    /// A freeze or a kill came within the window, or was there.
    Needed,
    /// Neither came.
    FalseAlarm,
    /// The recording ends before the window does.
    Undecided,
}

/// A candidate as a policy saw it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Victim {
    /// Its number.
    pub process: u32,
    /// Its name.
    pub name: String,
    /// `oom_score_adj`.
    pub adj: i16,
    /// What it has in memory.
    pub resident_bytes: u64,
    /// What it has in swap.
    pub swapped_bytes: u64,
    /// What of its memory is no file's and no shared memory's; absent where it was not recorded.
    pub own_bytes: Option<u64>,
    /// What its end frees of its memory; None if it has no weight.
    pub weight_bytes: Option<u64>,
    /// What the policy gave it: the first number decides, the second between equals.
    pub score: (u64, u64),
}

/// Why nobody died for a while.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "NoKillReason")]
pub struct Reason {
    /// From this moment.
    #[schemars(range(min = 0))]
    pub from_s: f64,
    /// To this one.
    #[schemars(range(min = 0))]
    pub to_s: f64,
    /// The rule that said so.
    pub why: &'static str,
}
