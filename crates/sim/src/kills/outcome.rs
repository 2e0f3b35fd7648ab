//! The results of a replay. Times are seconds since the first moment, memory is bytes.

use schemars::JsonSchema;
use serde::Serialize;

/// A recording replayed against policies.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct ReplayOutcome {
    /// Moments of the recording.
    pub moments: u64,
    /// From the first moment to the last.
    #[schemars(range(min = 0))]
    pub duration_s: f64,
    /// Total memory of the group or machine at the last moment.
    pub total_bytes: u64,
    /// Whether every moment has watermarks and the kernel's reserve; if not, `minfree` counts the reserve
    /// as free and `lmkd` has no rule of low free memory.
    pub has_watermarks: bool,
    /// Whether the recording has weights of processes. If not, memory shared by fork counts in full
    /// for each process.
    pub has_weights: bool,
    /// Available memory over time, as the lowest value in each of equal steps.
    pub memory: Vec<Point>,
    /// The freezes.
    pub freezes: Vec<Freeze>,
    /// The kills in the recording.
    pub recorded: Vec<RecordedKill>,
    /// Result of each policy, in the order asked for.
    pub policies: Vec<Replay>,
}

/// Memory at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "MemoryPoint")]
pub struct Point {
    /// Time of the moment.
    #[schemars(range(min = 0))]
    pub time_s: f64,
    /// Memory available without swapping.
    pub available_bytes: u64,
    /// Free swap of all areas.
    pub swap_free_bytes: u64,
}

/// A time in which no task progressed for lack of memory, or a kill by the kernel's own killer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Freeze {
    /// Start of the freeze.
    #[schemars(range(min = 0))]
    pub from_s: f64,
    /// End of the freeze; equal to the start for a kill by the kernel.
    #[schemars(range(min = 0))]
    pub to_s: f64,
    /// Whether the freeze is a kill by the kernel.
    pub is_kernel_kill: bool,
}

/// A process that was killed during the recording.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RecordedKill {
    /// Time of the kill.
    #[schemars(range(min = 0))]
    pub time_s: f64,
    /// Process id.
    pub process: u32,
    /// Process name, if the process was recorded alive.
    pub name: Option<String>,
    /// Whether the kernel's out-of-memory killer chose it.
    pub is_of_kernel: bool,
    /// `oom_score_adj` of the process at the last moment before the kill; null if that moment lacks the process.
    pub adj: Option<i16>,
    /// Resident memory of the process at the last moment before the kill; null if that moment lacks the process.
    pub resident_bytes: Option<u64>,
    /// Swapped memory of the process at the last moment before the kill; null if that moment lacks the process.
    pub swapped_bytes: Option<u64>,
    /// Available memory of the recorded cgroup or of the machine at the last moment before the kill; null without one.
    pub available_bytes: Option<u64>,
    /// Process or thread that sent the first signal; null if the kernel chose the victim, if the recording lacks it,
    /// and always for system traces.
    pub killer: Option<u32>,
    /// Name of the killer, if it was recorded alive.
    pub killer_name: Option<String>,
    /// Whether the recording has the moment of this kill: memory and processes before any of the victim's
    /// memory was freed. Without it the recording cannot show what the killer saw.
    pub has_moment: bool,
}

/// Result of one policy.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "PolicyReplay")]
pub struct Replay {
    /// Name of the policy.
    pub policy: String,
    /// The decisions to kill.
    pub decisions: Vec<Decision>,
    /// Reasons not to kill, one row for as long as the reason stays the same.
    pub reasons: Vec<Reason>,
    /// Number of rows of reasons beyond those kept.
    pub reasons_left_out: u64,
    /// Decisions without a freeze or a kill for the whole window after them.
    pub false_alarms: u64,
    /// Freezes without a decision before or during them.
    pub missed_freezes: u64,
    /// Recorded victims that it would have killed too, at that time or within the window before.
    pub victims_named: u64,
    /// Recorded victims that it would not have killed by that time.
    pub victims_not_named: u64,
    /// Recorded victims whose kills have no moment.
    pub victims_unknown: u64,
}

/// One decision to kill.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Decision {
    /// Time of the decision.
    #[schemars(range(min = 0))]
    pub time_s: f64,
    /// The rule that applied.
    pub why: &'static str,
    /// Available memory at that time, including the memory of earlier victims.
    pub available_bytes: u64,
    /// The processes that die.
    pub victims: Vec<Victim>,
    /// The first few candidates after the victims.
    pub spared: Vec<Victim>,
    /// Judgement by the rest of the recording.
    pub judgement: Judgement,
}

/// Judgement of a decision by the rest of the recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Judgement {
    /// A freeze or a kill came within the window, or was under way.
    Needed,
    /// Neither a freeze nor a kill came within the window.
    FalseAlarm,
    /// The recording ends before the window does.
    Undecided,
}

/// A candidate as a policy saw it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Victim {
    /// Process id.
    pub process: u32,
    /// Process name.
    pub name: String,
    /// `oom_score_adj`.
    pub adj: i16,
    /// Memory of the process.
    pub resident_bytes: u64,
    /// Swap of the process.
    pub swapped_bytes: u64,
    /// Memory of the process without file pages and shared memory; absent if not recorded.
    pub own_bytes: Option<u64>,
    /// Part of its memory that its end frees; None if it has no weight.
    pub weight_bytes: Option<u64>,
    /// Score from the policy: the first number decides, the second breaks ties.
    pub score: (u64, u64),
}

/// A time without kills, and its reason.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "NoKillReason")]
pub struct Reason {
    /// First moment.
    #[schemars(range(min = 0))]
    pub from_s: f64,
    /// Last moment.
    #[schemars(range(min = 0))]
    pub to_s: f64,
    /// The rule that applied.
    pub why: &'static str,
}
