//! Looks at memory and processes, as a low-memory killer sees them.

use std::collections::HashMap;

use linux::cgroup::MemoryGroup;
use linux::gauge::Gauge;
use linux::process::ProcessState as Seen;
use linux::{Root, counters, pressure, process, system};
use trace::recording::moments::{Liveness, MemoryState, Moment, ProcessState};

use crate::weights::{Occasion, Subject, Weights};

/// The memory and the processes of a group, or of the machine.
pub struct Scene<'a> {
    root: &'a Root,
    group: Option<&'a MemoryGroup>,
    gauge: Gauge,
    groups: Groups,
    weights: Option<Weights>,
}

/// The kills that a look must know.
pub struct Deaths<'a> {
    /// The first kill since the last look.
    pub killed_ns: Option<u64>,
    /// Whether a process got SIGKILL.
    pub is_dying: &'a dyn Fn(u32) -> bool,
}

/// Memory is short if less than one part in this many is available. Weights of sharers are then valid for only a
/// second.
const SHORT_PART: u64 = 4;

/// The result of a look.
pub struct Look {
    /// Memory and processes.
    pub moment: Moment,
    /// Free bytes of the machine, as its zones count them: `MemFree` may differ if a hypervisor has taken
    /// memory.
    pub free_by_zones: Option<u64>,
}

impl<'a> Scene<'a> {
    /// Opens the kernel's files about memory; None if the kernel does not report it.
    pub fn open(root: &'a Root, group: Option<&'a MemoryGroup>) -> Option<Scene<'a>> {
        let gauge = Gauge::open(root, group).ok()?;
        let (groups, weights) = (Groups::default(), Weights::start(root));
        Some(Scene { root, group, gauge, groups, weights })
    }

    /// Looks at memory and processes; None if the group was removed.
    pub fn look(&mut self, deaths: &Deaths<'_>) -> Option<Look> {
        let processes = match self.group {
            Some(group) => group.processes(self.root),
            None => process::all(self.root),
        };
        let processes = processes.unwrap_or_default();
        let memory = self.memory()?;
        let zones =
            counters::vmstat(self.root).ok().and_then(|all| all.get("nr_free_pages").copied());
        let free_by_zones = zones.map(|pages| pages * rustix::param::page_size() as u64);
        let time_ns = system::monotonic_ns();
        let subject = |number| {
            Some(Subject { state: self.state(number)?, is_dying: (deaths.is_dying)(number) })
        };
        let mut subjects: Vec<Subject> = processes.into_iter().filter_map(subject).collect();
        if let Some(weights) = &mut self.weights {
            let is_short = memory.available < memory.total / SHORT_PART;
            weights
                .update(&mut subjects, Occasion { time_ns, is_short, killed_ns: deaths.killed_ns });
        }
        let processes = subjects.into_iter().map(|subject| subject.state).collect();
        let moment = Moment { time_ns, memory, processes, victim: None };
        Some(Look { moment, free_by_zones })
    }

    /// The state of a process; None for kernel threads and for processes that have ended.
    fn state(&mut self, number: u32) -> Option<ProcessState> {
        let seen = process::state(self.root, number)?;
        let group = self.groups.number(self.root, number, &seen);
        Some(ProcessState {
            process: number,
            name: seen.name,
            start: seen.start,
            adj: seen.adj,
            resident: seen.resident,
            swapped: seen.swapped,
            ticks: seen.ticks,
            user_ticks: Some(seen.user_ticks),
            own: seen.anonymous,
            major_faults: seen.major_faults,
            group,
            life: Liveness::Living,
            weight: None,
            parent: seen.parent,
            process_group: seen.process_group,
        })
    }

    fn memory(&mut self) -> Option<MemoryState> {
        let state = self.gauge.read(true)?;
        // The kernel reports no stalls of groups of version 1, so use those of the machine.
        let stalled =
            state.pressure.or_else(|| pressure::of_machine(self.root, "memory").ok().flatten());
        Some(MemoryState {
            total: state.total,
            free: state.free,
            available: state.available,
            files: state.files,
            swap_total: state.swap_total,
            swap_free: state.swap_free,
            disk_swap_total: state.disk_swap_total,
            disk_swap_free: state.disk_swap_free,
            shared: self.gauge.shared(),
            reserved: state.zones.map_or(0, |zones| zones.reserved_bytes),
            watermarks: state
                .zones
                .map(|zones| [zones.min_bytes, zones.low_bytes, zones.high_bytes]),
            some_us: stalled.map(|pressure| pressure.some_us),
            full_us: stalled.map(|pressure| pressure.full_us),
            scanned_directly: state.scanned_directly,
            scanned_by_kswapd: state.scanned_by_kswapd,
            file_refaults: state.file_refaults,
        })
    }
}

/// Numbers of memory cgroups. The group of a process is read again when it runs another program.
#[derive(Default)]
struct Groups {
    paths: HashMap<String, u32>,
    /// For each process its start time, its name, and the number of its group.
    known: HashMap<u32, (u64, String, u32)>,
}

/// The most processes that are remembered.
const KNOWN_MAX: usize = 1 << 16;

impl Groups {
    fn number(&mut self, root: &Root, process: u32, seen: &Seen) -> u32 {
        if let Some((start, name, number)) = self.known.get(&process)
            && (*start, name.as_str()) == (seen.start, seen.name.as_str())
        {
            return *number;
        }
        let path = process::memory_group(root, process).unwrap_or_default();
        let next = self.paths.len() as u32 + 1;
        let number = *self.paths.entry(path).or_insert(next);
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        self.known.insert(process, (seen.start, seen.name.clone(), number));
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_of_the_machine_has_watermarks_zones_and_processes() {
        let root = Root::system();
        let deaths = Deaths { killed_ns: None, is_dying: &|_| false };
        let mut scene = Scene::open(&root, None).unwrap();
        let look = scene.look(&deaths).unwrap();
        let Look { moment, free_by_zones } = look;
        assert!(free_by_zones.is_some_and(|bytes| bytes > 0));
        let zones = linux::zones::zones(&root).unwrap().unwrap();
        let marks = [zones.min_bytes, zones.low_bytes, zones.high_bytes];
        assert_eq!(moment.memory.watermarks, Some(marks));
        assert_eq!(moment.memory.reserved, zones.reserved_bytes);
        assert!(marks.is_sorted() && marks[2] < moment.memory.total);
        let process = std::process::id();
        let own = moment.processes.iter().find(|state| state.process == process).unwrap();
        assert!(own.resident > 1 << 18);
        assert!(own.own.is_some_and(|bytes| bytes > 0 && bytes < own.resident));
        assert!(own.group > 0 && own.parent > 0);
        assert!(moment.memory.shared.is_some());
        // The weights that this look requested go into a later one.
        let weighed = |moment: &Moment| {
            moment.processes.iter().filter(|state| state.weight.is_some()).count()
        };
        assert_eq!(weighed(&moment), 0);
        while weighed(&scene.look(&deaths).unwrap().moment) == 0 {}
    }
}
