//! The same figures for each process on its own.

use super::skew::{Skew, Spectrum};
use serde::Serialize;
use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use trace::Processes;
use types::{Event, ProcessId};

/// One process. The pages are those it accessed, with its own accesses alone.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProcessAnalysis {
    /// The kernel's number for it; 0 where the recording has none.
    pub pid: u32,
    /// Its command name; empty where the recording has none.
    pub name: String,
    /// Its accesses.
    pub accesses: u64,
    /// Distinct pages among them.
    pub pages: u64,
    /// Writes among its accesses.
    pub writes: u64,
    /// Shares as of the whole trace.
    #[serde(flatten)]
    pub skew: Skew,
}

/// Counts accesses by process and page.
#[derive(Default)]
pub(super) struct ProcessPages {
    accesses: HashMap<(ProcessId, u32), u32>,
    writes: BTreeMap<ProcessId, u64>,
}

impl ProcessPages {
    pub(super) fn add(&mut self, event: Event) {
        let accesses = self.accesses.entry((event.process, event.page.0)).or_insert(0);
        *accesses = accesses.saturating_add(1);
        *self.writes.entry(event.process).or_insert(0) +=
            u64::from(event.kind.is_write(event.flags));
    }

    /// Every process with an access, the busiest first.
    pub(super) fn analyses(&self, processes: &Processes) -> Vec<ProcessAnalysis> {
        let mut counts: BTreeMap<ProcessId, Vec<u32>> = BTreeMap::new();
        for (&(process, _), &accesses) in &self.accesses {
            counts.entry(process).or_default().push(accesses);
        }
        let analysis = |(process, counts): (ProcessId, Vec<u32>)| {
            let spectrum = Spectrum::new(counts.into_iter());
            let known = processes.get(process.index());
            ProcessAnalysis {
                pid: known.map_or(0, |known| known.pid),
                name: known.map_or_else(String::new, |known| known.name.to_owned()),
                accesses: spectrum.accesses,
                pages: spectrum.pages,
                writes: self.writes[&process],
                skew: spectrum.skew(),
            }
        };
        let mut analyses: Vec<ProcessAnalysis> = counts.into_iter().map(analysis).collect();
        analyses.sort_by_key(|process| Reverse(process.accesses));
        analyses
    }
}
