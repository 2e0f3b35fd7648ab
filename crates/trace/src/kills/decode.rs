//! The catalog of tracepoints for kills, and the decoder of their bytes.

use std::collections::HashMap;

use super::event::{Event, What};
use super::format::Layout;

/// A tracepoint of the catalog.
#[derive(Clone, Copy, Debug)]
pub struct Row {
    /// Group and name, as below `events/`.
    pub event: &'static str,
    /// Filter for its events; empty for all.
    pub filter: &'static str,
    /// Whether the event is enabled only during a kill, because it is too frequent otherwise.
    pub is_armed: bool,
    /// What is absent on a kernel without this tracepoint.
    pub without_it: &'static str,
    read: fn(&Layout, &[u8]) -> Option<What>,
}

const SIGKILL: i64 = 9;

/// Result of a signal that was delivered, neither ignored nor already pending.
const DELIVERED: i64 = 0;

/// Flag of a new task that is a thread of its creator's process.
const CLONE_THREAD: i64 = 0x1_0000;

/// Every tracepoint, in the order of a kill.
pub const CATALOG: &[Row] = &[
    call("syscalls/sys_enter_kill", |_, _| Some(What::KillCall)),
    call("syscalls/sys_enter_pidfd_send_signal", |_, _| Some(What::KillCall)),
    call("syscalls/sys_enter_tgkill", |_, _| Some(What::KillCall)),
    call("syscalls/sys_enter_tkill", |_, _| Some(What::KillCall)),
    call("syscalls/sys_enter_rt_sigqueueinfo", |_, _| Some(What::KillCall)),
    row("syscalls/sys_exit_kill", "", SIGNAL, |_, _| Some(What::KillCallEnds)),
    row("syscalls/sys_exit_pidfd_send_signal", "", SIGNAL, |_, _| Some(What::KillCallEnds)),
    row("syscalls/sys_exit_tgkill", "", SIGNAL, |_, _| Some(What::KillCallEnds)),
    row("syscalls/sys_exit_tkill", "", SIGNAL, |_, _| Some(What::KillCallEnds)),
    row("syscalls/sys_exit_rt_sigqueueinfo", "", SIGNAL, |_, _| Some(What::KillCallEnds)),
    armed("sched/sched_waking", "", "which threads the signal wakes", |layout, event| {
        Some(What::Wakes { thread: number(layout, event, "pid")? })
    }),
    row("signal/signal_generate", "sig == 9", "kills", |layout, event| {
        let is_kill = layout.number(event, "sig")? == SIGKILL;
        let is_new = layout.number(event, "result")? == DELIVERED;
        (is_kill && is_new).then_some(What::SignalGenerated {
            target: number(layout, event, "pid")?,
            name: layout.name16(event, "comm")?,
            code: layout.number(event, "code")? as i32,
        })
    }),
    row("signal/signal_deliver", "sig == 9", "the number of threads", |layout, event| {
        (layout.number(event, "sig")? == SIGKILL).then_some(What::SignalDelivered)
    }),
    row("sched/sched_process_exit", "", "when each thread has ended", |layout, event| {
        let is_last = layout.number(event, "group_dead").map(|value| value != 0);
        Some(What::ThreadEnds { is_last })
    }),
    armed("mmap_lock/mmap_lock_start_locking", "", RECLAIM, |layout, event| {
        Some(What::LockWanted {
            memory: memory(layout, event)?,
            is_write: is_write(layout, event)?,
        })
    }),
    armed("mmap_lock/mmap_lock_acquire_returned", "", RECLAIM, |layout, event| {
        let is_taken = layout.number(event, "success")? != 0;
        let (memory, is_write) = (memory(layout, event)?, is_write(layout, event)?);
        is_taken.then_some(What::LockTaken { memory, is_write })
    }),
    row("mmap/exit_mmap", "", RECLAIM, |layout, event| {
        Some(What::MemoryGone { memory: memory(layout, event) })
    }),
    armed("kmem/rss_stat", "curr == 0", "how memory falls", |layout, event| {
        let is_other = layout.number(event, "curr")? == 0;
        is_other.then_some(What::Resident {
            member: number(layout, event, "member")?,
            // The sum of the per-CPU counters may be negative for a moment.
            bytes: layout.number(event, "size")?.max(0) as u64,
        })
    }),
    row("syscalls/sys_enter_process_mrelease", "", REAPER, |_, _| Some(What::ReleaseCall)),
    row("syscalls/sys_exit_process_mrelease", "", REAPER, |_, _| Some(What::ReleaseCallEnds)),
    row("oom/mark_victim", "", "whether the kernel's killer chose the victim", |layout, event| {
        let kibibytes = |name| number::<u64>(layout, event, name);
        let rss_kibibytes = ["anon_rss", "file_rss", "shmem_rss"]
            .into_iter()
            .try_fold(0u64, |sum, name| Some(sum.saturating_add(kibibytes(name)?)));
        Some(What::Chosen {
            target: number(layout, event, "pid")?,
            rss_bytes: rss_kibibytes.map(|count| count.saturating_mul(1024)),
        })
    }),
    row("oom/start_task_reaping", "", REAPER, |layout, event| {
        Some(What::ReaperBegins { target: number(layout, event, "pid")? })
    }),
    row("oom/finish_task_reaping", "", REAPER, |layout, event| {
        Some(What::ReaperEnds { target: number(layout, event, "pid")? })
    }),
    row("vmscan/mm_vmscan_direct_reclaim_begin", "", TRIGGER, |_, _| {
        Some(What::ReclaimBegins { is_group: false })
    }),
    row("vmscan/mm_vmscan_direct_reclaim_end", "", TRIGGER, |_, _| {
        Some(What::ReclaimEnds { is_group: false })
    }),
    row("vmscan/mm_vmscan_memcg_reclaim_begin", "", TRIGGER, |_, _| {
        Some(What::ReclaimBegins { is_group: true })
    }),
    row("vmscan/mm_vmscan_memcg_reclaim_end", "", TRIGGER, |_, _| {
        Some(What::ReclaimEnds { is_group: true })
    }),
    row("vmscan/mm_vmscan_kswapd_wake", "", TRIGGER, |_, _| Some(What::KswapdWakes)),
    row("vmscan/mm_vmscan_kswapd_sleep", "", TRIGGER, |_, _| Some(What::KswapdSleeps)),
    row("task/task_newtask", "", "which process a thread belongs to", |layout, event| {
        Some(What::NewTask {
            thread: number(layout, event, "pid")?,
            is_thread: layout.number(event, "clone_flags")? & CLONE_THREAD != 0,
        })
    }),
    row("ftrace/function", "", "the kernel's functions", |layout, event| {
        Some(What::Function { address: layout.number(event, "ip")? as u64 })
    }),
];

const SIGNAL: &str = "when a signal's delivery began";
const RECLAIM: &str = "how long the memory took";
const REAPER: &str = "how long a reaper took";
const TRIGGER: &str = "who was making room";

type Read = fn(&Layout, &[u8]) -> Option<What>;

const fn row(
    event: &'static str,
    filter: &'static str,
    without_it: &'static str,
    read: Read,
) -> Row {
    Row { event, filter, is_armed: false, without_it, read }
}

const fn armed(
    event: &'static str,
    filter: &'static str,
    without_it: &'static str,
    read: Read,
) -> Row {
    Row { is_armed: true, ..row(event, filter, without_it, read) }
}

const fn call(event: &'static str, read: Read) -> Row {
    row(event, "sig == 9", SIGNAL, read)
}

fn number<Number: TryFrom<i64>>(layout: &Layout, event: &[u8], field: &str) -> Option<Number> {
    Number::try_from(layout.number(event, field)?).ok()
}

fn memory(layout: &Layout, event: &[u8]) -> Option<u64> {
    Some(layout.number(event, "mm")? as u64)
}

fn is_write(layout: &Layout, event: &[u8]) -> Option<bool> {
    Some(layout.number(event, "write")? != 0)
}

/// Decodes events of the tracepoints that the recorded kernel has.
#[derive(Default)]
pub struct Decoder {
    by_number: HashMap<u16, (Read, Layout)>,
}

impl Decoder {
    /// A decoder for the events of `formats`, the texts of format files.
    ///
    /// # Errors
    /// If a text is no format file, with its beginning.
    pub fn new<'text>(formats: impl IntoIterator<Item = &'text str>) -> Result<Decoder, String> {
        let mut by_number = HashMap::new();
        for text in formats {
            let start = || text.chars().take(60).collect::<String>();
            let layout = Layout::parse(text)
                .ok_or_else(|| format!("expected the format of an event, not {:?}", start()))?;
            let is_it = |row: &&Row| row.event.rsplit('/').next() == Some(layout.name.as_str());
            if let Some(row) = CATALOG.iter().find(is_it) {
                by_number.insert(layout.number, (row.read, layout));
            }
        }
        Ok(Decoder { by_number })
    }

    /// Whether the kernel has the event `name`, without its group.
    pub fn tells(&self, name: &str) -> bool {
        self.by_number.values().any(|(_, layout)| layout.name == name)
    }

    /// Decodes an event; `None` if the catalog does not have it or its filter rejects it.
    pub fn event(&self, time_ns: u64, bytes: &[u8]) -> Option<Event> {
        let number = u16::from_le_bytes(bytes.get(..2)?.try_into().ok()?);
        let (read, layout) = self.by_number.get(&number)?;
        let thread = u32::try_from(layout.number(bytes, "common_pid")?).ok()?;
        Some(Event { time_ns, thread, what: read(layout, bytes)? })
    }
}
