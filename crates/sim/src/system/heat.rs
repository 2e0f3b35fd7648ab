//! Accesses by time and address, from the regions of DAMON (Documentation/mm/damon in Linux), in bounded memory.

use trace::system::{Event, Kind};

use crate::grid::{Rows, TIME_BITS, Tally, TimeBins};

/// Largest number of bins of addresses, of all targets together.
const ROWS_MAX: usize = 128;

/// Bits of the first bin of addresses: a page.
const ADDRESS_BITS: u32 = 12;

/// Samples that found an access, weighted by bytes, and the bytes of all regions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeatBin {
    sum: u128,
    bytes: u128,
}

impl Tally for HeatBin {
    fn add(&mut self, other: HeatBin) {
        self.sum = self.sum.saturating_add(other.sum);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }
}

impl HeatBin {
    /// Samples of an interval that found an access, on average over bytes and intervals; `None` if no region was
    /// there.
    pub fn accesses(self) -> Option<f64> {
        (self.bytes > 0).then(|| self.sum as f64 / self.bytes as f64)
    }
}

/// The map. Its rows are of targets, of which there are at most `ROWS_MAX` in all.
#[derive(Debug)]
pub struct Heat {
    rows: Rows<HeatBin>,
    bins: TimeBins,
    begin_ns: Option<i64>,
    regions: u64,
    left_out: u64,
}

impl Default for Heat {
    fn default() -> Heat {
        Heat {
            rows: Rows::new(ADDRESS_BITS),
            bins: TimeBins::new(TIME_BITS),
            begin_ns: None,
            regions: 0,
            left_out: 0,
        }
    }
}

impl Heat {
    /// Takes an event, in the order of time. An earlier one counts in the first bin.
    pub fn take(&mut self, event: &Event) {
        let Kind::Region { target, start, end, accesses, .. } = event.kind else { return };
        if end <= start {
            return;
        }
        self.regions += 1;
        let begin_ns = *self.begin_ns.get_or_insert(event.time_ns);
        let since = event.time_ns.saturating_sub(begin_ns).max(0) as u64;
        let rows = &mut self.rows;
        let bin = self.bins.bin(since, || rows.double_time());
        while ((end - 1) >> rows.bits()) - (start >> rows.bits()) >= ROWS_MAX as u64 {
            rows.double_addresses();
        }
        let bits = rows.bits();
        for row in start >> bits..=(end - 1) >> bits {
            let first = (row << bits).max(start);
            let last = (row << bits | ((1 << bits) - 1)).min(end - 1);
            let bytes = u128::from(last - first) + 1;
            let cell = HeatBin { sum: bytes.saturating_mul(u128::from(accesses)), bytes };
            rows.add(target, first, bin, cell);
        }
        while rows.len() > ROWS_MAX && rows.bits() < 63 {
            rows.double_addresses();
        }
        // Hostile files may name more targets than rows: the last ones are dropped.
        while rows.len() > ROWS_MAX {
            rows.drop_last();
            self.left_out += 1;
        }
    }

    /// Number of regions that were read.
    pub fn regions(&self) -> u64 {
        self.regions
    }

    /// Ranges of addresses that were dropped, since the targets are more than the rows.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Time of the first region; `None` without regions.
    pub fn begin_ns(&self) -> Option<i64> {
        self.begin_ns
    }

    /// Length of a bin of time in nanoseconds.
    pub fn bin_ns(&self) -> i64 {
        self.bins.length() as i64
    }

    /// The rows in order: target, first and last address, and the cells of the bins of time in use.
    pub fn rows(&self) -> impl Iterator<Item = (u64, u64, u64, &[HeatBin])> {
        self.rows.iter().map(|(target, row, cells)| {
            let first = row << self.rows.bits();
            let last = first | ((1 << self.rows.bits()) - 1);
            (target, first, last, &cells[..self.bins.used()])
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::grid::BINS_MAX;

    fn region(time_ns: i64, target: u64, start: u64, end: u64, accesses: u32) -> Event {
        let kind = Kind::Region { target, start, end, accesses, age: None, regions: 1 };
        Event { time_ns, cpu: Some(0), tid: 1, kind }
    }

    fn heat(events: &[Event]) -> Heat {
        let mut heat = Heat::default();
        events.iter().for_each(|event| heat.take(event));
        heat
    }

    #[test]
    fn regions_fall_into_their_bins_and_gaps_take_no_row() {
        let heat = heat(&[
            region(5_000_000, 1, 0x1000, 0x3000, 4),
            region(5_000_000, 1, 0x7f00_0000_0000, 0x7f00_0000_1000, 0),
            region(6_200_000, 1, 0x1000, 0x2000, 2),
            region(6_300_000, 1, 0x1000, 0x1800, 8),
        ]);
        let rows: Vec<_> = heat
            .rows()
            .map(|(_, first, last, cells)| {
                let means: Vec<_> = cells.iter().map(|cell| cell.accesses()).collect();
                (first, last, means)
            })
            .collect();
        let expected = [
            (0x1000, 0x1fff, vec![Some(4.0), Some(4.0)]),
            (0x2000, 0x2fff, vec![Some(4.0), None]),
            (0x7f00_0000_0000, 0x7f00_0000_0fff, vec![Some(0.0), None]),
        ];
        assert_eq!(rows, expected);
        assert_eq!((heat.begin_ns(), heat.regions()), (Some(5_000_000), 4));
    }

    #[test]
    fn the_largest_numbers_and_many_targets_take_bounded_memory() {
        let mut events = vec![
            region(i64::MIN, 0, 0, u64::MAX, u32::MAX),
            region(i64::MAX, 0, 0, u64::MAX, u32::MAX),
            region(0, 0, 9, 9, 1),
        ];
        events.extend((0..1000).map(|target| region(1, target, u64::MAX - 1, u64::MAX, 1)));
        let heat = heat(&events);
        assert!(heat.rows().count() <= ROWS_MAX && heat.bins.used() <= BINS_MAX);
        assert_eq!(heat.regions(), 1002);
    }

    proptest! {
        #[test]
        fn every_cell_is_the_mean_over_its_bytes(
            made in proptest::collection::vec(
                (0i64..400_000_000, 0u64..2, 0u64..3_000_000, 1u64..500_000, 0u32..20), 1..60),
        ) {
            let mut events: Vec<Event> = made
                .iter()
                .map(|&(time, target, start, bytes, accesses)| {
                    region(time, target, start, start + bytes, accesses)
                })
                .collect();
            events.sort_by_key(|event| event.time_ns);
            let begin = events[0].time_ns;
            let heat = heat(&events);
            for (target, first, last, cells) in heat.rows() {
                for (bin, cell) in cells.iter().enumerate() {
                    let from = begin + bin as i64 * heat.bin_ns();
                    let (mut sum, mut bytes) = (0, 0);
                    for event in &events {
                        let Kind::Region { target: of, start, end, accesses, .. } = event.kind else {
                            continue;
                        };
                        let is_in_time = (from..from + heat.bin_ns()).contains(&event.time_ns);
                        let common = (last + 1).min(end).saturating_sub(first.max(start));
                        if of == target && is_in_time {
                            sum += u128::from(common) * u128::from(accesses);
                            bytes += u128::from(common);
                        }
                    }
                    prop_assert_eq!(*cell, HeatBin { sum, bytes });
                }
            }
            let covered: u128 = heat.rows().flat_map(|(.., cells)| cells).map(|cell| cell.bytes).sum();
            let all: u64 = made.iter().map(|&(.., bytes, _)| bytes).sum();
            prop_assert_eq!(covered, u128::from(all));
        }
    }
}
