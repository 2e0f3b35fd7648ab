//! The kernel's events of a kill, in the same form for every backend.

/// An event of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// CLOCK_MONOTONIC, in nanoseconds.
    pub time_ns: u64,
    /// Thread id of the thread that was running.
    pub thread: u32,
    /// What happened.
    pub what: What,
}

/// What happened. `memory` is the kernel's address of a process's memory (`mm_struct`), and `thread` is
/// the thread of the event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The thread calls the kernel to send SIGKILL.
    KillCall,
    /// The thread returns from such a call.
    KillCallEnds,
    /// The thread wakes another thread.
    Wakes {
        /// The woken thread.
        thread: u32,
    },
    /// SIGKILL is now pending at `target`.
    SignalGenerated {
        /// The thread that gets the signal; for a signal to a process, its first thread.
        target: u32,
        /// Name of the target: at most 15 bytes, then zeros.
        name: [u8; 16],
        /// `si_code` of the signal: `SI_USER` 0, `SI_KERNEL` 128, other values of `sigqueue` and
        /// relatives.
        code: i32,
    },
    /// The thread begins to handle SIGKILL.
    SignalDelivered,
    /// The thread ends.
    ThreadEnds {
        /// Whether the thread is the last of its process, known since Linux 6.15. There the event comes
        /// before the end of the memory; in older kernels it comes after it.
        is_last: Option<bool>,
    },
    /// The thread asks for the mmap lock of a memory.
    LockWanted {
        /// The memory with the lock.
        memory: u64,
        /// Whether the lock is for writing.
        is_write: bool,
    },
    /// The thread has the mmap lock of a memory.
    LockTaken {
        /// The memory with the lock.
        memory: u64,
        /// Whether the lock is for writing.
        is_write: bool,
    },
    /// The last mapping of a memory is gone, with its page tables (end of `exit_mmap`).
    MemoryGone {
        /// The memory, if the kernel reports it.
        memory: Option<u64>,
    },
    /// Resident pages of a memory that is not the thread's own are now `bytes`.
    Resident {
        /// 0 files, 1 anonymous, 2 swapped, 3 shared.
        member: u32,
        /// Resident bytes of this kind.
        bytes: u64,
    },
    /// The thread calls `process_mrelease`.
    ReleaseCall,
    /// The thread returns from `process_mrelease`.
    ReleaseCallEnds,
    /// The kernel's OOM killer has chosen a victim.
    Chosen {
        /// First thread of the victim.
        target: u32,
        /// Resident bytes of the victim, known since Linux 6.9.
        rss_bytes: Option<u64>,
    },
    /// The kernel's reaper begins to free the memory of a process.
    ReaperBegins {
        /// A thread of the process.
        target: u32,
    },
    /// The kernel's reaper has freed the memory of a process.
    ReaperEnds {
        /// A thread of the process.
        target: u32,
    },
    /// The thread begins direct reclaim.
    ReclaimBegins {
        /// Whether the thread reclaims for its memory cgroup, which is at its limit, not for the machine.
        is_group: bool,
    },
    /// The thread ends direct reclaim.
    ReclaimEnds {
        /// Whether the thread reclaimed for its memory cgroup.
        is_group: bool,
    },
    /// kswapd, which is the thread, wakes up.
    KswapdWakes,
    /// kswapd, which is the thread, goes to sleep.
    KswapdSleeps,
    /// The thread creates another task.
    NewTask {
        /// Thread id of the new task.
        thread: u32,
        /// Whether the new task is a thread of the same process.
        is_thread: bool,
    },
    /// The thread runs a function of the kernel.
    Function {
        /// Address of the function.
        address: u64,
    },
}
