//! Samples the kernel's own counters, for comparison with a recording.

use std::collections::BTreeMap;

use linux::cgroup::MemoryGroup;
use linux::{Root, counters, pressure, swap, system, zram};
use trace::recording::{Area, PressureTotals, Sample};

/// The counters of `/proc/vmstat` about paging and reclaim, by the beginning of their names.
const VMSTAT: [&str; 10] = [
    "pswp",
    "swp",
    "pgpg",
    "pgmajfault",
    "pgfault",
    "swap_ra",
    "workingset_",
    "pgsteal_",
    "oom_kill",
    "zswp",
];

/// Reads the counters. A counter that cannot be read is absent, and the recording continues.
pub fn sample(root: &Root, group: Option<&MemoryGroup>) -> Sample {
    let mut vmstat = counters::vmstat(root).unwrap_or_default();
    vmstat.retain(|name, _| VMSTAT.iter().any(|start| name.starts_with(start)));
    Sample {
        time_ns: system::monotonic_ns(),
        vmstat,
        cgroup: group.and_then(|group| group.statistics(root).ok().flatten()),
        pressure: pressures(root),
        areas: swap::areas(root).unwrap_or_default().into_iter().map(area).collect(),
        zram: compressed(root),
    }
}

fn pressures(root: &Root) -> BTreeMap<String, PressureTotals> {
    let of_resource = |resource: &&str| {
        let pressure = pressure::of_machine(root, resource).ok().flatten()?;
        let pressure = PressureTotals { some_us: pressure.some_us, full_us: pressure.full_us };
        Some(((*resource).to_owned(), pressure))
    };
    pressure::RESOURCES.iter().filter_map(of_resource).collect()
}

fn area(area: swap::Area) -> Area {
    Area {
        path: area.path.display().to_string(),
        kind: if area.is_file { "file" } else { "partition" }.to_owned(),
        bytes: area.bytes,
        bytes_used: area.bytes_used,
        priority: area.priority,
    }
}

fn compressed(root: &Root) -> BTreeMap<String, counters::Counters> {
    let names = zram::devices(root).unwrap_or_default();
    names
        .into_iter()
        .filter_map(|name| Some((name.clone(), zram::statistics(root, &name).ok()??)))
        .collect()
}
