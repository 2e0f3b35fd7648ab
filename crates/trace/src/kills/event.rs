//! What a kernel tells of a kill, without the form in which it was told.

/// One event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// CLOCK_MONOTONIC, in nanoseconds.
    pub time_ns: u64,
    /// Who ran when it happened: the kernel's number of a thread.
    pub thread: u32,
    /// What happened.
    pub what: What,
}

/// What happened. `memory` is the kernel's address of a process's memory (`mm_struct`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The thread calls the kernel to send SIGKILL.
    KillCall,
    /// It comes back from such a call.
    KillCallEnds,
    /// The thread wakes another one.
    Wakes {
        /// The other one.
        thread: u32,
    },
    /// SIGKILL is pending now at `target`, whose name this is; `code` as in `siginfo`.
    SignalGenerated {
        /// The thread that the signal is for; that of a process is its first.
        target: u32,
        /// At most 15 bytes, zeroes behind.
        name: [u8; 16],
        /// `SI_USER` 0, `SI_KERNEL` 128, others of `sigqueue` and relatives.
        code: i32,
    },
    /// The thread begins to handle SIGKILL.
    SignalDelivered,
    /// The thread ends; `is_last` of its process, where the kernel says so.
    ThreadEnds {
        /// Told since Linux 6.15, where the event comes ahead of the memory's end, not behind it.
        is_last: Option<bool>,
    },
    /// The thread asks for the lock of a memory.
    LockWanted {
        /// Which.
        memory: u64,
        /// To change mappings, not to look.
        is_write: bool,
    },
    /// It has the lock.
    LockTaken {
        /// Which.
        memory: u64,
        /// To change mappings, not to look.
        is_write: bool,
    },
    /// The last mapping of a memory is gone, with its page tables (end of `exit_mmap`).
    MemoryGone {
        /// Which, where the kernel says so.
        memory: Option<u64>,
    },
    /// Resident pages of a memory that is not the thread's own are now `bytes`.
    Resident {
        /// 0 files, 1 anonymous, 2 swapped, 3 shared.
        member: u32,
        /// All of that kind.
        bytes: u64,
    },
    /// The thread calls `process_mrelease`.
    ReleaseCall,
    /// It comes back.
    ReleaseCallEnds,
    /// The kernel's killer for want of memory has chosen a process.
    Chosen {
        /// Its first thread.
        target: u32,
        /// What it has resident, where the kernel says so (Linux 6.9).
        rss_bytes: Option<u64>,
    },
    /// The kernel's reaper begins with the memory of a process.
    ReaperBegins {
        /// A thread of it.
        target: u32,
    },
    /// It is done.
    ReaperEnds {
        /// A thread of it.
        target: u32,
    },
    /// The thread begins to make room itself, for the machine or for its memory cgroup.
    ReclaimBegins {
        /// For its memory cgroup, which is at its limit.
        is_group: bool,
    },
    /// It has made room.
    ReclaimEnds {
        /// For its memory cgroup.
        is_group: bool,
    },
    /// The thread, kswapd, wakes to make room.
    KswapdWakes,
    /// It sleeps again.
    KswapdSleeps,
    /// The thread makes another one.
    NewTask {
        /// The other one.
        thread: u32,
        /// Of the same process.
        is_thread: bool,
    },
    /// The thread runs a function of the kernel, of which this is the address.
    Function {
        /// Where it begins.
        address: u64,
    },
}
