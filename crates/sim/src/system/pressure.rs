//! Intervals of pressure on memory: direct reclaim, kswapd, compaction, refaults, thrashing, and the processes behind
//! them.

use std::collections::{BTreeMap, HashMap};

use trace::system::{Event, Kind};

use super::memory::{StallSample, share};
use super::schedule::{Segment, State};
use super::spans::{Amounts, BusySpan, Spans};
use super::tasks::ProcessIndex;

/// Tasks thrash if some task stalls for memory at least this share of the time between two samples.
const THRASHING_SHARE: f64 = 0.1;

/// Without samples: if threads wait at least this long for pages that are read again, in one interval.
const THRASHING_NS: i64 = 10_000_000;

/// Threads in direct reclaim, in compaction, and that wait for pages, at a time.
const THREADS_MAX: usize = 1 << 16;

/// Memory nodes.
const NODES_MAX: usize = 1024;

/// Finds intervals of pressure.
#[derive(Debug, Default)]
pub struct PressureFinder {
    /// Intervals of direct reclaim.
    pub direct_reclaim: Spans,
    /// Intervals of compaction, by threads that allocate and by kcompactd.
    pub compaction: Spans,
    /// Intervals in which kswapd was awake.
    awake: Spans,
    /// Intervals in which kswapd ran.
    ran: Spans,
    /// Intervals of refaults.
    pub refaults: Spans,
    /// Waits for pages that are read again.
    waits: Spans,
    /// Intervals of thrashing by PSI.
    stalls: Spans,
    /// All parts by process.
    pub totals: Amounts,
    /// When each thread began to reclaim.
    reclaiming: HashMap<u32, i64>,
    /// When each thread began to compact.
    compacting: HashMap<u32, i64>,
    /// When kswapd of each node woke.
    woken: BTreeMap<u32, i64>,
    /// Memory that processes took since kswapd woke.
    taken: Amounts,
    /// What processes did since the last sample of pressure.
    since_sample: Amounts,
    /// Threads that read pages again since they last waited.
    refaulting: HashMap<u32, ()>,
    has_stalls: bool,
    has_wakes_of_kswapd: bool,
}

impl PressureFinder {
    /// Whether thrashing is found by samples of pressure.
    pub fn has_stalls(&self) -> bool {
        self.has_stalls
    }

    /// Threads that are in direct reclaim, with its begin.
    pub fn reclaiming(&self) -> impl Iterator<Item = (u32, i64)> {
        self.reclaiming.iter().map(|(&tid, &from_ns)| (tid, from_ns))
    }

    /// Intervals of kswapd: awake, or if the trace does not have that, running.
    pub fn kswapd(&self) -> &Spans {
        if self.has_wakes_of_kswapd { &self.awake } else { &self.ran }
    }

    /// Waits for pages that are read again.
    pub fn waits(&self) -> &Spans {
        &self.waits
    }

    /// Intervals of thrashing: by PSI, or without samples by waits for pages that are read again.
    pub fn thrashing(&self) -> Vec<BusySpan> {
        if self.has_stalls {
            return self.stalls.all().to_vec();
        }
        let is_long = |span: &&BusySpan| span.amounts.sum().time_ns >= THRASHING_NS;
        self.waits.all().iter().filter(is_long).cloned().collect()
    }

    /// Intervals that were not kept.
    pub fn left_out(&self) -> u64 {
        let all = [
            &self.direct_reclaim,
            &self.compaction,
            self.kswapd(),
            &self.refaults,
            &self.waits,
            &self.stalls,
        ];
        all.iter().map(|spans| spans.left_out()).sum()
    }

    /// Takes an event of reclaim by a thread of `process`; returns direct reclaim that ends.
    pub fn take(&mut self, event: &Event, process: ProcessIndex) -> Option<(i64, i64)> {
        let time_ns = event.time_ns;
        match event.kind {
            Kind::DirectReclaimBegin { .. } | Kind::CgroupReclaimBegin { .. } => {
                if self.reclaiming.len() < THREADS_MAX {
                    self.reclaiming.insert(event.tid, time_ns);
                }
                None
            }
            Kind::DirectReclaimEnd { .. } | Kind::CgroupReclaimEnd { .. } => {
                let from_ns = self.reclaiming.remove(&event.tid).filter(|&from| from <= time_ns)?;
                let duration_ns = time_ns.saturating_sub(from_ns);
                self.direct_reclaim.add((from_ns, time_ns), process, duration_ns, 0);
                self.totals.add(process, duration_ns, 0);
                self.since_sample.add(process, duration_ns, 0);
                Some((from_ns, time_ns))
            }
            Kind::CompactionBegin => {
                if self.compacting.len() < THREADS_MAX {
                    self.compacting.insert(event.tid, time_ns);
                }
                None
            }
            Kind::CompactionEnd => {
                let from_ns = self.compacting.remove(&event.tid).filter(|&from| from <= time_ns)?;
                self.compact(from_ns, time_ns, process);
                None
            }
            Kind::KswapdWake { node, .. } => {
                self.has_wakes_of_kswapd = true;
                if self.woken.len() < NODES_MAX {
                    if self.woken.is_empty() {
                        self.taken.take();
                    }
                    // It reports each order that it wakes for.
                    self.woken.entry(node).or_insert(time_ns);
                }
                None
            }
            Kind::KswapdSleep { node } => {
                self.has_wakes_of_kswapd = true;
                let from_ns = self.woken.remove(&node).filter(|&from| from <= time_ns)?;
                self.sleep(from_ns, time_ns);
                None
            }
            _ => None,
        }
    }

    fn sleep(&mut self, from_ns: i64, to_ns: i64) {
        let mut amounts =
            if self.woken.is_empty() { self.taken.take() } else { self.taken.clone() };
        amounts.add(0, to_ns.saturating_sub(from_ns), 0);
        self.awake.push(BusySpan { from_ns, to_ns, amounts, share: None });
    }

    /// A thread compacts memory. The time is no cause of thrashing: compaction frees no memory.
    fn compact(&mut self, from_ns: i64, to_ns: i64, process: ProcessIndex) {
        self.compaction.add((from_ns, to_ns), process, to_ns.saturating_sub(from_ns), 0);
    }

    /// A process takes memory.
    pub fn grow(&mut self, process: ProcessIndex, bytes: u64) {
        if !self.woken.is_empty() && bytes > 0 {
            self.taken.add(process, 0, bytes);
        }
    }

    /// A thread reads pages that had left memory.
    pub fn refault(&mut self, tid: u32, process: ProcessIndex, time_ns: i64, bytes: u64) {
        self.refaults.add((time_ns, time_ns), process, 0, bytes);
        self.totals.add(process, 0, bytes);
        self.since_sample.add(process, 0, bytes);
        if self.refaulting.len() < THREADS_MAX {
            self.refaulting.insert(tid, ());
        }
    }

    /// A thread was in one state.
    pub fn segment(&mut self, segment: &Segment, process: ProcessIndex, is_kswapd: bool) {
        let (from_ns, to_ns) = (segment.from_ns, segment.to_ns);
        match segment.state {
            State::Running if is_kswapd => self.ran.add((from_ns, to_ns), 0, to_ns - from_ns, 0),
            State::Io | State::Unexplained if self.refaulting.remove(&segment.tid).is_some() => {
                self.waits.add((from_ns, to_ns), process, to_ns - from_ns, 0);
                self.totals.add(process, to_ns - from_ns, 0);
                self.since_sample.add(process, to_ns - from_ns, 0);
            }
            _ => {}
        }
    }

    /// A sample of pressure.
    pub fn sample(&mut self, sample: StallSample, before: Option<StallSample>) {
        self.has_stalls = true;
        let amounts = self.since_sample.take();
        let Some(before) = before else { return };
        let stalled = share(&before, &sample, |sample| Some(sample.some_us));
        if let Some(stalled) = stalled.filter(|&stalled| stalled >= THRASHING_SHARE) {
            let (from_ns, to_ns) = (before.time_ns, sample.time_ns);
            self.stalls.push(BusySpan { from_ns, to_ns, amounts, share: Some(stalled) });
        }
    }

    /// Ends what lasts at the end of the trace. `process` gives the process of a thread.
    pub fn end(&mut self, end_ns: i64, process: impl Fn(u32) -> ProcessIndex) {
        let reclaiming: BTreeMap<u32, i64> = self.reclaiming.drain().collect();
        for (tid, from_ns) in reclaiming {
            let duration_ns = end_ns.saturating_sub(from_ns).max(0);
            let process = process(tid);
            self.direct_reclaim.add((from_ns, from_ns + duration_ns), process, duration_ns, 0);
            self.totals.add(process, duration_ns, 0);
        }
        let compacting: BTreeMap<u32, i64> = self.compacting.drain().collect();
        for (tid, from_ns) in compacting {
            self.compact(from_ns, end_ns.max(from_ns), process(tid));
        }
        while let Some((_, from_ns)) = self.woken.pop_first() {
            self.sleep(from_ns, end_ns.max(from_ns));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_compacts_by_itself_and_an_end_without_a_begin_is_none() {
        let mut pressure = PressureFinder::default();
        let event = |time_ns, tid, kind| Event { time_ns, cpu: Some(0), tid, kind };
        for (time_ns, tid, kind) in [
            (0, 3, Kind::CompactionEnd),
            (10, 1, Kind::CompactionBegin),
            (12, 2, Kind::CompactionBegin),
            (15, 1, Kind::CompactionEnd),
            (30, 2, Kind::CompactionEnd),
            (900_000_000, 1, Kind::CompactionBegin),
        ] {
            assert_eq!(pressure.take(&event(time_ns, tid, kind), tid), None);
        }
        pressure.end(900_000_007, |tid| tid);
        let found: Vec<_> = pressure.compaction.all().iter().collect();
        let times: Vec<_> = found.iter().map(|span| (span.from_ns, span.to_ns)).collect();
        assert_eq!(times, [(10, 30), (900_000_000, 900_000_007)]);
        let largest = found[0].amounts.largest(5, |process| process);
        let times: Vec<_> = largest.iter().map(|&(tid, amount)| (tid, amount.time_ns)).collect();
        assert_eq!(times, [(2, 18), (1, 5)]);
        assert_eq!(pressure.compaction.sum().time_ns, 30);
        assert_eq!(pressure.totals.sum().time_ns, 0);
    }
}
