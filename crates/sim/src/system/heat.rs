//! Accesses by time and address, from the regions of DAMON (Documentation/mm/damon in Linux), in bounded memory.
//!
//! Time and addresses are divided into bins whose sizes are powers of two. A bin that does not fit makes all bins
//! larger, so that the grid covers any trace. Addresses that no region covers take no row.

use std::collections::BTreeMap;

use trace::system::{Event, Kind};

/// Largest number of bins of time.
const BINS_MAX: usize = 64;

/// Largest number of bins of addresses.
const ROWS_MAX: usize = 128;

/// Bits of the first bin of time: 2^20 ns, about a millisecond.
const TIME_BITS: u32 = 20;

/// Bits of the first bin of addresses: a page.
const ADDRESS_BITS: u32 = 12;

/// Samples that found an access, weighted by bytes, and the bytes of all regions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeatBin {
    sum: u128,
    bytes: u128,
}

impl HeatBin {
    fn add(&mut self, other: HeatBin) {
        self.sum = self.sum.saturating_add(other.sum);
        self.bytes = self.bytes.saturating_add(other.bytes);
    }

    /// Samples of an interval that found an access, on average over bytes and intervals; `None` if no region was
    /// there.
    pub fn accesses(self) -> Option<f64> {
        (self.bytes > 0).then(|| self.sum as f64 / self.bytes as f64)
    }
}

/// The grid. `cells` has at most `ROWS_MAX` rows, by target and number of the bin of addresses.
#[derive(Debug)]
pub struct Heat {
    cells: BTreeMap<(u64, u64), [HeatBin; BINS_MAX]>,
    begin_ns: Option<i64>,
    time_bits: u32,
    address_bits: u32,
    /// Bins of time in use.
    bins: usize,
    regions: u64,
    left_out: u64,
}

impl Default for Heat {
    fn default() -> Heat {
        Heat {
            cells: BTreeMap::new(),
            begin_ns: None,
            time_bits: TIME_BITS,
            address_bits: ADDRESS_BITS,
            bins: 0,
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
        while (since >> self.time_bits) >= BINS_MAX as u64 {
            self.double_time();
        }
        while ((end - 1) >> self.address_bits) - (start >> self.address_bits) >= ROWS_MAX as u64 {
            self.double_addresses();
        }
        let bin = (since >> self.time_bits) as usize;
        self.bins = self.bins.max(bin + 1);
        for row in start >> self.address_bits..=(end - 1) >> self.address_bits {
            let first = (row << self.address_bits).max(start);
            let last = (row << self.address_bits | ((1 << self.address_bits) - 1)).min(end - 1);
            let bytes = u128::from(last - first) + 1;
            let cell = HeatBin { sum: bytes.saturating_mul(u128::from(accesses)), bytes };
            self.cells.entry((target, row)).or_insert([HeatBin::default(); BINS_MAX])[bin]
                .add(cell);
        }
        while self.cells.len() > ROWS_MAX && self.address_bits < 63 {
            self.double_addresses();
        }
        // Hostile files may name more targets than rows: the last ones are dropped.
        while self.cells.len() > ROWS_MAX {
            self.cells.pop_last();
            self.left_out += 1;
        }
    }

    fn double_time(&mut self) {
        self.time_bits += 1;
        self.bins = self.bins.div_ceil(2);
        for row in self.cells.values_mut() {
            for bin in 0..BINS_MAX {
                let mut both = row.get(2 * bin).copied().unwrap_or_default();
                both.add(row.get(2 * bin + 1).copied().unwrap_or_default());
                row[bin] = both;
            }
        }
    }

    fn double_addresses(&mut self) {
        self.address_bits += 1;
        for ((target, row), cells) in std::mem::take(&mut self.cells) {
            let both =
                self.cells.entry((target, row / 2)).or_insert([HeatBin::default(); BINS_MAX]);
            both.iter_mut().zip(cells).for_each(|(sum, cell)| sum.add(cell));
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
        1 << self.time_bits
    }

    /// The rows in order: target, first and last address, and the cells of the bins of time in use.
    pub fn rows(&self) -> impl Iterator<Item = (u64, u64, u64, &[HeatBin])> {
        self.cells.iter().map(|(&(target, row), cells)| {
            let first = row << self.address_bits;
            let last = first | ((1 << self.address_bits) - 1);
            (target, first, last, &cells[..self.bins])
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

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
        assert!(heat.rows().count() <= ROWS_MAX && heat.bins <= BINS_MAX);
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
            let covered: u128 = heat.cells.values().flatten().map(|cell| cell.bytes).sum();
            let all: u64 = made.iter().map(|&(.., bytes, _)| bytes).sum();
            prop_assert_eq!(covered, u128::from(all));
        }
    }
}
