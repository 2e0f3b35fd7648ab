//! The results of a system trace: launches, kills and pressure. Times are seconds since the first event that
//! the kernel recorded, sizes bytes; `null` is what the trace does not have.

use schemars::JsonSchema;
use serde::Serialize;

/// What a system trace says of launches, kills and pressure.
#[derive(Clone, Debug, PartialEq)]
pub struct Answers {
    /// What every result says of the trace.
    pub about: About,
    /// The launches.
    pub launches: Launches,
    /// The kills.
    pub kills: Kills,
    /// The pressure on memory.
    pub pressure: PressureFound,
}

/// The length of a trace, and the number of its events.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "TraceAbout")]
pub struct About {
    /// The clock of the trace at 0 s, in nanoseconds: the time since boot if the trace has it.
    pub begin_ns: i64,
    /// Seconds from the first event that the kernel recorded to the last.
    #[schemars(range(min = 0))]
    pub duration_s: f64,
    /// Number of events that were read.
    pub events: u64,
    /// Events that were read after later ones; times of these may be too short.
    pub disordered: u64,
    /// Processes, threads and ranges of pages beyond the limits, which are not distinguished.
    pub untracked: u64,
}

/// The launches of a trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "LaunchList")]
pub struct Launches {
    /// Launches in order of their start.
    pub launches: Vec<TraceLaunch>,
    /// Launches that the trace begins and never ends.
    pub unfinished: u64,
    /// Each launch that the trace begins and never ends, in order of the start.
    pub unfinished_launches: Vec<UnfinishedLaunch>,
    /// Launches that ended without the mark of success, so that the trace does not name the app.
    pub cancelled: u64,
    /// Launches beyond those that are kept.
    pub left_out: u64,
    /// What the trace lacks to answer in full.
    pub lacks: Vec<String>,
}

/// A launch of an app.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TraceLaunch {
    /// The package of the app.
    pub process: String,
    /// Pid of the app's process; null if no process of that name was found.
    pub pid: Option<u32>,
    /// `cold`, `warm` or `hot`; null if neither Android states it nor the process shows it.
    pub class: Option<String>,
    /// Whether Android stated the class; otherwise a launch is cold if its process was made meanwhile.
    pub is_class_stated: bool,
    /// Start of the launch.
    pub start_s: f64,
    /// Time from the start of the launch to its end, which is the first frame.
    #[schemars(range(min = 0))]
    pub duration_s: f64,
    /// Time from the start of the launch until the app reports that it is fully drawn.
    pub fully_drawn_s: Option<f64>,
    /// The parts, which add up to `duration_s`.
    pub parts: Parts,
    /// What the process's first thread did.
    pub main_thread: Option<ThreadTimes>,
    /// What the process's other threads did, summed.
    pub other_threads: Option<ThreadTimes>,
    /// Bytes that the process's threads read into the page cache.
    pub cache_miss_bytes: Option<u64>,
    /// The part of `cache_miss_bytes` that had left the page cache earlier in the trace.
    pub refault_bytes: Option<u64>,
    /// The files with the most bytes read into the page cache.
    pub files: Vec<FileReads>,
    /// Bytes by which the process's own threads made its swap smaller: swap-ins, and swap that was freed.
    pub swap_in_bytes: Option<u64>,
    /// Processes killed in the 10 s before the launch; null if the trace would not show kills.
    pub kills_before: Option<u64>,
    /// Processes killed during the launch; null if the trace would not show kills.
    pub kills: Option<u64>,
}

/// A launch that the trace begins and never ends.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct UnfinishedLaunch {
    /// The package of the app by a marker or a line of the log. Otherwise, if no other launch lasted meanwhile, the
    /// name of the only process that started or resumed an activity, or, without any, the only one that was bound to
    /// an app. Null if the trace has neither.
    pub process: Option<String>,
    /// Pid of the app's process; null if no process of that name was found.
    pub pid: Option<u32>,
    /// Start of the launch.
    pub start_s: f64,
}

/// What a launch waits for, by the definitions of `study launch`. Waits and processor time are sums over all
/// threads of the process, so that the rest can be below 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "TraceLaunchParts")]
pub struct Parts {
    /// From each kill to the end of the victim's last thread; overlaps count once.
    pub kill_wait_s: Option<f64>,
    /// Direct reclaim by the process's threads.
    pub direct_reclaim_s: Option<f64>,
    /// Processor time of kswapd.
    pub kswapd_s: Option<f64>,
    /// Waits for I/O: mostly file pages that are read, and pages from a swap area on a disk.
    pub refault_s: Option<f64>,
    /// Faults that read a page back from swap; those from a disk wait for I/O, too.
    pub swapin_s: Option<f64>,
    /// The process's processor time, and its waits for a processor.
    pub cpu_s: Option<f64>,
    /// What is left of the duration; negative if parts overlap.
    pub rest_s: f64,
}

/// What threads did during a launch. Times of several threads are summed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct ThreadTimes {
    /// Running on a CPU.
    #[schemars(range(min = 0))]
    pub running_s: f64,
    /// Ready, without a CPU.
    pub runnable_s: Option<f64>,
    /// Waiting uninterruptibly, I/O and other reasons.
    #[schemars(range(min = 0))]
    pub uninterruptible_s: f64,
    /// The part of `uninterruptible_s` that waited for I/O.
    pub io_s: Option<f64>,
    /// Sleeping.
    #[schemars(range(min = 0))]
    pub sleeping_s: f64,
    /// Reclaiming memory directly, in any of these states.
    pub direct_reclaim_s: Option<f64>,
}

/// The pages of a file that a launch read.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FileReads {
    /// Device of the file system as MAJOR:MINOR.
    pub device: String,
    /// Number of the inode.
    pub inode: u64,
    /// Bytes read into the page cache.
    pub bytes: u64,
    /// The part of `bytes` that had left the page cache earlier in the trace.
    pub refault_bytes: u64,
}

/// The kills of a trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "TraceKillList")]
pub struct Kills {
    /// Kills in order of time.
    pub kills: Vec<TraceKill>,
    /// Whether the trace would show kills, so that none means none.
    pub shows_kills: bool,
    /// Kills beyond those that are kept.
    pub left_out: u64,
    /// What the trace lacks to judge every kill.
    pub lacks: Vec<String>,
    /// What kill policies would have done with the trace's memory and processes; null if the trace has no
    /// samples of both.
    pub replay: Option<crate::kills::ReplayOutcome>,
}

/// A process that was killed.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TraceKill {
    /// Time of the kill; below 0 if it was before the first event that the kernel recorded, as in a log that goes
    /// further back.
    pub time_s: f64,
    /// Name of the process; empty if unknown.
    pub process: String,
    /// Pid of the process.
    pub pid: u32,
    /// The process's oom_score_adj.
    pub adj: Option<i32>,
    /// The reason as the killer states it.
    pub reason: Option<String>,
    /// Who killed: `lmkd`, `lowmemorykiller` (the driver), `oom` (the kernel), `system_server`, or the name of the
    /// process that sent the signal.
    pub killer: String,
    /// The marks and events that report the kill.
    pub sources: Vec<String>,
    /// Free memory then, as the killer states it or by the last sample before.
    pub free_bytes: Option<u64>,
    /// Available memory by the last sample before.
    pub available_bytes: Option<u64>,
    /// Resident memory of the victim by the last event before, or as the killer states it.
    pub resident_bytes: Option<u64>,
    /// Swapped memory of the victim by the last event before, or as the killer states it.
    pub swapped_bytes: Option<u64>,
    /// Time from the kill until all threads of the process had ended.
    pub death_s: Option<f64>,
    /// Time from the kill until a process of that name was made, or the app was launched without one.
    pub came_back_after_s: Option<f64>,
    /// Whether the process came back within 60 s, so that the kill cost a cold start; null if the trace ends within
    /// 60 s and the process did not come back before.
    pub came_back_soon: Option<bool>,
    /// Time from the kill to the end of the trace.
    #[schemars(range(min = 0))]
    pub traced_for_s: f64,
    /// Whether memory was not short at the kill.
    pub needless: Judged,
    /// Whether tasks had been stalled for long before the kill.
    pub late: Judged,
    /// Whether another process should have been killed.
    pub wrong_victim: Judged,
}

/// A judgement of a kill, with its reason.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Judged {
    /// The answer; null if the trace cannot tell.
    pub answer: Option<bool>,
    /// The figures behind the answer, or what the trace lacks.
    pub why: String,
}

/// The pressure on memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct PressureFound {
    /// Time that threads spent in direct reclaim, summed.
    pub direct_reclaim_s: Option<f64>,
    /// Time in which kswapd was awake, or ran if the trace does not say when it woke.
    pub kswapd_s: Option<f64>,
    /// Time that threads spent in compaction, summed; null if the trace has no interval of it.
    pub compaction_s: Option<f64>,
    /// Bytes that were read again after they had left memory: of the page cache by its events, or of files and
    /// anonymous memory by the counters of /proc/vmstat.
    pub refault_bytes: Option<u64>,
    /// Time that threads waited for such bytes, summed.
    pub refault_wait_s: Option<f64>,
    /// How thrashing was found: `psi`, `refault-waits`, or null if the trace has neither.
    pub thrashing_by: Option<String>,
    /// Intervals in order of their start.
    pub intervals: Vec<Interval>,
    /// The processes with the most direct reclaim and refaults in all.
    pub processes: Vec<Cause>,
    /// Bytes that the machine swapped in between the first and the last sample of /proc/vmstat.
    pub swapped_in_bytes: Option<u64>,
    /// Bytes that the machine swapped out between the first and the last sample of /proc/vmstat.
    pub swapped_out_bytes: Option<u64>,
    /// The least free memory of all samples.
    pub least_free_bytes: Option<u64>,
    /// The least available memory (MemAvailable) of all samples.
    pub least_available_bytes: Option<u64>,
    /// The processes with the most memory, at their largest; at most 32.
    pub sizes: Vec<ProcessSize>,
    /// Accesses that DAMON found, by time and address; null without its regions.
    pub heat: Option<RegionHeat>,
    /// Intervals beyond those that are kept.
    pub left_out: u64,
    /// What the trace lacks to answer in full.
    pub lacks: Vec<String>,
}

/// The memory of a process.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ProcessSize {
    /// Name of the process; empty if unknown.
    pub process: String,
    /// Pid of the process.
    pub pid: u32,
    /// The largest resident memory of the process, or proportional size (PSS) if `is_proportional`.
    pub largest_bytes: u64,
    /// The last known resident memory of the process, or proportional size (PSS) if `is_proportional`.
    pub last_bytes: Option<u64>,
    /// The last known swapped memory of the process.
    pub swapped_bytes: Option<u64>,
    /// Whether the sizes are proportional (PSS), because the trace has no resident sizes of the process. A page that
    /// several processes share counts in part for each.
    pub is_proportional: bool,
}

/// The kind of an interval of pressure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "PressureKind")]
pub enum IntervalKind {
    /// Threads that allocate memory reclaim pages themselves (direct reclaim).
    DirectReclaim,
    /// kswapd reclaims.
    Kswapd,
    /// Threads that allocate memory, or kcompactd, move pages together (compaction).
    Compaction,
    /// Pages of files are read again.
    Refaults,
    /// Tasks stall for memory, or wait for pages that are read again.
    Thrashing,
}

/// An interval of pressure. What is less than 100 ms apart is one interval.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "PressureInterval")]
pub struct Interval {
    /// The kind of pressure.
    pub kind: IntervalKind,
    /// Start of the interval.
    pub start_s: f64,
    /// End of the interval.
    pub end_s: f64,
    /// Time of all threads that had a part, summed; null if the interval is known by counters only, as from
    /// /proc/vmstat.
    #[schemars(range(min = 0))]
    pub busy_s: Option<f64>,
    /// Bytes read again, or that processes took meanwhile; by counters, the bytes reclaimed.
    pub bytes: u64,
    /// The largest share of time in which some task stalled for memory (PSI).
    pub stalled_share: Option<f64>,
    /// The processes with the largest parts.
    pub processes: Vec<Cause>,
}

/// Accesses that DAMON found, by time and address.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct RegionHeat {
    /// Start of the first bin of time.
    pub start_s: f64,
    /// Length of a bin of time: a power of two in nanoseconds.
    #[schemars(range(min = 0))]
    pub bin_s: f64,
    /// Number of regions that were read.
    pub regions: u64,
    /// Ranges of addresses that a region covers, in order; at most 128. All have the same length.
    pub ranges: Vec<HeatRange>,
}

/// A range of addresses and the accesses to it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct HeatRange {
    /// Number of the target, as DAMON prints it: an address space, or physical memory. It may need all 64 bits, so
    /// that it is text.
    pub target: String,
    /// First address, in hexadecimal.
    pub first: String,
    /// Last address, in hexadecimal.
    pub last: String,
    /// For each bin of time, the samples of an aggregation interval that found an access, on average over bytes and
    /// intervals; null if no region was there.
    pub accesses: Vec<Option<f64>>,
}

/// A process's part of an interval.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "PressureCause")]
pub struct Cause {
    /// Name of the process; empty if unknown.
    pub process: String,
    /// Pid of the process; 0 if unknown.
    pub pid: u32,
    /// Time of the process in direct reclaim, or waiting for pages that are read again, summed over its threads.
    #[schemars(range(min = 0))]
    pub time_s: f64,
    /// Bytes that the process read again; in an interval of kswapd, bytes by which it made its memory and the
    /// page cache larger.
    pub bytes: u64,
}
