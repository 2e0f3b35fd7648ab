//! Memory and processes as they are now, as a low-memory killer would see them.

use std::collections::HashMap;

use linux::cgroup::MemoryGroup;
use linux::gauge::Gauge;
use linux::process::ProcessState as Seen;
use linux::{Root, counters, pressure, process, system};
use trace::recording::moments::{Life, MemoryState, Moment, ProcessState};

/// What is looked at: the memory and the processes of a group, or of the machine.
pub struct Scene<'a> {
    root: &'a Root,
    group: Option<&'a MemoryGroup>,
    gauge: Gauge,
    groups: Groups,
}

/// What was seen at once.
pub struct Look {
    /// Memory and processes.
    pub moment: Moment,
    /// Bytes that were free on the machine, as its zones count them: `MemFree` may differ where a
    /// hypervisor has borrowed memory.
    pub free_by_zones: Option<u64>,
}

impl<'a> Scene<'a> {
    /// Opens what tells of the memory; none where the kernel does not tell.
    pub fn open(root: &'a Root, group: Option<&'a MemoryGroup>) -> Option<Scene<'a>> {
        let gauge = Gauge::open(root, group).ok()?;
        Some(Scene { root, group, gauge, groups: Groups::default() })
    }

    /// Looks now; none where the group was removed.
    pub fn look(&mut self) -> Option<Look> {
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
        let processes = processes.into_iter().filter_map(|number| self.state(number));
        let moment = Moment { time_ns, memory, processes: processes.collect(), victim: None };
        Some(Look { moment, free_by_zones })
    }

    /// What a process has; none for one that ended meanwhile, and for those of the kernel.
    pub fn state(&mut self, number: u32) -> Option<ProcessState> {
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
            own: seen.anonymous,
            major_faults: seen.major_faults,
            group,
            life: Life::Living,
        })
    }

    fn memory(&mut self) -> Option<MemoryState> {
        let state = self.gauge.read(true)?;
        // A group of version 1 has no stalls of its own; the machine's then stand for them.
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

/// Numbers of memory cgroups. A process is asked again when it runs another program.
#[derive(Default)]
struct Groups {
    paths: HashMap<String, u32>,
    /// By process: its start and name, and the number of its group.
    known: HashMap<u32, (u64, String, u32)>,
}

/// Processes that are remembered.
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
    fn a_moment_of_the_machine_tells_what_the_kernel_keeps() {
        let root = Root::system();
        let Look { moment, free_by_zones } = Scene::open(&root, None).unwrap().look().unwrap();
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
        assert!(own.group > 0);
    }
}
