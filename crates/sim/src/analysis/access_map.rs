//! Accesses by time and address: what a trace gives to the map, and the names of its address spaces.

use trace::{Header, TraceKind};

use crate::heat::{AccessHeat, HeatCounts};

/// Counts the accesses of a trace.
pub(super) struct AccessMap {
    counts: HeatCounts,
    is_of_swap: bool,
    /// Accesses so far: the time of a trace without a clock.
    accesses: u64,
}

impl AccessMap {
    /// Counts nothing yet; `None` for a trace whose addresses have no neighbours.
    pub(super) fn new(header: &Header) -> Option<AccessMap> {
        let has_neighbours = header.has_addresses && header.kind != TraceKind::Objects;
        has_neighbours.then(|| AccessMap {
            counts: HeatCounts::new(header.has_clock),
            is_of_swap: header.kind == TraceKind::Swap,
            accesses: 0,
        })
    }

    /// Adds an access to a page at a time since the first event, `None` without a clock.
    pub(super) fn add(&mut self, space: u32, address: u64, time_ns: Option<i64>) {
        let time = time_ns.map_or(self.accesses, |time_ns| u64::try_from(time_ns).unwrap_or(0));
        self.accesses += 1;
        // In a swap trace, 0 is the space of all files, which have no common addresses.
        if self.is_of_swap && space == 0 {
            return self.counts.leave_out();
        }
        self.counts.add(space, address, time);
    }

    /// The map of the busiest address spaces.
    pub(super) fn finish(self, header: &Header) -> AccessHeat {
        self.counts.finish(header.page_bytes, |space| name(space as usize, header))
    }
}

fn name(space: usize, header: &Header) -> String {
    if header.kind != TraceKind::Swap {
        return header.devices.get(space).cloned().unwrap_or_else(|| format!("device {space}"));
    }
    match header.processes.get(space - 1) {
        Some(known) if known.name.is_empty() => format!("pid {}", known.pid),
        Some(known) => format!("{} ({})", known.name, known.pid),
        None => format!("process {space}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_and_devices_have_their_names_and_files_have_no_map() {
        let processes = [(7, "app"), (8, "")].into_iter().collect();
        let swap = Header { processes, has_clock: true, ..Header::new(TraceKind::Swap, "test") };
        let mut map = AccessMap::new(&swap).unwrap();
        for (space, time_ns) in [(1, 0), (1, -5), (2, 9), (3, 9), (0, 1)] {
            map.add(space, 16, Some(time_ns));
        }
        let heat = map.finish(&swap);
        let names: Vec<_> = heat.spaces.iter().map(|space| &space.name[..]).collect();
        assert_eq!((&names[..], heat.left_out), (&["app (7)", "pid 8", "process 3"][..], 1));
        let devices = vec!["sda".to_owned()];
        let block = Header { devices, ..Header::new(TraceKind::Block, "test") };
        let mut map = AccessMap::new(&block).unwrap();
        (0..2).for_each(|space| map.add(space, 0, None));
        let heat = map.finish(&block);
        assert_eq!((&heat.spaces[0].name[..], &heat.spaces[1].name[..]), ("sda", "device 1"));
        assert_eq!(
            (heat.bin_accesses, &heat.spaces[1].ranges[0].accesses[..]),
            (Some(1), &[0, 1][..])
        );
    }

    #[test]
    fn objects_and_pages_without_addresses_have_no_map() {
        assert!(AccessMap::new(&Header::new(TraceKind::Objects, "test")).is_none());
        let unknown = Header { has_addresses: false, ..Header::new(TraceKind::Swap, "test") };
        assert!(AccessMap::new(&unknown).is_none());
    }
}
