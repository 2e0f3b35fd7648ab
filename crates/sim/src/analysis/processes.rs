//! Figures for each process, and for a few rows that cover all of them.

use super::kernel_workers::is_kernel_worker;
use super::skew::{Skew, Spectrum};
use schemars::JsonSchema;
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use trace::Processes;
use types::{Event, ProcessId};

/// Name of the row of all kernel threads.
pub(super) const KERNEL_WORKERS: &str = "kernel workers";
/// Name of the row of all processes beyond the busiest.
pub(super) const OTHERS: &str = "others";

/// Figures of one process. Pages and shares are those of its own accesses.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ProcessAnalysis {
    /// Process id; 0 if the recording has none.
    pub pid: u32,
    /// Command name; empty if the recording has none.
    pub name: String,
    /// Number of its accesses.
    pub accesses: u64,
    /// Distinct pages among them.
    pub pages: u64,
    /// Writes among its accesses.
    pub writes: u64,
    /// Skew, with shares as for the whole trace.
    #[serde(flatten)]
    pub skew: Skew,
}

/// A process, all kernel threads, or all processes without a row of their own.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ProcessRow {
    /// Command name of a process, `kernel workers` or `others`.
    pub name: String,
    /// Process id; none in a row of several processes.
    pub pid: Option<u32>,
    /// Number of processes in the row.
    pub processes: u64,
    /// Number of their accesses.
    pub accesses: u64,
    /// Distinct pages among them.
    pub pages: u64,
    /// Writes among their accesses.
    pub writes: u64,
    /// Skew, with shares as for the whole trace.
    #[serde(flatten)]
    pub skew: Skew,
}

/// The name under which a process is merged with others, if it is.
pub(super) fn merged_name(process: ProcessId, processes: &Processes) -> String {
    match processes.get(process.index()) {
        Some(known) if is_kernel_worker(known.name) => KERNEL_WORKERS.to_owned(),
        Some(known) if !known.name.is_empty() => known.name.to_owned(),
        Some(known) if known.pid > 0 => format!("pid {}", known.pid),
        _ => "unnamed".to_owned(),
    }
}

/// Counts accesses by process and page.
#[derive(Default)]
pub(super) struct ProcessPages {
    accesses: HashMap<(ProcessId, u32), u32>,
    writes: BTreeMap<ProcessId, u64>,
}

/// Bound on the memory for each pair of a page and a process that accessed it, in bytes: an entry of a hash table
/// of 13 bytes, which doubles when it is seven eighths full, or the table and lists of 8 bytes made from it.
pub(super) const BYTES_PER_PAIR: u64 = 48;

/// Bound on the memory for each process, in bytes: its figures here, and in Python.
const BYTES_PER_PROCESS: u64 = 2048;

/// The accesses to each page of one process.
type Pages = Vec<(u32, u32)>;

impl ProcessPages {
    pub(super) fn add(&mut self, event: Event) {
        let accesses = self.accesses.entry((event.process, event.page.0)).or_insert(0);
        *accesses = accesses.saturating_add(1);
        *self.writes.entry(event.process).or_insert(0) +=
            u64::from(event.kind.is_write(event.flags));
    }

    /// Pairs of a page and a process that accessed it, so far.
    pub(super) fn pairs(&self) -> usize {
        self.accesses.len()
    }

    /// A bound on the memory of the figures of the accesses so far.
    pub(super) fn bytes(&self) -> u64 {
        self.pairs() as u64 * BYTES_PER_PAIR + self.writes.len() as u64 * BYTES_PER_PROCESS
    }

    /// Every process with an access, the busiest first, and at most `rows_max` rows of them plus one of
    /// the others.
    pub(super) fn analyses(
        self,
        processes: &Processes,
        rows_max: usize,
    ) -> (Vec<ProcessAnalysis>, Vec<ProcessRow>) {
        let mut pages: BTreeMap<ProcessId, Pages> = BTreeMap::new();
        for ((process, page), accesses) in self.accesses {
            pages.entry(process).or_default().push((page, accesses));
        }
        let analysis = |(&process, pages): (&ProcessId, &Pages)| {
            let spectrum = Spectrum::new(pages.iter().map(|&(_, accesses)| accesses));
            let known = processes.get(process.index());
            let analysis = ProcessAnalysis {
                pid: known.map_or(0, |known| known.pid),
                name: known.map_or_else(String::new, |known| known.name.to_owned()),
                accesses: spectrum.accesses,
                pages: spectrum.pages,
                writes: self.writes[&process],
                skew: spectrum.skew(),
            };
            (process, analysis)
        };
        let mut analyses: Vec<_> = pages.iter().map(analysis).collect();
        analyses.sort_by_key(|(_, process)| Reverse(process.accesses));
        let rows = rows(&analyses, pages, rows_max);
        (analyses.into_iter().map(|(_, analysis)| analysis).collect(), rows)
    }
}

/// The busiest processes, with all kernel threads as one row, and the others as the last row.
fn rows(
    analyses: &[(ProcessId, ProcessAnalysis)],
    mut pages: BTreeMap<ProcessId, Pages>,
    rows_max: usize,
) -> Vec<ProcessRow> {
    let (workers, programs): (Vec<_>, Vec<_>) =
        analyses.iter().partition(|(_, process)| is_kernel_worker(&process.name));
    let mut rows: Vec<(u64, Vec<&(ProcessId, ProcessAnalysis)>)> =
        programs.into_iter().map(|entry| (entry.1.accesses, vec![entry])).collect();
    if !workers.is_empty() {
        rows.push((workers.iter().map(|(_, worker)| worker.accesses).sum(), workers));
    }
    rows.sort_by_key(|&(accesses, _)| Reverse(accesses));
    let others: Vec<_> = rows.drain(rows.len().min(rows_max)..).flat_map(|(_, of)| of).collect();
    let mut all: Vec<ProcessRow> = rows
        .into_iter()
        .map(|(_, of)| match of[..] {
            [(_, program)] if !is_kernel_worker(&program.name) => row_of_process(program),
            _ => row_of_several(KERNEL_WORKERS, &of, &mut pages),
        })
        .collect();
    if !others.is_empty() {
        all.push(row_of_several(OTHERS, &others, &mut pages));
    }
    all
}

fn row_of_process(process: &ProcessAnalysis) -> ProcessRow {
    ProcessRow {
        name: process.name.clone(),
        pid: Some(process.pid),
        processes: 1,
        accesses: process.accesses,
        pages: process.pages,
        writes: process.writes,
        skew: process.skew.clone(),
    }
}

/// One row for several processes, whose pages are removed from `pages`.
fn row_of_several(
    name: &str,
    processes: &[&(ProcessId, ProcessAnalysis)],
    pages: &mut BTreeMap<ProcessId, Pages>,
) -> ProcessRow {
    let mut together: Pages = Vec::new();
    for (process, _) in processes {
        together.extend(pages.remove(process).unwrap_or_default());
    }
    // A page that several processes accessed counts once.
    together.sort_unstable_by_key(|&(page, _)| page);
    let by_page = together.chunk_by(|entry, other| entry.0 == other.0);
    let sum = |of_page: &[(u32, u32)]| {
        of_page.iter().fold(0u32, |sum, &(_, accesses)| sum.saturating_add(accesses))
    };
    let spectrum = Spectrum::new(by_page.map(sum));
    ProcessRow {
        name: name.to_owned(),
        pid: None,
        processes: processes.len() as u64,
        accesses: spectrum.accesses,
        pages: spectrum.pages,
        writes: processes.iter().map(|(_, process)| process.writes).sum(),
        skew: spectrum.skew(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use types::{EventFlags, EventKind, PageId};

    /// Process `p` accesses pages 0 to `counts[p] - 1`, each once.
    fn pages_of(counts: &[u32]) -> ProcessPages {
        let mut pages = ProcessPages::default();
        for (process, &count) in (0..).zip(counts) {
            for page in 0..count {
                pages.add(Event {
                    kind: EventKind::Write,
                    flags: EventFlags::default(),
                    page: PageId(page),
                    process: ProcessId(process),
                });
            }
        }
        pages
    }

    fn brief(rows: &[ProcessRow]) -> Vec<(&str, Option<u32>, u64, u64, u64)> {
        rows.iter()
            .map(|row| (&row.name[..], row.pid, row.processes, row.accesses, row.pages))
            .collect()
    }

    #[test]
    fn kernel_threads_and_the_less_busy_processes_are_one_row_each() {
        let names = ["app", "kworker/0:1", "init", "kswapd0", "sh"];
        let processes: Processes = (10..).zip(names).collect();
        let counts = [5, 4, 3, 4, 1];
        let (all, rows) = pages_of(&counts).analyses(&processes, 2);
        assert_eq!(all.len(), 5);
        // Both workers accessed the same four pages; init and sh page 0.
        let expected =
            [(KERNEL_WORKERS, None, 2, 8, 4), ("app", Some(10), 1, 5, 5), (OTHERS, None, 2, 4, 3)];
        assert_eq!(brief(&rows), expected);
        let (_, rows) = pages_of(&counts).analyses(&processes, 9);
        assert_eq!(rows.len(), 4);
        assert_eq!(rows.iter().map(|row| row.writes).sum::<u64>(), 17);
        assert!(rows.iter().all(|row| row.name != OTHERS));
    }

    #[test]
    fn without_accesses_there_are_no_rows() {
        let (all, rows) = ProcessPages::default().analyses(&Processes::default(), 20);
        assert!(all.is_empty() && rows.is_empty());
    }
}
