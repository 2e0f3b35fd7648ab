//! The events of a system trace. Fields that a format does not have are [`Name::NONE`], `None` or 0, as
//! their comments say.

use super::Name;
use crate::Operation;

/// An event of a system trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Nanoseconds since boot, suspended time included, if the trace has this clock (CLOCK_BOOTTIME);
    /// otherwise on the trace's own clock.
    pub time_ns: i64,
    /// The CPU that recorded the event; `None` outside ftrace.
    pub cpu: Option<u32>,
    /// The thread that ran; 0 for the idle task and outside ftrace.
    pub tid: u32,
    /// What happened.
    pub kind: Kind,
}

/// What an event says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A CPU changed from one thread to another (sched_switch).
    Switch(Switch),
    /// A thread is to run again (sched_waking, sched_wakeup, sched_wakeup_new).
    Wake {
        /// Which of the three.
        wake: Wake,
        /// The thread that is woken.
        tid: u32,
        /// Command name of that thread.
        comm: Name,
        /// Priority of that thread, 0 to 139; below 100 is real time.
        priority: i32,
        /// The CPU on which it is to run; `None` if the trace does not know it.
        target_cpu: Option<u32>,
    },
    /// Why a thread waited uninterruptibly, when it is woken (sched_blocked_reason).
    Blocked {
        /// The thread that waited.
        tid: u32,
        /// Whether the thread waited for I/O.
        is_io: bool,
        /// Kernel address in which it waited, 0 if unknown; an index into symbols in some traces.
        caller: u64,
    },
    /// A request to a block device.
    Block(BlockRequest),
    /// A page of a file entered the page cache (mm_filemap_add_to_page_cache).
    PageAdded {
        /// Device of the file system: major number << 20 | minor number.
        device: u32,
        /// Number of the inode.
        inode: u64,
        /// Index of the page in the file, in pages of 4 KiB.
        page: u64,
        /// log2 of the number of pages; 0 before Linux 6.
        order: u8,
    },
    /// A page of a file left the page cache (mm_filemap_delete_from_page_cache).
    PageDeleted {
        /// Device of the file system: major number << 20 | minor number.
        device: u32,
        /// Number of the inode.
        inode: u64,
        /// Index of the page in the file, in pages of 4 KiB.
        page: u64,
        /// log2 of the number of pages; 0 before Linux 6.
        order: u8,
    },
    /// Reclaim wrote an anonymous page to swap (mm_vmscan_writepage, mm_vmscan_write_folio).
    SwapOut {
        /// Page frame number.
        frame: u64,
    },
    /// A count of page faults and reclaims over about a second (mm_event_record, kernels of Android).
    Faults {
        /// What was counted.
        fault: Fault,
        /// Number in the period.
        count: u32,
        /// Mean duration in microseconds.
        mean_us: u32,
        /// Longest duration in microseconds.
        max_us: u32,
    },
    /// The resident pages of an address space changed (rss_stat).
    Rss {
        /// Number of the address space: a hash of its address.
        mm_id: u32,
        /// Whether the thread of the event runs in this address space; `None` if unknown.
        is_current: Option<bool>,
        /// Which pages.
        member: RssMember,
        /// Bytes of these pages now; may be slightly negative.
        bytes: i64,
    },
    /// A thread that allocates begins to reclaim by itself (mm_vmscan_direct_reclaim_begin).
    DirectReclaimBegin {
        /// log2 of the number of pages to allocate.
        order: u32,
    },
    /// The thread ends its reclaim (mm_vmscan_direct_reclaim_end).
    DirectReclaimEnd {
        /// Pages that were reclaimed.
        pages: u64,
    },
    /// A thread begins to reclaim because its memory cgroup is at its limit (mm_vmscan_memcg_reclaim_begin).
    CgroupReclaimBegin {
        /// log2 of the number of pages to allocate.
        order: u32,
    },
    /// The thread ends the reclaim of its cgroup (mm_vmscan_memcg_reclaim_end).
    CgroupReclaimEnd {
        /// Pages that were reclaimed.
        pages: u64,
    },
    /// kswapd begins to reclaim (mm_vmscan_kswapd_wake).
    KswapdWake {
        /// Memory node.
        node: u32,
        /// log2 of the number of pages that somebody wants to allocate.
        order: u32,
    },
    /// kswapd goes to sleep (mm_vmscan_kswapd_sleep).
    KswapdSleep {
        /// Memory node.
        node: u32,
    },
    /// A batch of an inactive list was scanned (mm_vmscan_lru_shrink_inactive).
    LruShrink {
        /// Memory node.
        node: u32,
        /// Pages scanned.
        scanned: u64,
        /// Pages reclaimed.
        reclaimed: u64,
        /// Whether the list is of file pages; `None` if the trace does not know it.
        is_file: Option<bool>,
    },
    /// A zone is compacted (mm_compaction_begin).
    CompactionBegin,
    /// The compaction ends (mm_compaction_end).
    CompactionEnd,
    /// What DAMON found of a region of memory in one aggregation interval (damon_aggregated).
    Region {
        /// Number of the target: an address space or, of physical addresses, 0.
        target: u64,
        /// First address.
        start: u64,
        /// Address after the last.
        end: u64,
        /// Samples of the interval that found an access.
        accesses: u32,
        /// Aggregation intervals for which the region has been alike; `None` before Linux 6.
        age: Option<u32>,
        /// Number of regions of the target in this interval.
        regions: u32,
    },
    /// The kernel's OOM killer chose a victim (mark_victim).
    OomVictim {
        /// Process that is killed.
        pid: u32,
    },
    /// The oom_score_adj of a process: a change (oom_score_adj_update) or a sample (process_stats).
    OomScoreAdj {
        /// The process.
        pid: u32,
        /// Command name; `NONE` in a sample.
        comm: Name,
        /// From -1000 (never killed) to 1000.
        adj: i32,
    },
    /// The former killer in the kernel killed a process (lowmemory_kill).
    LowMemoryKill {
        /// Process that is killed.
        pid: u32,
        /// Command name.
        comm: Name,
        /// Bytes of page cache.
        cache_bytes: u64,
        /// Free bytes.
        free_bytes: i64,
    },
    /// A signal is sent (signal_generate).
    Signal {
        /// Thread that gets it.
        tid: u32,
        /// Number of the signal; 9 is SIGKILL.
        signal: u32,
        /// Command name of that thread.
        comm: Name,
    },
    /// A thread ends (sched_process_exit). If it is the first thread of its process, its tid is the pid.
    Exit {
        /// The thread.
        tid: u32,
        /// The process of the thread; `None` if the event does not say it.
        pid: Option<u32>,
        /// Command name of the thread.
        comm: Name,
    },
    /// A thread is made, of the same process or of a new one (sched_process_fork).
    Fork {
        /// The thread that makes it.
        parent_tid: u32,
        /// The new thread.
        tid: u32,
        /// Command name of the new thread.
        comm: Name,
    },
    /// A thread is made by the thread of the event (task_newtask).
    NewTask {
        /// The new thread.
        tid: u32,
        /// Command name of the new thread.
        comm: Name,
        /// Whether the thread belongs to the same process (CLONE_THREAD).
        is_thread: bool,
        /// The new thread's oom_score_adj.
        adj: i32,
    },
    /// A thread has a new name (task_rename).
    Rename {
        /// The thread.
        tid: u32,
        /// The new command name.
        comm: Name,
        /// The thread's oom_score_adj.
        adj: i32,
    },
    /// A process runs another program (sched_process_exec).
    Exec {
        /// The process.
        pid: u32,
        /// Path of the program.
        file: Name,
    },
    /// A process that exists at this time (process tree).
    Process {
        /// The process.
        pid: u32,
        /// Parent of the process; 0 if unknown.
        parent: u32,
        /// Command line up to the first argument, or else the command name; `NONE` if unknown.
        name: Name,
        /// User of the process; `None` if unknown. On Android every app has a user.
        uid: Option<u32>,
    },
    /// A thread that exists at this time (process tree).
    Thread {
        /// The thread.
        tid: u32,
        /// The process that it belongs to.
        pid: u32,
        /// Command name; `NONE` if unknown.
        comm: Name,
    },
    /// Memory of a process at this time (process_stats).
    ProcessMemory {
        /// The process.
        pid: u32,
        /// Which memory.
        part: MemoryPart,
        /// Bytes of this part.
        bytes: u64,
    },
    /// A counter of the system at this time: a line of /proc/meminfo, in bytes, or of /proc/vmstat, as it is.
    SystemCounter {
        /// The file.
        source: CounterSource,
        /// Name of the line, such as `MemFree` or `pswpin`.
        name: Name,
        /// The value.
        value: u64,
    },
    /// Time that tasks waited for a resource (/proc/pressure).
    Pressure {
        /// The resource that tasks waited for.
        resource: Resource,
        /// Whether all tasks waited (`full`), not only some (`some`).
        is_full: bool,
        /// The wait so far, in microseconds; `None` if the trace has only the average.
        total_us: Option<u64>,
        /// Average over 10 s in hundredths of a percent; `None` if the trace has only the total.
        average10: Option<u16>,
    },
    /// A line of the system's log (logcat).
    Log {
        /// Process that wrote it.
        pid: u32,
        /// Priority: 2 verbose, 3 debug, 4 info, 5 warning, 6 error, 7 fatal.
        priority: u8,
        /// Tag of the line.
        tag: Name,
        /// The message; of an entry of the event log its arguments, separated by commas.
        message: Name,
    },
    /// A slice begins on the thread of the event.
    SliceBegin {
        /// The process; 0 if unknown.
        pid: u32,
        /// Name of the slice.
        name: Name,
    },
    /// The last slice that began on the thread of the event, and has not ended, ends.
    SliceEnd {
        /// The process; 0 if unknown.
        pid: u32,
    },
    /// A slice begins that may end on another thread.
    AsyncBegin {
        /// The process.
        pid: u32,
        /// Name of the slice.
        name: Name,
        /// The number that pairs its begin and end.
        cookie: i64,
        /// Name of the track; `NONE` if the slice has none, and its name is the track.
        track: Name,
    },
    /// An asynchronous slice ends.
    AsyncEnd {
        /// The process.
        pid: u32,
        /// Name of the slice; `NONE` if only the track is named.
        name: Name,
        /// The number that pairs its begin and end.
        cookie: i64,
        /// Name of the track; `NONE` if the slice has none.
        track: Name,
    },
    /// A counter of a process has a new value.
    Counter {
        /// The process.
        pid: u32,
        /// Name of the counter.
        name: Name,
        /// The value.
        value: i64,
    },
    /// Something happened in a process.
    Instant {
        /// The process.
        pid: u32,
        /// What happened.
        name: Name,
        /// Name of the track; `NONE` if it has none.
        track: Name,
    },
}

/// A CPU changed from one thread to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Switch {
    /// The thread that ran; 0 is the idle task. In Perfetto's compact form it is the thread of the CPU's switch
    /// before; `None` in the first switch of a CPU and after a loss.
    pub prev_tid: Option<u32>,
    /// Command name of the thread that ran; `NONE` in the compact form.
    pub prev_comm: Name,
    /// Priority of the thread that ran; 0 in the compact form.
    pub prev_priority: i32,
    /// State of the thread that ran: why another one runs now.
    pub prev_state: TaskState,
    /// The thread that runs now; 0 is the idle task.
    pub next_tid: u32,
    /// Command name of the thread that runs now.
    pub next_comm: Name,
    /// Priority of the thread that runs now, 0 to 139; below 100 is real time.
    pub next_priority: i32,
}

/// The state of a thread that stops running (fs/proc/array.c, include/linux/sched.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    /// Still runnable (R).
    Runnable,
    /// Runnable, but another thread has priority (R+).
    Preempted,
    /// Waits interruptibly (S).
    Sleeping,
    /// Waits uninterruptibly, usually for I/O or a lock of the kernel (D).
    Uninterruptible,
    /// Waits uninterruptibly without counting as load (I).
    Idle,
    /// Stopped or traced (T, t).
    Stopped,
    /// Ended (X, Z).
    Ended,
    /// Parked, or a state that this version does not know.
    Other,
}

/// How a thread is woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// A thread decided to wake it (sched_waking).
    Waking,
    /// The thread is runnable (sched_wakeup).
    Wakeup,
    /// A new thread is runnable for the first time (sched_wakeup_new).
    New,
}

/// A request to a block device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRequest {
    /// Where the request is.
    pub stage: BlockStage,
    /// Read, write, discard, flush or passthrough.
    pub operation: Operation,
    /// Device: major number << 20 | minor number.
    pub device: u32,
    /// First sector of 512 bytes.
    pub sector: u64,
    /// Number of sectors.
    pub sectors: u32,
    /// Command name of the thread that made the request; `NONE` at completion.
    pub comm: Name,
}

/// Where a block request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockStage {
    /// Handed to the block layer (block_bio_queue).
    Queue,
    /// Sent to the device (block_rq_issue).
    Issue,
    /// Finished (block_rq_complete).
    Complete,
}

/// Pages that count as resident or swapped out (enum in include/linux/mm_types_task.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RssMember {
    /// Pages of mapped files.
    File,
    /// Anonymous pages.
    Anonymous,
    /// Entries of swapped pages.
    Swap,
    /// Pages of shared memory.
    Shared,
    /// A number that this version does not know.
    Other(u8),
}

/// What mm_event_record counts (include/linux/mm_event.h in Android's common kernels 4.9 to 4.19).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// Page faults without I/O.
    Minor,
    /// Page faults with I/O.
    Major,
    /// Reads of pages.
    ReadIo,
    /// Compactions by a thread that allocates.
    Compaction,
    /// Direct reclaims.
    Reclaim,
    /// Page faults that read from swap.
    SwapIn,
    /// Allocations of the kernel.
    KernelAllocation,
    /// A number that this version does not know.
    Other(u8),
}

/// A part of a process's memory, as in /proc/PID/status.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MemoryPart {
    /// All resident pages (VmRSS).
    Rss,
    /// Resident pages, of which those that processes share count in part for each (Pss of smaps).
    Pss,
    /// Resident anonymous pages (RssAnon).
    Anonymous,
    /// Resident pages of files (RssFile).
    File,
    /// Resident pages of shared memory (RssShmem).
    Shared,
    /// Swapped pages (VmSwap).
    Swap,
    /// The largest number of resident pages so far (VmHWM).
    RssPeak,
}

/// The file of a system counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CounterSource {
    /// /proc/meminfo, values in bytes.
    Meminfo,
    /// /proc/vmstat, values as they are: mostly pages or events.
    Vmstat,
}

/// What tasks wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resource {
    /// A CPU.
    Cpu,
    /// I/O.
    Io,
    /// Memory: reclaim, refaults, compaction.
    Memory,
}
