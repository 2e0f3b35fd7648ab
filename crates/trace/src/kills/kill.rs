//! A kill as printed by `killtrace --json`; docs/killtrace.md describes each field.

use schemars::JsonSchema;
use serde::Serialize;

/// The kill of a process. Times are microseconds; fields that the kernel does not report are `None`.
///
/// `signal_us + threads_us + reclaim_us = total_us`, `unmap_us + pagetables_us = reclaim_us`
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Kill {
    /// Pid of the victim.
    pub pid: u32,
    /// Name of the victim, at most 15 bytes.
    pub comm: String,
    /// Threads that handled the signal.
    pub threads: Option<u32>,
    /// Resident memory when its unmapping began: anonymous, file and shared.
    pub rss_bytes: Option<u64>,
    /// Signal delivery: from the kill call until the signal is pending at every thread.
    pub signal_us: Option<f64>,
    /// Signal handling: until the last thread takes the lock to free the memory.
    pub threads_us: Option<f64>,
    /// Reclaim: from that lock to the end of the memory.
    pub reclaim_us: Option<f64>,
    /// Part of the reclaim: unmapping and freeing of pages.
    pub unmap_us: Option<f64>,
    /// Part of the reclaim: freeing of page tables and TLB flushes.
    pub pagetables_us: Option<f64>,
    /// All phases; without signal delivery if its time is unknown.
    pub total_us: Option<f64>,
    /// Time of a reaper, in parallel to the phases: `process_mrelease`, or the kernel's own.
    pub reaper_us: Option<f64>,
    /// Why the process was killed, as far as the kernel reports it.
    pub trigger: KillTrigger,
    /// The process that sent the signal.
    pub killer: Option<Killer>,
    /// Processes in reclaim when the signal was sent: `kswapd0`, or a process in direct reclaim.
    pub reclaiming: Vec<Killer>,
    /// Beginning of the kill by CLOCK_MONOTONIC, in nanoseconds.
    pub start_ns: u64,
    /// Resident bytes over time, in microseconds since the beginning of the kill.
    pub rss_curve: Vec<(f64, u64)>,
    /// Steps of the kill, in order.
    pub steps: Vec<KillStep>,
}

/// Why a process was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum KillTrigger {
    /// A system call of a process.
    User,
    /// The OOM killer, for a memory cgroup at its limit.
    MemcgOom,
    /// The OOM killer, for the machine.
    GlobalOom,
    /// The OOM killer; unknown whether for a cgroup or the machine.
    Oom,
    /// kswapd, as in kernels with a low memory killer.
    Kswapd,
    /// A thread in direct reclaim, as in kernels with a low memory killer.
    DirectReclaim,
    /// A part of the kernel other than the OOM killer, such as `cgroup.kill`.
    Kernel,
}

/// A process that sends signals or reclaims memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Killer {
    /// Pid of the process, or thread id if the process is unknown.
    pub pid: u32,
    /// Name of the process, if it is known.
    pub comm: Option<String>,
}

/// A step of a kill.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct KillStep {
    /// Name of the step.
    pub name: String,
    /// Thread that makes the step.
    pub thread: u32,
    /// Start, in microseconds since the kill began.
    pub start_us: f64,
    /// Duration in microseconds; 0 for an instant.
    pub duration_us: f64,
}

/// Nanoseconds as microseconds with three decimals.
pub fn microseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1000.0
}
