//! Counts of the server since its start, which other threads read while it serves, and their text as JSON and
//! OpenMetrics. docs/swapd-tiers.md describes the fields.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread::Thread;

use devices::Device;
use serde::Serialize;

use crate::emulation::Figures;
use crate::store::PoolCounts;

/// A count that one thread changes.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds to the count. Only one thread may do so.
    #[inline(always)]
    pub fn add(&self, count: u64) {
        self.0.store(self.0.load(Relaxed) + count, Relaxed);
    }

    /// Replaces the count.
    pub fn set(&self, count: u64) {
        self.0.store(count, Relaxed);
    }

    /// The count.
    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// Parts of each doubling, as a power of two: a part is at most 1/16 wide.
const PARTS_LOG2: u32 = 4;
/// Doublings, from 16 ns to 2^40 ns, which is 18 minutes.
const BUCKETS: usize = (40 - PARTS_LOG2 as usize + 1) << PARTS_LOG2;

/// A histogram of times whose parts grow with the time (as in HdrHistogram).
#[derive(Debug)]
pub struct Histogram {
    counts: [Count; BUCKETS],
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { counts: std::array::from_fn(|_| Count::default()) }
    }
}

/// The bucket of a time; longer times share the last.
fn bucket(time_ns: u64) -> usize {
    let octave = time_ns.checked_ilog2().unwrap_or(0).saturating_sub(PARTS_LOG2);
    let bucket = ((octave as usize) << PARTS_LOG2) + (time_ns >> octave) as usize;
    bucket.min(BUCKETS - 1)
}

/// The first time of a bucket.
fn begin(bucket: usize) -> u64 {
    let octave = (bucket >> PARTS_LOG2).saturating_sub(1);
    ((bucket - (octave << PARTS_LOG2)) as u64) << octave
}

impl Histogram {
    /// Counts a time.
    #[inline]
    pub fn add(&self, time_ns: u64) {
        self.counts[bucket(time_ns)].add(1);
    }

    /// Number of times counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().map(Count::get).sum()
    }

    /// The time below which `share` of the times lie, in nanoseconds: the middle of its bucket. `None` if there
    /// are none.
    pub fn quantile_ns(&self, share: f64) -> Option<u64> {
        let total = self.count();
        let rank = (share * total as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += count.get();
            seen >= rank
        })?;
        (total > 0).then(|| begin(found).midpoint(begin(found + 1)))
    }

    fn quantiles(&self) -> Option<Quantiles> {
        let us = |share| Some(self.quantile_ns(share)? as f64 / 1e3);
        let [p50, p99, p999] = QUANTILES.map(us);
        Some(Quantiles { p50: p50?, p99: p99?, p999: p999? })
    }
}

/// The quantiles that are reported.
const QUANTILES: [f64; 3] = [0.5, 0.99, 0.999];

/// Counts of a tier.
#[derive(Debug, Default)]
pub struct TierCounts {
    /// Pages read.
    pub reads: Count,
    /// Pages written.
    pub writes: Count,
}

/// Counts of a compressed fast tier.
#[derive(Debug, Default)]
pub struct CompressedCounts {
    /// Bytes of memory in use.
    pub bytes: Count,
    /// Pages in them.
    pub pages: Count,
    /// Pages that repeat one word, which take no memory.
    pub filled_pages: Count,
    /// Pages that are stored as they are.
    pub raw_pages: Count,
    /// Pages that found no room and went to the slow tier.
    pub refused_pages: Count,
}

impl CompressedCounts {
    /// Takes over what the pool holds.
    pub fn set(&self, counts: PoolCounts) {
        self.bytes.set(counts.bytes);
        self.pages.set(counts.pages);
        self.filled_pages.set(counts.filled_pages);
        self.raw_pages.set(counts.raw_pages);
    }
}

/// Everything that is counted.
#[derive(Debug, Default)]
pub struct Statistics {
    /// Pages that the fast tier read and wrote.
    pub fast: TierCounts,
    /// Pages that the slow tier read and wrote.
    pub slow: TierCounts,
    /// Requests that the fast tier's disk read and wrote, if it has one.
    pub fast_requests: TierCounts,
    /// Requests that the slow tier's disk read and wrote; each has one page or more.
    pub slow_requests: TierCounts,
    /// Pages moved from the slow to the fast tier after a read.
    pub promotions: Count,
    /// Pages moved from the fast to the slow tier.
    pub demotions: Count,
    /// Frames of the fast tier in use.
    pub fast_pages_used: Count,
    /// What a compressed fast tier holds.
    pub compressed: CompressedCounts,
    /// Slots discarded.
    pub voids: Count,
    /// Time of reads that the fast tier answered.
    pub wait_fast: Histogram,
    /// Time of reads that the slow tier answered.
    pub wait_slow: Histogram,
    /// Frames that could not be read or written.
    pub errors_fast: Count,
    /// Slots that the slow tier could not read or write.
    pub errors_slow: Count,
    /// Slots whose content did not have its checksum.
    pub errors_checksum: Count,
    /// The last slot with an error of the slow tier, plus one; 0 without one.
    pub error_slot: Count,
    /// Events that the kernel lost before the policy learned of them, plus one; 0 where none can be lost.
    pub events_lost: Count,
    /// Servers that took over from one that had ended.
    pub takeovers: Count,
    /// Times that the server slept until the next request.
    pub sleeps: Count,
    /// Nanoseconds that a request takes through the carrier and back; 0 if that was not measured.
    pub carrier_ns: Count,
    /// A thread that waits while there are no requests.
    follower: OnceLock<Thread>,
}

/// What a server serves, for its statistics.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Serving {
    /// The carrier.
    pub through: String,
    /// Name of the policy.
    pub policy: String,
    /// Every option of the policy.
    pub options: BTreeMap<String, String>,
    /// Size of the swap area or of the served device.
    pub size_bytes: u64,
    /// Size of the fast tier.
    pub fast_bytes: u64,
    /// The file or device of the fast tier; none if it is memory.
    pub fast_on: Option<String>,
    /// The served device, or the file in its place; none if a swap area is served.
    pub serves: Option<String>,
    /// How the fast tier is compressed; none if it is not.
    pub compress: Option<String>,
    /// The most frames of a compressed fast tier; none if it is not compressed.
    #[serde(skip)]
    pub frames: Option<u64>,
    /// The times of a read of the device that a tier is as slow as, by tier.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub emulated: BTreeMap<&'static str, Wanted>,
    /// What the kernel refused at the start; the server works without it.
    pub refused: Vec<String>,
}

/// The times that an emulated device takes to read a page, in microseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Wanted {
    /// Name of the device.
    pub device: String,
    /// Median.
    pub p50: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
}

impl Wanted {
    /// The times of a device's file.
    pub fn of(device: &Device) -> Wanted {
        let read = Figures::of(device).read;
        let [p50, p99, p999] = QUANTILES.map(|share| read.quantile_ns(share) as f64 / 1e3);
        Wanted { device: device.name.clone(), p50, p99, p999 }
    }
}

#[derive(Serialize)]
struct Quantiles {
    p50: f64,
    p99: f64,
    p999: f64,
}

#[derive(Serialize)]
struct Operations {
    reads: u64,
    writes: u64,
}

#[derive(Serialize)]
struct Waits {
    fast: Option<Quantiles>,
    slow: Option<Quantiles>,
}

#[derive(Serialize)]
struct Errors {
    fast: u64,
    slow: u64,
    checksum: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_slow_slot: Option<u64>,
}

#[derive(Serialize)]
struct CompressedPages {
    stored: u64,
    filled: u64,
    raw: u64,
    refused: u64,
}

#[derive(Serialize)]
struct Report<'a> {
    schema: &'static str,
    #[serde(flatten)]
    serving: &'a Serving,
    fast: Operations,
    slow: Operations,
    fast_requests: Option<Operations>,
    slow_requests: Operations,
    promotions: u64,
    demotions: u64,
    fast_pages_used: u64,
    voids: u64,
    wait_us: Waits,
    #[serde(skip_serializing_if = "Option::is_none")]
    carrier_us: Option<f64>,
    errors: Errors,
    takeovers: u64,
    compressed_bytes: Option<u64>,
    compressed_pages: Option<CompressedPages>,
    #[serde(skip_serializing_if = "Option::is_none")]
    events_lost: Option<u64>,
}

impl TierCounts {
    fn operations(&self) -> Operations {
        Operations { reads: self.reads.get(), writes: self.writes.get() }
    }
}

impl Statistics {
    /// Counts an error of the slow tier at `slot`.
    pub fn failed_slow(&self, slot: u32) {
        self.errors_slow.add(1);
        self.error_slot.set(u64::from(slot) + 1);
    }

    /// All counts as one JSON object in one line.
    pub fn json(&self, serving: &Serving) -> String {
        let report = Report {
            schema: "pagewise.swapd/1",
            serving,
            fast: self.fast.operations(),
            slow: self.slow.operations(),
            fast_requests: serving.fast_on.as_ref().map(|_| self.fast_requests.operations()),
            slow_requests: self.slow_requests.operations(),
            promotions: self.promotions.get(),
            demotions: self.demotions.get(),
            fast_pages_used: self.fast_pages_used.get(),
            voids: self.voids.get(),
            wait_us: Waits { fast: self.wait_fast.quantiles(), slow: self.wait_slow.quantiles() },
            carrier_us: self.carrier_us(),
            errors: Errors {
                fast: self.errors_fast.get(),
                slow: self.errors_slow.get(),
                checksum: self.errors_checksum.get(),
                last_slow_slot: self.error_slot.get().checked_sub(1),
            },
            takeovers: self.takeovers.get(),
            compressed_bytes: serving.compress.as_ref().map(|_| self.compressed.bytes.get()),
            compressed_pages: serving.compress.as_ref().map(|_| CompressedPages {
                stored: self.compressed.pages.get(),
                filled: self.compressed.filled_pages.get(),
                raw: self.compressed.raw_pages.get(),
                refused: self.compressed.refused_pages.get(),
            }),
            events_lost: self.events_lost.get().checked_sub(1),
        };
        serde_json::to_string(&report).expect("a report has only numbers, texts and names")
    }

    /// Lets `thread`, which parks while nothing is counted, go on with the first request after a pause. Once only.
    pub(crate) fn follow(&self, thread: Thread) {
        let _ = self.follower.set(thread);
    }

    /// Lets the thread that follows the counts go on: some may have changed.
    pub(crate) fn wake_follower(&self) {
        if let Some(thread) = self.follower.get() {
            thread.unpark();
        }
    }

    /// Microseconds that a request takes through the carrier and back, if that was measured.
    pub fn carrier_us(&self) -> Option<f64> {
        match self.carrier_ns.get() {
            0 => None,
            time_ns => Some(time_ns as f64 / 1e3),
        }
    }

    /// All counts as OpenMetrics 1.0.
    pub fn open_metrics(&self, serving: &Serving) -> String {
        let mut text = String::new();
        self.write_metrics(serving, &mut text).expect("writing to a string does not fail");
        text
    }

    fn write_metrics(&self, serving: &Serving, text: &mut String) -> std::fmt::Result {
        let metrics: [(&str, &str, &str, u64); 19] = [
            ("fast_reads", "counter", "Pages read from the fast tier.", self.fast.reads.get()),
            ("fast_writes", "counter", "Pages written to the fast tier.", self.fast.writes.get()),
            ("slow_reads", "counter", "Pages read from the slow tier.", self.slow.reads.get()),
            ("slow_writes", "counter", "Pages written to the slow tier.", self.slow.writes.get()),
            (
                "fast_read_requests",
                "counter",
                "Reads of the fast tier's disk.",
                self.fast_requests.reads.get(),
            ),
            (
                "fast_write_requests",
                "counter",
                "Writes of the fast tier's disk.",
                self.fast_requests.writes.get(),
            ),
            (
                "slow_read_requests",
                "counter",
                "Reads of the slow tier's disk.",
                self.slow_requests.reads.get(),
            ),
            (
                "slow_write_requests",
                "counter",
                "Writes of the slow tier's disk.",
                self.slow_requests.writes.get(),
            ),
            ("promotions", "counter", "Pages promoted.", self.promotions.get()),
            ("demotions", "counter", "Pages demoted.", self.demotions.get()),
            ("voids", "counter", "Slots discarded.", self.voids.get()),
            ("errors_fast", "counter", "Frames that failed.", self.errors_fast.get()),
            ("errors_slow", "counter", "Slots that the slow tier failed.", self.errors_slow.get()),
            ("errors_checksum", "counter", "Wrong checksums.", self.errors_checksum.get()),
            ("takeovers", "counter", "Takeovers from a killed server.", self.takeovers.get()),
            (
                "refused",
                "gauge",
                "Requests to the kernel that it refused at the start.",
                serving.refused.len() as u64,
            ),
            ("fast_pages_used", "gauge", "Frames in use.", self.fast_pages_used.get()),
            ("fast_bytes", "gauge", "Size of the fast tier.", serving.fast_bytes),
            ("size_bytes", "gauge", "Size of the swap area.", serving.size_bytes),
        ];
        let compressed = &self.compressed;
        let compressed: [(&str, &str, &str, u64); 5] = [
            (
                "compressed_bytes",
                "gauge",
                "Memory of the compressed fast tier in use.",
                compressed.bytes.get(),
            ),
            ("compressed_pages", "gauge", "Pages in it.", compressed.pages.get()),
            (
                "compressed_filled_pages",
                "gauge",
                "Pages of one repeated word, which take no memory.",
                compressed.filled_pages.get(),
            ),
            (
                "compressed_raw_pages",
                "gauge",
                "Pages that are stored as they are.",
                compressed.raw_pages.get(),
            ),
            (
                "compressed_refused_pages",
                "counter",
                "Pages that found no room and went to the slow tier.",
                compressed.refused_pages.get(),
            ),
        ];
        let compressed = compressed.into_iter().filter(|_| serving.compress.is_some());
        let help = "Events that the kernel lost before the policy learned of them.";
        let lost = self.events_lost.get().checked_sub(1);
        let lost = lost.map(|count| ("events_lost", "counter", help, count));
        for (name, kind, help, value) in metrics.into_iter().chain(lost).chain(compressed) {
            let suffix = if kind == "counter" { "_total" } else { "" };
            writeln!(text, "# HELP pagewise_swapd_{name} {help}")?;
            writeln!(text, "# TYPE pagewise_swapd_{name} {kind}")?;
            writeln!(text, "pagewise_swapd_{name}{suffix} {value}")?;
        }
        let name = "pagewise_swapd_wait_seconds";
        writeln!(text, "# HELP {name} Time of a read, by the tier that answered.")?;
        writeln!(text, "# TYPE {name} summary")?;
        for (tier, histogram) in [("fast", &self.wait_fast), ("slow", &self.wait_slow)] {
            for share in QUANTILES {
                if let Some(time_ns) = histogram.quantile_ns(share) {
                    let seconds = time_ns as f64 / 1e9;
                    writeln!(text, "{name}{{tier=\"{tier}\",quantile=\"{share}\"}} {seconds}")?;
                }
            }
            writeln!(text, "{name}_count{{tier=\"{tier}\"}} {}", histogram.count())?;
        }
        writeln!(text, "# EOF")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_lies_in_its_bucket() {
        for time_ns in (0..70_000).chain([1 << 30, (1 << 39) + 12_345]) {
            let found = bucket(time_ns);
            assert!(begin(found) <= time_ns && time_ns < begin(found + 1), "{time_ns} in {found}");
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_within_a_part() {
        let histogram = Histogram::default();
        assert_eq!(histogram.quantile_ns(0.5), None);
        (1..=10_000).for_each(|time_us| histogram.add(time_us * 1000));
        for (share, time_ns) in [(0.5, 5_000_000.0), (0.99, 9_900_000.0), (0.999, 9_990_000.0)] {
            let found = histogram.quantile_ns(share).unwrap() as f64;
            assert!((found / time_ns - 1.0_f64).abs() < 1.0 / 16.0, "{share}: {found}");
        }
    }

    #[test]
    fn the_report_has_the_fields_that_others_rely_on() {
        let statistics = Statistics::default();
        statistics.wait_fast.add(20_000);
        statistics.fast.reads.add(3);
        let serving = Serving { policy: "adaptive".to_owned(), ..Serving::default() };
        let report: serde_json::Value = serde_json::from_str(&statistics.json(&serving)).unwrap();
        assert_eq!(report["schema"], "pagewise.swapd/1");
        assert_eq!((&report["policy"], &report["fast"]["reads"]), (&"adaptive".into(), &3.into()));
        assert!(report["wait_us"]["slow"].is_null() && report["compressed_bytes"].is_null());
        let p50 = report["wait_us"]["fast"]["p50"].as_f64().unwrap();
        assert!((19.0..21.0).contains(&p50), "{p50}");
        for field in [
            "through",
            "refused",
            "options",
            "size_bytes",
            "fast_bytes",
            "fast_on",
            "fast_requests",
            "slow",
            "promotions",
            "demotions",
            "fast_pages_used",
            "voids",
            "errors",
            "takeovers",
        ] {
            assert!(report.get(field).is_some(), "{field}");
        }
        let metrics = statistics.open_metrics(&serving);
        assert!(metrics.contains("\npagewise_swapd_fast_reads_total 3\n"), "{metrics}");
        assert!(metrics.ends_with("# EOF\n") && !metrics.contains("compressed"));
        assert!(!metrics.contains("events_lost"), "nothing can be lost without a recorder");
        assert!(metrics.contains("\npagewise_swapd_refused 0\n"), "{metrics}");
        statistics.events_lost.add(1 + 5);
        let refused = Serving { refused: vec!["oom_score_adj".to_owned()], ..serving };
        let metrics = statistics.open_metrics(&refused);
        assert!(metrics.contains("\npagewise_swapd_events_lost_total 5\n"), "{metrics}");
        assert!(metrics.contains("\npagewise_swapd_refused 1\n"), "{metrics}");
    }

    #[test]
    fn a_compressed_tier_has_counts_of_its_own() {
        let statistics = Statistics::default();
        let counts = PoolCounts { bytes: 640, pages: 3, filled_pages: 1, raw_pages: 0 };
        statistics.compressed.set(counts);
        statistics.compressed.refused_pages.add(2);
        let serving =
            Serving { compress: Some("lz4".to_owned()), frames: Some(9), ..Serving::default() };
        let report: serde_json::Value = serde_json::from_str(&statistics.json(&serving)).unwrap();
        assert_eq!(
            (&report["compress"], &report["compressed_bytes"]),
            (&"lz4".into(), &640.into())
        );
        let pages = serde_json::json!({"stored": 3, "filled": 1, "raw": 0, "refused": 2});
        assert_eq!(report["compressed_pages"], pages);
        assert!(report.get("frames").is_none());
        let metrics = statistics.open_metrics(&serving);
        assert!(metrics.contains("\npagewise_swapd_compressed_bytes 640\n"), "{metrics}");
        assert!(
            metrics.contains("\npagewise_swapd_compressed_refused_pages_total 2\n"),
            "{metrics}"
        );
    }
}
