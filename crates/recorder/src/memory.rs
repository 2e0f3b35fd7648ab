//! Memory and processes at one instant, as a low-memory killer would see them.

use linux::cgroup::MemoryGroup;
use linux::gauge::Gauge;
use linux::{Root, pressure, process, system};
use trace::recording::moments::{MemoryState, Moment, ProcessState};

/// What is looked at: the memory and the processes of a group, or of the machine.
pub struct Scene<'a> {
    root: &'a Root,
    group: Option<&'a MemoryGroup>,
    gauge: Gauge,
}

impl<'a> Scene<'a> {
    /// Opens what tells of the memory; none where the kernel does not tell.
    pub fn open(root: &'a Root, group: Option<&'a MemoryGroup>) -> Option<Scene<'a>> {
        Some(Scene { root, group, gauge: Gauge::open(root, group).ok()? })
    }

    /// The moment now; none where the group was removed.
    pub fn moment(&mut self) -> Option<Moment> {
        let processes = match self.group {
            Some(group) => group.processes(self.root),
            None => process::all(self.root),
        };
        let processes = processes.unwrap_or_default();
        let memory = self.memory()?;
        let processes = processes.into_iter().filter_map(|process| state(self.root, process));
        Some(Moment { time_ns: system::monotonic_ns(), memory, processes: processes.collect() })
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

/// What a process has; none for one that ended meanwhile, and for those of the kernel.
fn state(root: &Root, process: u32) -> Option<ProcessState> {
    let state = process::state(root, process)?;
    Some(ProcessState {
        process,
        name: state.name,
        start: state.start,
        adj: state.adj,
        resident: state.resident,
        swapped: state.swapped,
        ticks: state.ticks,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_of_the_machine_tells_what_the_kernel_keeps() {
        let root = Root::system();
        let moment = Scene::open(&root, None).unwrap().moment().unwrap();
        let zones = linux::zones::zones(&root).unwrap().unwrap();
        let marks = [zones.min_bytes, zones.low_bytes, zones.high_bytes];
        assert_eq!(moment.memory.watermarks, Some(marks));
        assert_eq!(moment.memory.reserved, zones.reserved_bytes);
        assert!(marks.is_sorted() && marks[2] < moment.memory.total);
        let own = moment.processes.iter().find(|one| one.process == std::process::id()).unwrap();
        assert!(own.resident > 1 << 18);
    }
}
