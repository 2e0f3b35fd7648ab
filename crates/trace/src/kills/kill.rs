//! One kill, as users see it. Its fields are those of `killtrace --json`; docs/killtrace.md tells what each
//! means.

use schemars::JsonSchema;
use serde::Serialize;

/// A process killed. Times are microseconds; none is what the kernel does not tell.
///
/// `signal_us + threads_us + reclaim_us = total_us`, `unmap_us + pagetables_us = reclaim_us`
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Kill {
    /// The process.
    pub pid: u32,
    /// Its name, at most 15 bytes.
    pub comm: String,
    /// Threads that handled the signal.
    pub threads: Option<u32>,
    /// What it had resident when its memory began to go: anonymous, of files, shared.
    pub rss_bytes: Option<u64>,
    /// From the kill call to the signal pending at every thread.
    pub signal_us: Option<f64>,
    /// From there to the lock with which the last thread begins to give the memory back.
    pub threads_us: Option<f64>,
    /// From there to the end of the memory.
    pub reclaim_us: Option<f64>,
    /// Of it: unmapping and freeing of pages.
    pub unmap_us: Option<f64>,
    /// Of it: page tables, and what is flushed and freed with them.
    pub pagetables_us: Option<f64>,
    /// From the first of these to the last; begins behind the signal where that is not told.
    pub total_us: Option<f64>,
    /// Time of a reaper, beside the phases: `process_mrelease`, or the kernel's own.
    pub reaper_us: Option<f64>,
    /// Why it was killed, as far as the kernel tells.
    pub trigger: Trigger,
    /// Who sent the signal.
    pub killer: Option<Killer>,
    /// Who was making room for others when the signal was sent: `kswapd0`, or a process that ran out.
    pub reclaiming: Vec<Killer>,
    /// CLOCK_MONOTONIC of its beginning, in nanoseconds.
    pub start_ns: u64,
    /// Microseconds since then, and bytes still resident.
    pub rss_curve: Vec<(f64, u64)>,
    /// What happened, in order.
    pub steps: Vec<Step>,
}

/// Why a process was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "KillTrigger")]
pub enum Trigger {
    /// A process asked for it by a system call.
    User,
    /// The kernel's killer, for a memory cgroup at its limit.
    MemcgOom,
    /// The kernel's killer, for the machine.
    GlobalOom,
    /// The kernel's killer; for whom is not known.
    Oom,
    /// kswapd, as a killer in the kernel does.
    Kswapd,
    /// A thread that made room for itself, as a killer in the kernel does.
    DirectReclaim,
    /// Otherwise from inside the kernel, such as by `cgroup.kill`.
    Kernel,
}

/// Who did something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Killer {
    /// The process; the thread, where its process is not known.
    pub pid: u32,
    /// Its name, where it is known.
    pub comm: Option<String>,
}

/// One step on the way of a kill.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "KillStep")]
pub struct Step {
    /// What is done.
    pub name: String,
    /// By which thread.
    pub thread: u32,
    /// Microseconds since the kill began.
    pub start_us: f64,
    /// How long; 0 of an instant.
    pub duration_us: f64,
}

/// Nanoseconds as microseconds, three digits behind the point.
pub fn microseconds(nanoseconds: u64) -> f64 {
    nanoseconds as f64 / 1000.0
}
