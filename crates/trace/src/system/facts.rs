//! Counts of the events of a system trace by what they say, for `Contents`.

use std::collections::BTreeMap;

use super::android::{LMKD_KILL_COUNTER, launch, lmkd_kill};
use super::{BlockStage, CounterSource, Event, Fault, Kind, MemoryPart, Names};

/// Counts of what the events of a trace say.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Names are compared by address, which is faster than by text. So a name at two addresses has two rows.
    counts: Vec<(&'static str, u64)>,
    times_ns: Option<(i64, i64)>,
}

impl Facts {
    /// Counts an event.
    pub fn add(&mut self, event: &Event, names: &Names) {
        if let Some(fact) = fact(&event.kind, names) {
            self.add_count(fact, 1);
        }
        if event.cpu.is_some() {
            let (first, last) = self.times_ns.get_or_insert((event.time_ns, event.time_ns));
            (*first, *last) = ((*first).min(event.time_ns), (*last).max(event.time_ns));
        }
    }

    /// Counts events of one kind that are counted elsewhere.
    pub fn add_count(&mut self, fact: &'static str, count: u64) {
        if count == 0 {
            return;
        }
        match self.counts.iter_mut().find(|(name, _)| std::ptr::eq(*name, fact)) {
            Some((_, known)) => *known += count,
            None => self.counts.push((fact, count)),
        }
    }

    /// Moves the counts out, by what the events say; only those that occur.
    pub fn take_counts(&mut self) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        for (name, count) in std::mem::take(&mut self.counts) {
            *counts.entry(name.to_owned()).or_insert(0) += count;
        }
        counts
    }

    /// The first and the last time of a kernel event, in nanoseconds since boot; `None` without events.
    pub fn times_ns(&self) -> Option<[i64; 2]> {
        self.times_ns.map(|(first, last)| [first, last])
    }
}

/// The fact that an event counts as; `None` if no question needs it.
fn fact(kind: &Kind, names: &Names) -> Option<&'static str> {
    Some(match kind {
        Kind::Switch(_) => "switch",
        Kind::Wake { .. } => "wake",
        Kind::Blocked { .. } => "blocked_reason",
        Kind::Block(block) if block.stage == BlockStage::Complete => "block_complete",
        Kind::Block(_) => "block_request",
        Kind::PageAdded { .. } => "page_added",
        Kind::PageDeleted { .. } => "page_deleted",
        Kind::SwapOut { .. } => "swap_out",
        Kind::Faults { fault: Fault::SwapIn, .. } => "swap_in",
        Kind::Rss { .. } => "rss",
        Kind::DirectReclaimBegin { .. } => "direct_reclaim",
        Kind::KswapdWake { .. } => "kswapd",
        Kind::CompactionBegin => "compaction",
        Kind::Region { .. } => "region",
        Kind::OomVictim { .. } => "oom_kill",
        Kind::Signal { .. } => "signal",
        Kind::LowMemoryKill { .. } => "lowmemory_kill",
        Kind::OomScoreAdj { .. } => "oom_score_adj",
        Kind::Exit { .. } => "exit",
        Kind::Fork { .. } | Kind::NewTask { .. } => "new_task",
        Kind::Process { .. } => "process",
        Kind::ProcessMemory { part: MemoryPart::Rss | MemoryPart::Pss, .. } => "process_memory",
        Kind::SystemCounter { source: CounterSource::Meminfo, .. } => "meminfo",
        Kind::SystemCounter { source: CounterSource::Vmstat, .. } => "vmstat",
        Kind::Pressure { .. } => "pressure",
        Kind::Log { tag, message, .. } => log_line(names.bytes_of(*tag), names.bytes_of(*message)),
        Kind::AsyncBegin { name, .. } if launch(names.bytes_of(*name)).is_some() => "launch",
        Kind::SliceBegin { name, .. } | Kind::Instant { name, .. } => {
            lmkd_kill(names.bytes_of(*name)).map(|_| "lmkd_kill")?
        }
        Kind::Counter { name, value, .. }
            if *value > 0 && names.bytes_of(*name) == LMKD_KILL_COUNTER =>
        {
            "lmkd_kill"
        }
        _ => return None,
    })
}

/// The fact that a line of the log counts as: a kill as lmkd or ActivityManager reports it, or any other line.
fn log_line(tag: &[u8], message: &[u8]) -> &'static str {
    let is_kill = match tag {
        b"am_kill" | b"killinfo" => true,
        b"ActivityManager" => message.starts_with(b"Killing "),
        b"lowmemorykiller" | b"lmkd" => message.starts_with(b"Kill"),
        _ => false,
    };
    if is_kill { "log_kill" } else { "log_line" }
}
