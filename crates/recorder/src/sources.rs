//! The catalog of sources that can be recorded: each is a group of BPF programs, or of text events if the kernel
//! refuses BPF.

/// A source of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// The name of the source on the command line and in recordings.
    pub name: &'static str,
    /// The events that it records, in one line.
    pub summary: &'static str,
    /// The names of its BPF programs in recorder.bpf.c.
    pub programs: &'static [&'static str],
    /// The text events that replace its programs if the kernel refuses BPF, each with a filter or "".
    pub text_events: &'static [(&'static str, &'static str)],
    /// Whether the source is recorded if the user names none.
    pub is_default: bool,
}

/// All sources, in the order of lists.
pub const CATALOG: &[Source] = &[
    Source {
        name: "swap",
        summary: "pages that leave memory, with their owner, and what swap devices read and write",
        programs: &["page_out", "swap_transfer"],
        text_events: &[("vmscan/mm_vmscan_write_folio", ""), ("block/block_bio_queue", "")],
        is_default: true,
    },
    Source {
        name: "faults",
        summary: "faults that bring pages back from swap, with their latency",
        programs: &[
            "user_fault",
            "kernel_fault",
            "fault_entered",
            "machine_reclaim_begins",
            "machine_reclaim_ends",
            "group_reclaim_begins",
            "group_reclaim_ends",
            "swapped_pages_change",
            "swap_in_begins",
            "swap_in_ends",
        ],
        text_events: &[
            ("exceptions/page_fault_user", ""),
            ("exceptions/page_fault_kernel", ""),
            ("kmem/rss_stat", "member == 2"),
        ],
        is_default: true,
    },
    Source {
        name: "files",
        summary: "pages of files that enter and leave the page cache",
        programs: &["file_page_added", "file_page_dropped"],
        text_events: &[
            ("filemap/mm_filemap_add_to_page_cache", ""),
            ("filemap/mm_filemap_delete_from_page_cache", ""),
        ],
        is_default: false,
    },
    Source {
        name: "block",
        summary: "every request that goes to a block device",
        programs: &["block_request", "block_request_back"],
        text_events: &[("block/block_rq_issue", ""), ("block/block_rq_requeue", "")],
        is_default: false,
    },
    Source {
        name: "kills",
        summary: "each SIGKILL, with victim and sender; memory and processes at each kill and every 200 ms",
        programs: &["kill", "oom_kill"],
        text_events: &[("signal/signal_generate", "sig == 9"), ("oom/mark_victim", "")],
        is_default: false,
    },
    Source {
        name: "launches",
        summary: "processes that fork, exec and exit",
        programs: &["process_exec", "process_fork", "process_exit"],
        text_events: &[
            ("sched/sched_process_exec", ""),
            ("sched/sched_process_fork", ""),
            ("sched/sched_process_exit", ""),
        ],
        // Pages are named by process, so every recording needs the names and ends of processes.
        is_default: true,
    },
];

/// The sources that are recorded if the user names none.
pub fn defaults() -> Vec<&'static Source> {
    CATALOG.iter().filter(|source| source.is_default).collect()
}
