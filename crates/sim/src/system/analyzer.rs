//! Goes through the events of a system trace once, in the order of time, and answers what launches waited for,
//! who was killed, and when memory was short.

use trace::system::{CounterSource, Event, Fault, Kind, Names, RssMember};

use super::counted::Counted;
use super::evicted::Evicted;
use super::heat::Heat;
use super::kills::KillFinder;
use super::launches::LaunchFinder;
use super::memory::MemoryState;
use super::moments::TraceReplay;
use super::pressure::PressureFinder;
use super::schedule::{Schedule, Segment, State};
use super::split::Split;
use super::tasks::{ProcessIndex, Tasks};

/// Bytes of a page in page-cache events.
const PAGE_BYTES: u64 = 4096;

/// Which events a trace has, so that the absence of others means something.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts {
    /// Whether the trace has events of reclaim.
    pub has_reclaim: bool,
    /// Whether the trace has pages that enter the page cache.
    pub has_reads: bool,
    /// Whether the trace has pages that leave the page cache.
    pub has_evictions: bool,
    /// Whether the trace has changes of the pages of processes, swapped ones too.
    pub has_rss: bool,
    /// Whether the trace has counts of faults with their durations.
    pub has_faults: bool,
    /// Whether the trace shows processes that begin: tasks that are made, samples of processes, or lines of the log.
    pub has_begins: bool,
    /// Whether the trace has ends of threads.
    pub has_exits: bool,
}

/// Analyses a system trace.
#[derive(Default)]
pub struct Analyzer {
    pub(super) tasks: Tasks,
    pub(super) schedule: Schedule,
    pub(super) memory: MemoryState,
    pub(super) launches: LaunchFinder,
    pub(super) kills: KillFinder,
    pub(super) pressure: PressureFinder,
    pub(super) evicted: Evicted,
    pub(super) counted: Counted,
    pub(super) heat: Heat,
    pub(super) replay: TraceReplay,
    pub(super) facts: Facts,
    /// The first event by the kernel, and the first of all.
    pub(super) begin_ns: Option<i64>,
    pub(super) first_ns: Option<i64>,
    pub(super) last_ns: Option<i64>,
    pub(super) events: u64,
    pub(super) disordered: u64,
    /// The time of samples from which a moment follows.
    due_ns: Option<i64>,
    segments: Vec<Segment>,
}

impl Analyzer {
    /// Notes that the recorder was to record kills, so that a trace with none had none.
    pub fn expect_kills(&mut self) {
        self.kills.expect();
    }

    /// Takes the next event. Events should be in the order of time; others are counted.
    pub fn take(&mut self, event: &Event, names: &Names) {
        self.events += 1;
        self.clock(event);
        self.moment(event, names);
        let change = self.change_of_memory(event);
        self.tasks.take(event);
        self.segments(event, names);
        self.reads(event);
        self.swap(event, change);
        self.reclaim(event);
        self.counted.take(event, names);
        self.heat.take(event);
        if let Some((sample, before)) = self.memory.take(event, names) {
            self.pressure.sample(sample, before);
        }
        self.facts.has_begins |= matches!(
            event.kind,
            Kind::NewTask { .. } | Kind::Fork { .. } | Kind::Process { .. } | Kind::Log { .. }
        );
        if matches!(event.kind, Kind::Exit { .. }) {
            self.facts.has_exits = true;
        }
        let begun = self.kills.take(event, names, &self.tasks, self.memory.now());
        if let Some(kill) = begun.map(|number| &self.kills.kills()[number]) {
            let victim = Some((kill.pid, kill.killer == super::kills::KilledBy::Oom));
            let context = (&self.tasks, names);
            let stall = self.memory.stalls().last().copied();
            self.replay.take(event.time_ns, victim, self.memory.now(), stall, context);
        }
        let pressure = &self.pressure;
        let finish = |split: &mut Split, end_ns: i64, tasks: &Tasks, schedule: &Schedule| {
            schedule.open(end_ns, &mut |segment| {
                let process = tasks.of_thread(segment.tid);
                let is_main = tasks.process(process).pid == segment.tid;
                split.add_last_state(process, is_main, &segment);
                if segment.state == State::Running
                    && is_kswapd(names.bytes_of(tasks.comm_of(segment.tid)))
                {
                    split.kswapd_ns += split.clipped(segment.from_ns, segment.to_ns);
                }
            });
            for (tid, from_ns) in pressure.reclaiming() {
                let process = tasks.of_thread(tid);
                let is_main = tasks.process(process).pid == tid;
                split.add_reclaim(process, is_main, (from_ns, end_ns));
            }
        };
        self.launches.take(event, names, (&self.tasks, &self.schedule), &finish);
    }

    fn clock(&mut self, event: &Event) {
        self.first_ns.get_or_insert(event.time_ns);
        if event.cpu.is_some() {
            self.begin_ns.get_or_insert(event.time_ns);
        }
        match self.last_ns {
            Some(last) if event.time_ns < last => self.disordered += 1,
            _ => self.last_ns = Some(event.time_ns),
        }
    }

    /// Samples of one time make a moment, once all are read.
    fn moment(&mut self, event: &Event, names: &Names) {
        if let Some(due_ns) = self.due_ns.filter(|&due_ns| event.time_ns > due_ns) {
            self.due_ns = None;
            let stall = self.memory.stalls().last().copied();
            let context = (&self.tasks, names);
            self.replay.take(due_ns, None, self.memory.now(), stall, context);
        }
        let is_sample = matches!(
            event.kind,
            Kind::SystemCounter { source: CounterSource::Meminfo, .. } | Kind::Pressure { .. }
        );
        if is_sample {
            self.due_ns = self.due_ns.or(Some(event.time_ns));
        }
    }

    /// The process whose anonymous memory or swap changes, and its bytes before.
    fn change_of_memory(&self, event: &Event) -> Option<(ProcessIndex, u64)> {
        let Kind::Rss { mm_id, is_current, member, .. } = event.kind else { return None };
        let process = self.tasks.of_space(event.tid, mm_id, is_current)?;
        let known = self.tasks.process(process);
        let before = match member {
            RssMember::Anonymous => known.anonymous_bytes,
            RssMember::Swap => known.swap_bytes,
            _ => None,
        };
        Some((process, before?))
    }

    fn segments(&mut self, event: &Event, names: &Names) {
        let segments = &mut self.segments;
        segments.clear();
        self.schedule.take(event, &mut |segment| segments.push(segment));
        for segment in &self.segments {
            let process = self.tasks.of_thread(segment.tid);
            let is_kswapd = segment.state == State::Running
                && is_kswapd(names.bytes_of(self.tasks.comm_of(segment.tid)));
            self.pressure.segment(segment, process, is_kswapd);
            self.launches.explain(segment);
            if !self.launches.is_any() {
                continue;
            }
            let is_main = self.tasks.process(process).pid == segment.tid;
            let times = (segment.from_ns, segment.to_ns);
            for split in self.launches.splits() {
                split.add_state(process, is_main, segment.state, times);
                if is_kswapd {
                    split.kswapd_ns += split.clipped(times.0, times.1);
                }
            }
        }
    }

    fn reads(&mut self, event: &Event) {
        match event.kind {
            Kind::PageAdded { device, inode, page, order } => {
                self.facts.has_reads = true;
                let pages = 1u64 << order.min(32);
                let back = self.evicted.enter((device, inode), page, pages);
                let (bytes, refaults) = (pages * PAGE_BYTES, back * PAGE_BYTES);
                let process = self.tasks.of_thread(event.tid);
                if back > 0 {
                    self.pressure.refault(event.tid, process, event.time_ns, refaults);
                }
                self.pressure.grow(process, bytes);
                for split in self.launches.splits() {
                    split.add_read(process, (device, inode), bytes, refaults);
                }
            }
            Kind::PageDeleted { device, inode, page, order } => {
                self.facts.has_evictions = true;
                self.evicted.leave((device, inode), page, 1 << order.min(32));
            }
            _ => {}
        }
    }

    fn swap(&mut self, event: &Event, change: Option<(ProcessIndex, u64)>) {
        // Without swap, no process has a change of swapped pages.
        self.facts.has_rss |= matches!(event.kind, Kind::Rss { .. });
        match event.kind {
            Kind::Rss { member: RssMember::Anonymous, bytes, .. } => {
                if let Some((process, before)) = change {
                    let now = u64::try_from(bytes).unwrap_or(0);
                    self.pressure.grow(process, now.saturating_sub(before));
                }
            }
            Kind::Rss { member: RssMember::Swap, bytes, is_current, .. } => {
                let now = u64::try_from(bytes).unwrap_or(0);
                let Some((process, before)) = change.filter(|_| is_current == Some(true)) else {
                    return;
                };
                for split in self.launches.splits() {
                    if let Some(part) = split.part(process) {
                        let back = before.saturating_sub(now);
                        part.swap_in_bytes = part.swap_in_bytes.saturating_add(back);
                    }
                }
            }
            Kind::Faults { fault, count, mean_us, .. } => {
                self.facts.has_faults = true;
                if fault != Fault::SwapIn {
                    return;
                }
                let process = self.tasks.of_thread(event.tid);
                let time_ns = i64::from(count).saturating_mul(i64::from(mean_us) * 1000);
                for split in self.launches.splits() {
                    if let Some(part) = split.part(process) {
                        part.swap_in_ns = part.swap_in_ns.saturating_add(time_ns);
                    }
                }
            }
            _ => {}
        }
    }

    fn reclaim(&mut self, event: &Event) {
        self.facts.has_reclaim |= matches!(
            event.kind,
            Kind::DirectReclaimBegin { .. }
                | Kind::CgroupReclaimBegin { .. }
                | Kind::KswapdWake { .. }
                | Kind::KswapdSleep { .. }
                | Kind::LruShrink { .. }
        );
        let process = self.tasks.of_thread(event.tid);
        if let Some(times) = self.pressure.take(event, process) {
            let is_main = self.tasks.process(process).pid == event.tid;
            for split in self.launches.splits() {
                split.add_reclaim(process, is_main, times);
            }
        }
    }
}

/// Whether a command name is that of a thread of kswapd.
fn is_kswapd(comm: &[u8]) -> bool {
    comm.starts_with(b"kswapd")
}
