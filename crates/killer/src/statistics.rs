//! The killer's counters, which its threads share, and their text as JSON and OpenMetrics.

use std::fmt::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use policy::kill::Memory;

/// Upper bounds of the times until memory was back, in microseconds.
const BOUNDS_US: [u64; 8] = [1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 10_000_000];

/// Counters since the start, and the last reading of memory.
#[derive(Debug, Default)]
pub struct Statistics {
    pub(crate) looks: AtomicU64,
    pub(crate) kills: AtomicU64,
    pub(crate) would_kill: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) late: AtomicU64,
    pub(crate) freed_bytes: AtomicU64,
    pub(crate) lines_lost: AtomicU64,
    pub(crate) hooks_failed: AtomicU64,
    pub(crate) candidates: AtomicU64,
    pub(crate) overlooked: AtomicU64,
    total_bytes: AtomicU64,
    available_bytes: AtomicU64,
    swap_free_bytes: AtomicU64,
    back_us_sum: AtomicU64,
    /// How often memory was back within each bound but not within the bound before; the last element counts
    /// the times beyond all bounds.
    back: [AtomicU64; BOUNDS_US.len() + 1],
}

/// A metric: its name, its type (counter or gauge), its help text, and its value.
type Metric = (&'static str, &'static str, &'static str, fn(&Statistics) -> &AtomicU64);

const METRICS: &[Metric] = &[
    ("looks", "counter", "Checks of memory.", |all| &all.looks),
    ("kills", "counter", "Processes killed.", |all| &all.kills),
    ("would_kill", "counter", "Times that a dry run would have killed a process.", |all| {
        &all.would_kill
    }),
    ("refused", "counter", "Kills that the kernel refused.", |all| &all.refused),
    ("late", "counter", "Victims whose memory did not come back in time.", |all| &all.late),
    ("freed_bytes", "counter", "Memory that victims freed.", |all| &all.freed_bytes),
    ("lines_lost", "counter", "Log lines dropped because the reader was slow.", |all| {
        &all.lines_lost
    }),
    ("hooks_failed", "counter", "Hooks that failed or took too long.", |all| &all.hooks_failed),
    ("candidates", "gauge", "Processes in the table.", |all| &all.candidates),
    ("overlooked", "gauge", "Processes without room in the table.", |all| &all.overlooked),
    ("total_bytes", "gauge", "Total memory.", |all| &all.total_bytes),
    ("available_bytes", "gauge", "Available memory.", |all| &all.available_bytes),
    ("swap_free_bytes", "gauge", "Free swap.", |all| &all.swap_free_bytes),
];

impl Statistics {
    pub(crate) fn add(counter: &AtomicU64, count: u64) {
        counter.fetch_add(count, Relaxed);
    }

    pub(crate) fn note_memory(&self, memory: &Memory) {
        self.looks.fetch_add(1, Relaxed);
        self.total_bytes.store(memory.total.0, Relaxed);
        self.available_bytes.store(memory.available.0, Relaxed);
        self.swap_free_bytes.store(memory.swap_free.0, Relaxed);
    }

    /// Counts a victim whose memory came back after `microseconds`.
    pub(crate) fn note_back(&self, microseconds: u64, bytes: u64) {
        let bucket = BOUNDS_US.iter().position(|&bound| microseconds <= bound);
        self.back[bucket.unwrap_or(BOUNDS_US.len())].fetch_add(1, Relaxed);
        self.back_us_sum.fetch_add(microseconds, Relaxed);
        self.freed_bytes.fetch_add(bytes, Relaxed);
    }

    /// The number of victims whose memory came back.
    pub fn memory_back(&self) -> u64 {
        self.back.iter().map(|bucket| bucket.load(Relaxed)).sum()
    }

    /// Appends all counters as one JSON object.
    pub(crate) fn json(&self, text: &mut String) -> fmt::Result {
        write!(text, "{{\"schema\":\"pagewise.killd/1\"")?;
        for (name, _, _, of) in METRICS {
            write!(text, ",\"{name}\":{}", of(self).load(Relaxed))?;
        }
        writeln!(text, ",\"back_us_sum\":{}}}", self.back_us_sum.load(Relaxed))
    }

    /// Appends all counters as OpenMetrics 1.0.
    pub(crate) fn open_metrics(&self, text: &mut String) -> fmt::Result {
        for (name, kind, help, of) in METRICS {
            let suffix = if *kind == "counter" { "_total" } else { "" };
            writeln!(text, "# HELP pagewise_killd_{name} {help}")?;
            writeln!(text, "# TYPE pagewise_killd_{name} {kind}")?;
            writeln!(text, "pagewise_killd_{name}{suffix} {}", of(self).load(Relaxed))?;
        }
        let name = "pagewise_killd_memory_back_seconds";
        writeln!(text, "# HELP {name} Time from a kill until its memory was back.")?;
        writeln!(text, "# TYPE {name} histogram")?;
        let mut count = 0;
        for (bucket, bound) in self.back.iter().zip(BOUNDS_US) {
            count += bucket.load(Relaxed);
            writeln!(text, "{name}_bucket{{le=\"{}\"}} {count}", bound as f64 / 1e6)?;
        }
        count += self.back[BOUNDS_US.len()].load(Relaxed);
        writeln!(text, "{name}_bucket{{le=\"+Inf\"}} {count}\n{name}_count {count}")?;
        let sum = self.back_us_sum.load(Relaxed) as f64 / 1e6;
        writeln!(text, "{name}_sum {sum}\n# EOF")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_fall_into_buckets_that_add_up() {
        let statistics = Statistics::default();
        Statistics::add(&statistics.kills, 3);
        for microseconds in [900, 2000, 20_000_000] {
            statistics.note_back(microseconds, 4096);
        }
        let mut text = String::new();
        statistics.open_metrics(&mut text).unwrap();
        for line in [
            "pagewise_killd_kills_total 3",
            "pagewise_killd_freed_bytes_total 12288",
            "pagewise_killd_memory_back_seconds_bucket{le=\"0.001\"} 1",
            "pagewise_killd_memory_back_seconds_bucket{le=\"10\"} 2",
            "pagewise_killd_memory_back_seconds_bucket{le=\"+Inf\"} 3",
            "pagewise_killd_memory_back_seconds_sum 20.0029",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
        let mut json = String::new();
        statistics.json(&mut json).unwrap();
        assert!(json.contains("\"kills\":3") && json.ends_with("}\n"), "{json}");
    }
}
