//! Memory and processes at one instant, as a low-memory killer would see them.

use linux::cgroup::MemoryGroup;
use linux::memory_state::{self, of_process};
use linux::{Root, counters, pressure, process, system};
use trace::recording::moments::{MemoryState, Moment, ProcessState};

/// The moment now, of the group or of the machine; none where the group was removed or the kernel
/// tells nothing.
pub fn moment(root: &Root, group: Option<&MemoryGroup>) -> Option<Moment> {
    let machine = memory_state::of_machine(root).ok()?;
    let (state, processes) = match group {
        Some(group) => (
            memory_state::of_group(root, group, machine).ok()??,
            group.processes(root).unwrap_or_default(),
        ),
        None => (machine, process::all(root).unwrap_or_default()),
    };
    let vmstat = counters::vmstat(root).unwrap_or_default();
    let counter = |name: &str| vmstat.get(name).copied();
    let stalled = match group {
        // Version 1 has none of a group's own; the machine's then stands for it.
        Some(group) => root
            .read(group.folder.join("memory.pressure"))
            .ok()
            .flatten()
            .and_then(|text| pressure::parse(&text)),
        None => None,
    };
    let stalled = stalled.or_else(|| pressure::of_machine(root, "memory").ok().flatten());
    let memory = MemoryState {
        total: state.total,
        free: state.free,
        available: state.available,
        files: state.files,
        swap_total: state.swap_total,
        swap_free: state.swap_free,
        disk_swap_total: state.disk_swap_total,
        disk_swap_free: state.disk_swap_free,
        some_us: stalled.map(|pressure| pressure.some_us),
        full_us: stalled.map(|pressure| pressure.full_us),
        scanned_directly: counter("pgscan_direct"),
        scanned_by_kswapd: counter("pgscan_kswapd"),
        file_refaults: counter("workingset_refault_file"),
        ..MemoryState::default()
    };
    let state = |process: u32| {
        let state = of_process(root, process)?;
        Some(ProcessState {
            process,
            name: state.name,
            start: state.start,
            adj: state.adj,
            resident: state.resident,
            swapped: state.swapped,
            ticks: state.ticks,
        })
    };
    let processes = processes.into_iter().filter_map(state).collect();
    Some(Moment { time_ns: system::monotonic_ns(), memory, processes })
}
