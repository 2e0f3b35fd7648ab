//! Reads and writes over time by process name: the steps of a stacked chart.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use schemars::JsonSchema;
use serde::Serialize;
use trace::Processes;
use types::{Event, ProcessId};

use super::processes::{OTHERS, merged_name};

/// Number of steps at most; at least half of it for traces longer than a millisecond per step.
const STEPS_MAX: u64 = 256;

/// Initial length of a step; it doubles until the trace fits.
const STEP_NS: u64 = 1_000_000;

/// Number of series at most, including `others` if there are more names: as many as a chart has colours.
const SERIES_MAX: usize = 8;

/// Bound on the memory for each process and step, in bytes: an entry of a hash table of 33 bytes, which doubles
/// when it is seven eighths full, and an entry of the series made from it.
const BYTES_PER_STEP: u64 = 160;

/// Accesses by process name and step of time; time begins with the first event.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Traffic {
    /// Length of a step.
    #[schemars(range(min = 0))]
    pub step_s: f64,
    /// The names with the most accesses in descending order, then all others.
    pub series: Vec<TrafficSeries>,
}

/// Accesses of the processes of one name.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TrafficSeries {
    /// Process name, or `kernel workers` or `others`.
    pub name: String,
    /// Number of processes.
    pub processes: u64,
    /// Reads in each step; all accesses if the recording does not distinguish reads and writes.
    pub reads: Vec<u64>,
    /// Writes in each step.
    pub writes: Vec<u64>,
}

/// Counts accesses by process and step.
pub(super) struct TrafficCounts {
    step_ns: u64,
    counts: HashMap<(ProcessId, u64), Counts>,
    /// Process and step of the latest accesses, with their counts, which are not yet in `counts`:
    /// accesses come in runs.
    last: ((ProcessId, u64), Counts),
}

/// Reads and writes.
type Counts = [u64; 2];

impl Default for TrafficCounts {
    fn default() -> TrafficCounts {
        let no_process = (ProcessId(0), 0);
        TrafficCounts { step_ns: STEP_NS, counts: HashMap::new(), last: (no_process, [0; 2]) }
    }
}

impl TrafficCounts {
    /// Adds an access at a time since the first event.
    pub(super) fn add(&mut self, event: Event, time_ns: i64) {
        let time_ns = u64::try_from(time_ns).unwrap_or(0);
        while time_ns / self.step_ns >= STEPS_MAX {
            self.double_steps();
        }
        let place = (event.process, time_ns / self.step_ns);
        if place != self.last.0 {
            self.flush();
            self.last.0 = place;
        }
        self.last.1[usize::from(event.kind.is_write(event.flags))] += 1;
    }

    /// A bound on the memory of the steps so far.
    pub(super) fn bytes(&self) -> u64 {
        self.counts.len() as u64 * BYTES_PER_STEP
    }

    fn flush(&mut self) {
        let counts = std::mem::take(&mut self.last.1);
        if counts != [0; 2] {
            add(self.counts.entry(self.last.0).or_default(), counts);
        }
    }

    fn double_steps(&mut self) {
        self.flush();
        self.step_ns = self.step_ns.saturating_mul(2);
        for ((process, step), counts) in std::mem::take(&mut self.counts) {
            add(self.counts.entry((process, step / 2)).or_default(), counts);
        }
    }

    /// Returns the series of the names with the most accesses.
    pub(super) fn finish(mut self, processes: &Processes) -> Traffic {
        self.flush();
        let mut by_name: BTreeMap<String, Named> = BTreeMap::new();
        let steps = self.counts.keys().map(|&(_, step)| step + 1).max().unwrap_or(0);
        for (&(process, step), &counts) in &self.counts {
            let name = merged_name(process, processes);
            by_name.entry(name).or_default().take(process, step, counts);
        }
        let mut named: Vec<(String, Named)> = by_name.into_iter().collect();
        named.sort_by_key(|(_, entry)| Reverse(entry.accesses()));
        let mut others = Named::default();
        if named.len() > SERIES_MAX {
            for (_, entry) in named.drain(SERIES_MAX - 1..) {
                others.join(entry);
            }
            named.push((OTHERS.to_owned(), others));
        }
        let series = named.into_iter().map(|(name, entry)| entry.series(name, steps)).collect();
        Traffic { step_s: self.step_ns as f64 / 1e9, series }
    }
}

/// Counts of the processes of one name.
#[derive(Default)]
struct Named {
    processes: BTreeSet<ProcessId>,
    counts: BTreeMap<u64, Counts>,
}

impl Named {
    fn take(&mut self, process: ProcessId, step: u64, counts: Counts) {
        self.processes.insert(process);
        add(self.counts.entry(step).or_default(), counts);
    }

    fn join(&mut self, other: Named) {
        self.processes.extend(other.processes);
        for (step, counts) in other.counts {
            add(self.counts.entry(step).or_default(), counts);
        }
    }

    fn accesses(&self) -> u64 {
        self.counts.values().flatten().sum()
    }

    fn series(&self, name: String, steps: u64) -> TrafficSeries {
        let each = |side: usize| {
            (0..steps).map(|step| self.counts.get(&step).map_or(0, |counts| counts[side])).collect()
        };
        let processes = self.processes.len() as u64;
        TrafficSeries { name, processes, reads: each(0), writes: each(1) }
    }
}

fn add(total: &mut Counts, counts: Counts) {
    total.iter_mut().zip(counts).for_each(|(total, count)| *total += count);
}

#[cfg(test)]
mod tests {
    use super::super::processes::KERNEL_WORKERS;
    use super::*;
    use proptest::prelude::*;
    use types::{EventFlags, EventKind, PageId};

    fn event(process: u32, is_write: bool) -> Event {
        let kind = if is_write { EventKind::Write } else { EventKind::Read };
        let flags = EventFlags::default();
        Event { kind, flags, page: PageId(0), process: ProcessId(process) }
    }

    fn counted(events: &[(i64, u32, bool)], processes: &Processes) -> Traffic {
        let mut counts = TrafficCounts::default();
        for &(time_ns, process, is_write) in events {
            counts.add(event(process, is_write), time_ns);
        }
        counts.finish(processes)
    }

    #[test]
    fn processes_of_one_name_and_kernel_threads_are_one_series() {
        let names = ["app", "app", "kworker/0:1", "kswapd0", "", "init"];
        let processes: Processes = (1..).zip(names).collect();
        let ms = 1_000_000;
        let events = [
            (0, 0, false),
            (0, 1, true),
            (ms, 2, true),
            (ms, 3, true),
            (ms, 3, false),
            (2 * ms, 4, false),
        ];
        let traffic = counted(&events, &processes);
        let brief: Vec<_> = traffic
            .series
            .iter()
            .map(|row| (&row.name[..], row.processes, &row.reads[..], &row.writes[..]))
            .collect();
        assert_eq!(
            brief,
            [
                (KERNEL_WORKERS, 2, &[0, 1, 0][..], &[0, 2, 0][..]),
                ("app", 2, &[1, 0, 0], &[1, 0, 0]),
                ("pid 5", 1, &[0, 0, 1], &[0, 0, 0]),
            ]
        );
        assert_eq!(traffic.step_s, 0.001);
    }

    #[test]
    fn names_beyond_the_colours_are_the_others() {
        let processes: Processes = (0..20).map(|pid| (pid, format!("app{pid}"))).collect();
        let events: Vec<_> =
            (0..20).flat_map(|pid| vec![(0, pid, false); 20 - pid as usize]).collect();
        let traffic = counted(&events, &processes);
        assert_eq!(traffic.series.len(), SERIES_MAX);
        assert_eq!(traffic.series[0].name, "app0");
        let others = traffic.series.last().unwrap();
        assert_eq!(
            (&others.name[..], others.processes, others.reads[0]),
            (OTHERS, 13, 13 * 14 / 2)
        );
    }

    #[test]
    fn as_many_names_as_colours_have_a_series_each() {
        let processes: Processes =
            (0..SERIES_MAX as u32).map(|pid| (pid, format!("app{pid}"))).collect();
        let events: Vec<_> = (0..SERIES_MAX as u32).map(|pid| (0, pid, true)).collect();
        let traffic = counted(&events, &processes);
        assert_eq!(traffic.series.len(), SERIES_MAX);
        assert!(traffic.series.iter().all(|series| series.name != OTHERS));
    }

    proptest! {
        #[test]
        fn every_access_is_in_the_step_of_its_time(
            events in prop::collection::vec((-5i64..40_000_000_000, 0u32..12, any::<bool>()), 1..200)
        ) {
            let processes: Processes = (0..12).map(|pid| (pid, format!("p{pid}"))).collect();
            let traffic = counted(&events, &processes);
            let step_ns = traffic.step_s * 1e9;
            let steps = traffic.series[0].reads.len();
            prop_assert!(steps as u64 <= STEPS_MAX);
            for step in 0..steps {
                for is_write in [false, true] {
                    let expected = events.iter().filter(|&&(time, _, write)| {
                        let place = (time.max(0) as f64 / step_ns) as usize;
                        write == is_write && place == step
                    });
                    let found: u64 = traffic
                        .series
                        .iter()
                        .map(|row| if is_write { row.writes[step] } else { row.reads[step] })
                        .sum();
                    prop_assert_eq!(found, expected.count() as u64);
                }
            }
        }
    }
}
